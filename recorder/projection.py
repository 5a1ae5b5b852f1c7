"""One committed message as one row of the lake [SDR0 3.2.1; architecture, The lake]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from hub.authoring import ReaderSecret, open_message, open_sealed
from hub.crypto import hpke
from hub.crypto.hashing import h
from hub.errors import ProofError, WireError
from hub.limits import DEFAULT, Limits
from hub.types import HubId, LeafHash, MmrRoot, ProfileId, StreamSeq
from hub.wire import ciphertext
from hub.wire.msg import SIG_ITEM_BYTES, Msg, aad_of, body_nonce_of, heads_at, leaf_of
from hub.wire.payload import PayloadHeader
from hub.wire.profile import DEFAULT_PROFILES, Profile
from hub.wire.receipt import Receipt
from recorder.event import SCHEMA, RecorderEvent, UnixMillis, format_time, read_body

PROFILES: Final[Mapping[ProfileId, Profile]] = {one.id: one for one in DEFAULT_PROFILES}


# The fields of a Row in its order, but for stream and hub_id, which a whole stream shares.
FIELD_NAMES: Final = (
    "hub_commit_seq", "hub_commit_time", "subject_id", "principal_id", "event_type", "event_time",
    "origin", "payload_text", "error", "receipt_id", "leaf_hash", "mmr_root",
)  # fmt: skip
Fields: TypeAlias = (
    "tuple[StreamSeq, UnixMillis, str | None, str, str | None, UnixMillis | None, str | None, "
    "str | None, RowError | None, str, LeafHash, MmrRoot]"
)


class RowError(StrEnum):
    """Why an event has no fields; the first that holds, in this order."""

    SEALED = "sealed"  # no key of ours opens it
    UNKNOWN_SCHEMA = "unknown_schema"
    UNDECODABLE = "undecodable"
    CAP_MISMATCH = "cap_mismatch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The eight recorder fields and where they come from; with an error, the event's are None."""

    stream: str
    hub_commit_seq: StreamSeq
    hub_commit_time: UnixMillis
    subject_id: str | None
    principal_id: str
    event_type: str | None
    event_time: UnixMillis | None
    origin: str | None
    payload_text: str | None
    error: RowError | None
    receipt_id: str
    leaf_hash: LeafHash
    mmr_root: MmrRoot
    hub_id: HubId

    def shown(self) -> dict[str, str | int | None]:
        """The fields as an answer prints them, `payload_text` still being JSON text."""
        return {
            "stream": self.stream,
            "hub_commit_seq": self.hub_commit_seq,
            "hub_commit_time": format_time(self.hub_commit_time),
            "subject_id": self.subject_id,
            "principal_id": self.principal_id,
            "event_type": self.event_type,
            "event_time": None if self.event_time is None else format_time(self.event_time),
            "origin": self.origin,
            "payload_text": self.payload_text,
            "error": None if self.error is None else self.error.value,
            "receipt_id": self.receipt_id,
            "mmr_root": self.mmr_root.hex(),
            "hub_id": self.hub_id.hex(),
        }


def receipt_id(leaf_hash: LeafHash) -> str:
    """What rows and answers call a receipt."""
    return f"rcpt-{leaf_hash.hex()}"


def project(
    msg_bytes: bytes,
    receipt_bytes: bytes,
    *,
    stream: str,
    hub_id: HubId,
    secrets: Sequence[ReaderSecret],
    profiles: Mapping[ProfileId, Profile] = PROFILES,
    limits: Limits = DEFAULT,
) -> Row:
    """The row of one log entry; `secrets` are the stream's reader keys, newest first.

    Whatever an author put into a message gives a row, with an error where it is no event. Only a
    broken log raises: bytes that are no MSG or RECEIPT, or a RECEIPT of another MSG. Signatures and
    position are the caller's checks; this one binds the two objects to each other.
    """
    found = project_fields(msg_bytes, receipt_bytes, secrets, profiles, limits)
    seq, committed_at, subject_id, principal_id, event_type, event_time = found[:6]
    origin, payload_text, error, receipt_name, leaf_hash, mmr_root = found[6:]
    return Row(
        stream=stream,
        hub_commit_seq=seq,
        hub_commit_time=committed_at,
        subject_id=subject_id,
        principal_id=principal_id,
        event_type=event_type,
        event_time=event_time,
        origin=origin,
        payload_text=payload_text,
        error=error,
        receipt_id=receipt_name,
        leaf_hash=leaf_hash,
        mmr_root=mmr_root,
        hub_id=hub_id,
    )


def project_fields(
    msg_bytes: bytes,
    receipt_bytes: bytes,
    secrets: Sequence[ReaderSecret],
    profiles: Mapping[ProfileId, Profile] = PROFILES,
    limits: Limits = DEFAULT,
) -> Fields:
    """What `project` finds, as a tuple: ingest makes columns of millions of them."""
    return fields_beside(msg_bytes, Receipt.decode(receipt_bytes), secrets, profiles, limits)


