"""Tasks travel over whatever broker a machine has, and none of them needs to arrive."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from celery import Celery

from config import broker as broker_module
from config.broker import Broker, BrokerKind, BrokerServer, choose_broker, find_server, make_folders
from hub.errors import ErrorCode, VeenError
from tests.support.live_hub import until


def no_server(_: object) -> Path | None:
    return None


def test_the_order_is_named_path_wheel_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = choose_broker("redis://elsewhere:6379/0", tmp_path, {})
    assert (named.kind, named.url, named.server) == (
        BrokerKind.NAMED, "redis://elsewhere:6379/0", None,
    )  # fmt: skip
    for name in ("valkey-server", "redis-server"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        assert find_server({"PATH": str(tmp_path)}) == program
    wheel = find_server({"PATH": "/nowhere"})
    assert wheel is not None
    assert wheel.name == "valkey-server"
    server = choose_broker(None, tmp_path, {"PATH": "/nowhere"})
    assert (server.kind, server.server) == (BrokerKind.SERVER, wheel)
    monkeypatch.setattr(broker_module, "find_server", no_server)
    files = choose_broker(None, tmp_path, {})
    assert (files.kind, files.url) == (BrokerKind.FILES, "filesystem://")


def test_a_password_in_the_address_is_not_shown() -> None:
    named = choose_broker("redis://:hidden@elsewhere:6379/0", Path("/run"), {})
    assert "hidden" not in repr(named)


@pytest.fixture(params=["short", "long"])
def run(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A folder whose sockets have short names, and one whose do not."""
    return tmp_path if request.param == "short" else tmp_path / ("x" * 100)


@contextmanager
def served(run: Path) -> Iterator[tuple[Broker, BrokerServer]]:
    broker = choose_broker(None, run, {"PATH": "/nowhere"})
    assert broker.server is not None
    server = BrokerServer(broker.server, run)
    try:
        yield broker, server
    finally:
        server.close()


def make_app(broker: Broker, done: list[int]) -> Celery:
    app = Celery("tests", set_as_current=False)
    app.conf.update(
        broker_url=broker.url,
        broker_transport_options=dict(broker.options),
        broker_connection_retry_on_startup=True,
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        task_acks_late=True,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
    )

    def note(number: int) -> None:
        done.append(number)

    app.task(note, name="note", shared=False)
    return app


@contextmanager
def working(app: Celery) -> Iterator[None]:
    """A worker of this application in a thread, without signals of its own."""
    from celery import _state  # noqa: PLC0415
    from celery.app import trace  # noqa: PLC0415
    from celery.worker import WorkController  # noqa: PLC0415

    before = _state.default_app
    trace.setup_worker_optimizations(app, "w@tests")  # as the command does
    worker = WorkController(
        app=app, pool_cls="threads", concurrency=2, without_gossip=True, without_mingle=True,
        without_heartbeat=True, hostname="w@tests",
    )  # fmt: skip
    thread = threading.Thread(target=worker.start, daemon=True)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join(10)
        trace.reset_worker_optimizations(app)
        _state.set_default_app(before)


def test_the_private_server_is_private_and_keeps_nothing(run: Path) -> None:
    with served(run):
        found = (run / "broker.sock").stat()
        assert oct(found.st_mode)[-3:] == "700"
        assert not list(run.glob("*.rdb"))
    assert not (run / "broker.sock").exists()


@pytest.mark.filterwarnings("ignore::celery.exceptions.CPendingDeprecationWarning")
def test_tasks_are_taken_over_the_private_server_also_after_it_was_killed(run: Path) -> None:
    done: list[int] = []
    with served(run) as (broker, server):
        app = make_app(broker, done)
        with working(app):
            for number in range(20):
                app.send_task("note", args=[number])
            until(lambda: sorted(done) == list(range(20)))
            old = server.pid
            os.kill(old, signal.SIGKILL)
            until(lambda: server.pid != old)
            done.clear()

            def send() -> bool:
                """A connection that was cut fails once; whoever sends tries again."""
                try:
                    app.send_task("note", args=[7], retry=False)
                except Exception:  # noqa: BLE001 - whatever the transport calls it
                    return False
                return True

            until(send)
            until(lambda: 7 in done, timeout_s=30)
        app.close()


def test_tasks_are_taken_over_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_module, "find_server", no_server)
    broker = choose_broker(None, tmp_path, {})
    make_folders(broker)
    done: list[int] = []
    app = make_app(broker, done)
    for number in range(10):
        app.send_task("note", args=[number])
    with working(app):
        until(lambda: sorted(done) == list(range(10)))
    app.close()


def test_a_program_that_is_no_server_is_refused_with_a_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_module, "START_S", 0.3)
    program = tmp_path / "redis-server"
    program.write_text("#!/bin/sh\nexec sleep 5\n")
    program.chmod(0o755)
    started = time.monotonic()
    with pytest.raises(VeenError) as refusal:
        BrokerServer(program, tmp_path / "run")
    assert refusal.value.code is ErrorCode.UNREACHABLE
    assert time.monotonic() - started < 4
