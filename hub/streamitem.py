"""One item of GET /stream: RECEIPT, MSG and, where asked for, the proof [interfaces, Hub]."""

from __future__ import annotations

from dataclasses import dataclass

from hub.errors import WireError
from hub.wire import cbor
from hub.wire.msg import Msg
from hub.wire.proof import MmrProof
from hub.wire.receipt import Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamItem:
    """One entry of a label; `proof` only where it was asked for."""

    receipt: Receipt
    msg: Msg
    receipt_bytes: bytes
    msg_bytes: bytes
    proof: MmrProof | None = None
    proof_bytes: bytes | None = None
    mmr_size: int = 0  # the size that the proof is against

    @classmethod
    def decode(cls, data: bytes) -> StreamItem:
        """Parse [RECEIPT, MSG] or [RECEIPT, MSG, mmr_proof]."""
        receipt_bytes, msg_bytes, proof_bytes = cut(data)
        return cls(
            receipt=Receipt.decode(receipt_bytes),
            msg=Msg.decode(msg_bytes),
            receipt_bytes=receipt_bytes,
            msg_bytes=msg_bytes,
            proof=None if proof_bytes is None else MmrProof.decode(proof_bytes),
            proof_bytes=proof_bytes,
        )


def cut(data: bytes) -> tuple[bytes, bytes, bytes | None]:
    """The bytes of RECEIPT, MSG and, where there is one, mmr_proof; none of them parsed."""
    reader = cbor.Reader(data)
    parts = reader.array_length(minimum=2, maximum=3)
    ends = [reader.pos]
    for _ in range(parts):
        ends.append(cbor.skip(data, ends[-1]))
    if ends[-1] != len(data):
        raise WireError("trailing bytes after a stream item")
    proof = data[ends[2] :] if parts == 3 else None
    return data[ends[0] : ends[1]], data[ends[1] : ends[2]], proof
