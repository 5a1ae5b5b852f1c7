from __future__ import annotations

import json
import logging
import logging.config
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from hub.client import lane
from recorder import sdk
from recorder.handler import RecorderHandler, plain
from recorder.sdk import Recorder
from tests.recorder.conftest import MakeCast
from tests.support.connections import Cast
from tests.support.live_hub import LiveHub

WAIT_S = 30.0


@pytest.fixture
def cast(hub: LiveHub, make_cast: MakeCast) -> Cast:
    made = make_cast(hub)
    first, second = made.types
    made.types = {first: ("log.line",), second: ("login.failed",)}
    return made


@pytest.fixture
def handler(cast: Cast, tmp_path: Path) -> Iterator[RecorderHandler]:
    made = RecorderHandler(cast.write(tmp_path), spool_dir=tmp_path / "spool")
    yield made
    made.close()


@pytest.fixture
def logger(handler: RecorderHandler) -> Iterator[logging.Logger]:
    found = logging.getLogger("shop.web.auth")
    found.setLevel(logging.DEBUG)
    found.propagate = False
    found.addHandler(handler)
    yield found
    found.removeHandler(handler)


def payloads(cast: Cast, url: str, place: int = 0) -> list[dict[str, Any]]:
    name = list(cast.types)[place]
    return [json.loads(event.payload) for event in cast.events(url, name)]


def test_a_line_becomes_an_event_with_its_logger_as_origin(
    logger: logging.Logger, handler: RecorderHandler, cast: Cast, hub: LiveHub
) -> None:
    logger.warning("user %s failed\r\nFORGED \x1b[31mred", "eve", extra={"try": 3, "ip": "::1"})
    assert handler.recorder.flush(WAIT_S)
    (event,) = cast.events(hub.url, next(iter(cast.types)))
    assert (event.event_type, event.origin, event.subject_id) == ("log.line", logger.name, "")
    payload = json.loads(event.payload)
    assert payload["message"] == "user eve failed\r\nFORGED \x1b[31mred"
    assert payload["level"] == "WARNING"
    assert payload["extra"] == {"try": 3, "ip": "::1"}
    assert payload["source"]["file"] == "test_handler.py"
    assert payload["source"]["line"] > 0


def test_a_line_may_choose_its_event_type_and_subject(
    logger: logging.Logger, handler: RecorderHandler, cast: Cast, hub: LiveHub
) -> None:
    logger.error("no", extra={"event_type": "login.failed", "subject_id": "eve", "n": 1})
    assert handler.recorder.flush(WAIT_S)
    (event,) = cast.events(hub.url, list(cast.types)[1])
    assert (event.event_type, event.subject_id) == ("login.failed", "eve")
    assert json.loads(event.payload)["extra"] == {"n": 1}


def test_an_exception_is_kept_with_its_traceback(
    logger: logging.Logger, handler: RecorderHandler, cast: Cast, hub: LiveHub
) -> None:
    try:
        _ = 1 // 0
    except ZeroDivisionError:
        logger.exception("oops")
    assert handler.recorder.flush(WAIT_S)
    (payload,) = payloads(cast, hub.url)
    assert "ZeroDivisionError" in payload["exception"]


def test_what_has_no_json_form_is_shown_as_text(
    handler: RecorderHandler, cast: Cast, hub: LiveHub
) -> None:
    odd = {"odd": object, "nan": float("nan"), "\udfff": {1: {2}}}
    handler.handle(logging.makeLogRecord({"name": "n", "msg": "\ud800 lone", **odd}))
    assert handler.recorder.flush(WAIT_S)
    (payload,) = payloads(cast, hub.url)
    assert payload["message"] == "\\ud800 lone"
    assert payload["extra"] == {"odd": repr(object), "nan": "nan", "\\udfff": {"1": [2]}}


def test_a_line_that_is_too_large_is_cut_and_says_so(
    logger: logging.Logger, handler: RecorderHandler, cast: Cast, hub: LiveHub
) -> None:
    logger.info("x" * 2_000_000)
    assert handler.recorder.flush(WAIT_S)
    (payload,) = payloads(cast, hub.url)
    assert payload["truncated"] is True
    assert set(payload["message"]) == {"x"}


