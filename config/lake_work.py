"""The worker's work on the lake: keep it fresh, settle what it owes, run what was asked for.

Every piece may be repeated: locks keep two writers of one stream apart, manifests and rows say what
is left to do, and the keys of events make each be recorded once [architecture, The lake].
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from django.utils import timezone

from config.lake_plans import Manifests, Surroundings, find_streams, label_of, now_ms
from config.settings_file import Settings
from config.spark_driver import SparkDriver
from config.up_state import StateDir
from hub import canonical_json
from hub.errors import ErrorCode, StoreError, VeenError
from hub.models import Finding
from hub.services import note_finding
from hub.wire.receipt import Receipt
from recorder import services, streams
from recorder.lake import compaction
from recorder.lake.folder import LakeFolder
from recorder.lake.manifest import LakeManifest
from recorder.models import AuthoredEvent, Stream
from spark_jobs.ingest import IngestResult, ingest_many
from spark_jobs.reopen import may_open_more, reopen
from spark_jobs.sources import OpenLog

LOCK_WAIT_S: Final = 30.0
LOCK_SLICE_S: Final = 2.0  # of a query, which may be cancelled meanwhile
# A flaw of the log or of the lake; anything else passes, or is somebody's running work.
EVIDENCE: Final = frozenset({
    ErrorCode.DAMAGE, ErrorCode.EQUIVOCATION, ErrorCode.FORMAT, ErrorCode.PROOF, ErrorCode.SIG,
    ErrorCode.TRUST,
})  # fmt: skip

logger = logging.getLogger(__name__)


class LakeDamageError(StoreError):
    """A stream's lake has files that are not what was written, so nothing can be added to it."""

    def __init__(self, stream: str, detail: str) -> None:
        super().__init__(detail, ErrorCode.DAMAGE)
        self.stream = stream


