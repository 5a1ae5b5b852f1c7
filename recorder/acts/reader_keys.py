"""A stream's key pairs: made, signed by the recorder admin, wrapped to readers [wire: readers].

The secret wrapped to the recorder admin is a file before it is a row, and every other form is
derived from it: neither a stop between any two lines nor a lost database loses a key that an event
could have been sealed to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hub.crypto.hpke import DhSecret
from hub.errors import ErrorCode, VeenError
from hub.label import stream_id
from hub.types import DhKey
from hub.wire.readerkey import ReaderKeyRecord, WrappedReaderSecret
from recorder.acts import key_files
from recorder.acts.authority import ADMIN_READER, Authority
from recorder.acts.key_files import KeptKey
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
    key_id = newest.key_id + 1 if newest else 1
    key = (authority.made_then or _maker(authority))(stream.name, key_id)
    ReaderKey.objects.create(
        stream=stream, key_id=key_id, record=key.record.encode(), created_at=authority.now()
    )
    admin = admin_reader(authority)
    _grant(admin, stream, key.wrapped)
    secret = key.wrapped.unwrap(authority.admin_dh.secret)
    for reader in {one.name: one for one in readers if one.name != admin.name}.values():
        _wrap(reader, stream, key_id, secret)
    return key.record


def _maker(authority: Authority) -> Callable[[str, int], KeptKey]:
    def make(stream: str, key_id: int) -> KeptKey:
        secret = DhSecret.generate()
        record = ReaderKeyRecord.sign(
            authority.recorder_admin,
            stream_id=stream_id(stream),
            key_id=key_id,
            reader_pk=secret.public,
            ts=authority.seconds(),
        )
        wrapped = WrappedReaderSecret.wrap(
            secret.secret,
            stream_id=record.stream_id,
            key_id=key_id,
            reader_dh=authority.admin_dh.public,
        )
        key = KeptKey(stream=stream, record=record, wrapped=wrapped)
        key_files.keep(authority.files.stream_keys, key)
        return key

    return make


def keep_files(authority: Authority) -> None:
    """Have a file for every key there is; one that is missing is written from its rows."""
    grants = ReaderGrant.objects.filter(reader__name=ADMIN_READER)
    wrapped = {(one.stream_id, one.key_id): bytes(one.wrapped) for one in grants}
    for row in ReaderKey.objects.all():
        key = KeptKey(
            stream=row.stream_id,
            record=ReaderKeyRecord.decode(bytes(row.record)),
            wrapped=WrappedReaderSecret.decode(wrapped[row.stream_id, row.key_id]),
        )
        key_files.keep(authority.files.stream_keys, key)


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
    _grant(reader, stream, wrapped)


def _grant(reader: Reader, stream: Stream, wrapped: WrappedReaderSecret) -> None:
    ReaderGrant.objects.create(
        reader=reader, stream=stream, key_id=wrapped.key_id, wrapped=wrapped.encode()
    )
