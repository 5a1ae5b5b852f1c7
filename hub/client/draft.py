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
        before, after = _around(self.label, self.reader_pk, self.header, self.profile)
        attachments = cbor.head(cbor.ARRAY, len(self.attachments))
        if self.attachments:
            attachments += b"".join(map(cbor.bstr, self.attachments))
        return b"".join((before, cbor.bstr(self.body), attachments, after))

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


# A producer's messages share all this, and spelling it anew costs as much as all the rest.
@lru_cache(maxsize=64)
def _around(
    label: Label, reader_pk: DhKey, header: PayloadHeader, profile: Profile
) -> tuple[bytes, bytes]:
    before = b"\x86" + cbor.bstr(label) + cbor.bstr(reader_pk) + cbor.bstr(header.encode())
    return before, cbor.bstr(profile.encode())
