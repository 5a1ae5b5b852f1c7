"""What retention leaves of a MSG: everything but its ciphertext [COMP0.1].

    spine = array[11]: 1, profile_id, label, client_id, client_seq, prev_ack, auth_ref|null,
            ct_hash, bytes of the MSG, signed digest, sig

The leaf is still recomputed from it, so the MMR of a pruned range can be checked to the root.
"""

from __future__ import annotations

from dataclasses import dataclass

from hub.crypto.hashing import LEAF, u64be
from hub.types import Label, LeafHash
from hub.wire import cbor
from hub.wire.msg import Msg


@dataclass(frozen=True, slots=True, kw_only=True)
class Spine:
    """The hash spine of one pruned entry."""

    profile_id: bytes
    label: Label
    client_id: bytes
    client_seq: int
    prev_ack: int
    auth_ref: bytes | None
    ct_hash: bytes
    msg_bytes: int
    signed_digest: bytes
    sig: bytes

    @classmethod
    def of(cls, msg: Msg, msg_bytes: int) -> Spine:
        """The spine of a MSG that is about to lose its payload."""
        return cls(
            profile_id=msg.profile_id,
            label=msg.label,
            client_id=msg.client_id,
            client_seq=msg.client_seq,
            prev_ack=msg.prev_ack,
            auth_ref=msg.auth_ref,
            ct_hash=msg.ct_hash,
            msg_bytes=msg_bytes,
            signed_digest=msg.signing_hash(),
            sig=msg.sig,
        )

    def leaf_hash(self) -> LeafHash:
        """The leaf, as it was when the receipt was signed."""
        return LeafHash(
            LEAF(self.label, self.profile_id, self.ct_hash, self.client_id, u64be(self.client_seq))
        )

    def encode(self) -> bytes:
        """Deterministic bytes."""
        return cbor.encode(
            [
                1,
                self.profile_id,
                self.label,
                self.client_id,
                self.client_seq,
                self.prev_ack,
                self.auth_ref,
                self.ct_hash,
                self.msg_bytes,
                self.signed_digest,
                self.sig,
            ]
        )

    @classmethod
    def decode(cls, data: bytes) -> Spine:
        """A Spine, or E.FORMAT."""
        r = cbor.Reader(data).array(11)
        r.uint(exactly=1)
        spine = cls(
            profile_id=r.bstr(32),
            label=Label(r.bstr(32)),
            client_id=r.bstr(32),
            client_seq=r.uint(),
            prev_ack=r.uint(),
            auth_ref=r.bstr_or_null(32),
            ct_hash=r.bstr(32),
            msg_bytes=r.uint(),
            signed_digest=r.bstr(32),
            sig=r.bstr(64),
        )
        r.end()
        return spine
