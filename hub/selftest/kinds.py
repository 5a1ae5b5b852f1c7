"""Every decoder of the wire with valid bytes of it, for the laws and for the fuzzer [SSOT 3.1].

A kind says how its bytes are read, how the value is spelled again, and who vouches for each bit.
All keys are fixed, so that a seed of the fuzzer means the same inputs everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from hub import mmr
from hub.admission.form import check_form
from hub.admission.records import AdmissionRecord, ControlRecord, Revocation, RevocationKind
from hub.crypto.hashing import h
from hub.errors import WireError
from hub.selftest.specimens import (
    HUB,
    HUB_2,
    ISSUER,
    LABEL,
    READER,
    T,
    capability,
    checkpoint,
    fork,
    hashes,
    manifest,
    memory_log,
    message,
    reader_key,
    receipt,
    rotation,
    trust_file,
    wrapped_secret,
)
from hub.types import (
    AuthRef,
    Hash,
    LeafHash,
    MmrRoot,
)
from hub.wire.captoken import CapToken, Rate
from hub.wire.checkpoint import Checkpoint
from hub.wire.manifest import Manifest
from hub.wire.msg import Msg
from hub.wire.payload import PayloadHeader
from hub.wire.profile import DEFAULT_PROFILES, Profile
from hub.wire.proof import ConsistencyProof, MmrProof, RangeProof
from hub.wire.readerkey import ReaderKeyRecord, WrappedReaderSecret
from hub.wire.receipt import Receipt
from hub.wire.rotation import ForkRecord, RotationRecord, decode_record
from hub.wire.trust import TrustFile

_PROFILES: Final = {profile.id: profile for profile in DEFAULT_PROFILES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One decoder."""

    name: str
    seeds: tuple[bytes, ...]
    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes] | None = None  # the only spelling of what decode gave
    verify: Callable[[Any], object] | None = None  # raises unless every bit is vouched for


class _Encodes(Protocol):
    def encode(self) -> bytes: ...


def _encoded(value: _Encodes) -> bytes:
    return value.encode()


def wire_kinds() -> list[Kind]:
    """The objects of the core, each with its signer."""
    auth_ref = AuthRef(h(b"auth"))
    messages = [message(1), message(300, auth_ref=auth_ref), message(7, body=bytes(2000))]
    return [
        Kind(
            name="msg",
            seeds=tuple(one.encode() for one in messages),
            decode=Msg.decode,
            encode=lambda msg: replace(msg).encode(),  # without the received bytes it kept
            verify=lambda msg: (msg.check_ct_hash(), msg.verify()),
        ),
        Kind(
            name="admission_form",
            seeds=tuple(one.encode() for one in messages),
            decode=lambda data: check_form(data, _PROFILES),
            verify=lambda msg: msg.verify(),
        ),
        Kind(
            name="receipt",
            seeds=(receipt().encode(), receipt(2**40).encode()),
            decode=Receipt.decode,
            encode=_encoded,
            verify=lambda one: one.verify(HUB.public),
        ),
        Kind(
            name="checkpoint",
            seeds=(checkpoint().encode(), checkpoint(witnesses=2).encode()),
            decode=Checkpoint.decode,
            encode=_encoded,
            verify=_verify_checkpoint,
        ),
        Kind(
            name="payload_hdr",
            seeds=tuple(one.encode() for one in _headers()),
            decode=PayloadHeader.decode,
            encode=_encoded,
        ),
        Kind(
            name="profile",
            seeds=tuple(one.encode() for one in DEFAULT_PROFILES),
            decode=Profile.decode,
            encode=_encoded,
            verify=_verify_profile,
        ),
        Kind(
            name="cap_token",
            seeds=(
                capability().encode(),
                capability(3, rate=Rate(per_sec=10, burst=100)).encode(),
            ),
            decode=CapToken.decode,
            encode=_encoded,
            verify=lambda token: token.verify_chain(),
        ),
        *_trust_kinds(),
        *_proof_kinds(),
    ]


def _verify_checkpoint(found: Checkpoint) -> None:
    found.verify(HUB.public)
    found.verify_witnesses((HUB.public, HUB_2.public)[: len(found.witness_sigs)])


def _verify_profile(found: Profile) -> None:
    if found.id not in _PROFILES:
        raise WireError("another profile_id")


