"""A log that is not what its signed head says never reaches the lake (I1 to I3)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hub.errors import ErrorCode, VeenError
from spark_jobs.ingest import ingest
from tests.spark_jobs.test_ingest import plan_for
from tests.support.lying_log import LIES, LyingFiles
from tests.support.recorded_log import RecordedLog, RecordedStream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> RecordedLog:
    log = RecordedLog(tmp_path_factory.mktemp("lies") / "hub")
    log.commit(STREAM.events(12))
    return log


STREAM = RecordedStream("record/app/lies")


@pytest.mark.parametrize("lie", LIES)
def test_every_lie_is_refused_and_changes_nothing(
    spark: SparkSession, shared: RecordedLog, tmp_path: Path, lie: str
) -> None:
    source = LyingFiles(data_dir=shared.root, lie=lie)
    plan = plan_for(shared, STREAM, lake=tmp_path / "lake", source=source)
    with pytest.raises(VeenError) as refusal:
        ingest(spark, plan)
    assert refusal.value.code in {ErrorCode.PROOF, ErrorCode.FORMAT}, refusal.value
    assert plan.folder.read() is None


def test_a_log_that_was_written_anew_does_not_go_on_from_what_was_ingested(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Equivocation: the same hub key signs another history from the same place on."""
    stream = RecordedStream("record/app/web")
    log = RecordedLog(tmp_path / "hub")
    log.commit(stream.events(5))
    log.close()
    shutil.copytree(tmp_path / "hub", tmp_path / "copy")
    shutil.copy(tmp_path / "hub.heads", tmp_path / "copy.heads")
    log = RecordedLog(tmp_path / "hub")
    log.commit(stream.events(3))
    before = ingest(spark, plan_for(log, stream)).manifest
    log.close()
    twin = RecordedLog(tmp_path / "copy")
    stream.client_seq = 5
    twin.commit([stream.event(subject_id="mallory") for _ in range(6)])
    plan = plan_for(twin, stream)
    with pytest.raises(VeenError) as refusal:
        ingest(spark, plan)
    assert refusal.value.code is ErrorCode.EQUIVOCATION
    assert plan.folder.read() == before
    twin.close()
