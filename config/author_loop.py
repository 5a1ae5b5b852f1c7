"""The author at work: acts, events and manifests, one look after the other [architecture]."""

from __future__ import annotations

import logging
import os
import threading
from typing import Final

from django.db import DatabaseError, close_old_connections

from config.author_anchors import Anchoring
from config.author_keys import Realm, open_authority, read_facts
from config.pace import Pace
from config.up_state import StateDir, write_json
from hub.errors import ErrorCode, VeenError
from recorder import checkpoints
from recorder.acts import executor, publishing, reader_keys
from recorder.acts.authority import Authority, Facts
from recorder.acts.bindings import note_violations
from recorder.checkpoints import LateWatch, Schedule
from recorder.findings import FindingScribe
from recorder.founding import found_streams, is_founded
from recorder.rebuild import rebuild_if_lost
from recorder.strays import StrayWatch
from recorder.wake import Listener

LOOK_S: Final = 0.5
PUBLISH_S: Final = 2.0
LATE_S: Final = 15.0
FORGET_S: Final = 3600.0

logger = logging.getLogger(__name__)


class Author:
    """One process; the locks of its outboxes keep a second one out."""

    def __init__(self, state: StateDir, realm: Realm, schedule: Schedule) -> None:
        self._state = state
        self._realm = realm
        self._schedule = schedule
        self._watch = LateWatch(schedule=schedule)
        self._strays = StrayWatch()
        self._findings = FindingScribe()
        self._authority: Authority | None = None
        self._complaint = ""
        self._publish = Pace(every_s=PUBLISH_S)
        self._late = Pace(every_s=LATE_S)
        self._forget = Pace(every_s=FORGET_S)

    def run(self, stop: threading.Event, listener: Listener) -> None:
        """Work until asked to stop; a hub or database out of reach is waited for."""
        anchoring = Anchoring()
        anchoring.start()
        try:
            while not stop.is_set():
                close_old_connections()
                self._try_once()
                listener.wait(LOOK_S)
        finally:
            anchoring.stop()
            self._state.ready("author").unlink(missing_ok=True)
            self._close()

    def _try_once(self) -> None:
        try:
            if self.work():
                self._complaint = ""
        except VeenError as refusal:
            self._complain(str(refusal))
        except DatabaseError as failure:
            self._complain(f"database: {failure}")

    def _complain(self, reason: str) -> None:
        if reason != self._complaint:
            logger.info("author.waits", extra={"reason": reason})
            self._complaint = reason

    def work(self) -> bool:
        """One look at everything that waits; whether the hub was asked, too, and answered."""
        authority = self._opened(read_facts(self._state))
        executor.run_pending(authority)
        authority.scribe.record_pending()
        if not self._publish.is_due():
            return False
        if checkpoints.publish(authority, self._schedule):
            authority.scribe.record_pending()
        self._strays.look(authority)
        if self._findings.look(authority):
            authority.scribe.record_pending()
        if self._late.is_due():
            self._watch.look(authority)
        if self._forget.is_due():
            authority.scribe.forget_old_keys()
        return True

    def _opened(self, facts: Facts) -> Authority:
        """The authority over the hub as it is reached now; made anew when that changes."""
        if self._authority is not None and self._authority.facts == facts:
            return self._authority
        self._close()
        authority = open_authority(self._state, self._realm, facts)
        self._authority = authority
        authority.scribe.authorize()
        rebuild_if_lost(authority)
        reader_keys.keep_files(authority)
        found_streams()
        executor.run_pending(authority)
        publishing.publish_readers(authority)
        publishing.publish_gateway(authority)
        if not is_founded():
            self._close()
            raise VeenError(ErrorCode.BUSY, "the product's own streams are not made yet")
        note_violations(authority)
        write_json(self._state.ready("author"), {"pid": os.getpid()})
        logger.info("author.ready", extra={"hub": facts.hub_url})
        return authority

    def _close(self) -> None:
        if self._authority is not None:
            self._authority.scribe.close()
            self._authority.client.close()
            self._authority = None
