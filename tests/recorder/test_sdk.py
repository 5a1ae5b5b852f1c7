"""The SDK against a real hub: recorded once, in order, whatever stops in between."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from recorder import spool_files
from recorder.codes import RecordCode, RecordError
from recorder.connection import ProducerKey
from recorder.deadletters import NAME as DEAD_LETTERS
from recorder.sdk import Recorder
from recorder.sdk_async import AsyncRecorder
from recorder.spool_files import SpoolFullError
from tests.recorder.conftest import MakeCast, closed_config
from tests.support import live_hub
from tests.support.connections import Cast
from tests.support.live_hub import ROOT, LiveHub, until

WAIT_S = 30.0


@pytest.fixture
def cast(hub: LiveHub, make_cast: MakeCast) -> Cast:
    return make_cast(hub)


@pytest.fixture
def recorder(cast: Cast, tmp_path: Path) -> Iterator[Recorder]:
    with Recorder(cast.write(tmp_path), tmp_path / "spool") as made:
        yield made


def subjects(cast: Cast, url: str, place: int = 0) -> list[str]:
    return [event.subject_id for event in cast.events(url, list(cast.types)[place])]


def test_a_recorded_event_is_in_the_log_with_its_receipt(
    recorder: Recorder, cast: Cast, hub: LiveHub
) -> None:
    found = recorder.record_and_wait(
        event_type="login.ok",
        subject_id="alice",
        payload={"n": 1.5},
        origin="idp\r\n\x1b[31m",
        event_time="2026-03-01T09:00:00.123456Z",
        timeout=WAIT_S,
    )
    name = list(cast.types)[1]
    assert found.stream == name
    assert found.hub_commit_seq == 1
    assert found.to_json()["principal_id"] == cast.key.public.hex()
    found.receipt.verify(hub.hub_pk)
    (event,) = cast.events(hub.url, name)
    assert (event.subject_id, event.payload) == ("alice", '{"n":1.5}')
    assert event.origin == "idp\r\n\x1b[31m"
    assert event.event_time == 1_772_355_600_123


def test_many_events_keep_their_order_and_go_to_the_stream_of_their_type(
    recorder: Recorder, cast: Cast, hub: LiveHub
) -> None:
    for number in range(400):
        kind = "http.request" if number % 4 else "login.ok"
        recorder.record(event_type=kind, subject_id=str(number))
    assert recorder.flush(WAIT_S)
    assert subjects(cast, hub.url) == [str(one) for one in range(400) if one % 4]
    assert subjects(cast, hub.url, 1) == [str(one) for one in range(400) if not one % 4]
    state = recorder.state()
    assert state.is_draining
    assert (state.pending, state.dead_letters, state.trouble) == (0, 0, None)


def refusal(act: Callable[[], object]) -> RecordError:
    with pytest.raises(RecordError) as refused:
        act()
    return refused.value


def test_a_bad_event_is_refused_at_once_with_pointers(recorder: Recorder, cast: Cast) -> None:
    bad = refusal(
        lambda: recorder.record(event_type="a b", subject_id="x\0", payload={"n": float("nan")})
    )
    assert bad.error_code is RecordCode.INVALID_EVENT
    assert [one.pointer for one in bad.details] == ["/event_type", "/payload/n", "/subject_id"]
    unknown = refusal(lambda: recorder.record(event_type="other", subject_id="x"))
    assert unknown.error_code is RecordCode.UNKNOWN_EVENT_TYPE
    elsewhere = list(cast.types)[1]
    wrong = refusal(
        lambda: recorder.record(event_type="http.error", subject_id="x", stream=elsewhere)
    )
    assert wrong.error_code is RecordCode.WRONG_STREAM
    large = refusal(
        lambda: recorder.record(event_type="http.error", subject_id="x", payload="x" * 1_050_000)
    )
    assert large.error_code is RecordCode.EVENT_TOO_LARGE
    assert recorder.state().spooled_bytes == 0


def test_an_idempotency_key_records_once_and_conflicts_are_kept(
    recorder: Recorder, cast: Cast, hub: LiveHub
) -> None:
    def send(subject_id: str) -> int:
        return recorder.record_and_wait(
            event_type="login.ok", subject_id=subject_id, idempotency_key="k", timeout=WAIT_S
        ).hub_commit_seq

    assert send("alice") == send("alice") == 1
    assert refusal(lambda: send("bob")).error_code is RecordCode.IDEMPOTENCY_CONFLICT
    assert subjects(cast, hub.url, 1) == ["alice"]
    (line,) = (recorder.spool_dir / DEAD_LETTERS).read_text().splitlines()
    kept = json.loads(line)
    assert kept["event"]["subject_id"] == "bob"
    assert (kept["code"], kept["key"]) == ("E.DUP", "k")
    assert recorder.state().dead_letters == 1


def test_an_outage_blocks_nobody_and_loses_nothing(tmp_path: Path, make_cast: MakeCast) -> None:
    config = closed_config(tmp_path / "d")
    hub = live_hub.start(config)
    cast = make_cast(hub)
    with Recorder(cast.write(tmp_path), tmp_path / "spool") as recorder:
        recorder.record_and_wait(event_type="http.request", subject_id="0", timeout=WAIT_S)
        hub.kill()
        for number in range(1, 300):
            recorder.record(event_type="http.request", subject_id=str(number))
        assert not recorder.flush(0.3)
        until(lambda: recorder.state().trouble is not None)
        trouble = recorder.state().trouble
        assert trouble is not None
        assert trouble.code is ErrorCode.UNREACHABLE
        port = urlsplit(hub.url).port
        assert port is not None
        with live_hub.running(closed_config(tmp_path / "d", port=port)):
            assert recorder.flush(WAIT_S)
            assert subjects(cast, hub.url) == [str(number) for number in range(300)]
            assert recorder.state().trouble is None


def test_what_was_left_in_the_spool_goes_out_with_the_next_process(
    tmp_path: Path, make_cast: MakeCast
) -> None:
    hub = live_hub.start(closed_config(tmp_path / "d"))
    cast = make_cast(hub)
    path = cast.write(tmp_path)
    hub.kill()
    recorder = Recorder(path, tmp_path / "spool")
    waiting = recorder.submit(event_type="http.request", subject_id="0")
    for number in range(1, 50):
        recorder.record(event_type="http.request", subject_id=str(number))
    assert not recorder.close(timeout=0.05)
    with pytest.raises(CancelledError):
        waiting.result(0)
    with pytest.raises(VeenError, match="closed"):
        recorder.record(event_type="http.request", subject_id="late")
    port = urlsplit(hub.url).port
    with (
        live_hub.running(closed_config(tmp_path / "d", port=port)),
        Recorder(path, tmp_path / "spool") as again,
    ):
        again.record(event_type="http.request", subject_id="50")
        assert again.flush(WAIT_S)
        until(lambda: len(subjects(cast, hub.url)) == 51)
        assert subjects(cast, hub.url) == [str(number) for number in range(51)]


CHILD = """
import os, signal, sys
from recorder.sdk import Recorder
recorder = Recorder(sys.argv[1], sys.argv[2])
for number in range(int(sys.argv[3])):
    recorder.record(event_type="http.request", subject_id=f"{sys.argv[4]}{number}")
