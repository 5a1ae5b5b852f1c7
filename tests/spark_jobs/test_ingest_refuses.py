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
def shared(tmp_path_factory: pytest.TempPathFactory) -> tuple[RecordedLog, RecordedStream]:
    """Log and stream together: set up a second time, the producer begins again too."""
    log = RecordedLog(tmp_path_factory.mktemp("lies") / "hub")
    stream = RecordedStream("record/app/lies")
    log.commit(stream.events(12))
    return log, stream


@pytest.mark.parametrize("lie", LIES)
def test_every_lie_is_refused_and_changes_nothing(
    spark: SparkSession,
    shared: tuple[RecordedLog, RecordedStream],
    tmp_path: Path,
    lie: str,
) -> None:
    log, stream = shared
    source = LyingFiles(data_dir=log.root, lie=lie)
    plan = plan_for(log, stream, lake=tmp_path / "lake", source=source)
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
