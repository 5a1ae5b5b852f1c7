"""Naming a wire object by its bytes alone, and showing its fields [SSOT 4]."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Final

from hub.errors import VeenError, WireError
from hub.streamitem import StreamItem
from hub.wire import cbor
from hub.wire.captoken import CapToken
from hub.wire.checkpoint import Checkpoint
from hub.wire.manifest import Manifest
from hub.wire.msg import Msg
from hub.wire.payload import PayloadHeader
from hub.wire.profile import Profile
from hub.wire.proof import ConsistencyProof, MmrProof, RangeProof
from hub.wire.readerkey import ReaderKeyRecord, WrappedReaderSecret
from hub.wire.receipt import Receipt
from hub.wire.rotation import ForkRecord, RotationRecord
from hub.wire.trust import TrustFile

# Shapes differ, so at most one of these takes the bytes; payload_hdr is the least particular.
KINDS: Final[Mapping[str, Callable[[bytes], object]]] = {
    "MSG": Msg.decode,
    "RECEIPT": Receipt.decode,
    "CHECKPOINT": Checkpoint.decode,
    "manifest": Manifest.decode,
    "rotation record": RotationRecord.decode,
    "fork record": ForkRecord.decode,
    "reader key record": ReaderKeyRecord.decode,
    "wrapped reader secret": WrappedReaderSecret.decode,
    "cap_token": CapToken.decode,
    "mmr_proof": MmrProof.decode,
    "consistency proof": ConsistencyProof.decode,
    "range proof": RangeProof.decode,
    "stream item": StreamItem.decode,
    "profile": Profile.decode,
    "payload_hdr": PayloadHeader.decode,
    "trust file": TrustFile.decode,
}
_SENTENCES: Final = {
    "MSG": "A message: sealed by its author for the stream's readers, signed by client_id.",
    "RECEIPT": "The hub's signed promise that this leaf stands at stream_seq of its label.",
    "CHECKPOINT": "The hub's signed statement of a label's root after upto_seq messages.",
    "manifest": "One signature over the checkpoints of every label; its id is what gets anchored.",
    "rotation record": "Old and new hub key together hand the log over to the new key.",
    "fork record": "A new log that goes on from these heads of its parent.",
    "reader key record": "The public half of a stream's reader key, signed by the recorder admin.",
    "wrapped reader secret": "A stream's secret half, sealed to one reader.",
    "cap_token": "What an issuer allows one subject: streams, time and rate.",
    "mmr_proof": "The way from a leaf up to the root of a log of a known size.",
    "consistency proof": "That the smaller log is a prefix of the larger one.",
    "range proof": "That these leaves, and no others, stand in a range of the log.",
    "stream item": "A receipt with its message, as /stream serves them.",
    "profile": "The parameters that a MSG names by profile_id.",
    "payload_hdr": "The header inside a message, seen only after opening it.",
    "trust file": "Which hub keys a verifier trusts, signed by the realm's trust key.",
    "CBOR Sequence": "Several objects one after the other.",
    "CBOR": "Canonical CBOR that is no object of the wire.",
}


def read_bytes(data: bytes) -> bytes:
    """Raw bytes, or those written as hex or base64 text."""
    text = data.strip()
    if text and len(text) % 2 == 0:
        try:
            return bytes.fromhex(text.decode("ascii"))
        except ValueError:
            pass
    if text and text[:1] != b"{":
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error:
            pass
    return data


def identify(data: bytes) -> tuple[str, object]:
    """The kind of an object and the object; E.FORMAT when the bytes are not even CBOR."""
    for kind, decode in KINDS.items():
        try:
            return kind, decode(data)
        except VeenError:
            continue
    items = cbor.split_sequence(data, items_max=1_000_000)
    if len(items) > 1:
        return "CBOR Sequence", items
    if not items:
        raise WireError("no bytes")
    return "CBOR", cbor.decode(data)


def sentence(kind: str) -> str:
    """What a kind of object is."""
    return _SENTENCES[kind]


def show(value: object) -> object:
    """Fields as JSON: hashes in hex, nested objects inside."""
    if isinstance(value, bytes):
        return value.hex()
    if is_dataclass(value) and not isinstance(value, type):
        shown = [one.name for one in fields(value) if not one.name.startswith("_")]
        return {name: show(getattr(value, name)) for name in shown}
    if isinstance(value, Mapping):
        return {str(key): show(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [show(item) for item in value]
    return value


def derived(value: object) -> dict[str, str]:
    """Ids that follow from the bytes."""
    if isinstance(value, Msg):
        return {"leaf_hash": value.leaf_hash().hex()}
    if isinstance(value, CapToken):
        return {"auth_ref": value.auth_ref().hex(), "core_id": value.core_id().hex()}
    if isinstance(value, Manifest):
        return {"manifest_id": value.id.hex()}
    return {"profile_id": value.id.hex()} if isinstance(value, Profile) else {}


def diagnostic(value: cbor.Value, indent: int = 0) -> str:
    """CBOR diagnostic notation (RFC 8949 section 8), one item per line."""
    pad = "  " * (indent + 1)
    if isinstance(value, bytes):
        return f"h'{value.hex()}'"
    if value is None or isinstance(value, int):
        return "null" if value is None else str(value).lower()  # True is true in this notation
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, Mapping):
        rows = [
            f"{pad}{diagnostic(key)}: {diagnostic(item, indent + 1)}" for key, item in value.items()
        ]
        return "{\n" + ",\n".join(rows) + "\n" + "  " * indent + "}" if rows else "{}"
    rows = [f"{pad}{diagnostic(item, indent + 1)}" for item in value]
    return "[\n" + ",\n".join(rows) + "\n" + "  " * indent + "]" if rows else "[]"