class LakeWork:
    """All work on one lake by one process; its methods may run in several threads."""

    def __init__(self, state: StateDir, settings: Settings, driver: SparkDriver) -> None:
        self._state = state
        self._settings = settings
        self._driver = driver
        self._manifests = Manifests()
        self._tick = threading.Lock()

    def surroundings(self) -> Surroundings:
        """What plans are made from now."""
        return Surroundings.read(self._state, self._settings)

    # -- keeping it fresh

    def tick(self) -> int:
        """Ingest whatever is new, seal what is due, record what is owed; how many events came."""
        if not self._tick.acquire(blocking=False):
            return 0  # the tick before is still at it
        try:
            around = self.surroundings()
            due = list(self._due(around))
            count = 0
            if due:
                done = self._ingest(around, due).values()
                count = sum(one.events for one in done if isinstance(one, IngestResult))
            for stream in due:
                self._reopen(around, stream)
                self.settle_owed(around.place(stream).folder)
            return count
        finally:
            self._tick.release()

    def _due(self, around: Surroundings) -> Iterator[Stream]:
        at = now_ms()
        log = around.source.open()
        try:
            for stream in find_streams(()):
                manifest = self._manifests.of(around.place(stream).folder)
                if manifest is None or self._has_work(around, stream, manifest, log, at):
                    yield stream
        finally:
            log.close()

    @staticmethod
    def _has_work(
        around: Surroundings, stream: Stream, manifest: LakeManifest, log: OpenLog, at: int
    ) -> bool:
        head = log.head(label_of(stream))
        if head is not None and Receipt.decode(head).stream_seq > manifest.upto_seq:
            return True
        if head is not None and log.first_held(label_of(stream)) > manifest.first_seq:
            return True  # Retention goes on where nothing is sent any more.
        if manifest.owed:
            return True
        if stream.name not in streams.HOUSEKEEPING and any(
            one.min_hub_commit_time + compaction.SEAL_AGE_MS <= at for one in manifest.live()
        ):
            return True
        key_ids = [one.key_id for one in around.secrets.get(stream.name, ())]
        return bool(may_open_more(manifest, key_ids))

    def _ingest(
        self, around: Surroundings, due: Iterable[Stream], wait_s: float = 0.0
    ) -> dict[str, IngestResult | VeenError]:
        plans = [around.plan(stream, wait_s=wait_s) for stream in due]
        with self._driver.working() as spark:
            outcomes = ingest_many(spark, plans)
        done = {plan.stream: found for plan, found in zip(plans, outcomes, strict=True)}
        for name, found in done.items():
            if isinstance(found, VeenError):
                self._note(name, found)
            elif found.events:
                logger.info("lake.ingested", extra={"stream": name, "events": found.events})
        return done

    def _note(self, stream: str, flaw: VeenError) -> None:
        if flaw.code is ErrorCode.LOCKED:
            return
        logger.warning("lake.not_ingested", extra={"stream": stream, "reason": str(flaw)})
        if flaw.code in EVIDENCE:
            note_finding(
                str(flaw.code),
                f"lake {stream}",
                flaw.detail,
                severity=Finding.Severity.CRITICAL,
                now=timezone.now(),
            )

    def _reopen(self, around: Surroundings, stream: Stream) -> None:
        place = around.place(stream)
        manifest = self._manifests.of(place.folder)
        if manifest is None or not may_open_more(manifest, place.key_ids):
            return
        try:
            with self._driver.working() as spark:
                reopen(spark, place, now_ms=now_ms())
        except VeenError as flaw:
            self._note(stream.name, flaw)
        else:
            logger.info("lake.reopened", extra={"stream": stream.name})

    def settle_owed(self, folder: LakeFolder) -> int:
        """Have the events that a lake owes recorded; they leave the manifest once they are kept."""
        manifest = self._manifests.of(folder)
        if manifest is None or not manifest.owed:
            return 0
        with contextlib.suppress(VeenError), folder.locked():
            old = folder.read()
            if old is None or not old.owed:
                return 0
            for owed in old.owed:
                services.record_event(
                    key=owed.key,
                    identity=AuthoredEvent.Identity.RECORDER,
                    stream=streams.LAKE,
                    event_type=owed.event_type,
                    subject_id=old.stream,
                    payload=canonical_json.parse(owed.payload),
                )
            folder.publish(old, replace(old, owed=()), now_ms=now_ms())
            return len(old.owed)
        return 0

    # -- on demand

    def bring_up_to(
        self,
        wanted: Mapping[str, int],
        timeout_s: float,
        must_stop: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Ingest until each stream holds its sequence; False when the time is over before.

        What retention took from the log leaves the lake on the same occasion.
        """
        if not wanted:
            return True  # As of a query about empty streams; no name at all would mean every one.
        end = time.monotonic() + timeout_s
        around = self.surroundings()
        due = list(self._behind(around, wanted))
        while due:
            left_s = end - time.monotonic()
            if left_s <= 0 or must_stop():
                break
            done = self._ingest(around, due, wait_s=min(left_s, LOCK_SLICE_S))
            for name, flaw in done.items():
                if isinstance(flaw, VeenError) and flaw.code is ErrorCode.DAMAGE:
                    # A stranger may read it.
                    told = flaw.detail.replace(f"{around.lake.parent}/", "")
                    raise LakeDamageError(name, told) from flaw
            due = list(self._behind(around, wanted))
            if not any(_may_go_on(one) for one in done.values()):
                break  # Nothing more to take: it is there by now, or it was never committed.
        return not [one for one in due if self._upto(around, one) < wanted[one.name]]

    def _behind(self, around: Surroundings, wanted: Mapping[str, int]) -> Iterator[Stream]:
        """Streams whose lake ends before what is wanted, or begins before the log."""
        log = around.source.open()
        try:
            for stream in find_streams(wanted):
                manifest = self._manifest(around, stream)
                if (
                    manifest is None
                    or manifest.upto_seq < wanted[stream.name]
                    or log.first_held(label_of(stream)) > manifest.first_seq
                ):
                    yield stream
        finally:
            log.close()

    def _manifest(self, around: Surroundings, stream: Stream) -> LakeManifest | None:
        try:
            return self._manifests.of(around.place(stream).folder)
        except StoreError as flaw:
            raise LakeDamageError(stream.name, flaw.detail) from flaw
        except OSError as flaw:
            raise LakeDamageError(stream.name, f"its manifest: {flaw.strerror}") from flaw

    def _upto(self, around: Surroundings, stream: Stream) -> int:
        manifest = self._manifest(around, stream)
        return 0 if manifest is None else manifest.upto_seq

    def seal(self, stream: Stream) -> list[str]:
        """Seal all that is live of a stream, after taking what is new; names of what was sealed."""
        around = self.surroundings()
        self._ingest(around, [stream], wait_s=LOCK_WAIT_S)
        folder = around.place(stream).folder
        sealed: list[str] = []
        with folder.locked(wait_s=LOCK_WAIT_S):
            old = folder.read()
            if old is not None:
                new = compaction.seal(folder, old, now_ms=now_ms(), is_forced=True)
                if new != old:
                    folder.publish(old, new, now_ms=now_ms())
                    live = {one.from_seq for one in old.live()}
                    sealed = [one.name for one in new.segments if one.from_seq in live]
        self.settle_owed(folder)
        return sealed


def _may_go_on(found: IngestResult | VeenError) -> bool:
    """Whether another run may bring more: this one took something, or somebody held the lock."""
    if isinstance(found, IngestResult):
        return found.events > 0
    return found.code is ErrorCode.LOCKED
