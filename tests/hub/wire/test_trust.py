from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub import mmr
from hub.crypto.hashing import TRUST
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, ProofError, VeenError, WireError
from hub.types import HubId, Label, LeafHash, ManifestId, PublicKey, StreamSeq, UnixSeconds
from hub.wire.checkpoint import Checkpoint
from hub.wire.manifest import Manifest
from hub.wire.profile import PRODUCT
from hub.wire.receipt import Receipt
from hub.wire.rotation import hub_id_of
from hub.wire.trust import (
    TRUST_BYTES_MAX,
    KeyStatus,
    ManifestInclusion,
    TrustedHub,
    TrustedKey,
    TrustFile,
)
from tests.support.memory_log import MemoryLog, numbered_leaves
from tests.support.strategies import flipped_bits, uint64

REALM_KEY = SigningKey(bytes([1]) * 32)
OLD, NEW, STRANGER = (SigningKey(bytes([number]) * 32) for number in (2, 3, 4))
HUB_ID = hub_id_of(OLD.public)
LABEL, OTHER_LABEL = Label(bytes([5]) * 32), Label(bytes([6]) * 32)
LOG = MemoryLog(numbered_leaves(20))


def receipt(seq: int, *, key: SigningKey = OLD, label: Label = LABEL) -> Receipt:
    leaf, root = LeafHash(LOG.leaves[seq - 1]), LOG.roots[seq]
    return Receipt.sign(key, label, StreamSeq(seq), leaf, root, UnixSeconds(1_700_000_000))


def manifest(upto: int, *, key: SigningKey = OLD, label: Label = LABEL) -> Manifest:
    checkpoint = Checkpoint.sign(
        key, label_prev=label, label_curr=label, upto_seq=StreamSeq(upto), mmr_root=LOG.roots[upto]
    )
    return Manifest.sign(
        key, profile_id=PRODUCT.id, created_at=UnixSeconds(1), checkpoints=[checkpoint]
    )


LAST = manifest(11)
ACTIVE = TrustedKey(pk=NEW.public, status=KeyStatus.ACTIVE)
SUPERSEDED = TrustedKey(
    pk=OLD.public,
    status=KeyStatus.SUPERSEDED,
    superseded_by=NEW.public,
    last_manifest_id=LAST.id,
)
REVOKED = TrustedKey(pk=OLD.public, status=KeyStatus.REVOKED, last_manifest_id=LAST.id)
FULLY_REVOKED = TrustedKey(pk=OLD.public, status=KeyStatus.REVOKED)


def trust_of(*keys: TrustedKey, serial: int = 7, realm: str = "example") -> TrustFile:
    return TrustFile(serial=serial, realm=realm, hubs=(TrustedHub(hub_id=HUB_ID, keys=keys),))


TRUSTED = trust_of(SUPERSEDED, ACTIVE)


def inclusion(seq: int, upto: int = 11, found: Manifest = LAST) -> ManifestInclusion:
    return ManifestInclusion(manifest=found, proof=mmr.prove(seq, upto, LOG.node))


def judge_code(
    trust: TrustFile, key: SigningKey, found: Receipt, proof: ManifestInclusion | None = None
) -> ErrorCode:
    with pytest.raises(VeenError) as refusal:
        trust.judge(key.public, found, proof)
    return refusal.value.code


# -- bytes


def test_a_trust_file_is_canonical_json() -> None:
    old, new = OLD.public.hex(), NEW.public.hex()
    keys = (
        f'{{"last_manifest_id":"{LAST.id.hex()}","pk":"{old}","status":"superseded",'
        f'"superseded_by":"{new}"}},{{"pk":"{new}","status":"active"}}'
    )
    hubs = f'[{{"hub_id":"{HUB_ID.hex()}","keys":[{keys}]}}]'
    text = f'{{"hubs":{hubs},"realm":"example","serial":7,"ver":1}}'
    assert TRUSTED.encode() == text.encode()
    assert TrustFile.decode(text.encode()) == TRUSTED


def test_the_signature_is_over_the_tagged_bytes() -> None:
    assert TRUSTED.sign(REALM_KEY) == REALM_KEY.sign(TRUST(TRUSTED.encode()))
    TRUSTED.verify(TRUSTED.sign(REALM_KEY), REALM_KEY.public)


@given(serial=uint64, realm=st.text(min_size=1, max_size=20).filter(str.isprintable))
def test_a_trust_file_decodes_to_itself(serial: int, realm: str) -> None:
    trust = trust_of(SUPERSEDED, ACTIVE, serial=serial, realm=realm)
    assert TrustFile.decode(trust.encode()) == trust


