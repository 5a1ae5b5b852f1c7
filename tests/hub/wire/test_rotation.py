from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError, WireError
from hub.types import (
    HubId,
    Label,
    ManifestId,
    MmrRoot,
    PublicKey,
    Signature,
    StreamSeq,
    UnixSeconds,
)
from hub.wire.checkpoint import Checkpoint
from hub.wire.manifest import Manifest
from hub.wire.rotation import (
    ForkHead,
    ForkRecord,
    RotationRecord,
    decode_record,
    follow,
    hub_id_of,
)
from tests.support.strategies import bytes32, bytes64, flipped_bits, uint64
from tests.support.vectors import Section, load, unhex

VECTORS = load("manifest_rotation")
ROTATION, FORK = unhex(VECTORS["rotation_cbor"]), unhex(VECTORS["fork_cbor"])
OLD, NEW = SigningKey(unhex(VECTORS["old_seed"])), SigningKey(unhex(VECTORS["new_seed"]))
KEYS = [SigningKey(bytes([number]) * 32) for number in range(1, 6)]
HUB_ID = hub_id_of(KEYS[0].public)
MANIFEST_ID = ManifestId(bytes([9]) * 32)

rotations = st.builds(
    RotationRecord,
    hub_id=bytes32, old_pk=bytes32, new_pk=bytes32, ts=uint64, manifest_id=bytes32,
    old_sig=bytes64, new_sig=bytes64,
)  # fmt: skip
forks = st.builds(
    ForkRecord,
    hub_id=bytes32,
    parent_hub_id=bytes32,
    new_pk=bytes32,
    ts=uint64,
    heads=st.lists(
        st.builds(ForkHead, bytes32, uint64.filter(bool), bytes32),
        max_size=4,
        unique_by=lambda head: head.label,
    ).map(lambda found: tuple(sorted(found))),
    sig=bytes64,
)


def rotation(old: SigningKey, new: SigningKey, **fields: object) -> RotationRecord:
    chosen = {"hub_id": HUB_ID, "ts": 1, "manifest_id": MANIFEST_ID, **fields}
    return RotationRecord.sign(old, new, **chosen)  # type: ignore[arg-type]


CHAIN = [rotation(old, new) for old, new in pairwise(KEYS)]


def follow_code(
    records: Sequence[RotationRecord], pinned: PublicKey = KEYS[0].public, **given: object
) -> ErrorCode:
    with pytest.raises(VeenError) as refusal:
        follow(pinned, HUB_ID, records, **given)  # type: ignore[arg-type]
    return refusal.value.code


# -- rotation records


def test_the_rotation_record_of_the_vectors_has_exactly_these_bytes() -> None:
    record = RotationRecord.decode(ROTATION)
    assert record.encode() == ROTATION
    assert record.signing_hash().hex() == VECTORS["rotation_signed_digest"]
    assert record.hub_id.hex() == VECTORS["hub_id"]
    assert record.manifest_id.hex() == VECTORS["manifest_id"]
    record.verify()


def test_signing_makes_the_rotation_record_of_the_vectors() -> None:
    assert (OLD.public.hex(), NEW.public.hex()) == (VECTORS["old_pk"], VECTORS["new_pk"])
    made = RotationRecord.sign(
        OLD,
        NEW,
        hub_id=hub_id_of(OLD.public),
        ts=RotationRecord.decode(ROTATION).ts,
        manifest_id=Manifest.decode(unhex(VECTORS["manifest_cbor"])).id,
    )
    assert made.encode() == ROTATION


@pytest.mark.parametrize("vector", VECTORS["must_fail"], ids=lambda vector: vector["name"])
def test_a_rotation_record_that_must_fail_does(vector: Section) -> None:
    record = RotationRecord.decode(unhex(vector["rotation_cbor"]))
    with pytest.raises(VeenError) as refusal:
        record.verify()
    assert refusal.value.code is ErrorCode.SIG
    with pytest.raises(VeenError):
        follow(OLD.public, hub_id_of(OLD.public), [record])


def test_a_rotation_forged_from_a_public_checkpoint_is_refused() -> None:
    """CHECKPOINTs of the window carry both keys' signatures, over another digest."""
    checkpoint = Checkpoint.sign(
        KEYS[0],
        label_prev=Label(bytes(32)),
        label_curr=Label(bytes(32)),
        upto_seq=StreamSeq(1),
        mmr_root=MmrRoot(bytes(32)),
        witnesses=KEYS[:2],
    )
    old_sig, new_sig = checkpoint.witness_sigs
    forged = replace(CHAIN[0], old_sig=old_sig, new_sig=new_sig)
    assert follow_code([forged]) is ErrorCode.SIG


@given(rotations)
def test_a_rotation_record_decodes_to_itself(record: RotationRecord) -> None:
    assert RotationRecord.decode(record.encode()) == record
    assert decode_record(record.encode()) == record


def test_no_flipped_bit_of_a_rotation_record_survives() -> None:
    for mutant in flipped_bits(ROTATION):
        with pytest.raises(VeenError):
            RotationRecord.decode(mutant).verify()


def test_a_rotation_to_the_same_key_is_refused() -> None:
    with pytest.raises(VeenError) as refusal:
        rotation(KEYS[0], KEYS[0]).verify()
    assert refusal.value.code is ErrorCode.TRUST


# -- following them


@pytest.mark.parametrize("pinned", range(5))
def test_a_client_follows_the_records_from_the_key_it_pinned(pinned: int) -> None:
    expected = [key.public for key in KEYS[pinned:]]
    assert follow(KEYS[pinned].public, HUB_ID, CHAIN) == expected
    assert follow(KEYS[pinned].public, HUB_ID, CHAIN[::-1]) == expected


