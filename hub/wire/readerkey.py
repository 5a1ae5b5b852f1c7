"""Reader keys of a stream: the signed public half and the wrapped secret half [SDR0 3.2].

Reader key record: array[7] of ver, stream_id, key_id, reader_pk, ts, recorder_admin_pk, sig over
Ht("veen/reader-key", CBOR of the first six). Wrapped reader secret: array[5] of ver, stream_id,
key_id, the reader's X25519 key, enc || HPKE seal of the 32-byte secret with info "veen/reader-wrap"
and aad = CBOR of the first four.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Self

from hub.crypto import hpke, signing
from hub.crypto.hashing import READER_KEY
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, ProofError
from hub.types import DhKey, PublicKey, Signature, StreamId, UnixSeconds
from hub.wire import cbor

VER: Final = 1
WRAP_INFO: Final = b"veen/reader-wrap"
WRAPPED_BYTES: Final = hpke.ENC_BYTES + hpke.SECRET_BYTES + hpke.TAG_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderKeyRecord:
    """Field order is wire order: never reorder, never insert."""

    stream_id: StreamId
    key_id: int  # rising
    reader_pk: DhKey
    ts: UnixSeconds
    recorder_admin_pk: PublicKey
    sig: Signature

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a reader key record or raise E.FORMAT."""
        reader = cbor.Reader(data).array(7)
        reader.uint(exactly=VER)
        record = cls(
            stream_id=StreamId(reader.bstr(32)),
            key_id=reader.uint(),
            reader_pk=DhKey(reader.bstr(32)),
            ts=UnixSeconds(reader.uint()),
            recorder_admin_pk=PublicKey(reader.bstr(32)),
            sig=Signature(reader.bstr(64)),
        )
        reader.end()
        return record

    def _signed_items(self) -> bytes:
        items: list[cbor.Value] = [VER, self.stream_id, self.key_id, self.reader_pk, self.ts]
        return cbor.encode([*items, self.recorder_admin_pk])[1:]

    def encode(self) -> bytes:
        """Canonical bytes."""
        return b"\x87" + self._signed_items() + cbor.bstr(self.sig)

    def signing_hash(self) -> bytes:
        """What the recorder admin signs."""
        return READER_KEY(b"\x86", self._signed_items())

    def verify(self, recorder_admin_pk: PublicKey) -> None:
        """Raise unless the pinned recorder admin signed exactly these bytes."""
        if self.recorder_admin_pk != recorder_admin_pk:
            raise ProofError("the record is of another recorder admin", ErrorCode.TRUST)
        signing.verify(recorder_admin_pk, self.sig, self.signing_hash())

    @classmethod
    def sign(
        cls,
        admin: SigningKey,
        *,
        stream_id: StreamId,
        key_id: int,
        reader_pk: DhKey,
        ts: UnixSeconds,
    ) -> Self:
        """The record of a stream's public half."""
        record = cls(
            stream_id=stream_id,
            key_id=key_id,
            reader_pk=reader_pk,
            ts=ts,
            recorder_admin_pk=admin.public,
            sig=Signature(b""),
        )
        return replace(record, sig=admin.sign(record.signing_hash()))


def accept(
    held: ReaderKeyRecord | None,
    offered: ReaderKeyRecord,
    *,
    stream_id: StreamId,
    recorder_admin_pk: PublicKey,
) -> ReaderKeyRecord:
    """The record to seal to from now on; raise unless it is the pinned admin's and newer.

    The same record again changes nothing; another one with the same key_id is equivocation.
    """
    offered.verify(recorder_admin_pk)
    if offered.stream_id != stream_id:
        raise ProofError("the reader key is of another stream", ErrorCode.TRUST)
    if held is None or offered.key_id > held.key_id or offered == held:
        return offered
    if offered.key_id == held.key_id and offered.reader_pk != held.reader_pk:
        raise ProofError("two reader keys under one key_id", ErrorCode.EQUIVOCATION)
    raise ProofError(f"key_id {offered.key_id} is not above {held.key_id}", ErrorCode.TRUST)


def newest_first(records: Iterable[ReaderKeyRecord]) -> list[ReaderKeyRecord]:
    """The order in which readers try a stream's keys."""
    return sorted(records, key=lambda record: record.key_id, reverse=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedReaderSecret:
    """A stream's secret half for one reader; the hub never holds it open."""

    stream_id: StreamId
    key_id: int
    reader_dh: DhKey  # the reader's own X25519 key
    wrapped: bytes  # enc || sealed secret

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a wrapped secret or raise E.FORMAT."""
        reader = cbor.Reader(data).array(5)
        reader.uint(exactly=VER)
        record = cls(
            stream_id=StreamId(reader.bstr(32)),
            key_id=reader.uint(),
            reader_dh=DhKey(reader.bstr(32)),
            wrapped=reader.bstr(WRAPPED_BYTES),
        )
        reader.end()
        return record

    def encode(self) -> bytes:
        """Canonical bytes."""
        items = _wrap_items(self.stream_id, self.key_id, self.reader_dh)
        return b"\x85" + items + cbor.bstr(self.wrapped)

    @classmethod
    def wrap(
        cls,
        secret: bytes,
        *,
        stream_id: StreamId,
        key_id: int,
        reader_dh: DhKey,
        ephemeral: bytes | None = None,
    ) -> Self:
        """Seal a stream secret to one reader; `ephemeral` is for fixed test bytes only."""
        assert len(secret) == hpke.SECRET_BYTES
        context = hpke.seal_setup(reader_dh, info=WRAP_INFO, ephemeral=ephemeral)
        aad = b"\x84" + _wrap_items(stream_id, key_id, reader_dh)
        return cls(
            stream_id=stream_id,
            key_id=key_id,
            reader_dh=reader_dh,
            wrapped=context.enc + context.seal(secret, aad),
        )

    def unwrap(self, reader_secret: bytes) -> bytes:
        """The stream secret, or E.FORMAT when this reader's key does not open it."""
        assert len(self.wrapped) == WRAPPED_BYTES
        context = hpke.open_setup(self.wrapped[: hpke.ENC_BYTES], reader_secret, info=WRAP_INFO)
        aad = b"\x84" + _wrap_items(self.stream_id, self.key_id, self.reader_dh)
        return context.open(self.wrapped[hpke.ENC_BYTES :], aad)


def _wrap_items(stream_id: StreamId, key_id: int, reader_dh: DhKey) -> bytes:
    return cbor.encode([VER, stream_id, key_id, reader_dh])[1:]
