"""Writes the file that a producer or reader starts from, out of an act's result [interfaces]."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path
from typing import Any

from hub import keystore
from hub.types import HubId, Label, PublicKey
from hub.wire.captoken import CapToken
from hub.wire.readerkey import ReaderKeyRecord
from recorder.connection import Connection, ProducerKey, StreamEntry


def write(path: Path, result: dict[str, Any], producer: ProducerKey | None = None) -> None:
    """Mode 0600, and only if everything in it verifies: a Connection checks itself."""
    keystore.write_private(path, connection_of(result, producer).render())


def connection_of(result: dict[str, Any], producer: ProducerKey | None = None) -> Connection:
    """What an act's result says, checked; without the producer's key it is a reader's."""
    token = None if producer is None else CapToken.decode(b64decode(result["cap_token"]))
    return Connection(
        hub_url=result["hub_url"],
        hub_pk=PublicKey(bytes.fromhex(result["hub_pk"])),
        hub_id=HubId(bytes.fromhex(result["hub_id"])),
        trust_pk=PublicKey(bytes.fromhex(result["trust_pk"])),
        recorder_admin_pk=PublicKey(bytes.fromhex(result["recorder_admin_pk"])),
        web_url=result["web_url"],
        gateway_url=result.get("gateway_url"),
        producer=producer,
        cap_token=token,
        streams=tuple(
            StreamEntry(
                name=one["name"],
                label=Label(bytes.fromhex(one["label"])),
                event_types=tuple(one["event_types"]),
                reader_key=ReaderKeyRecord.decode(b64decode(one["reader_key"])),
                event_bytes_max=one["event_bytes_max"],
            )
            for one in result["streams"]
        ),
    )
