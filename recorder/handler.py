"""`logging.Handler` that records log lines as events [SDR0 3.2.1].

The logger's name becomes the origin, what the line says the payload {message, level, source, extra,
exception}; its moment the event_time. `extra={"event_type": ..., "subject_id": ...}` of a line
chooses those two. Everything else in `extra` is kept as data: line breaks and escape sequences
included, they are values in an event and forge nothing.
"""

from __future__ import annotations

import logging
import math
import os
import threading
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Final

import hub
import recorder
from hub.canonical_json import EXPONENT_MAX, Encodable
from recorder.codes import RecordCode, RecordError
from recorder.event import fit_text, format_time
from recorder.sdk import Recorder

EVENT_TYPE: Final = "log.line"
_DEPTH_MAX: Final = 16
_CUTS: Final = (8192, 1024, 128)  # characters of the message of a line that is too large
_NUMBER_MAX: Final = 10**EXPONENT_MAX
_OWN_FIELDS: Final = frozenset(
    {*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName"}
)
_CHOSEN: Final = frozenset({"event_type", "subject_id"})
# What the recorder itself logs would call for the next line, and that for another. A program may
# have loggers of these names too, so what counts is also which file the line was written in.
_OWN_LOGGERS: Final = ("hub", "recorder")
_OWN_FILES: Final = tuple(
    f"{Path(one.__file__).parent}{os.sep}" for one in (hub, recorder) if one.__file__ is not None
)
_inside = threading.local()  # whether this thread is recording a line


class RecorderHandler(logging.Handler):
    """Records what its loggers say; never blocks on the hub, never raises into the program."""

    def __init__(
        self,
        recorder: Recorder | Path | str,
        *,
        event_type: str = EVENT_TYPE,
        subject_id: str = "",
        spool_dir: Path | str | None = None,
        level: int | str = logging.NOTSET,
    ) -> None:
        """`recorder` is one that is shared, or a connection file to open one from."""
        super().__init__(level)
        self._owns = not isinstance(recorder, Recorder)
        if not isinstance(recorder, Recorder):
            recorder = Recorder(recorder, spool_dir)
        self.recorder = recorder
        self._event_type = event_type
        self._subject_id = subject_id

    def emit(self, record: logging.LogRecord) -> None:
        """Record one line; a refusal goes the way of all logging errors."""
        if _is_own(record) or getattr(_inside, "is_busy", False):
            return
        _inside.is_busy = True
        try:
            self._record(self.event_of(record))
        except Exception:  # noqa: BLE001 - a line that cannot be logged must not stop the program
            self.handleError(record)
        finally:
            _inside.is_busy = False

    def _record(self, found: dict[str, Encodable]) -> None:
        """The line, or as much of it as its stream takes."""
        cuts = iter(_CUTS)
        event = found
        while True:
            try:
                return self.recorder.record_json(event)
            except RecordError as refusal:
                characters = next(cuts, None)
                if refusal.error_code is not RecordCode.EVENT_TOO_LARGE or characters is None:
                    raise
                event = _cut(found, characters)

    def event_of(self, record: logging.LogRecord) -> dict[str, Encodable]:
        """The event of a line."""
        more = {name: value for name, value in record.__dict__.items() if name not in _OWN_FIELDS}
        payload: dict[str, Encodable] = {
            "message": _text(record.getMessage()),
            "level": _text(record.levelname),
            "source": {
                "file": _text(record.filename),
                "line": record.lineno,
                "function": _text(record.funcName or ""),
            },
        }
        extra = {name: value for name, value in more.items() if name not in _CHOSEN}
        if extra:
            payload["extra"] = plain(extra)
        if record.exc_info and record.exc_info[0] is not None:
            payload["exception"] = _text(logging.Formatter().formatException(record.exc_info))
        return {
            "event_type": str(more.get("event_type", self._event_type)),
            "subject_id": fit_text(_text(str(more.get("subject_id", self._subject_id)))),
            "event_time": format_time(int(record.created * 1000)),
            "origin": fit_text(_text(record.name)),
            "payload": payload,
        }

    def flush(self) -> None:
        """Nothing is held back here: a line is in the spool when `emit` returns."""

    def close(self) -> None:
        """Close the recorder, where it is the handler's own."""
        if self._owns:
            self.recorder.close()
        super().close()


def _is_own(record: logging.LogRecord) -> bool:
    is_named_so = record.name.partition(".")[0] in _OWN_LOGGERS
    return is_named_so and record.pathname.startswith(_OWN_FILES)


def plain(value: object, depth: int = _DEPTH_MAX) -> Encodable:
    """Any value of a program as JSON: what has no form there is shown as its text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float | Decimal):
        return _number(value)
    if depth > 0 and isinstance(value, Mapping):
        return {_text(str(key)): plain(item, depth - 1) for key, item in value.items()}
    if depth > 0 and isinstance(value, list | tuple | set | frozenset):
        items = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        return [plain(item, depth - 1) for item in items]
    return _text(value if isinstance(value, str) else repr(value))


def _number(value: float | Decimal) -> Encodable:
    if isinstance(value, int):
        return value if -_NUMBER_MAX < value < _NUMBER_MAX else hex(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if value.is_finite() and abs(value.adjusted()) <= EXPONENT_MAX else str(value)


def _text(text: str) -> str:
    """Unicode; a lone surrogate, which no event may hold, is shown by its escape."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def _cut(found: dict[str, Encodable], characters: int) -> dict[str, Encodable]:
    payload = found["payload"]
    assert isinstance(payload, dict)
    kept = {name: payload[name] for name in ("level", "source")}
    message = str(payload["message"])[:characters]
    return {**found, "payload": {**kept, "message": message, "truncated": True}}
