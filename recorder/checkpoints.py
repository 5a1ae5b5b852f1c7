"""The hub's manifests: each recorded once, a late one a finding [SDR0 3.2.4]."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from hub.errors import ErrorCode, VeenError
from hub.models import Finding
from hub.services import note_finding
from hub.types import Label, ManifestId, StreamSeq
from hub.wire.manifest import NO_MANIFEST, Manifest
from recorder import records
from recorder.acts.authority import Authority
from recorder.acts.checkpoints import described
from recorder.models import AuthoredEvent, Stream
from recorder.scribe import RECORDER
from recorder.streams import CHECKPOINTS, HOUSEKEEPING

logger = logging.getLogger(__name__)

PUBLISHED: Final = "checkpoint.published"
LATE: Final = "checkpoint_late"
GRACE_S: Final = 60
_KEY: Final = "manifest/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When the hub makes manifests while something is new."""

    interval_s: int
    messages: int
    grace_s: int = GRACE_S


def event_key(manifest_id: ManifestId) -> str:
    """The key under which a manifest is recorded."""
    return f"{_KEY}{manifest_id.hex()}"


def manifest_of(key: str) -> ManifestId:
    """The manifest that is recorded under a key."""
    return ManifestId(bytes.fromhex(key.removeprefix(_KEY)))


def publish(authority: Authority, schedule: Schedule) -> int:
    """Write down every manifest that is not recorded yet, oldest first; returns how many."""
    missing = list(_unpublished(authority))
    for manifest_id in reversed(missing):
        manifest = authority.client.manifest(manifest_id)
        _check_in_time(manifest, authority, schedule)
        # Last: a manifest that is written down is never looked at again.
        records.keep_event(
            key=event_key(manifest_id),
            identity=RECORDER,
            stream=CHECKPOINTS,
            event_type=PUBLISHED,
            subject_id=authority.facts.hub_id.hex(),
            payload={
                **described(manifest),
                "previous": manifest.previous.hex(),
                "hub_pk": manifest.hub_pk.hex(),
            },
            event_time_ms=manifest.created_at * 1000,
            now=authority.now(),
        )
    return len(missing)


def _unpublished(authority: Authority) -> Iterator[ManifestId]:
    """Newest first, back to one that is known."""
    newest = authority.ask_hub("status")["last_manifest_id"]
    manifest_id = NO_MANIFEST if newest is None else ManifestId(bytes.fromhex(newest))
    while manifest_id != NO_MANIFEST:
        if AuthoredEvent.objects.filter(key=event_key(manifest_id)).exists():
            return
        try:
            manifest = authority.client.manifest(manifest_id)
        except VeenError as refusal:
            if refusal.code is not ErrorCode.TRUST:
                raise
            # Of the log that this one was forked from; its own recorder published it.
            logger.info("manifests.foreign", extra={"manifest": manifest_id.hex()})
            return
        yield manifest_id
        manifest_id = manifest.previous


def _check_in_time(manifest: Manifest, authority: Authority, schedule: Schedule) -> None:
    if manifest.previous == NO_MANIFEST:
        return
    try:
        before = authority.client.manifest(manifest.previous)
    except VeenError as refusal:
        if refusal.code is not ErrorCode.TRUST:
            raise
        return
    upto = {one.label_curr: one.upto_seq for one in manifest.checkpoints}
    due = _due_at(before, upto, authority, schedule, until=manifest.created_at)
    if due is not None:
        _note_late(before.id, due, manifest.created_at, authority)


@dataclass(slots=True, kw_only=True)
class LateWatch:
    """Sees a hub that makes no manifest although one is due."""

    schedule: Schedule
    _full_since: int | None = field(default=None)  # when the volume was first over its bound

    def look(self, authority: Authority) -> bool:
        """Whether the next manifest is late now; cheap while it is not."""
        status = authority.ask_hub("status")
        now = authority.seconds()
        newest = status["last_manifest_id"]
        if int(status["uncheckpointed"]) < self.schedule.messages:
            self._full_since = None
        elif self._full_since is None:
            self._full_since = now
        due = None if self._full_since is None else self._full_since
        if due is None or now <= due + self.schedule.grace_s:
            due = self._due_by_time(status, now, authority)
        if due is None:
            return False
        last = NO_MANIFEST if newest is None else ManifestId(bytes.fromhex(newest))
        _note_late(last, due, now, authority)
        return True

    def _due_by_time(
        self, status: Mapping[str, object], now: int, authority: Authority
    ) -> int | None:
        last_at = status["last_manifest_at"] or 0
        assert isinstance(last_at, int)
        if now <= last_at + self.schedule.interval_s + self.schedule.grace_s:
            return None
        if not status["uncheckpointed"]:
            return None
        newest = status["last_manifest_id"]
        before = None
        if isinstance(newest, str):
            before = authority.client.manifest(ManifestId(bytes.fromhex(newest)))
        return _due_at(before, _heads(authority), authority, self.schedule, until=now)


def _heads(authority: Authority) -> dict[Label, StreamSeq]:
    found = {}
    for label in _watched():
        try:
            found[label] = authority.client.head(label).stream_seq
        except VeenError as refusal:
            if refusal.code is not ErrorCode.NOTFOUND:
                raise
    return found


def _watched() -> list[Label]:
    """Streams whose events cause a manifest by time."""
    streams = Stream.objects.exclude(name__in=HOUSEKEEPING).values_list("label", flat=True)
    return [Label(bytes.fromhex(label)) for label in streams]


def _due_at(
    before: Manifest | None,
    upto: Mapping[Label, int],
    authority: Authority,
    schedule: Schedule,
    *,
    until: int,
) -> int | None:
    """When the manifest after `before` was due, if `until` is late for it; else None."""
    last_at = 0 if before is None else int(before.created_at)
    if until <= last_at + schedule.interval_s + schedule.grace_s:
        return None
    for label in _watched():
        known = None if before is None else before.checkpoint(label)
        covered = 0 if known is None else known.upto_seq
        if upto.get(label, 0) <= covered:
            continue
        first_new = authority.client.receipt(label, covered + 1)
        due = max(last_at + schedule.interval_s, int(first_new.hub_ts))
        if until > due + schedule.grace_s:
            return due
    return None


def _note_late(after: ManifestId, due: int, now: int, authority: Authority) -> None:
    shown = "the first manifest" if after == NO_MANIFEST else f"manifest after {after.hex()}"
    detail = f"due at {due}, {now - due} s late at {now}, while events waited to be covered"
    note_finding(LATE, shown, detail, severity=Finding.Severity.WARNING, now=authority.now())