def test_a_line_is_cut_to_what_its_stream_takes(cast: Cast, hub: LiveHub, tmp_path: Path) -> None:
    first, second = (cast.entry(name) for name in cast.types)
    file = cast.write(tmp_path, streams=(replace(first, event_bytes_max=2_000), second))
    handler = RecorderHandler(file, spool_dir=tmp_path / "spool")
    handler.handle(logging.makeLogRecord({"name": "n", "msg": "é" * 3_000}))
    assert handler.recorder.flush(WAIT_S)
    handler.close()
    (payload,) = payloads(cast, hub.url)
    assert (payload["truncated"], len(payload["message"])) == (True, 128)


def test_a_line_that_cannot_be_recorded_does_not_stop_the_program(
    logger: logging.Logger, handler: RecorderHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[logging.LogRecord] = []
    monkeypatch.setattr(handler, "handleError", failed.append)
    logger.info("x", extra={"event_type": "not mapped"})
    handler.handle(logging.makeLogRecord({"name": "n", "msg": "%d", "args": ("no number",)}))
    handler.recorder.close()
    logger.info("late")
    assert len(failed) == 3


def test_the_recorders_own_lines_are_not_recorded(
    handler: RecorderHandler, cast: Cast, hub: LiveHub
) -> None:
    for name, module in (("recorder.sdk", sdk), ("hub.client.lane", lane)):
        line = {"name": name, "msg": "loop", "pathname": module.__file__}
        handler.handle(logging.makeLogRecord(line))
    for name in ("hubble", "hub.doors", "recorder"):  # a program's own
        handler.handle(logging.makeLogRecord({"name": name, "msg": name, "pathname": __file__}))
    assert handler.recorder.flush(WAIT_S)
    kept = [one["message"] for one in payloads(cast, hub.url)]
    assert kept == ["hubble", "hub.doors", "recorder"]


def test_what_is_logged_while_a_line_is_recorded_calls_for_no_line(
    handler: RecorderHandler, cast: Cast, hub: LiveHub
) -> None:
    class Chatty:
        def __str__(self) -> str:
            handler.handle(logging.makeLogRecord({"name": "n", "msg": "inside"}))
            return "outside"

    line = {"name": "n", "msg": "%s", "args": (Chatty(),)}
    handler.handle(logging.makeLogRecord(line))
    handler.handle(logging.makeLogRecord({"name": "n", "msg": "next"}))
    assert handler.recorder.flush(WAIT_S)
    assert [one["message"] for one in payloads(cast, hub.url)] == ["outside", "next"]


def test_it_is_configured_like_any_handler_and_shares_a_recorder(
    cast: Cast, hub: LiveHub, tmp_path: Path
) -> None:
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "handlers": {
                "veen": {
                    "class": "recorder.handler.RecorderHandler",
                    "recorder": str(cast.write(tmp_path)),
                    "spool_dir": str(tmp_path / "spool"),
                    "level": "ERROR",
                }
            },
            "loggers": {"configured": {"handlers": ["veen"], "propagate": False}},
        }
    )
    logger = logging.getLogger("configured")
    logger.error("one")
    logger.warning("below the level")
    (made,) = logger.handlers
    made.close()
    logger.removeHandler(made)
    with Recorder(tmp_path / "shop.json", tmp_path / "spool") as shared:
        other = RecorderHandler(shared, subject_id="fixed")
        other.handle(logging.makeLogRecord({"name": "n\0" + "x" * 600, "msg": "two"}))
        other.close()
        assert shared.flush(WAIT_S)  # closing the handler left it open
    first, second = cast.events(hub.url, next(iter(cast.types)))
    assert (first.subject_id, second.subject_id) == ("", "fixed")
    assert len(second.origin) == 512


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (10**401, hex(10**401)),
        (Decimal("NaN"), "NaN"),
        (Decimal("1e500"), "1E+500"),
        (Decimal("1.50"), Decimal("1.50")),
        ((1, [2, {"a": True}]), [1, [2, {"a": True}]]),
        (b"\x00", "b'\\x00'"),
    ],
)
def test_values_of_a_program_become_json(value: object, shown: object) -> None:
    assert plain(value) == shown


def test_a_value_that_holds_itself_ends() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert "[...]" in json.dumps(plain(loop))
