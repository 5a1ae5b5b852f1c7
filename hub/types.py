"""Names for the values of the wire, so that two 32-byte ids are never mixed up [SSOT 2]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NewType

Hash = NewType("Hash", bytes)  # any SHA-256 output without a narrower name
ProfileId = NewType("ProfileId", bytes)
StreamId = NewType("StreamId", bytes)
Label = NewType("Label", bytes)
PublicKey = NewType("PublicKey", bytes)  # Ed25519; a client_id is one
ClientId = NewType("ClientId", bytes)
DhKey = NewType("DhKey", bytes)  # X25519 public key
AuthRef = NewType("AuthRef", bytes)
LeafHash = NewType("LeafHash", bytes)  # also msg_id
MmrRoot = NewType("MmrRoot", bytes)
Signature = NewType("Signature", bytes)
HubId = NewType("HubId", bytes)
ManifestId = NewType("ManifestId", bytes)

StreamSeq = NewType("StreamSeq", int)  # 1-based
ClientSeq = NewType("ClientSeq", int)  # 1-based
UnixSeconds = NewType("UnixSeconds", int)

ZERO32: Final = bytes(32)
UINT64_MAX: Final = 2**64 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SeqRange:
    """An inclusive, 1-based range of stream_seq; never empty."""

    first: StreamSeq
    last: StreamSeq

    def __post_init__(self) -> None:
        assert 1 <= self.first <= self.last, (self.first, self.last)

    def __len__(self) -> int:
        return self.last - self.first + 1