if sys.argv[5] == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
print(recorder.flush(60), flush=True)
if sys.argv[5] == "stay":
    sys.stdin.read()
recorder.close()
"""


def child(path: Path, spool: Path, count: int, prefix: str, then: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path), str(spool), str(count), prefix, then],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_kill_9_loses_and_doubles_nothing(
    hub: LiveHub, cast: Cast, tmp_path: Path, scaled: Callable[[int, int], int]
) -> None:
    """Each child is killed with its drainer at work; the next one finishes what it left."""
    path = cast.write(tmp_path)
    expected: list[str] = []
    rounds = [f"{number}." for number in range(scaled(4, 100))]
    for prefix in rounds:
        process = child(path, tmp_path / "spool", 300, prefix, "kill")
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
        expected += [f"{prefix}{number}" for number in range(300)]
    process = child(path, tmp_path / "spool", 1, "z", "end")
    out, _ = process.communicate(timeout=60)
    assert out == "True\n"
    with Recorder(path, tmp_path / "spool") as recorder:
        assert recorder.flush(WAIT_S)
        until(lambda: recorder.state().spooled_bytes == 0)
        until(lambda: recorder.state().pending == 0)
    found = subjects(cast, hub.url)
    assert sorted(found) == sorted([*expected, "z0"])
    for prefix in rounds:
        mine = [subject for subject in found if subject.startswith(prefix)]
        assert mine == [f"{prefix}{number}" for number in range(300)]


def test_two_processes_share_a_spool_and_the_second_takes_over(
    hub: LiveHub, cast: Cast, tmp_path: Path
) -> None:
    path = cast.write(tmp_path)
    first = child(path, tmp_path / "spool", 150, "a", "stay")
    assert first.stdout is not None
    assert first.stdout.readline() == "True\n"
    with Recorder(path, tmp_path / "spool") as recorder:
        found = recorder.record_and_wait(
            event_type="http.request", subject_id="mine", timeout=WAIT_S
        )
        assert found.hub_commit_seq == 151
        assert not recorder.state().is_draining
        for number in range(100):
            recorder.record(event_type="http.request", subject_id=f"b{number}")
        assert recorder.flush(WAIT_S)
        os.kill(first.pid, signal.SIGKILL)
        first.communicate()
        again = recorder.record_and_wait(
            event_type="http.request", subject_id="last", timeout=WAIT_S
        )
        assert again.hub_commit_seq == 252
        assert recorder.state().is_draining
    found_subjects = subjects(cast, hub.url)
    assert len(found_subjects) == 252
    assert found_subjects[151:251] == [f"b{number}" for number in range(100)]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_records_beside_its_parent(
    recorder: Recorder, cast: Cast, hub: LiveHub
) -> None:
    recorder.record_and_wait(event_type="http.request", subject_id="parent", timeout=WAIT_S)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            recorder.record(event_type="http.request", subject_id="child")
            code = 0 if recorder.flush(WAIT_S) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    recorder.record_and_wait(event_type="http.request", subject_id="after", timeout=WAIT_S)
    assert subjects(cast, hub.url) == ["parent", "child", "after"]


def test_a_full_spool_refuses_clearly_and_goes_on_later(
    tmp_path: Path, make_cast: MakeCast
) -> None:
    hub = live_hub.start(closed_config(tmp_path / "d"))
    cast = make_cast(hub)
    path = cast.write(tmp_path)
    hub.kill()
    taken = 0
    # Less than the outbox takes while a hub is away, so that the spool itself fills.
    with Recorder(path, tmp_path / "spool", spool_bytes_max=200_000) as recorder:
        with pytest.raises(SpoolFullError):
            while True:
                recorder.record(
                    event_type="http.request", subject_id=str(taken), payload="x" * 9000
                )
                taken += 1
        port = urlsplit(hub.url).port
        with live_hub.running(closed_config(tmp_path / "d", port=port)):
            assert recorder.flush(WAIT_S)
            recorder.record_and_wait(
                event_type="http.request", subject_id=str(taken), timeout=WAIT_S
            )
            assert subjects(cast, hub.url) == [str(number) for number in range(taken + 1)]


def test_what_the_hub_refuses_for_good_is_kept(
    recorder: Recorder, cast: Cast, hub: LiveHub
) -> None:
    recorder.record_and_wait(event_type="login.ok", subject_id="before", timeout=WAIT_S)
    hub.control("revoke", kind="client-id", target=cast.key.public.hex(), reason="test")
    with pytest.raises(VeenError) as refused:
        recorder.record_and_wait(
            event_type="login.ok",
            subject_id="\x1b[31mforged\r\nline",
            payload={"n": 3.14159265358979323846, "é": "ü"},
            timeout=WAIT_S,
        )
    assert refused.value.code is ErrorCode.CAP
    raw = (recorder.spool_dir / DEAD_LETTERS).read_bytes()
    assert raw.isascii()
    assert raw.count(b"\n") == 1
    kept = json.loads(raw)
    assert kept["code"] == "E.CAP"
    assert kept["event"]["subject_id"] == "\x1b[31mforged\r\nline"
    assert kept["event"]["payload"] == {"n": 3.141592653589793, "é": "ü"}
    assert recorder.state().dead_letters == 1


def test_a_spool_is_not_used_by_another_producer(
    hub: LiveHub, cast: Cast, make_cast: MakeCast, tmp_path: Path
) -> None:
    Recorder(cast.write(tmp_path), tmp_path / "spool").close()
    other = make_cast(hub, name="other")
    with pytest.raises(VeenError) as refused:
        Recorder(other.write(tmp_path), tmp_path / "spool")
    assert refused.value.code is ErrorCode.CONFIG


def test_a_connection_file_must_be_private_and_a_producers(cast: Cast, tmp_path: Path) -> None:
    path = cast.write(tmp_path)
    path.chmod(0o640)
    with pytest.raises(VeenError) as refused:
        Recorder(path, tmp_path / "spool")
    assert refused.value.code is ErrorCode.KEYSTORE
    reader = cast.write(tmp_path, producer=None, cap_token=None)
    reader.chmod(0o600)
    with pytest.raises(VeenError) as refused:
        Recorder(reader, tmp_path / "spool")
    assert refused.value.code is ErrorCode.CONFIG


def test_a_key_file_that_is_not_the_producers_is_refused(cast: Cast, tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    key_file.touch(mode=0o600)
    key_file.write_text(SigningKey.generate().seed.hex())
    path = cast.write(tmp_path, producer=ProducerKey(name="shop", key_file=str(key_file)))
    with pytest.raises(VeenError) as refused:
        Recorder(path, tmp_path / "spool")
    assert refused.value.code is ErrorCode.CAP
    key_file.write_text(cast.key.seed.hex())
    Recorder(path, tmp_path / "spool").close()


def test_threads_share_a_recorder(recorder: Recorder, cast: Cast, hub: LiveHub) -> None:
    def work(letter: str) -> None:
        for number in range(60):
            recorder.record(event_type="http.request", subject_id=f"{letter}{number}")

    threads = [threading.Thread(target=work, args=(letter,)) for letter in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recorder.flush(WAIT_S)
    found = subjects(cast, hub.url)
    for letter in "abc":
        mine = [subject for subject in found if subject.startswith(letter)]
        assert mine == [f"{letter}{number}" for number in range(60)]


def test_the_async_recorder_records_and_waits(hub: LiveHub, cast: Cast, tmp_path: Path) -> None:
    async def work() -> list[int]:
        async with AsyncRecorder(cast.write(tmp_path), tmp_path / "spool") as recorder:
            await recorder.record(event_type="http.request", subject_id="first")
            waits = [
                recorder.record_and_wait(event_type="http.request", subject_id=str(number))
                for number in range(5)
            ]
            found = await asyncio.wait_for(asyncio.gather(*waits), WAIT_S)
            assert await recorder.flush(WAIT_S)
            return sorted(one.hub_commit_seq for one in found)

    assert asyncio.run(work()) == [2, 3, 4, 5, 6]
    assert subjects(cast, hub.url)[0] == "first"


def test_the_async_recorder_takes_what_the_other_one_takes(
    hub: LiveHub, cast: Cast, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.touch(mode=0o600)
    event: dict[str, object] = {"event_type": "http.request", "subject_id": "json"}

    async def work() -> list[str]:
        file = cast.write(tmp_path)
        async with AsyncRecorder(file, tmp_path / "spool", token_file=token) as recorder:
            await recorder.record_json(event)
            first = recorder.submit_json({**event, "idempotency_key": "k"})
            second = recorder.submit(
                event_type="http.request", subject_id="json", idempotency_key="k"
            )
            found = await asyncio.wait_for(asyncio.gather(first, second), WAIT_S)
            with pytest.raises(RecordError):
                recorder.submit_json({"event_type": "http.request"})
            return [one.receipt_id for one in found]

    first, second = asyncio.run(work())
    assert first == second
    assert subjects(cast, hub.url) == ["json", "json"]
    public = {name for name in vars(Recorder) if not name.startswith("_")}
    assert public - set(dir(AsyncRecorder)) == {"after_fork", "reload"}


def test_a_hub_with_another_key_is_not_believed(
    hub: LiveHub, make_cast: MakeCast, tmp_path: Path
) -> None:
    """The pinned key decides: events stay here rather than go to whoever answers."""
    cast = make_cast(hub, hub_pk=SigningKey.generate().public)
    with Recorder(cast.write(tmp_path), tmp_path / "spool") as recorder:
        recorder.record(event_type="http.request", subject_id="x")
        until(lambda: recorder.state().trouble is not None)
        trouble = recorder.state().trouble
        assert trouble is not None
        assert trouble.code is ErrorCode.TRUST
        assert not recorder.close(timeout=0.05)


def test_spool_files_are_private_and_removed_when_taken(recorder: Recorder, tmp_path: Path) -> None:
    recorder.record_and_wait(event_type="http.request", subject_id="x", timeout=WAIT_S)
    (name,) = spool_files.names(recorder.spool_dir)
    assert (recorder.spool_dir / name).stat().st_mode & 0o777 == 0o600
    assert recorder.spool_dir.stat().st_mode & 0o777 == 0o700
    recorder.close()
    with Recorder(tmp_path / "shop.json", recorder.spool_dir) as again:
        again.record(event_type="http.request", subject_id="y")
        until(lambda: name not in spool_files.names(again.spool_dir))
