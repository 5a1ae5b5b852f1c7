"""The author's anchors: each recorded manifest is kept outside the hub, failures are tried again.

A thread of its own: an authority that does not answer must not hold up acts and events [ANCHOR0].
"""

from __future__ import annotations

import logging
import threading
from typing import Final

from django.db import DatabaseError, close_old_connections, connections

from config.pace import Pace
from hub.errors import VeenError
from recorder.anchors import service

LOOK_S: Final = 2.0
RETRY_S: Final = 60.0

logger = logging.getLogger(__name__)


class Anchoring:
    """Runs from start to stop; what it did not finish stands in the tables."""

    def __init__(self, *, look_s: float = LOOK_S, retry_s: float = RETRY_S) -> None:
        self._look_s = look_s
        self._retry = Pace(every_s=retry_s)
        self._complaint = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="anchors", daemon=True)

    def start(self) -> None:
        """Begin; a failed try of an earlier process is repeated at once."""
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """End after the anchor under way; one that takes longer is finished by the next start."""
        self._stop.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                close_old_connections()
                self._try_once()
                self._stop.wait(self._look_s)
        finally:
            connections.close_all()

    def _try_once(self) -> None:
        try:
            if self._retry.is_due():
                service.retry_anchors()
            service.anchor_published()
            self._complaint = ""
        except (VeenError, DatabaseError) as failure:
            if str(failure) != self._complaint:
                logger.warning("anchors.wait", extra={"reason": str(failure)})
            self._complaint = str(failure)
