"""A stream's key pairs: made, signed by the recorder admin, wrapped to readers [wire: readers].

The wrapped secret for the recorder admin is the one durable copy; every other form is derived from
it, so a stop between any two lines loses no key that an event could have been sealed to.
"""

from __future__ import annotations

from collections.abc import Iterable

from hub.crypto.hpke import DhSecret
from hub.errors import ErrorCode, VeenError
from hub.label import stream_id
from hub.types import DhKey
from hub.wire.readerkey import ReaderKeyRecord, WrappedReaderSecret
from recorder.acts.authority import ADMIN_READER, Authority
from recorder.models import Reader, ReaderGrant, ReaderKey, Stream


def admin_reader(authority: Authority) -> Reader:
    """The reader that every secret is wrapped to; its row is made on first use."""
    dh_pk = authority.admin_dh.public.hex()
    reader, _ = Reader.objects.get_or_create(
        name=ADMIN_READER, defaults={"dh_pk": dh_pk, "created_at": authority.now()}
    )
    if reader.dh_pk != dh_pk:
        # Secrets wrapped to the other key would be lost to us, and nobody would notice.
        raise VeenError(ErrorCode.KEYSTORE, "the keystore's recorder-admin-dh is not the reader's")
    return reader


def add_key(stream: Stream, readers: Iterable[Reader], authority: Authority) -> ReaderKeyRecord:
    """A new key pair under the next key_id, for the recorder admin and these readers."""
    newest = stream.reader_keys.order_by("-key_id").first()
    secret = DhSecret.generate()
    record = ReaderKeyRecord.sign(
        authority.recorder_admin,
        stream_id=stream_id(stream.name),
        key_id=newest.key_id + 1 if newest else 1,
        reader_pk=secret.public,
        ts=authority.seconds(),
    )
    ReaderKey.objects.create(
        stream=stream,
        key_id=record.key_id,
        record=record.encode(),
        created_at=authority.now(),
    )
    everyone = {reader.name: reader for reader in (*readers, admin_reader(authority))}
    for reader in everyone.values():
        _wrap(reader, stream, record.key_id, secret.secret)
    return record


def readers_of(stream: Stream) -> list[Reader]:
    """Who opens the newest key and is not revoked; the next key is wrapped to them too."""
    newest = newest_record(stream)
    grants = stream.grants.filter(key_id=newest.key_id, reader__revoked_at__isnull=True)
    return [grant.reader for grant in grants.select_related("reader")]


def grant_all(reader: Reader, stream: Stream, authority: Authority) -> list[WrappedReaderSecret]:
    """Wrap every key of a stream to a reader; those it has already stay as they are."""
    held = set(stream.grants.filter(reader=reader).values_list("key_id", flat=True))
    for key_id, secret in secrets_of(stream, authority):
        if key_id not in held:
            _wrap(reader, stream, key_id, secret)
    grants = stream.grants.filter(reader=reader).order_by("-key_id")
    return [WrappedReaderSecret.decode(bytes(grant.wrapped)) for grant in grants]


def secrets_of(stream: Stream, authority: Authority) -> list[tuple[int, bytes]]:
    """Key ids and secrets, newest first."""
    grants = stream.grants.filter(reader__name=ADMIN_READER).order_by("-key_id")
    return [
        (
            grant.key_id,
            WrappedReaderSecret.decode(bytes(grant.wrapped)).unwrap(authority.admin_dh.secret),
        )
        for grant in grants
    ]


def newest_record(stream: Stream) -> ReaderKeyRecord:
    """The public half that producers seal to."""
    newest = stream.reader_keys.order_by("-key_id").first()
    assert newest is not None, f"{stream.name} was made without a reader key"
    return ReaderKeyRecord.decode(bytes(newest.record))


def _wrap(reader: Reader, stream: Stream, key_id: int, secret: bytes) -> None:
    wrapped = WrappedReaderSecret.wrap(
        secret,
        stream_id=stream_id(stream.name),
        key_id=key_id,
        reader_dh=DhKey(bytes.fromhex(reader.dh_pk)),
    )
    ReaderGrant.objects.create(
        reader=reader, stream=stream, key_id=key_id, wrapped=wrapped.encode()
    )