def fields_beside(
    msg_bytes: bytes,
    receipt: Receipt,
    secrets: Sequence[ReaderSecret],
    profiles: Mapping[ProfileId, Profile] = PROFILES,
    limits: Limits = DEFAULT,
) -> Fields:
    """The same for whoever has decoded the RECEIPT already."""
    found = _event_at(msg_bytes, receipt, secrets, profiles, limits) if secrets else None
    return found or fields_of(Msg.decode(msg_bytes), receipt, secrets, profiles, limits)


def _event_at(
    msg_bytes: bytes,
    receipt: Receipt,
    secrets: Sequence[ReaderSecret],
    profiles: Mapping[ProfileId, Profile],
    limits: Limits,
) -> Fields | None:
    """The fields of a sound event without the objects, at two thirds of the cost; else None.

    It may only give what `fields_of` gives: whatever is flawed or in doubt is judged there.
    """
    heads = heads_at(msg_bytes, 0)
    if heads is None:
        return None
    profile_id, label, client_id, client_seq, prev_ack, auth_ref, ct_hash, start, end = heads
    profile = profiles.get(profile_id)
    sealed = msg_bytes[start:end]
    leaf_hash = leaf_of(label, profile_id, ct_hash, client_id, client_seq)
    if (
        profile is None
        or end + SIG_ITEM_BYTES != len(msg_bytes)
        or h(sealed) != ct_hash
        or receipt.leaf_hash != leaf_hash
        or receipt.label != label
    ):
        return None
    aad = aad_of(
        profile_id=profile_id, label=label, client_id=client_id, client_seq=client_seq,
        prev_ack=prev_ack, auth_ref=auth_ref,
    )  # fmt: skip
    nonce = body_nonce_of(
        label=label, prev_ack=prev_ack, client_id=client_id, client_seq=client_seq
    )
    try:
        header, body, _ = open_sealed(sealed, aad, nonce, profile, secrets, limits)
        if header.schema != SCHEMA or (header.cap_ref is not None and header.cap_ref != auth_ref):
            return None
        subject_id, event_type, event_time, origin, payload = read_body(body)
    except WireError:
        return None
    return (
        receipt.stream_seq, UnixMillis(receipt.hub_ts * 1000), subject_id, client_id.hex(),
        event_type, event_time, origin, payload, None, f"rcpt-{leaf_hash.hex()}", leaf_hash,
        receipt.mmr_root,
    )  # fmt: skip


def fields_of(
    msg: Msg,
    receipt: Receipt,
    secrets: Sequence[ReaderSecret],
    profiles: Mapping[ProfileId, Profile] = PROFILES,
    limits: Limits = DEFAULT,
) -> Fields:
    """The same for whoever has decoded both."""
    msg.check_ct_hash()
    leaf_hash = msg.leaf_hash()
    if receipt.leaf_hash != leaf_hash or receipt.label != msg.label:
        raise ProofError("the RECEIPT is of another MSG")
    event, error = _read(msg, secrets, profiles, limits)
    committed_at = UnixMillis(receipt.hub_ts * 1000)
    principal_id, name = msg.client_id.hex(), f"rcpt-{leaf_hash.hex()}"
    if event is None:
        return (
            receipt.stream_seq, committed_at, None, principal_id, None, None, None, None, error,
            name, leaf_hash, receipt.mmr_root,
        )  # fmt: skip
    return (
        receipt.stream_seq, committed_at, event.subject_id, principal_id, event.event_type,
        event.event_time, event.origin, event.payload, None, name, leaf_hash, receipt.mmr_root,
    )  # fmt: skip


def _read(
    msg: Msg,
    secrets: Sequence[ReaderSecret],
    profiles: Mapping[ProfileId, Profile],
    limits: Limits,
) -> tuple[RecorderEvent, None] | tuple[None, RowError]:
    profile = profiles.get(msg.profile_id)
    if profile is None:
        return None, RowError.SEALED  # Without its profile nobody can take it apart.
    try:
        opened = open_message(msg, profile=profile, secret=secrets, limits=limits)
    except WireError:
        return None, _why_not_open(msg, profile, secrets, limits)
    if opened.header.schema != SCHEMA:
        return None, RowError.UNKNOWN_SCHEMA
    try:
        event = RecorderEvent.decode(opened.body)
    except WireError:
        return None, RowError.UNDECODABLE
    return (None, RowError.CAP_MISMATCH) if opened.cap_mismatch else (event, None)


def _why_not_open(
    msg: Msg, profile: Profile, secrets: Sequence[ReaderSecret], limits: Limits
) -> RowError:
    """A header that opens beside a broken rest is its author's fault, not a missing key."""
    try:
        parts = ciphertext.split(msg.ciphertext, profile.pad_block, limits)
    except WireError:
        return RowError.SEALED
    for secret in secrets:
        try:
            header_bytes = hpke.open_setup(parts.enc, secret).open(parts.hdr_ct, msg.aad())
        except WireError:
            continue
        try:
            header = PayloadHeader.decode(header_bytes)
        except WireError:
            return RowError.UNDECODABLE
        return RowError.UNDECODABLE if header.schema == SCHEMA else RowError.UNKNOWN_SCHEMA
    return RowError.SEALED
