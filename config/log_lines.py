"""Log lines of the web process: one JSON object each, safe to print [style 4: logging]."""

from __future__ import annotations

import json
import logging
import time
from typing import Any, Final

# What every LogRecord has; anything else was given as `extra` and belongs into the line.
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_TEXT_MAX: Final = 4096


class JsonLines(logging.Formatter):
    """ASCII only: CR, LF and escape sequences of a request cannot forge a line or a colour."""

    component = "web"  # which process writes; another one says so at its start

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "component": self.component,
            "logger": record.name,
            "event": record.getMessage()[:_TEXT_MAX],
        }
        for name, value in vars(record).items():
            if name not in _STANDARD and isinstance(value, (str, int, float, bool)):
                line[name] = value[:_TEXT_MAX] if isinstance(value, str) else value
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)[-_TEXT_MAX:]
        # DEL and C1 controls are above what json escapes as controls; ensure_ascii takes C1.
        return json.dumps(line, ensure_ascii=True).replace("\x7f", "\\u007f")


LOG_LINES: Final[dict[str, Any]] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "config.log_lines.JsonLines"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {
        "django": {"handlers": [], "level": "INFO", "propagate": True},
        # Its lines repeat ours without the request id.
        "django.request": {"handlers": [], "level": "ERROR", "propagate": True},
        "django.server": {"handlers": [], "level": "ERROR", "propagate": True},
    },
}
