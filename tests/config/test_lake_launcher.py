"""A lake that is behind is waited for: while the worker starts, and by some threads only."""

from __future__ import annotations

import dataclasses
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu.exceptions import OperationalError
from pytest_django import Settings as DjangoSettings

from config import lake_launcher
from config.celery import app
from config.lake_launcher import WAITING_MAX, CeleryLake
from recorder.codes import RecordCode, RecordError
from tests.support import web_bundle
from tests.support.live_hub import LiveHub, until
from tests.support.web_bundle import LiveLog, WebBundle

pytestmark = pytest.mark.django_db(transaction=True)
LONG_S = 60.0


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    with web_bundle.running(tmp_path_factory.mktemp("cold")) as made:
        yield made


@pytest.fixture
def name() -> str:
    """A stream that no other test has written to."""
    return f"record/app/{secrets.token_hex(4)}"


@pytest.fixture
def bundle(hub: LiveHub, tmp_path: Path, settings: DjangoSettings, name: str) -> WebBundle:
    """Three events, none of them in the lake."""
    token = str(hub.control("token_add", name=tmp_path.name, all=True)["token"])
    made = WebBundle(root=tmp_path, hub=hub, log=LiveLog(hub, token))
    made.point(settings)
    made.stream(name)
    made.record(name, 3)
    return made


class Broker:
    """Is away for some questions, then hands the task over; here the worker is `bundle` itself."""

    def __init__(self, bundle: WebBundle, away: int) -> None:
        self.bundle = bundle
        self.away = away
        self.asked = 0

    def send_task(self, name: str, kwargs: dict[str, Any], **_: object) -> None:
        assert name == "config.tasks.bring_up_to"
        self.asked += 1
        if self.asked <= self.away:
            raise OperationalError("nobody listens yet")
        for stream, seq in kwargs["streams"].items():
            self.bundle.ingest(stream, upto=seq)


def test_a_worker_that_is_only_starting_is_waited_for(
    bundle: WebBundle, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_launcher, "SEND_AGAIN_S", 0.01)
    broker = Broker(bundle, away=3)
    monkeypatch.setattr(app, "send_task", broker.send_task)
    CeleryLake().bring_up_to({name: 3}, LONG_S)
    assert broker.asked == 4
    CeleryLake().bring_up_to({name: 3}, LONG_S)
    assert broker.asked == 4  # it is there; nobody is asked


def test_the_time_limit_holds(
    bundle: WebBundle, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "send_task", Broker(bundle, away=10**9).send_task)
    with pytest.raises(RecordError) as refusal:
        CeleryLake().bring_up_to({name: 3}, 0.1)
    assert refusal.value.error_code is RecordCode.LAKE_BEHIND
    assert refusal.value.retry_after_s


def test_where_no_worker_runs_nobody_waits(
    bundle: WebBundle, name: str, monkeypatch: pytest.MonkeyPatch, settings: DjangoSettings
) -> None:
    settings.VEEN = dataclasses.replace(settings.VEEN, run_worker=False)
    broker = Broker(bundle, away=10**9)
    monkeypatch.setattr(app, "send_task", broker.send_task)
    with pytest.raises(RecordError):
        CeleryLake().bring_up_to({name: 3}, LONG_S)
    assert broker.asked == 1


def test_those_who_wait_leave_threads_for_the_others(
    bundle: WebBundle, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(bundle, away=10**9)
    monkeypatch.setattr(app, "send_task", broker.send_task)
    threads = [
        threading.Thread(target=lambda: CeleryLake().bring_up_to({name: 3}, LONG_S))
        for _ in range(WAITING_MAX)
    ]
    for one in threads:
        one.start()
    try:
        until(lambda: broker.asked >= WAITING_MAX)
        with pytest.raises(RecordError) as refusal:
            CeleryLake().bring_up_to({name: 3}, LONG_S)
        assert refusal.value.error_code is RecordCode.LAKE_BEHIND
    finally:
        bundle.ingest(name)
        for one in threads:
            one.join()
    CeleryLake().bring_up_to({name: 3}, LONG_S)
