"""Events as a replay gives them, read back as rows of the log with their RECEIPTs [SDR0 3.2.5]."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

from hub import canonical_json
from hub.canonical_json import JsonError, Value
from hub.errors import ProofError, WireError
from hub.types import HubId, StreamSeq
from hub.wire.msg import Msg
from hub.wire.receipt import Receipt
from recorder.event import parse_time
from recorder.projection import Row, RowError, receipt_id


def read_events(path: Path, hub_ids: dict[str, HubId]) -> Iterator[tuple[Row, bytes]]:
    """Each event of an NDJSON file of `veen recorder replay --json`; E.FORMAT names a bad line."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                found = canonical_json.parse(line, depth_max=canonical_json.DEPTH_MAX + 1)
                if isinstance(found, dict) and "end" in found:
                    continue
                yield _event(found, hub_ids)
            except (JsonError, KeyError, TypeError, ValueError, binascii.Error) as flaw:
                raise WireError(f"{path.name} line {number}: {flaw}") from flaw


def _event(found: Value, hub_ids: dict[str, HubId]) -> tuple[Row, bytes]:
    if not isinstance(found, dict):
        raise TypeError("not an event")
    data = b64decode(str(found["receipt"]), validate=True)
    receipt = Receipt.decode(data)
    error = found["error"]
    stream = str(found["stream"])
    row = Row(
        stream=stream,
        hub_commit_seq=StreamSeq(_integer(found["hub_commit_seq"])),
        hub_commit_time=parse_time(str(found["hub_commit_time"])),
        subject_id=_text(found["subject_id"]),
        principal_id=str(found["principal_id"]),
        event_type=_text(found["event_type"]),
        event_time=None if found["event_time"] is None else parse_time(str(found["event_time"])),
        origin=_text(found["origin"]),
        payload_text=None if error else canonical_json.encode_text(found["payload"]),
        error=None if error is None else RowError(str(error)),
        receipt_id=str(found["receipt_id"]),
        leaf_hash=receipt.leaf_hash,
        mmr_root=receipt.mmr_root,
        hub_id=hub_ids[stream],
    )
    if row.receipt_id != receipt_id(receipt.leaf_hash):
        raise ValueError("receipt_id is not that of the receipt")
    if found.get("msg") is not None:
        _check_message(row, receipt, b64decode(str(found["msg"]), validate=True))
    return row, data


def _check_message(row: Row, receipt: Receipt, data: bytes) -> None:
    """Where the message itself came with it: it is the one of the receipt, and its author's."""
    msg = Msg.decode(data)
    msg.check_ct_hash()
    where = f"{row.stream} {row.hub_commit_seq}"
    if (msg.label, msg.leaf_hash()) != (receipt.label, receipt.leaf_hash):
        raise ProofError(f"{where}: the receipt is for another message")
    msg.verify()
    if msg.client_id.hex() != row.principal_id:
        raise ProofError(f"{where}: another key signed the message")


def _text(value: Value) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise TypeError("not text")


def _integer(value: Value) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise TypeError("not a sequence")