def _headers() -> list[PayloadHeader]:
    one, two, three, four = hashes(4)
    return [
        PayloadHeader(schema=one),
        PayloadHeader(
            schema=one,
            parent_id=LeafHash(two),
            att_root=three,
            cap_ref=AuthRef(four),
            expires_at=T,
        ),
    ]


def _trust_kinds() -> list[Kind]:
    trust = trust_file()
    signature = trust.sign(ISSUER)
    return [
        Kind(
            name="manifest",
            seeds=(manifest().encode(), manifest(0).encode()),
            decode=Manifest.decode,
            encode=_encoded,
            verify=lambda one: one.verify(HUB.public),
        ),
        Kind(
            name="rotation",
            seeds=(rotation().encode(),),
            decode=RotationRecord.decode,
            encode=_encoded,
            verify=lambda one: one.verify(),
        ),
        Kind(
            name="fork",
            seeds=(fork().encode(),),
            decode=ForkRecord.decode,
            encode=_encoded,
            verify=lambda one: one.verify(),
        ),
        Kind(
            name="rotation_or_fork",
            seeds=(rotation().encode(), fork().encode()),
            decode=decode_record,
            encode=_encoded,
            verify=lambda one: one.verify(),
        ),
        Kind(
            name="reader_key",
            seeds=(reader_key().encode(),),
            decode=ReaderKeyRecord.decode,
            encode=_encoded,
            verify=lambda one: one.verify(ISSUER.public),
        ),
        Kind(
            name="wrapped_secret",
            seeds=(wrapped_secret().encode(),),
            decode=WrappedReaderSecret.decode,
            encode=_encoded,
            verify=lambda one: one.unwrap(READER.secret),
        ),
        Kind(
            name="trust_file",
            seeds=(trust.encode(),),
            decode=TrustFile.decode,
            encode=_encoded,
            verify=lambda one: one.verify(signature, ISSUER.public),
        ),
    ]


def _proof_kinds() -> list[Kind]:
    leaves = hashes(11)
    node, roots = memory_log(leaves)
    return [
        Kind(
            name="mmr_proof",
            seeds=(mmr.prove(6, 11, node).encode(),),
            decode=MmrProof.decode,
            encode=_encoded,
            verify=lambda one: one.verify(stream_seq=6, mmr_size=11, root=roots[10]),
        ),
        Kind(
            name="consistency_proof",
            seeds=(mmr.prove_consistency(7, 11, node).encode(),),
            decode=ConsistencyProof.decode,
            encode=_encoded,
            verify=lambda one: one.verify(roots[6], roots[10], from_size=7, to_size=11),
        ),
        Kind(
            name="range_proof",
            seeds=(mmr.prove_range(4, 6, 11, node).encode(),),
            decode=RangeProof.decode,
            encode=_encoded,
            verify=lambda one: _verify_range(one, leaves, roots[10]),
        ),
    ]


def _verify_range(proof: RangeProof, leaves: list[Hash], root: MmrRoot) -> None:
    # The caller asked for 4..6 of 11, so a proof that speaks of other leaves does not answer it.
    if (proof.first, proof.last, proof.size) != (4, 6, 11):
        raise WireError("the proof is for another range")
    proof.verify([LeafHash(leaf) for leaf in leaves[3:6]], root)


def record_kinds() -> list[Kind]:
    """Bodies of hub/admission: sealed and signed by the MSG around them, not by themselves."""
    token = capability(2)
    revocations = (
        Revocation(kind=RevocationKind.CLIENT_ID, target=Hash(h(b"c")), ts=T),
        Revocation(kind=RevocationKind.AUTH_REF, target=Hash(h(b"a")), ts=T, reason="left", ttl=60),
    )
    act = ControlRecord(
        verb="prune", detail={"label": LABEL, "before": 7, "why": ["old", {"n": -3}]}, ts=T
    )
    return [
        Kind(
            name="admission_record",
            seeds=(AdmissionRecord.of(token).encode(),),
            decode=AdmissionRecord.decode,
            encode=_encoded,
            verify=lambda record: record,  # auth_ref names the token, which decode checks
        ),
        Kind(
            name="revocation",
            seeds=tuple(one.encode() for one in revocations),
            decode=Revocation.decode,
            encode=_encoded,
        ),
        Kind(
            name="control_record",
            seeds=(act.encode(),),
            decode=ControlRecord.decode,
            encode=_encoded,
        ),
    ]
