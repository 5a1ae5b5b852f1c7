"""The keys of a pack's log, oldest first, as its rotation records lead through them [KEX0.1].

Stricter than following records from a pinned key: a pack carries exactly the records of its log,
so every one must belong, in order, from the key that gives hub_id its name.
"""

from __future__ import annotations

from dataclasses import dataclass

from hub.errors import ErrorCode, ProofError
from hub.types import PublicKey
from hub.verify import Pins
from hub.wire.manifest import Manifest
from hub.wire.rotation import RotationRecord, hub_id_of
from recorder.evidence.pack import Pack


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The keys of one log; each handed it over to the next."""

    keys: tuple[PublicKey, ...]
    records: tuple[RotationRecord, ...]

    def pins(self) -> Pins:
        """What a verifier trusts who trusts any one of these keys."""
        return Pins(
            active=frozenset({self.keys[-1]}),
            ended={record.old_pk: record.manifest_id for record in self.records},
        )


def read_chain(pack: Pack, manifest: Manifest | None) -> Chain:
    """The chain, or V.TRUST when a record does not belong to this log."""
    if manifest is None:
        raise ProofError("the manifest is not readable, so nobody says who signed", ErrorCode.TRUST)
    records = tuple([RotationRecord.decode(data) for data in pack.rotations])
    keys = [records[0].old_pk if records else manifest.hub_pk]
    for record in records:
        if record.hub_id != pack.hub_id:
            raise ProofError("a rotation record is of another log", ErrorCode.TRUST)
        if record.old_pk != keys[-1] or record.new_pk in keys:
            raise ProofError("a rotation record does not follow the one before", ErrorCode.TRUST)
        record.verify()
        keys.append(record.new_pk)
    if hub_id_of(keys[0]) != pack.hub_id:
        raise ProofError("hub_id is not that of the log's first key", ErrorCode.TRUST)
    if manifest.hub_pk not in keys:
        raise ProofError("the manifest is by no key of this log", ErrorCode.TRUST)
    return Chain(keys=tuple(keys), records=records)
