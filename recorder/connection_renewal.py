"""A connection file learns what its streams are like now; its key stays [SDR0 3.2.2; wire].

News may come from anywhere: of a stream's reader key only a newer one is taken, and only when the
recorder admin that the file pins signed it. Streams, labels and the capability are those of the
file: a producer gets others with a new key only.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hub import canonical_json, keystore, label
from hub.errors import ErrorCode, VeenError
from hub.types import Label, PublicKey
from hub.wire import readerkey
from hub.wire.readerkey import ReaderKeyRecord
from recorder.connection import Connection, StreamEntry, read_stream
from recorder.json_fields import Fields


def renewed(held: Connection, news: Iterable[StreamEntry]) -> Connection:
    """The connection with newer reader keys, event types and size bounds; raises on a lie."""
    offered = {one.name: one for one in news}
    streams = [
        _renewed(one, offered[one.name], held.recorder_admin_pk) if one.name in offered else one
        for one in held.streams
    ]
    return replace(held, streams=tuple(streams))


def _renewed(held: StreamEntry, offered: StreamEntry, admin: PublicKey) -> StreamEntry:
    if offered.label != held.label:
        detail = f"{held.name} has another label there: it is another hub's"
        raise VeenError(ErrorCode.TRUST, detail)
    record = held.reader_key
    if offered.reader_key.key_id >= record.key_id:
        record = readerkey.accept(
            record,
            offered.reader_key,
            stream_id=label.stream_id(held.name),
            recorder_admin_pk=admin,
        )
    return replace(offered, reader_key=record)


def of_another(held: Connection, found: Connection) -> tuple[StreamEntry, ...]:
    """The streams of a file that an administrator gave, about the same hub."""
    for name in ("hub_id", "recorder_admin_pk"):
        if getattr(held, name) != getattr(found, name):
            raise VeenError(ErrorCode.TRUST, f"the files are of different hubs ({name})")
    return found.streams


def of_rows(rows: Iterable[Mapping[str, Any]]) -> list[StreamEntry]:
    """The streams as the list for administrators shows them, newest key first."""
    return [
        StreamEntry(
            name=one["name"],
            label=Label(bytes.fromhex(one["label"])),
            event_types=tuple(one["event_types"]),
            reader_key=ReaderKeyRecord.decode(b64decode(one["keys"][0]["record"])),
            event_bytes_max=one["event_bytes_max"],
        )
        for one in rows
        if one["keys"]
    ]


def of_published(path: Path) -> list[StreamEntry]:
    """The streams that the author process published for the gateway of the same bundle."""
    fields = Fields.among(canonical_json.parse(keystore.read_private(path)))
    return [read_stream(one, f"/streams/{at}") for at, one in enumerate(fields.items("streams"))]
