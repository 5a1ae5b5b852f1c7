"""Writes of anchors: publish a manifest everywhere, try again, verify what stands [ANCHOR0.2].

anchor_ref is stored beside the checkpoint in `recorder.models.Anchor`. A failure never stops the
log: it is kept with its reason, counted (veen_anchor_fail_total), told as a finding, and tried
again. A machine that stops between the anchor and its row anchors once more, which does no harm.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from django.conf import settings
from django.db.models import Max
from django.utils import timezone

from hub import control
from hub.errors import ErrorCode, VeenError
from hub.index_source import Observation
from hub.models import Finding
from hub.services import note_finding, record_finding
from hub.types import ManifestId, UnixSeconds
from recorder.anchors.anchor import Anchored, AnchorRef, Backend
from recorder.checkpoints import PUBLISHED, event_key, manifest_of
from recorder.models import Anchor, AuthoredEvent
from recorder.streams import CHECKPOINTS

RETRIES_AT_ONCE: Final = 100
RECENT_ANCHORS: Final = 100
CONTROL_TIMEOUT_S: Final = 2.0

logger = logging.getLogger(__name__)


def configured_backends() -> list[Backend]:
    """The anchor file always, the time-stamping authority where one is configured."""
    from recorder.anchors.file import AnchorFile  # noqa: PLC0415

    found: list[Backend] = [AnchorFile(settings.VEEN_ANCHOR_FILE)]
    if settings.VEEN_ANCHOR_TSA_URL is not None:
        from recorder.anchors.connect import timestamps  # noqa: PLC0415

        assert settings.VEEN_ANCHOR_TSA_CERT is not None  # the two settings go together
        found.append(
            timestamps(
                settings.VEEN_ANCHOR_TSA_URL,
                settings.VEEN_ANCHOR_TSA_CERT,
                settings.VEEN_ANCHOR_ALLOW,
            )
        )
    return found


def anchor_manifest(
    manifest_id: ManifestId, *, backends: Sequence[Backend] | None = None
) -> list[Anchor]:
    """Anchor a published manifest in every backend; a backend that refuses is tried again later."""
    rows = []
    for backend in configured_backends() if backends is None else backends:
        row, _ = Anchor.objects.get_or_create(
            manifest_id=manifest_id.hex(),
            backend=backend.name,
            defaults={"created_at": timezone.now()},
        )
        rows.append(row if row.anchored_at is not None else _try(row, backend))
    return rows


def anchor_published(*, backends: Sequence[Backend] | None = None) -> list[Anchor]:
    """Anchor what was recorded since each backend's newest anchor, oldest first.

    A backend that is new gets the newest manifest alone, which names all before it by `previous`.
    """
    rows = []
    for backend in configured_backends() if backends is None else backends:
        for manifest_id in _unanchored(backend):
            rows += anchor_manifest(manifest_id, backends=[backend])
    return rows


def _unanchored(backend: Backend) -> list[ManifestId]:
    # Positions in the log, not times: a clock that was set back must not hide a manifest.
    recorded = AuthoredEvent.objects.filter(
        stream=CHECKPOINTS, event_type=PUBLISHED, hub_commit_seq__isnull=False
    )
    newest_first = recorded.order_by("-hub_commit_seq").values_list("key", flat=True)
    known = Anchor.objects.filter(backend=backend.name).values_list("manifest_id", flat=True)
    keys = [event_key(ManifestId(bytes.fromhex(one))) for one in known[:RECENT_ANCHORS]]
    done = recorded.filter(key__in=keys).aggregate(upto=Max("hub_commit_seq"))["upto"]
    found = newest_first.filter(hub_commit_seq__gt=done) if done is not None else newest_first[:1]
    return [manifest_of(key) for key in reversed(found)]


def retry_anchors(*, backends: Sequence[Backend] | None = None) -> list[Anchor]:
    """Try again what is not anchored yet, oldest first."""
    by_name = {one.name: one for one in (backends or configured_backends())}
    waiting = Anchor.objects.filter(anchored_at__isnull=True, backend__in=by_name)
    found = waiting.order_by("created_at")[:RETRIES_AT_ONCE]
    return [_try(row, by_name[row.backend]) for row in found]


def _try(row: Anchor, backend: Backend) -> Anchor:
    now = timezone.now()
    manifest_id = ManifestId(bytes.fromhex(row.manifest_id))
    try:
        ref = backend.publish(manifest_id, UnixSeconds(int(now.timestamp())))
    except VeenError as refusal:
        _failed(row, refusal)
        # Nothing speaks against the hub: what is not anchored yet is tried again.
        severity, what = Finding.Severity.WARNING, f"anchor {row.backend}"
        detail = f"manifest {row.manifest_id}: {refusal}"
        note_finding(str(refusal.code), what, detail, severity=severity, now=now)
    else:
        _verified(row, backend, ref)
    row.tries += 1
    row.save()
    return row


def _verified(row: Anchor, backend: Backend, ref: AnchorRef) -> None:
    try:
        anchored = backend.verify(ref, ManifestId(bytes.fromhex(row.manifest_id)))
    except VeenError as refusal:
        _failed(row, refusal)
        _note_broken(row, refusal)
    else:
        row.anchor_ref = ref.encode()
        row.anchored_at = datetime.fromtimestamp(anchored.at, tz=UTC)
        row.error = ""


def _failed(row: Anchor, refusal: VeenError) -> None:
    row.error = str(refusal)
    logger.warning(
        "anchor.failed", extra={"backend": row.backend, "code": refusal.code, "tries": row.tries}
    )
    with contextlib.suppress(VeenError):  # a hub that is down has no counter; the row is kept
        control.call(settings.VEEN_HUB_DIR, "anchor_failed", timeout_s=CONTROL_TIMEOUT_S)


def _note_broken(row: Anchor, refusal: VeenError) -> None:
    observed = Observation(
        code=ErrorCode(refusal.code),
        object=f"anchor {row.backend} {row.manifest_id[:16]}",
        detail=str(refusal),
    )
    record_finding(observed, timezone.now())


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorVerdict:
    """Whether one anchor of a manifest still stands."""

    row: Anchor
    anchored: Anchored | None
    refusal: VeenError | None


def verify_anchors(
    manifest_id: ManifestId, *, backends: Sequence[Backend] | None = None
) -> list[AnchorVerdict]:
    """Check every anchor of a manifest offline; one that no longer holds becomes a finding."""
    by_name = {one.name: one for one in (backends or configured_backends())}
    rows = Anchor.objects.filter(manifest_id=manifest_id.hex(), anchored_at__isnull=False)
    return [_verdict(row, by_name.get(row.backend)) for row in rows.order_by("backend")]


def _verdict(row: Anchor, backend: Backend | None) -> AnchorVerdict:
    try:
        anchored = _verify(row, backend)
    except VeenError as refusal:
        _note_broken(row, refusal)
        return AnchorVerdict(row=row, anchored=None, refusal=refusal)
    return AnchorVerdict(row=row, anchored=anchored, refusal=None)


def _verify(row: Anchor, backend: Backend | None) -> Anchored:
    if backend is None:
        raise VeenError(ErrorCode.CONFIG, f"the backend {row.backend} is not configured")
    ref = AnchorRef.decode(bytes(row.anchor_ref or b""))
    return backend.verify(ref, ManifestId(bytes.fromhex(row.manifest_id)))
