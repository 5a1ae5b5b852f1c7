"""Cursors: what the writer must know of each label to admit and append in O(1) [SSOT 3.4.1]."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import cbor2

from hub.admission.rate import Bucket
from hub.storage import frames
from hub.storage.disk import Disk
from hub.types import AuthRef, ClientId, Label, LeafHash, ProfileId
from hub.wire.msg import SIG_ITEM_BYTES, Msg, heads_at

SNAPSHOT_VERSION: Final = 1


@dataclass(slots=True)
class LabelState:
    """The append cursor of one label. Peaks are highest first, so that a merge pops the end."""

    label: Label
    size: int = 0
    peaks: list[bytes] = field(default_factory=list)
    last_ts: int = 0
    # The last (client_seq, prev_ack) of each client_id: enough for I6, I8 and I9.
    clients: dict[ClientId, tuple[int, int]] = field(default_factory=dict)
    buckets: dict[bytes, Bucket] = field(default_factory=dict)  # by capability core
    epoch: int = 0
    label_prev: Label | None = None  # the same stream's label of an earlier epoch


@dataclass(slots=True)
class LogState:
    """All cursors, true at one position of the log."""

    segment: int = 0
    offset: int = 0
    entries: int = 0
    labels: dict[Label, LabelState] = field(default_factory=dict)


@dataclass(slots=True)
class Entry:
    """One MSG on its way into the log."""

    msg: bytes
    leaf: LeafHash
    profile_id: ProfileId
    label: Label
    client_id: ClientId
    client_seq: int
    prev_ack: int
    auth_ref: AuthRef | None
    ciphertext_bytes: int
    hub_ts: int = 0  # set when it is admitted

    @classmethod
    def of(cls, data: bytes, leaf: LeafHash) -> Entry:
        """From the bytes of a MSG; E.FORMAT when they are none."""
        found = heads_at(data, 0)
        if found is None or found[-1] + SIG_ITEM_BYTES != len(data):
            msg = Msg.decode(data)
            fields = (msg.profile_id, msg.label, msg.client_id, msg.client_seq, msg.prev_ack)
            return cls(data, leaf, *fields, msg.auth_ref, len(msg.ciphertext))
        profile_id, label, client_id, client_seq, prev_ack, auth_ref, _, start, end = found
        fields = (profile_id, label, client_id, client_seq, prev_ack)
        return cls(data, leaf, *fields, auth_ref, end - start)


class Tentative:
    """A label as the current batch would leave it; thrown away when the batch fails."""

    __slots__ = ("base", "buckets", "clients", "entries", "epoch", "label_prev", "last_ts", "size")

    def __init__(self, base: LabelState) -> None:
        self.base = base
        self.size = base.size
        self.last_ts = base.last_ts
        self.epoch = base.epoch
        self.label_prev = base.label_prev
        self.clients: dict[ClientId, tuple[int, int]] = {}
        self.buckets: dict[bytes, Bucket] = {}
        self.entries: list[Entry] = []

    def client(self, client_id: ClientId) -> tuple[int, int]:
        """The last (client_seq, prev_ack) of a client, zeros before its first message."""
        return self.clients.get(client_id) or self.base.clients.get(client_id) or (0, 0)

    def bucket(self, core: bytes) -> Bucket | None:
        """The bucket of a capability core on this label."""
        return self.buckets.get(core) or self.base.buckets.get(core)

    def add(self, entry: Entry) -> None:
        """Take one admitted entry."""
        self.size += 1
        self.last_ts = entry.hub_ts
        self.clients[entry.client_id] = (entry.client_seq, entry.prev_ack)
        self.entries.append(entry)

    def install(self, peaks: list[bytes]) -> None:
        """Make it so: the batch is durable."""
        base = self.base
        base.size = self.size
        base.peaks = peaks
        base.last_ts = self.last_ts
        base.epoch = self.epoch
        base.label_prev = self.label_prev
        base.clients.update(self.clients)
        base.buckets.update(self.buckets)


def write_snapshot(path: Path, state: LogState, disk: Disk) -> None:
    """Keep the cursors beside the position they are true at, whole or not at all."""
    body: list[Any] = [SNAPSHOT_VERSION, state.segment, state.offset, state.entries]
    body.append(
        [
            [
                label.label,
                label.size,
                label.peaks,
                label.last_ts,
                [[client, *last] for client, last in label.clients.items()],
                [[core, bucket.tokens, bucket.at] for core, bucket in label.buckets.items()],
                label.epoch,
                label.label_prev,
            ]
            for label in state.labels.values()
        ]
    )
    data = frames.MAGIC + frames.frame(frames.RECORD, cbor2.dumps(body))
    disk.write_atomic(path, data)


def read_snapshot(path: Path) -> LogState | None:
    """The last snapshot; None when there is none or it is damaged, because the log has it all."""
    try:
        data = path.read_bytes()
        payload = frames.read_frame(data, len(frames.MAGIC), str(path)).payload
        version, segment, offset, entries, rows = cbor2.loads(payload)
        if version != SNAPSHOT_VERSION:
            return None
        labels = [_label(row) for row in rows]
    except (OSError, frames.Damage, cbor2.CBORDecodeError, ValueError, TypeError):
        return None
    return LogState(segment, offset, entries, {label.label: label for label in labels})


def _label(row: list[Any]) -> LabelState:
    label, size, peaks, last_ts, clients, buckets, epoch, label_prev = row
    return LabelState(
        label=Label(label),
        size=size,
        peaks=list(peaks),
        last_ts=last_ts,
        clients={ClientId(client): (seq, ack) for client, seq, ack in clients},
        buckets={core: Bucket(tokens=tokens, at=at) for core, tokens, at in buckets},
        epoch=epoch,
        label_prev=None if label_prev is None else Label(label_prev),
    )