def test_no_flipped_bit_of_a_trust_file_survives() -> None:
    signature = TRUSTED.sign(REALM_KEY)
    for mutant in flipped_bits(TRUSTED.encode()):
        with pytest.raises(VeenError):
            TrustFile.accept(mutant, signature, trust_pk=REALM_KEY.public)
    for mutant in flipped_bits(signature):
        with pytest.raises(VeenError):
            TrustFile.accept(TRUSTED.encode(), mutant, trust_pk=REALM_KEY.public)


def _respelled() -> list[bytes]:
    text = TRUSTED.encode().decode()
    return [
        spelling.encode()
        for spelling in (
            text + "\n",
            " " + text,
            text.replace(":7", ": 7"),
            text.replace(":7", ":7.0"),
            text.replace(":7", ":07"),
            text.replace(":7", ":-1"),
            text.replace(":7", ":true"),
            text.replace(":7", ":18446744073709551616"),
            text.replace(":7", ":NaN"),
            text.replace(":7", ":" + "9" * 5000),
            text.replace('"ver":1', '"ver":2'),
            text.replace('"ver":1', '"ver":1,"x":1'),
            text.replace('"ver":1', '"ver":1,"ver":1'),
            text.replace('"serial":7,', ""),
            text.replace("example", "ex\\u0061mple"),
            text.replace("example", "ex\\ud800mple"),
            text.replace("example", "ex\\u0007mple"),
            text.replace("example", ""),
            text.replace("example", "e" * 129),
            text.replace("active", "trusted"),
            text.replace('"status":"active"', '"status":"active","superseded_by":null'),
            text.replace(HUB_ID.hex(), HUB_ID.hex().upper()),
            text.replace(HUB_ID.hex(), HUB_ID.hex()[:-2]),
            text.replace(f'"{HUB_ID.hex()}"', "5"),
            json.dumps(json.loads(text)),
            json.dumps(json.loads(text), separators=(",", ":"), sort_keys=True)[::-1],
            "[" * 100_000,
            "[]",
            '{"hubs":{},"realm":"example","serial":7,"ver":1}',
            '{"hubs":[[]],"realm":"example","serial":7,"ver":1}',
            '{"hubs":[],"realm":5,"serial":7,"ver":1}',
            "",
        )
    ] + [text.encode("utf-16"), text.encode().replace(b"example", b"\xff")]


@pytest.mark.parametrize("data", _respelled(), ids=lambda data: repr(data[-40:]))
def test_any_other_spelling_is_refused(data: bytes) -> None:
    with pytest.raises(WireError) as refusal:
        TrustFile.decode(data)
    assert refusal.value.code is ErrorCode.FORMAT


def test_a_file_over_the_limit_is_not_read() -> None:
    with pytest.raises(WireError) as refusal:
        TrustFile.decode(b" " * (TRUST_BYTES_MAX + 1))
    assert refusal.value.code is ErrorCode.SIZE


@pytest.mark.parametrize(
    "keys",
    [
        (),
        (ACTIVE, replace(ACTIVE, pk=STRANGER.public)),  # two active keys
        (SUPERSEDED,),  # a successor that is not listed
        (ACTIVE, ACTIVE),
        (replace(SUPERSEDED, superseded_by=OLD.public),),
    ],
)
def test_keys_that_contradict_each_other_are_refused(keys: tuple[TrustedKey, ...]) -> None:
    with pytest.raises(WireError):
        trust_of(*keys)


def test_a_key_or_a_hub_stands_once_in_the_whole_file() -> None:
    hub = TRUSTED.hubs[0]
    for other in (hub, replace(hub, hub_id=HubId(bytes(32)))):
        with pytest.raises(WireError, match="listed twice"):
            replace(TRUSTED, hubs=(hub, other))


def test_status_and_fields_of_a_key_agree() -> None:
    for fields in ({"superseded_by": NEW.public}, {"last_manifest_id": LAST.id}):
        with pytest.raises(WireError):
            TrustedKey(pk=OLD.public, status=KeyStatus.ACTIVE, **fields)
        with pytest.raises(WireError):
            TrustedKey(pk=OLD.public, status=KeyStatus.SUPERSEDED, **fields)


# -- accepting a file


def accept(trust: TrustFile, held: TrustFile | None, key: SigningKey = REALM_KEY) -> TrustFile:
    return TrustFile.accept(trust.encode(), trust.sign(key), trust_pk=REALM_KEY.public, held=held)


def test_a_higher_serial_replaces_the_held_file() -> None:
    for held in (None, TRUSTED, replace(TRUSTED, serial=6)):
        assert accept(TRUSTED, held) == TRUSTED


