"""A log read over HTTP and through files is the same log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hub.errors import ErrorCode, VeenError
from hub.server.config import HubConfig
from hub.types import Label, ManifestId
from spark_jobs import sources
from spark_jobs.chunk import StreamSecret
from spark_jobs.ingest import IngestPlan, ingest
from spark_jobs.sources import HubFiles, HubReads, OpenLog
from tests.support import live_hub
from tests.support.live_hub import LiveHub
from tests.support.recorded_log import RecordedStream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAM = RecordedStream("record/app/web")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    config = HubConfig(data_dir=tmp_path_factory.mktemp("hub") / "d", open_admission=True)
    STREAM.client_seq = 0  # The module may be set up a second time, on a new hub.
    with live_hub.running(config) as found:
        found.client().batch(*[one.data for one in STREAM.events(25)]).ok()
        found.control("checkpoint")
        found.control("rotate")
        found.client().batch(*[one.data for one in STREAM.events(5)]).ok()
        yield found


@pytest.fixture(scope="module")
def token(hub: LiveHub) -> str:
    return str(hub.control("token_add", name="worker", all=True)["token"])


@pytest.fixture
def logs(hub: LiveHub, token: str) -> Iterator[list[OpenLog]]:
    found = [HubFiles(data_dir=hub.data_dir).open(), HubReads(url=hub.url, token=token).open()]
    yield found
    for log in found:
        log.close()


def test_both_sources_say_the_same(logs: list[OpenLog], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BLOCK_ENTRIES", 7)
    answers = [
        {
            "head": log.head(STREAM.label),
            "nobody": log.head(Label(bytes(32))),
            "receipt": log.receipt(STREAM.label, 3),
            "first_held": log.first_held(STREAM.label),
            "proof": log.proof(STREAM.label, 3, 9),
            "consistency": log.consistency(STREAM.label, 3, 9),
            "rotations": log.rotations(),
            "blocks": list(log.blocks(STREAM.label, 2, 30)),
        }
        for log in logs
    ]
    assert answers[0] == answers[1]
    assert [len(block) for block in answers[0]["blocks"]] == [7, 7, 7, 7, 1]  # type: ignore[union-attr, arg-type]
    for log in logs:
        with pytest.raises(VeenError):
            log.manifest(ManifestId(bytes(32)))


def test_ingest_over_http_gives_the_lake_that_files_give(
    spark: SparkSession, hub: LiveHub, token: str, tmp_path: Path
) -> None:
    by_files = IngestPlan(
        lake=tmp_path / "files",
        stream=STREAM.name,
        label=STREAM.label,
        source=HubFiles(data_dir=hub.data_dir),
        hub_pk=hub.hub_pk,
        now_ms=int(time.time() * 1000),
        secrets=tuple(StreamSecret(key_id=n, secret=s.secret) for n, s in STREAM.secrets),
    )
    reads = HubReads(url=hub.url, token=token)
    by_http = replace(by_files, lake=tmp_path / "http", source=reads)
    first = ingest(spark, by_files)
    assert first.manifest.upto_seq == 30
    assert ingest(spark, by_http).manifest == first.manifest
    refused = replace(by_http, lake=tmp_path / "no", source=replace(reads, token="wrong"))
    with pytest.raises(VeenError) as refusal:
        ingest(spark, refused)
    assert refusal.value.code is ErrorCode.AUTH


def test_a_token_is_not_shown() -> None:
    assert "hidden" not in repr(HubReads(url="http://127.0.0.1:1", token="hidden"))
    assert "hidden" not in repr(StreamSecret(key_id=1, secret=b"hidden"))
