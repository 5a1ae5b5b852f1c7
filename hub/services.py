"""Writes of the index: refresh it, note and acknowledge findings [architecture]."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, TypeAlias

from django.conf import settings
from django.db import DatabaseError, close_old_connections, transaction
from django.utils import timezone

from hub.client.http import HubHttp
from hub.errors import ErrorCode, VeenError
from hub.index_source import IndexSource, Look, Observation, Pin, Position, pin_from_trust
from hub.models import Finding, IndexState, LabelHead, ManifestRow
from hub.types import HubId, Label, ManifestId, MmrRoot, PublicKey, StreamSeq

HUB_TIMEOUT_S: Final = 5.0
PROBLEM_LENGTH_MAX: Final = 300
REASON_LENGTH_MIN: Final = 3
Names: TypeAlias = Callable[[], Mapping[str, str]]

logger = logging.getLogger(__name__)


def refresh_index(names: Names = dict) -> IndexState:
    """Look at the hub once and store what verified; a hub out of reach is noted, not raised.

    `names` gives the streams that somebody above knows, by the hex of their labels: the hub is
    blind and cannot say what a label stands for.
    """
    now = timezone.now()
    try:
        pin, look = _look()
    except VeenError as refusal:
        logger.warning("index.unreachable", extra={"code": refusal.code, "detail": refusal.detail})
        problem = str(refusal)[:PROBLEM_LENGTH_MAX]
        state, _ = IndexState.objects.update_or_create(
            pk=1, defaults={"checked_at": now, "problem": problem}
        )
        return state
    with transaction.atomic():
        _store_manifests(look)
        _store_heads(look, names(), now)
        for observation in look.observations:
            record_finding(observation, now)
        state, _ = IndexState.objects.update_or_create(
            pk=1,
            defaults={
                "checked_at": now,
                "reached_at": now,
                "hub_pk": look.hub_pk.hex(),
                "hub_id": pin.hub_id.hex(),
                "problem": "",
            },
        )
    return state


def record_finding(observation: Observation, now: datetime) -> Finding:
    """Note evidence against the hub."""
    return note_finding(
        str(observation.code),
        observation.object,
        observation.detail,
        severity=Finding.Severity.CRITICAL,
        now=now,
    )


def note_finding(
    code: str, what: str, detail: str, *, severity: Finding.Severity, now: datetime
) -> Finding:
    """Note a finding once; seeing it again moves last_seen, acknowledged or not."""
    finding, is_new = Finding.objects.get_or_create(
        code=code,
        object=what[:200],
        defaults={
            "severity": severity,
            "detail": detail,
            "first_seen": now,
            "last_seen": now,
        },
    )
    if not is_new:
        finding.last_seen = now
        finding.detail = detail
        finding.save(update_fields=["last_seen", "detail"])
    else:
        logger.error("finding.new", extra={"code": finding.code, "object": finding.object})
    return finding


def acknowledge_finding(finding_id: int, *, by: str, reason: str) -> Finding:
    """Take a finding over with a reason; it can be done once, and not be undone."""
    if len(reason.strip()) < REASON_LENGTH_MIN:
        raise VeenError(ErrorCode.POLICY, "a finding is acknowledged with a reason")
    with transaction.atomic():
        finding = Finding.objects.select_for_update().get(pk=finding_id)
        if finding.acknowledged_by:
            raise VeenError(ErrorCode.POLICY, f"already acknowledged by {finding.acknowledged_by}")
        finding.acknowledged_by = by
        finding.reason = reason.strip()
        finding.save(update_fields=["acknowledged_by", "reason"])
    return finding


def keep_index_fresh(every_s: float, names: Names) -> threading.Thread:
    """Look at the hub again and again, so that a split is seen also when nobody looks."""

    def run() -> None:
        pause = threading.Event()
        while True:
            close_old_connections()
            try:
                refresh_index(names)
            except DatabaseError:
                logger.exception("index.not_stored")
            close_old_connections()
            pause.wait(every_s)

    thread = threading.Thread(target=run, name="index", daemon=True)
    thread.start()
    return thread


def _look() -> tuple[Pin, Look]:
    pin, url, token = hub_connection()
    known = {
        Label(bytes.fromhex(row.label)): Position(
            seq=StreamSeq(row.upto_seq),
            root=MmrRoot(bytes.fromhex(row.root)),
            checkpoint_seq=StreamSeq(row.checkpoint_seq),
        )
        for row in LabelHead.objects.order_by("checked")
    }
    known_manifests = {
        ManifestId(bytes.fromhex(name))
        for name in ManifestRow.objects.values_list("manifest_id", flat=True)
    }
    with HubHttp(url, token=token, timeout_s=HUB_TIMEOUT_S) as http:
        source = IndexSource(http, pin)
        return pin, source.look(known=known, known_manifests=known_manifests)


def hub_connection() -> tuple[Pin, str, str]:
    """The pinned key, the address and the read token of the running hub."""
    try:
        status = json.loads(settings.VEEN_STATUS_FILE.read_bytes())
        token = settings.VEEN_READ_TOKEN_FILE.read_text().strip()
        trust = settings.VEEN_TRUST_FILE
        pin = pin_from_trust(
            trust.read_bytes(),
            trust.with_name(trust.name + ".sig").read_bytes(),
            PublicKey(bytes.fromhex(settings.VEEN_TRUST_PK_FILE.read_text())),
            HubId(bytes.fromhex(status["hub_id"])),
        )
        return pin, str(status["hub_url"]), token
    except OSError as missing:
        detail = f"{missing.filename} cannot be read: {missing.strerror}"
        raise VeenError(ErrorCode.CONFIG, detail) from missing
    except (KeyError, TypeError, ValueError) as flaw:
        raise VeenError(ErrorCode.CONFIG, "no hub is running under this bundle") from flaw


def _store_manifests(look: Look) -> None:
    for manifest in look.manifests:
        ManifestRow.objects.update_or_create(
            manifest_id=manifest.id.hex(),
            defaults={
                "previous": manifest.previous.hex(),
                "hub_pk": manifest.hub_pk.hex(),
                "created_at": datetime.fromtimestamp(manifest.created_at, tz=UTC),
                "labels": len(manifest.checkpoints),
                "messages": sum(c.upto_seq for c in manifest.checkpoints),
                "verified": True,
            },
        )


def _store_heads(look: Look, names: Mapping[str, str], now: datetime) -> None:
    assert look.newest_id is not None or not look.heads
    for head in look.heads:
        label = head.receipt.label.hex()
        values = {
            "stream_name": names.get(label),
            "upto_seq": head.receipt.stream_seq,
            "root": head.receipt.mmr_root.hex(),
            "hub_ts": head.receipt.hub_ts,
            "checkpoint_seq": head.checkpoint.upto_seq,
            "checkpoint_manifest": look.newest_id.hex() if look.newest_id else "",
            "checked": now,
        }
        row, is_new = LabelHead.objects.get_or_create(
            label=label, defaults={**values, "updated": now}
        )
        if not is_new:
            if row.root != values["root"]:
                row.updated = now
            for name, value in values.items():
                setattr(row, name, value)
            row.save()