@pytest.mark.parametrize(
    ("offered", "code"),
    [
        (replace(TRUSTED, serial=6), ErrorCode.TRUST),
        (trust_of(ACTIVE, serial=7), ErrorCode.EQUIVOCATION),
        (trust_of(ACTIVE, serial=8, realm="other"), ErrorCode.TRUST),
    ],
)
def test_an_older_or_contradicting_file_is_refused(offered: TrustFile, code: ErrorCode) -> None:
    with pytest.raises(ProofError) as refusal:
        accept(offered, TRUSTED)
    assert refusal.value.code is code


def test_only_the_realms_trust_key_signs_it() -> None:
    with pytest.raises(VeenError) as refusal:
        accept(TRUSTED, None, STRANGER)
    assert refusal.value.code is ErrorCode.SIG


# -- judging receipts


def test_an_active_key_vouches_for_any_receipt() -> None:
    verdict = TRUSTED.judge(NEW.public, receipt(15, key=NEW))
    assert (verdict.hub_id, verdict.key, verdict.by_manifest) == (HUB_ID, ACTIVE, None)


def test_an_unknown_key_is_never_trusted_on_first_use() -> None:
    assert judge_code(TRUSTED, STRANGER, receipt(1, key=STRANGER)) is ErrorCode.TRUST


def test_a_receipt_under_another_signature_is_refused() -> None:
    assert judge_code(TRUSTED, NEW, receipt(1, key=STRANGER)) is ErrorCode.SIG
    assert judge_code(TRUSTED, OLD, receipt(1, key=NEW), inclusion(1)) is ErrorCode.SIG


@pytest.mark.parametrize("key", [SUPERSEDED, REVOKED])
@pytest.mark.parametrize("seq", [1, 5, 11])
def test_an_old_receipt_counts_with_inclusion_under_the_last_manifest(
    key: TrustedKey, seq: int
) -> None:
    trust = trust_of(key, ACTIVE)
    verdict = trust.judge(OLD.public, receipt(seq), inclusion(seq))
    assert (verdict.key, verdict.by_manifest) == (key, LAST.id)
    assert judge_code(trust, OLD, receipt(seq)) is ErrorCode.TRUST


def test_a_receipt_made_with_the_old_key_after_its_last_manifest_does_not_count() -> None:
    """Whoever stole the key writes any time he likes; the manifest's sizes he cannot change."""
    late = inclusion(12, upto=12)
    assert judge_code(TRUSTED, OLD, receipt(12), late) is ErrorCode.TRUST


@pytest.mark.parametrize(
    "other",
    [manifest(10), manifest(12), manifest(11, key=STRANGER), manifest(11, label=OTHER_LABEL)],
)
def test_another_manifest_than_the_named_one_does_not_count(other: Manifest) -> None:
    assert judge_code(TRUSTED, OLD, receipt(5), inclusion(5, found=other)) is ErrorCode.TRUST


def test_a_label_that_the_manifest_leaves_out_does_not_count() -> None:
    elsewhere = receipt(5, label=OTHER_LABEL)
    assert judge_code(TRUSTED, OLD, elsewhere, inclusion(5)) is ErrorCode.TRUST


def test_a_receipt_beside_the_proof_of_another_leaf_does_not_count() -> None:
    assert judge_code(TRUSTED, OLD, receipt(5), inclusion(6)) is ErrorCode.PROOF
    forged = replace(receipt(5), leaf_hash=LeafHash(LOG.leaves[5]))
    signed = replace(forged, hub_sig=OLD.sign(forged.signing_hash()))
    assert judge_code(TRUSTED, OLD, signed, inclusion(6)) is ErrorCode.PROOF


def test_a_manifest_signed_by_another_key_does_not_count_though_it_is_named() -> None:
    foreign = manifest(11, key=STRANGER)
    trust = trust_of(replace(SUPERSEDED, last_manifest_id=ManifestId(foreign.id)), ACTIVE)
    assert judge_code(trust, OLD, receipt(5), inclusion(5, found=foreign)) is ErrorCode.TRUST


def test_a_revoked_key_without_manifest_vouches_for_nothing() -> None:
    trust = trust_of(FULLY_REVOKED, ACTIVE)
    assert judge_code(trust, OLD, receipt(5), inclusion(5)) is ErrorCode.TRUST


def test_a_key_is_found_in_any_hub() -> None:
    other = TrustedHub(
        hub_id=hub_id_of(STRANGER.public),
        keys=(TrustedKey(pk=PublicKey(STRANGER.public), status=KeyStatus.ACTIVE),),
    )
    trust = replace(TRUSTED, hubs=(*TRUSTED.hubs, other))
    assert trust.judge(STRANGER.public, receipt(1, key=STRANGER)).hub_id == other.hub_id
