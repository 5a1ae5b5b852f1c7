from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub import label as labels
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError, WireError
from hub.types import Label, ManifestId, MmrRoot, Signature, StreamSeq, UnixSeconds
from hub.wire.checkpoint import Checkpoint
from hub.wire.manifest import NO_MANIFEST, Manifest
from hub.wire.profile import PRODUCT
from tests.support.memory_log import MemoryLog, numbered_leaves
from tests.support.strategies import bytes32, bytes64, flipped_bits, uint64
from tests.support.vectors import load, unhex

VECTORS = load("manifest_rotation")
DATA = unhex(VECTORS["manifest_cbor"])
CHECKPOINTS_AT = 2 + 34 + 34 + 5 + 34 + 1  # behind head, ver and four fields, and their own head
HUB = SigningKey(unhex(VECTORS["old_seed"]))
STRANGER = SigningKey(bytes(32))
LOG = MemoryLog(numbered_leaves(11))

checkpoints = st.builds(
    Checkpoint,
    label_prev=bytes32,
    label_curr=bytes32,
    upto_seq=uint64.filter(bool),
    mmr_root=bytes32,
    epoch=uint64,
    hub_sig=bytes64,
    witness_sigs=st.lists(bytes64, max_size=2).map(tuple),
)
manifests = st.builds(
    Manifest,
    hub_pk=bytes32,
    profile_id=bytes32,
    created_at=uint64,
    previous=bytes32,
    checkpoints=st.lists(checkpoints, max_size=4, unique_by=lambda item: item.label_curr).map(
        lambda found: tuple(sorted(found, key=lambda item: item.label_curr))
    ),
    sig=bytes64,
)


def checkpoint_of(stream: str, size: int, key: SigningKey = HUB) -> Checkpoint:
    label = labels.derive(unhex(VECTORS["routing_key"]), labels.stream_id(stream))
    return Checkpoint.sign(
        key,
        label_prev=label,
        label_curr=label,
        upto_seq=StreamSeq(size),
        mmr_root=MmrRoot(LOG.roots[size]),
    )


def signed(*found: Checkpoint, key: SigningKey = HUB) -> Manifest:
    return Manifest.sign(
        key, profile_id=PRODUCT.id, created_at=UnixSeconds(1_772_093_456), checkpoints=found
    )


ONE, TWO = (
    checkpoint_of(name, size) for name, size in zip(VECTORS["streams"], (11, 5), strict=True)
)


def test_the_manifest_of_the_vectors_has_exactly_these_bytes() -> None:
    manifest = Manifest.decode(DATA)
    assert manifest.encode() == DATA
    assert manifest.signing_hash().hex() == VECTORS["manifest_signed_digest"]
    assert manifest.id.hex() == VECTORS["manifest_id"]
    manifest.verify(HUB.public)


def test_signing_makes_the_manifest_of_the_vectors() -> None:
    created_at = Manifest.decode(DATA).created_at
    made = Manifest.sign(HUB, profile_id=PRODUCT.id, created_at=created_at, checkpoints=[ONE, TWO])
    assert made.encode() == DATA
    assert made.previous == NO_MANIFEST == bytes(32)


@given(manifests)
def test_a_manifest_decodes_to_itself(manifest: Manifest) -> None:
    assert Manifest.decode(manifest.encode()) == manifest


def test_no_flipped_bit_of_a_manifest_survives() -> None:
    for mutant in flipped_bits(DATA):
        with pytest.raises(VeenError):
            Manifest.decode(mutant).verify(HUB.public)


def test_every_bit_is_in_the_id() -> None:
    manifest = Manifest.decode(DATA)
    other_sig = replace(manifest, sig=Signature(bytes(64)))
    other_previous = replace(manifest, previous=ManifestId(bytes([1]) * 32))
    assert len({manifest.id, other_sig.id, other_previous.id}) == 3


def test_checkpoints_out_of_order_or_twice_are_refused() -> None:
    first, second = Manifest.decode(DATA).checkpoints
    head, end = DATA[:CHECKPOINTS_AT], DATA[-66:]

    def spelled(*found: Checkpoint) -> bytes:
        return head + b"".join(item.encode() for item in found) + end

    assert spelled(first, second) == DATA
    for wrong in (spelled(second, first), spelled(first, first)):
        with pytest.raises(WireError, match="not sorted"):
            Manifest.decode(wrong)


def test_a_manifest_of_another_key_is_not_trusted_though_well_signed() -> None:
    with pytest.raises(VeenError) as refusal:
        signed(checkpoint_of("a/b", 3, STRANGER), key=STRANGER).verify(HUB.public)
    assert refusal.value.code is ErrorCode.TRUST


def test_every_checkpoint_in_it_is_verified() -> None:
    foreign = checkpoint_of("a/b", 3, STRANGER)
    with pytest.raises(VeenError) as refusal:
        signed(ONE, foreign, TWO).verify(HUB.public)
    assert refusal.value.code is ErrorCode.SIG


def test_a_checkpoint_is_found_by_its_label() -> None:
    found = [checkpoint_of(f"record/s{number}", 1 + number % 11) for number in range(20)]
    manifest = signed(*found)
    for checkpoint in found:
        assert manifest.checkpoint(checkpoint.label_curr) == checkpoint
    for absent in (bytes(32), bytes([255]) * 32, ONE.label_curr):
        assert manifest.checkpoint(Label(absent)) is None


def test_a_hub_without_leaves_has_an_empty_manifest() -> None:
    empty = signed()
    assert Manifest.decode(empty.encode()) == empty
    empty.verify(HUB.public)
    assert empty.checkpoint(ONE.label_curr) is None


def test_a_claimed_number_of_checkpoints_is_bounded_by_the_bytes() -> None:
    with pytest.raises(WireError, match="too few bytes"):
        Manifest.decode(
            DATA[: CHECKPOINTS_AT - 1] + b"\x9a\xff\xff\xff\xff" + DATA[CHECKPOINTS_AT:]
        )
