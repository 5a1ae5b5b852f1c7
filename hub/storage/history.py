"""Which key signs which part of a log: its first key, rotations and forks [KEX0.1].

A RECEIPT up to the manifest that a rotation record names, or up to the heads that a fork record
names, is by the key before it; later ones are by the key after it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hub.errors import StoreError
from hub.storage import framedfile, manifests
from hub.storage.frames import Damage
from hub.storage.layout import FORMAT_VERSION, Layout
from hub.types import HubId, Label, PublicKey
from hub.wire.rotation import ForkRecord, RotationRecord, decode_record, hub_id_of

Upto = Mapping[Label, int]  # the last stream_seq of each label under one key


def format_bytes(first_pk: PublicKey) -> bytes:
    """What FORMAT holds: the version of the directory and the first key of its log."""
    return json.dumps({"format": FORMAT_VERSION, "hub_pk": first_pk.hex()}).encode() + b"\n"


def read_format(layout: Layout) -> PublicKey:
    """The first key of the log; S.DAMAGE for any other bytes than were written."""
    where = str(layout.format)
    try:
        data = layout.format.read_bytes()
        about = json.loads(data)
        version, first = about["format"], PublicKey(bytes.fromhex(about["hub_pk"]))
    except (OSError, ValueError, KeyError, TypeError) as flaw:
        raise Damage(where, 0, "is not readable") from flaw
    if len(first) != 32 or data != format_bytes(first):
        raise Damage(where, 0, f"is of format {version!r}, or not as it was written")
    return first


@dataclass(slots=True)
class History:
    """The keys of one log, oldest first, and how far each but the last reaches."""

    first_pk: PublicKey
    keys: list[PublicKey] = field(default_factory=list)
    reaches: list[Upto | None] = field(default_factory=list)  # None: its manifest is not readable
    hub_ids: list[HubId] = field(default_factory=list)  # of the log, then of each fork of it

    @property
    def hub_id(self) -> HubId:
        """The log's own name, that of its newest fork if there is one."""
        return self.hub_ids[-1]

    def signers(self, label: Label, seq: int) -> Sequence[PublicKey]:
        """The key of this entry's RECEIPT; every key where the records do not say."""
        for key, upto in zip(self.keys, self.reaches, strict=False):
            if upto is None:
                return self.keys
            if seq <= upto.get(label, 0):
                return (key,)
        return (self.keys[-1],)


def read_history(layout: Layout) -> History:
    """The history that FORMAT, rotations.log and the manifests tell; Damage when they do not."""
    first = read_format(layout)
    history = History(first, [first], [], [hub_id_of(first)])
    for data in framedfile.read_all(layout.rotations):
        record = decode_record(data)
        history.reaches.append(_reach(layout, record))
        history.keys.append(record.new_pk)
        if isinstance(record, ForkRecord):
            history.hub_ids.append(record.hub_id)
    return history


def _reach(layout: Layout, record: RotationRecord | ForkRecord) -> Upto | None:
    if isinstance(record, ForkRecord):
        return {head.label: head.stream_seq for head in record.heads}
    try:
        manifest = manifests.load(layout, record.manifest_id)
    except StoreError:
        return None
    return {item.label_curr: item.upto_seq for item in manifest.checkpoints}
