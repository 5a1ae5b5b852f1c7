"""Log lines of the data plane: one JSON object each, whatever a message holds [OBS0.2]."""

from __future__ import annotations

import json
import logging
import sys
from typing import Final

_TEXT_MAX: Final = 4096


class JsonLines(logging.Formatter):
    """ASCII only, so that nothing a peer sends forges a line or colours a terminal."""

    def __init__(self, component: str = "hub") -> None:
        super().__init__()
        self._component = component

    def format(self, record: logging.LogRecord) -> str:
        """One line, its traceback inside."""
        line = {
            "ts": round(record.created, 3),
            "level": record.levelname.lower(),
            "component": self._component,
            "event": record.getMessage()[:_TEXT_MAX],
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)[-_TEXT_MAX:]
        return json.dumps(line).replace("\x7f", "\\u007f")


def configure(component: str = "hub") -> None:
    """Every logger of this process writes such lines to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(component))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