def test_without_records_the_pinned_key_stays() -> None:
    assert follow(KEYS[0].public, HUB_ID, []) == [KEYS[0].public]


def test_the_same_record_twice_is_one_record() -> None:
    assert len(follow(KEYS[0].public, HUB_ID, CHAIN + CHAIN)) == 5


def test_a_gap_ends_the_walk() -> None:
    assert follow(KEYS[0].public, HUB_ID, [CHAIN[0], CHAIN[2]]) == [k.public for k in KEYS[:2]]


def test_a_record_of_another_hub_is_not_followed() -> None:
    foreign = rotation(KEYS[0], KEYS[1], hub_id=HubId(bytes(32)))
    assert follow_code([foreign]) is ErrorCode.TRUST
    assert follow_code([CHAIN[0], foreign]) is ErrorCode.TRUST


@pytest.mark.parametrize("field", ["old_sig", "new_sig"])
def test_a_record_without_both_signatures_is_not_followed(field: str) -> None:
    broken = replace(CHAIN[1], **{field: Signature(bytes(64))})  # type: ignore[arg-type]
    assert follow_code([CHAIN[0], broken]) is ErrorCode.SIG


@pytest.mark.parametrize(
    "second",
    [rotation(KEYS[1], KEYS[4]), rotation(KEYS[1], KEYS[2], ts=2),
     rotation(KEYS[1], KEYS[2], manifest_id=ManifestId(bytes(32)))],
)  # fmt: skip
def test_two_records_of_one_old_key_are_equivocation(second: RotationRecord) -> None:
    assert follow_code([*CHAIN, second]) is ErrorCode.EQUIVOCATION
    assert follow_code([second, *CHAIN]) is ErrorCode.EQUIVOCATION


def test_equivocation_is_not_charged_on_a_forged_second_record() -> None:
    forged = replace(rotation(KEYS[1], KEYS[4]), new_sig=Signature(bytes(64)))
    assert follow_code([*CHAIN, forged]) is ErrorCode.SIG


def test_a_revoked_key_hands_nothing_over() -> None:
    assert follow_code(CHAIN, revoked={KEYS[2].public}) is ErrorCode.TRUST
    before = follow(KEYS[0].public, HUB_ID, CHAIN[:2], revoked={KEYS[2].public})
    assert before == [key.public for key in KEYS[:3]]


def test_a_circle_of_rotations_is_refused() -> None:
    assert follow_code([*CHAIN[:2], rotation(KEYS[2], KEYS[0])]) is ErrorCode.TRUST


# -- fork records


def test_the_fork_record_of_the_vectors_has_exactly_these_bytes() -> None:
    record = ForkRecord.decode(FORK)
    assert record.encode() == FORK
    assert record.hub_id.hex() == VECTORS["fork_hub_id"]
    assert record.parent_hub_id.hex() == VECTORS["hub_id"]
    record.verify()
    manifest = Manifest.decode(unhex(VECTORS["manifest_cbor"]))
    heads = [(item.label_curr, item.upto_seq, item.mmr_root) for item in manifest.checkpoints]
    assert list(record.heads) == heads
    made = ForkRecord.sign(
        NEW, parent_hub_id=record.parent_hub_id, ts=record.ts, heads=reversed(heads)
    )
    assert made == record


@given(forks)
def test_a_fork_record_decodes_to_itself(record: ForkRecord) -> None:
    assert ForkRecord.decode(record.encode()) == record
    assert decode_record(record.encode()) == record


def test_no_flipped_bit_of_a_fork_record_survives() -> None:
    for mutant in flipped_bits(FORK):
        with pytest.raises(VeenError):
            ForkRecord.decode(mutant).verify()


def _fork(*heads: tuple[bytes, int]) -> ForkRecord:
    found = [ForkHead(Label(name), StreamSeq(seq), MmrRoot(bytes(32))) for name, seq in heads]
    return ForkRecord.sign(KEYS[1], parent_hub_id=HUB_ID, ts=UnixSeconds(1), heads=found)


def test_a_forks_hub_id_is_that_of_its_own_first_key() -> None:
    record = replace(_fork(), hub_id=HubId(bytes(32)))
    stolen = replace(record, sig=KEYS[1].sign(record.signing_hash()))
    with pytest.raises(VeenError) as refusal:
        stolen.verify()
    assert refusal.value.code is ErrorCode.TRUST


def test_a_fork_is_not_its_own_parent() -> None:
    own = ForkRecord.sign(KEYS[0], parent_hub_id=HUB_ID, ts=UnixSeconds(1), heads=[])
    with pytest.raises(VeenError) as refusal:
        own.verify()
    assert refusal.value.code is ErrorCode.TRUST


def test_heads_are_sorted_and_each_label_stands_once() -> None:
    one, two = bytes([1]) * 32, bytes([2]) * 32
    record = _fork((two, 1), (one, 3))
    assert [head.label for head in record.heads] == [one, two]
    with pytest.raises(WireError, match="not sorted"):
        replace(record, heads=record.heads[::-1])
    with pytest.raises(WireError, match="not sorted"):
        _fork((one, 1), (one, 2))


def test_a_head_of_an_empty_label_is_refused() -> None:
    with pytest.raises(WireError, match="sequence 0"):
        ForkRecord.decode(_fork((bytes(32), 0)).encode())


@pytest.mark.parametrize("data", [b"", b"\x86", b"\x89", ROTATION[:-1], FORK + b"\x00", b"\xa0"])
def test_an_item_that_is_neither_record_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        decode_record(data)
