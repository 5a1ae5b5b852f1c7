"""A message as its author means it, and the bytes an outbox keeps of it [RESYNC0.4]."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from hub.types import DhKey, Label
from hub.wire import cbor
from hub.wire.payload import PayloadHeader
from hub.wire.profile import PRODUCT, Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One event as its author means it, before client_seq, keys and signature."""

    label: Label
    reader_pk: DhKey
    header: PayloadHeader
    body: bytes
    attachments: tuple[bytes, ...] = ()
    profile: Profile = PRODUCT

    def encode(self) -> bytes:
        """The bytes kept in the outbox: array of label, reader, header, body, [...], profile."""
        attachments = cbor.head(cbor.ARRAY, len(self.attachments))
        return b"".join((
            b"\x86\x58\x20", self.label, b"\x58\x20", self.reader_pk,
            _header_item(self.header), cbor.bstr(self.body), attachments,
            *map(cbor.bstr, self.attachments), _profile_item(self.profile),
        ))  # fmt: skip

    @classmethod
    def decode(cls, data: bytes) -> Draft:
        """Parse what `encode` made."""
        reader = cbor.Reader(data).array(6)
        label = Label(reader.bstr(32))
        reader_pk = DhKey(reader.bstr(32))
        header = PayloadHeader.decode(reader.bstr())
        body = reader.bstr()
        count = reader.array_length(maximum=1 << 16)
        attachments = tuple(reader.bstr() for _ in range(count))
        profile = Profile.decode(reader.bstr())
        reader.end()
        return cls(
            label=label,
            reader_pk=reader_pk,
            header=header,
            body=body,
            attachments=attachments,
            profile=profile,
        )


# A producer's messages share these two, and spelling them anew costs as much as all the rest.
@lru_cache(maxsize=64)
def _header_item(header: PayloadHeader) -> bytes:
    return cbor.bstr(header.encode())


@lru_cache(maxsize=16)
def _profile_item(profile: Profile) -> bytes:
    return cbor.bstr(profile.encode())
