"""The evidence pack: one event and all that proves it, as one canonical CBOR map [SDR0 3.2.5].

    {format: "veen.evidence", ver: 1, hub_id: bstr 32, stream: tstr, msg: bstr, receipt: bstr,
     proof: bstr, checkpoint: bstr, manifest: bstr, rotations: [bstr], opening?: bstr 32}

Text keys in exactly this order, an absent opening is omitted, nothing follows. The objects inside
are byte strings as the hub served them, never encoded again: hashes are over those bytes.
- proof is the mmr_proof of the message against `checkpoint`, whose bytes stand in `manifest` too;
- rotations are the rotation records of the log from its first key on, oldest first;
- opening is the HPKE shared secret of this one message. It opens no other one.
- stream is what the maker of the pack calls the stream. The label is a keyed hash of that name, so
  only a holder of the routing key can check it.
Sizes are checked before anything is decoded; there is no archive, so nothing is ever unpacked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Self

from hub.crypto import hpke
from hub.errors import ErrorCode, WireError
from hub.label import NAME_BYTES_MAX, check_stream_name
from hub.limits import DEFAULT
from hub.types import HubId
from hub.wire import cbor

FORMAT: Final = "veen.evidence"
VER: Final = 1
PACK_BYTES_MAX: Final = 16 * 1024 * 1024
MANIFEST_BYTES_MAX: Final = 8 * 1024 * 1024  # some forty thousand labels
OBJECT_BYTES_MAX: Final = 16 * 1024  # of a RECEIPT, a proof, a CHECKPOINT, a rotation record
ROTATIONS_MAX: Final = 1024
_FIELDS: Final = 10  # and an eleventh where the content is disclosed
PREFIX: Final = cbor.encode("format") + cbor.encode(FORMAT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """Field order is file order: never reorder, never insert."""

    hub_id: HubId
    stream: str
    msg: bytes
    receipt: bytes
    proof: bytes
    checkpoint: bytes
    manifest: bytes
    rotations: tuple[bytes, ...] = ()
    opening: bytes | None = field(default=None, repr=False)

    def encode(self) -> bytes:
        """Canonical bytes; E.SIZE when no reader would take them."""
        fields: dict[str, cbor.Value] = {
            "format": FORMAT,
            "ver": VER,
            "hub_id": self.hub_id,
            "stream": self.stream,
            "msg": self.msg,
            "receipt": self.receipt,
            "proof": self.proof,
            "checkpoint": self.checkpoint,
            "manifest": self.manifest,
            "rotations": list(self.rotations),
        }
        if self.opening is not None:
            fields["opening"] = self.opening
        data = cbor.encode(fields)
        Pack.decode(data)  # What we hand out is what we would take.
        return data

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a pack or raise E.FORMAT; what its objects say is for the verifier."""
        if len(data) > PACK_BYTES_MAX:
            raise WireError(f"a pack of {len(data)} bytes is over {PACK_BYTES_MAX}", ErrorCode.SIZE)
        reader = cbor.Reader(data)
        fields = reader.map_length(minimum=_FIELDS, maximum=_FIELDS + 1)
        if reader.name("format").tstr(maximum=64) != FORMAT:
            raise WireError("not an evidence pack")
        reader.name("ver").uint(exactly=VER)
        pack = cls(
            hub_id=HubId(reader.name("hub_id").bstr(32)),
            stream=_stream(reader.name("stream")),
            msg=reader.name("msg").bstr(maximum=DEFAULT.msg_bytes_max),
            receipt=reader.name("receipt").bstr(maximum=OBJECT_BYTES_MAX),
            proof=reader.name("proof").bstr(maximum=OBJECT_BYTES_MAX),
            checkpoint=reader.name("checkpoint").bstr(maximum=OBJECT_BYTES_MAX),
            manifest=reader.name("manifest").bstr(maximum=MANIFEST_BYTES_MAX),
            rotations=_rotations(reader.name("rotations")),
            opening=reader.name("opening").bstr(hpke.SECRET_BYTES) if fields > _FIELDS else None,
        )
        reader.end()
        return pack


def is_pack(data: bytes) -> bool:
    """Whether these bytes claim to be an evidence pack."""
    return data[1 : 1 + len(PREFIX)] == PREFIX


def _stream(reader: cbor.Reader) -> str:
    name = reader.tstr(maximum=NAME_BYTES_MAX)
    check_stream_name(name)
    return name


def _rotations(reader: cbor.Reader) -> tuple[bytes, ...]:
    count = reader.array_length(maximum=ROTATIONS_MAX)
    return tuple([reader.bstr(maximum=OBJECT_BYTES_MAX) for _ in range(count)])
