"""What producers may do at the hub: issued, admitted, extended, revoked [SSOT 6]."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hub.admission.records import RevocationKind
from hub.client import OutboxReader
from hub.client.outbox_file import outbox_path
from hub.errors import ErrorCode, VeenError
from hub.label import stream_id
from hub.types import ClientId, PublicKey
from hub.wire.captoken import CapToken, Rate
from recorder.acts.authority import SERVICE_TTL_S, Authority
from recorder.gateway.config import producer_folder
from recorder.models import Producer, Stream

BECAUSE_MAX: Final = 200
OUTBOX: Final = "outbox"  # of a client's state directory


def authorize(producer: Producer, authority: Authority) -> None:
    """Have the hub admit the capability; again is fine."""
    authority.client.authorize(CapToken.decode(bytes(producer.cap_token)))


def revoke(producer: Producer, reason: str, authority: Authority) -> None:
    """Have the hub refuse the key from now on, unless it does so already.

    The row is marked last, so a stop before it comes back here.
    """
    token = CapToken.decode(bytes(producer.cap_token))
    if not _is_revoked(token, authority):
        # The key first, which ends every capability it ever had; the token last, because /authorize
        # tells whether that one is done.
        targets = (
            (RevocationKind.CLIENT_ID, producer.principal),
            (RevocationKind.CAP_TOKEN, token.revocation_target().hex()),
        )
        for kind, target in targets:
            authority.ask_hub(
                "revoke", kind=kind.value, target=target, reason=reason[:BECAUSE_MAX] or "revoked"
            )
    producer.revoked_at = authority.now()
    producer.save(update_fields=["revoked_at"])


def mark_revoked(producer: Producer, authority: Authority) -> None:
    """Note on a row made again what the hub says; a key that it still takes stays to be revoked."""
    if _is_revoked(CapToken.decode(bytes(producer.cap_token)), authority):
        producer.revoked_at = authority.now()
        producer.save(update_fields=["revoked_at"])


def _is_revoked(token: CapToken, authority: Authority) -> bool:
    try:
        authority.client.authorize(token)
    except VeenError as refusal:
        if refusal.code is not ErrorCode.CAP:
            raise
        return "revoked" in refusal.detail
    return False


def follow(
    source: Stream, targets: Iterable[str], authority: Authority
) -> tuple[list[str], list[str]]:
    """Let the producers of a stream write to its successors.

    Returns who got a new capability, and who must be rotated because its key is elsewhere.
    """
    followed, left_behind = [], []
    active = Producer.objects.filter(streams=source, ended_at__isnull=True)
    for producer in active.order_by("name"):
        missing = [name for name in targets if not producer.streams.filter(name=name).exists()]
        if not missing:
            continue
        if producer.held == Producer.Held.FILE:
            left_behind.append(producer.name)
            continue
        producer.streams.add(*Stream.objects.filter(name__in=missing))
        token = issue(
            PublicKey(bytes.fromhex(producer.principal)),
            [stream.name for stream in producer.streams.all()],
            CapToken.decode(bytes(producer.cap_token)).rate,
            authority,
        )
        producer.cap_token = token.encode()
        producer.auth_ref = token.auth_ref().hex()
        producer.save(update_fields=["cap_token", "auth_ref"])
        followed.append(producer.name)
    return followed, left_behind


def issue(
    principal: PublicKey, streams: Iterable[str], rate: Rate | None, authority: Authority
) -> CapToken:
    """A capability to append to these streams; the same again has the same bytes."""
    return CapToken.issue(
        authority.issuer,
        subject_pk=principal,
        stream_ids=[stream_id(name) for name in streams],
        ttl=SERVICE_TTL_S,
        rate=rate,
    )


def check_drained(producer: Producer, authority: Authority) -> None:
    """Raise E.BUSY while the gateway still has events to send with this key.

    It told its callers that they are pending, so they must go out before the key is refused.
    """
    if producer.held != Producer.Held.GATEWAY:
        return
    folder = producer_folder(authority.files.gateway_state, producer.name) / OUTBOX
    outbox = OutboxReader(outbox_path(folder, ClientId(bytes.fromhex(producer.principal))))
    if outbox.exists() and outbox.pending_ids() is not None:
        raise VeenError(ErrorCode.BUSY, "the gateway still sends events with the old key")
