"""kill -9 of the authoring process at every step: each event is committed once, none is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from hub.authoring import open_message
from hub.client import HubClient
from hub.client.http import HubHttp
from hub.client.outbox import Outbox
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.storage.disk import Disk
from hub.types import AuthRef
from hub.wire.msg import Msg
from hub.wire.profile import PRODUCT
from tests.hub.client.drafts import LABEL, READER, draft
from tests.hub.client.scripted_hub import ScriptedHub

KEY = SigningKey(b"\x01" * 32)
AUTHORITY = AuthRef(b"\x07" * 32)
STEPS_MAX = 80


class Steps:
    """Counts the durable and network steps of a process and ends it at one of them."""

    def __init__(self, fatal: int) -> None:
        self.count = 0
        self.fatal = fatal

    def wrap(self, method: Callable[..., object]) -> Callable[..., object]:
        def counted(*args: object, **kwargs: object) -> object:
            self._step()
            outcome = method(*args, **kwargs)
            self._step()
            return outcome

        return counted

    def _step(self) -> None:
        self.count += 1
        if self.count == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)


def author(hub: ScriptedHub, state: Path, events: list[bytes], steps: Steps | None) -> None:
    """What a producer does with a list of events of which it knows which are already stored."""
    with (
        HubClient(hub.url, hub.key.public, state_dir=state, timeout_s=5) as client,
        client.producer(KEY, auth_ref=AUTHORITY, sleep=lambda _: None) as producer,
    ):
        producer.flush()
        taken = state / "taken"
        done = len(taken.read_bytes().split()) if taken.exists() else 0
        if steps is not None:
            assert steps.count < STEPS_MAX
        for event in events[done:]:
            producer.enqueue([draft(event, attachments=(event * 3,))])
            with taken.open("ab") as file:
                file.write(event + b"\n")
            producer.flush()


def author_keyed(hub: ScriptedHub, state: Path, events: list[bytes], steps: Steps | None) -> None:
    """A caller that remembers nothing: it offers every event again, under the event's own key."""
    with (
        HubClient(hub.url, hub.key.public, state_dir=state, timeout_s=5) as client,
        client.producer(KEY, auth_ref=AUTHORITY, sleep=lambda _: None) as producer,
    ):
        if steps is not None:
            assert steps.count < STEPS_MAX
        for event in events:
            producer.enqueue_keyed(event.decode(), draft(event), event)
            producer.flush()
            found = producer.keyed(event.decode())
            assert found is not None
            assert found.is_settled


def run_and_kill(
    hub: ScriptedHub,
    state: Path,
    events: list[bytes],
    fatal: int,
    work: Callable[[ScriptedHub, Path, list[bytes], Steps | None], None] = author,
) -> bool:
    """Whether the child was killed before it was done."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            steps = Steps(fatal)
            for owner, name in (
                (Outbox, "store"), (Outbox, "settle"), (Outbox, "rebuild"),
                (Outbox, "mark_attachment"), (HubHttp, "call"), (Disk, "rename"),
                (Disk, "sync_dir"),
            ):  # fmt: skip
                setattr(owner, name, steps.wrap(getattr(owner, name)))
            work(hub, state, events, steps)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.waitstatus_to_exitcode(status) == 0
    return False


def committed(hub: ScriptedHub) -> list[bytes]:
    return [
        open_message(Msg.decode(data), profile=PRODUCT, secret=READER).body
        for _, data in hub.log(LABEL).entries
    ]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_kill_at_each_step_loses_and_doubles_no_event(tmp_path: Path) -> None:
    """An event written down by the caller only after enqueue() may be repeated by the caller."""
    events = [b"one", b"two", b"three"]
    for fatal in range(1, STEPS_MAX):
        with ScriptedHub() as hub:
            state = tmp_path / str(fatal)
            killed = run_and_kill(hub, state, events, fatal)
            author(hub, state, events, None)
            found = committed(hub)
            assert list(dict.fromkeys(found)) == events
            # Killed between enqueue() and the caller's own note, the caller offers it once more.
            assert len(found) <= len(events) + 1
            if not killed:
                assert found == events
                return
    pytest.fail("the child never ran to its end")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_kill_at_each_step_enqueues_every_key_exactly_once(tmp_path: Path) -> None:
    events = [b"one", b"two", b"three"]
    for fatal in range(1, STEPS_MAX):
        with ScriptedHub() as hub:
            state = tmp_path / str(fatal)
            killed = run_and_kill(hub, state, events, fatal, author_keyed)
            author_keyed(hub, state, events, None)
            assert committed(hub) == events
            if not killed:
                return
    pytest.fail("the child never ran to its end")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_kill_during_a_rebuild_commits_each_event_once(tmp_path: Path) -> None:
    """State is lost, so the hub refuses client_seq 1 and everything is authored anew."""
    for fatal in range(1, STEPS_MAX):
        with ScriptedHub() as hub:
            author(hub, tmp_path / f"{fatal}-lost", [b"old"], None)
            state = tmp_path / str(fatal)
            killed = run_and_kill(hub, state, [b"new"], fatal)
            author(hub, state, [b"new"], None)
            found = committed(hub)
            assert list(dict.fromkeys(found)) == [b"old", b"new"]
            if not killed:
                return
    pytest.fail("the child never ran to its end")


def test_a_damaged_head_file_is_named_and_not_believed(tmp_path: Path) -> None:
    with ScriptedHub() as hub:
        author(hub, tmp_path, [b"one"], None)
        (file,) = (tmp_path / "heads").glob("*.head")
        file.write_bytes(file.read_bytes()[:-1])
        with pytest.raises(VeenError) as refused:
            author(hub, tmp_path, [b"one", b"two"], None)
        assert refused.value.code is ErrorCode.DAMAGE
        assert file.name in refused.value.detail
