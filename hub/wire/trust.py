"""The trust file: which hub keys a verifier pins, signed by the realm's trust key [wire, Trust].

Canonical JSON (keys in UTF-8 byte order, no whitespace, hashes in lower-case hex):
{hubs: [{hub_id, keys: [{last_manifest_id?, pk, status, superseded_by?}]}], realm, serial, ver}.
The signature is over Ht("veen/trust", bytes) and stands beside the file. Rules:
- an active key vouches for any receipt; it is the newest of its hub, and there is at most one;
- a superseded or revoked key only for receipts included under its last_manifest_id; times do not
  count, because the key's holder writes them;
- a serial below the held one is never accepted, and two files of one serial are equivocation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from hub import canonical_json
from hub.canonical_json import Value
from hub.crypto import hashing, signing
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, ProofError, WireError
from hub.types import UINT64_MAX, HubId, ManifestId, PublicKey, Signature
from hub.wire.manifest import Manifest
from hub.wire.proof import MmrProof
from hub.wire.receipt import Receipt

VER: Final = 1
TRUST_BYTES_MAX: Final = 1_048_576
REALM_BYTES_MAX: Final = 128
_HEX_DIGITS: Final = frozenset("0123456789abcdef")


class KeyStatus(StrEnum):
    """What a key may still vouch for."""

    ACTIVE = "active"
    SUPERSEDED = "superseded"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedKey:
    """One key a hub has or had."""

    pk: PublicKey
    status: KeyStatus
    superseded_by: PublicKey | None = None
    last_manifest_id: ManifestId | None = None

    def __post_init__(self) -> None:
        named = self.superseded_by is not None, self.last_manifest_id is not None
        if self.status is KeyStatus.ACTIVE and any(named):
            raise WireError("an active key has no successor and no last manifest")
        if self.status is KeyStatus.SUPERSEDED and not all(named):
            raise WireError("a superseded key names its successor and its last manifest")

    def to_json(self) -> dict[str, Value]:
        """Absent fields are omitted."""
        found: dict[str, Value] = {"pk": self.pk.hex(), "status": self.status.value}
        if self.superseded_by is not None:
            found["superseded_by"] = self.superseded_by.hex()
        if self.last_manifest_id is not None:
            found["last_manifest_id"] = self.last_manifest_id.hex()
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedHub:
    """One log and all its keys, oldest first."""

    hub_id: HubId
    keys: tuple[TrustedKey, ...]

    def __post_init__(self) -> None:
        if not self.keys:
            raise WireError("a hub without keys cannot be trusted")
        if sum(key.status is KeyStatus.ACTIVE for key in self.keys) > 1:
            raise WireError("a hub has at most one active key")
        known = {key.pk for key in self.keys}
        for key in self.keys:
            if key.superseded_by == key.pk or key.superseded_by not in {None, *known}:
                raise WireError("superseded_by names no other key of the hub")

    @property
    def active(self) -> TrustedKey | None:
        """The key that signs now; None when the hub has ended."""
        return next((key for key in self.keys if key.status is KeyStatus.ACTIVE), None)

    def to_json(self) -> dict[str, Value]:
        """The hub as the file lists it."""
        return {"hub_id": self.hub_id.hex(), "keys": [key.to_json() for key in self.keys]}


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestInclusion:
    """That a receipt's leaf was in the log when the old key made its last manifest."""

    manifest: Manifest
    proof: MmrProof

    def verify(self, receipt: Receipt, hub_pk: PublicKey, manifest_id: ManifestId) -> None:
        """Raise unless exactly this manifest, made by hub_pk, includes the receipt's leaf."""
        if self.manifest.id != manifest_id:
            raise ProofError("this is not the manifest that counts for the key", ErrorCode.TRUST)
        self.manifest.verify(hub_pk)
        checkpoint = self.manifest.checkpoint(receipt.label)
        if checkpoint is None or receipt.stream_seq > checkpoint.upto_seq:
            raise ProofError("the receipt is later than the key's last manifest", ErrorCode.TRUST)
        if self.proof.leaf_hash != receipt.leaf_hash:
            raise ProofError("the proof is of another leaf")
        self.proof.verify(
            stream_seq=receipt.stream_seq,
            mmr_size=checkpoint.upto_seq,
            root=checkpoint.mmr_root,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Why a receipt is trusted."""

    hub_id: HubId
    key: TrustedKey
    by_manifest: ManifestId | None  # set when only the inclusion makes it count


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustFile:
    """What a verifier pins; it changes only by an operator's act."""

    serial: int
    realm: str
    hubs: tuple[TrustedHub, ...]

    def __post_init__(self) -> None:
        if not 0 <= self.serial <= UINT64_MAX:
            raise WireError("serial is not an unsigned 64-bit integer")
        # An unpaired surrogate is not printable either, so every realm can be encoded.
        if not self.realm.isprintable() or not 1 <= len(self.realm.encode()) <= REALM_BYTES_MAX:
            raise WireError(f"realm is not printable text of 1 to {REALM_BYTES_MAX} bytes")
        if len({hub.hub_id for hub in self.hubs}) != len(self.hubs):
            raise WireError("a hub_id is listed twice")
        keys = [key.pk for hub in self.hubs for key in hub.keys]
        if len(set(keys)) != len(keys):
            raise WireError("a key is listed twice")

    def encode(self) -> bytes:
        """Canonical bytes."""
        found: Value = {
            "ver": VER,
            "serial": self.serial,
            "realm": self.realm,
            "hubs": [hub.to_json() for hub in self.hubs],
        }
        return canonical_json.encode(found)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a trust file or raise E.FORMAT; any other spelling of it is refused."""
        if len(data) > TRUST_BYTES_MAX:
            raise WireError(f"a trust file of {len(data)} bytes", ErrorCode.SIZE)
        found = canonical_json.parse(data)
        fields = _object(found, {"ver", "serial", "realm", "hubs"})
        if _integer(fields["ver"]) != VER:
            raise WireError("unknown version of the trust file")
        trust = cls(
            serial=_integer(fields["serial"]),
            realm=_text(fields["realm"]),
            hubs=tuple([_read_hub(item) for item in _list(fields["hubs"])]),
        )
        if trust.encode() != data:
            raise WireError("the trust file is not canonical JSON")
        return trust

    def signing_hash(self) -> bytes:
        """What the realm's trust key signs."""
        return hashing.TRUST(self.encode())

    def sign(self, key: SigningKey) -> Signature:
        """The 64 bytes to stand beside the file."""
        return key.sign(self.signing_hash())

    def verify(self, signature: bytes, trust_pk: PublicKey) -> None:
        """Raise E.SIG unless the realm's trust key signed exactly this file."""
        signing.verify(trust_pk, signature, self.signing_hash())

    @classmethod
    def accept(
        cls, data: bytes, signature: bytes, *, trust_pk: PublicKey, held: Self | None = None
    ) -> Self:
        """A signed file in place of the held one; raise when it is older or contradicts it."""
        trust = cls.decode(data)
        trust.verify(signature, trust_pk)
        if held is not None:
            if trust.realm != held.realm:
                raise ProofError("the trust file is of another realm", ErrorCode.TRUST)
            if trust.serial < held.serial:
                detail = f"serial {trust.serial} is below the held {held.serial}"
                raise ProofError(detail, ErrorCode.TRUST)
            if trust.serial == held.serial and trust != held:
                raise ProofError("two trust files of one serial", ErrorCode.EQUIVOCATION)
        return trust

    def find(self, hub_pk: bytes) -> tuple[TrustedHub, TrustedKey]:
        """The hub and entry of a key, or V.TRUST: nothing is trusted on first use."""
        for hub in self.hubs:
            for key in hub.keys:
                if key.pk == hub_pk:
                    return hub, key
        raise ProofError("the hub key is not in the trust file", ErrorCode.TRUST)

    def judge(
        self, hub_pk: PublicKey, receipt: Receipt, inclusion: ManifestInclusion | None = None
    ) -> Verdict:
        """Raise unless the receipt is signed by hub_pk and that key may vouch for it."""
        hub, key = self.find(hub_pk)
        receipt.verify(hub_pk)
        if key.status is KeyStatus.ACTIVE:
            return Verdict(hub_id=hub.hub_id, key=key, by_manifest=None)
        if key.last_manifest_id is None:
            raise ProofError("the key is revoked and no manifest of it counts", ErrorCode.TRUST)
        if inclusion is None:
            detail = f"the key is {key.status}: inclusion under its last manifest is needed"
            raise ProofError(detail, ErrorCode.TRUST)
        inclusion.verify(receipt, hub_pk, key.last_manifest_id)
        return Verdict(hub_id=hub.hub_id, key=key, by_manifest=key.last_manifest_id)


def _read_hub(found: Value) -> TrustedHub:
    fields = _object(found, {"hub_id", "keys"})
    keys = tuple([_read_key(item) for item in _list(fields["keys"])])
    return TrustedHub(hub_id=HubId(_hex32(fields["hub_id"])), keys=keys)


def _read_key(found: Value) -> TrustedKey:
    fields = _object(found, {"pk", "status"}, {"superseded_by", "last_manifest_id"})
    try:
        status = KeyStatus(_text(fields["status"]))
    except ValueError as flaw:
        raise WireError("unknown status of a key") from flaw
    successor, manifest_id = fields.get("superseded_by"), fields.get("last_manifest_id")
    # null is no spelling of absence: re-encoding omits the field, and decode compares the bytes.
    return TrustedKey(
        pk=PublicKey(_hex32(fields["pk"])),
        status=status,
        superseded_by=None if successor is None else PublicKey(_hex32(successor)),
        last_manifest_id=None if manifest_id is None else ManifestId(_hex32(manifest_id)),
    )


def _object(
    found: Value, required: set[str], optional: set[str] | frozenset[str] = frozenset()
) -> Mapping[str, Value]:
    if not isinstance(found, dict) or not required <= found.keys() <= required | optional:
        raise WireError(f"expected an object with {', '.join(sorted(required))}")
    return found


def _list(found: Value) -> list[Value]:
    if not isinstance(found, list):
        raise WireError("expected a list")
    return found


def _text(found: Value) -> str:
    if not isinstance(found, str):
        raise WireError("expected text")
    return found


def _integer(found: Value) -> int:
    if not isinstance(found, int) or isinstance(found, bool):
        raise WireError("expected an integer")
    return found


def _hex32(found: Value) -> bytes:
    text = _text(found)
    if len(text) != 64 or not _HEX_DIGITS.issuperset(text):
        raise WireError("expected 64 lower-case hex digits")
    return bytes.fromhex(text)
