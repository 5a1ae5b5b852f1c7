"""Everything of a data directory beside log, indexes and manifests, for fsck [SSOT 12]."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.storage import framedfile, frames, manifests
from hub.storage.fsck_indexes import Indexes
from hub.storage.fsck_notes import Notes
from hub.storage.history import History
from hub.storage.layout import Layout
from hub.storage.replay import is_signed
from hub.types import ClientId, HubId, Label, PublicKey
from hub.wire import cbor
from hub.wire.receipt import Receipt
from hub.wire.rotation import ForkRecord, RotationRecord, decode_record, hub_id_of

_READ_BYTES: Final = 1024 * 1024


def check_rotations(layout: Layout, notes: Notes, history: History) -> None:
    """Each record follows from the one before it and is signed by the keys it names."""
    key, hub_id = history.first_pk, hub_id_of(history.first_pk)
    offset = len(frames.MAGIC)
    for data in framedfile.read_all(layout.rotations):
        notes.did("rotation record")
        record = decode_record(data)
        try:
            record.verify()
            reason = _step_flaw(layout, record, key, hub_id)
        except VeenError as flaw:
            reason = flaw.detail
        if reason:
            notes.flaw(layout.rotations, offset, reason, ErrorCode.TRUST)
        key, hub_id = record.new_pk, record.hub_id
        offset += frames.HEAD_BYTES + len(data)


def _step_flaw(
    layout: Layout, record: RotationRecord | ForkRecord, key: PublicKey, hub_id: HubId
) -> str | None:
    if isinstance(record, ForkRecord):
        return None if record.parent_hub_id == hub_id else "fork of another log"
    if (record.old_pk, record.hub_id) != (key, hub_id):
        return "rotation of another key or log"
    if manifests.load(layout, record.manifest_id).hub_pk != key:
        return "the manifest that the rotation names is not by the old key"
    return None


def check_findings(layout: Layout, notes: Notes, history: History) -> None:
    """Each kept contradiction is two RECEIPTs of this log for one place."""
    try:
        for data in framedfile.read_all(layout.findings):
            notes.did("equivocation record")
            reader = cbor.Reader(data).array(2)
            middle = cbor.skip(data, reader.pos)
            pair = [Receipt.decode(data[reader.pos : middle]), Receipt.decode(data[middle:])]
            places = {(receipt.label, receipt.stream_seq) for receipt in pair}
            if len(places) != 1 or not all(is_signed(receipt, history.keys) for receipt in pair):
                notes.flaw(layout.findings, 0, "a kept pair does not contradict itself")
    except VeenError as flaw:
        notes.refusal(layout.findings, flaw)


def check_keys(
    layout: Layout,
    notes: Notes,
    history: History,
    indexes: Indexes,
    first_clients: Mapping[Label, ClientId],
) -> None:
    """The hub key is the one that the records lead to.

    hub/admission was written by the service key and opens with the reader key; which label it is
    depends on the routing key, so each of the two is checked by what the other one finds.
    """
    hub = _secret(layout.keys / "hub.key", notes)
    service = _secret(layout.keys / "service.key", notes)
    notes.did("key", sum(key is not None for key in (hub, service, indexes.reader_secret)))
    if hub is not None and SigningKey(hub).public != history.keys[-1] and not _is_due(layout):
        notes.flaw(layout.keys / "hub.key", 0, "not the key that the log's records name")
    if service is None or indexes.reader_secret is None:
        return
    public = ClientId(SigningKey(service).public)
    own = {label for label, client in first_clients.items() if client == public}
    if indexes.opened_for and not own:
        notes.flaw(layout.keys / "service.key", 0, "not the key that wrote hub/admission")
    if own - indexes.opened_for:
        notes.flaw(layout.keys / "reader.key", 0, "does not open hub/admission")


def _is_due(layout: Layout) -> bool:
    """A stop right after a rotation record leaves the new key beside the old one."""
    return (layout.keys / "hub.key.next").exists()


def read_reader_secret(layout: Layout, notes: Notes) -> bytes | None:
    """The key that opens hub/admission, when this directory has it."""
    return _secret(layout.keys / "reader.key", notes)


def _secret(path: Path, notes: Notes) -> bytes | None:
    try:
        text = path.read_bytes()
    except OSError:
        return None  # a directory for verification needs no secrets
    try:
        secret = bytes.fromhex(text.decode("ascii"))
    except ValueError:
        secret = b""
    if len(secret) != 32 or text != secret.hex().encode() + b"\n":
        notes.flaw(path, 0, "does not hold a key")
        return None
    return secret


def check_tokens(layout: Layout, notes: Notes) -> None:
    """The list of read tokens has the shape that the hub reads."""
    try:
        rows = json.loads(layout.tokens.read_bytes())
    except FileNotFoundError:
        return
    except ValueError:
        rows = None
    if not isinstance(rows, dict):
        notes.flaw(layout.tokens, 0, "is not a list of tokens")
        return
    for name, row in rows.items():
        notes.did("read token")
        if not _is_token(row):
            notes.flaw(layout.tokens, 0, f"token {name!r} is not one")


def _is_token(row: Any) -> bool:  # noqa: ANN401 - whatever JSON holds
    if not isinstance(row, dict) or not _is_hex32(row.get("sha256")):
        return False
    if set(row) == {"sha256", "streams", "all"}:
        return row["all"] is True
    labels = row.get("labels")
    return set(row) == {"sha256", "streams", "labels"} and (
        isinstance(labels, list) and all(_is_hex32(label) for label in labels)
    )


def _is_hex32(text: Any) -> bool:  # noqa: ANN401 - whatever JSON holds
    return isinstance(text, str) and len(text) == 64 and set(text) <= set("0123456789abcdef")


def check_attachments(layout: Layout, notes: Notes, entries: int) -> None:
    """Each sealed attachment is what its name says."""
    for path in sorted(layout.attachments.glob("??/*")):
        if path.suffix == ".tmp":
            continue
        notes.did("attachment")
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while chunk := file.read(_READ_BYTES):
                digest.update(chunk)
                notes.advance(len(chunk), entries)
        if digest.hexdigest() != path.name:
            notes.flaw(path, 0, "bytes are not those of the coid")
