"""What a connection file says of its streams counts for the SDK, also while it runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hub.authoring import open_message
from hub.client import HubClient
from hub.crypto.hpke import DhSecret
from hub.errors import VeenError
from hub.wire.profile import PRODUCT
from recorder.codes import RecordCode, RecordError
from recorder.event import RecorderEvent
from recorder.sdk import Recorder
from tests.recorder.conftest import MakeCast
from tests.support.connections import Cast
from tests.support.live_hub import LiveHub

WAIT_S = 30.0


@pytest.fixture
def cast(hub: LiveHub, make_cast: MakeCast) -> Cast:
    return make_cast(hub)


def subjects(cast: Cast, url: str, place: int) -> list[str]:
    return [event.subject_id for event in cast.events(url, list(cast.types)[place])]


def test_an_event_over_its_streams_bound_is_refused_before_the_spool(
    hub: LiveHub, cast: Cast, tmp_path: Path
) -> None:
    small, large = (cast.entry(name) for name in cast.types)
    file = cast.write(tmp_path, streams=(replace(small, event_bytes_max=200), large))
    with Recorder(file, tmp_path / "spool") as recorder:
        with pytest.raises(RecordError) as refused:
            recorder.record(event_type="http.request", subject_id="a", payload="x" * 200)
        assert refused.value.error_code is RecordCode.EVENT_TOO_LARGE
        recorder.record(event_type="login.ok", subject_id="b", payload="x" * 200)
        assert recorder.flush(WAIT_S)
    assert (subjects(cast, hub.url, 0), subjects(cast, hub.url, 1)) == ([], ["b"])


def test_a_running_recorder_seals_to_the_key_that_its_file_learns(
    hub: LiveHub, cast: Cast, tmp_path: Path
) -> None:
    file = cast.write(tmp_path)
    name = next(iter(cast.types))
    with Recorder(file, tmp_path / "spool") as recorder:
        recorder.record_and_wait(event_type="http.request", subject_id="before", timeout=WAIT_S)
        before = cast.readers[name]
        cast.readers[name] = DhSecret.generate()
        news = replace(cast.entry(name), reader_key=cast.reader_key(name, 2))
        file.write_bytes(cast.connection(streams=(news, cast.entry(list(cast.types)[1]))).render())
        assert recorder.reload()
        recorder.record_and_wait(event_type="http.request", subject_id="after", timeout=WAIT_S)
    with HubClient(hub.url, hub.hub_pk) as client:
        first, second = client.follow(news.label)
    opened = open_message(second.msg, profile=PRODUCT, secret=cast.readers[name])
    assert RecorderEvent.decode(opened.body).subject_id == "after"
    with pytest.raises(VeenError):
        open_message(second.msg, profile=PRODUCT, secret=before)
    opened = open_message(first.msg, profile=PRODUCT, secret=before)
    assert RecorderEvent.decode(opened.body).subject_id == "before"


def test_a_repeated_key_gives_the_stream_of_its_first_receipt(
    hub: LiveHub, cast: Cast, tmp_path: Path
) -> None:
    file = cast.write(tmp_path)
    first, second = cast.types
    event = {"event_type": "http.request", "subject_id": "a", "idempotency_key": "k"}
    named = {**event, "idempotency_key": "l", "stream": first}
    with Recorder(file, tmp_path / "spool") as recorder:
        before = [recorder.submit_json(one).result(WAIT_S) for one in (event, named)]
        moved = replace(cast, types={first: (), second: ("http.request",)})
        moved.readers = cast.readers
        file.write_bytes(moved.connection().render())
        assert recorder.reload()
        assert [recorder.submit_json(one).result(WAIT_S) for one in (event, named)] == before
        with pytest.raises(RecordError) as refused:
            recorder.submit_json({**named, "idempotency_key": "new"})
        assert refused.value.error_code is RecordCode.WRONG_STREAM
    assert {one.stream for one in before} == {first}
