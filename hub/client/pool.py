"""Rotation of client_id for streams where unlinkability matters [KEX0.2].

A capability's subject is one client_id, so rotation needs keys whose tokens were issued ahead. The
pool holds them in order; which key followed which is kept here and appears in no message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from hub import keystore
from hub.client.draft import Draft
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.label import derive, epoch_of
from hub.storage.disk import DirectoryLock, Disk
from hub.types import ClientId, DhKey, StreamId
from hub.wire import cbor
from hub.wire.captoken import CapToken
from hub.wire.payload import PayloadHeader
from hub.wire.profile import PRODUCT, Profile
from hub.wire.receipt import Receipt

if TYPE_CHECKING:
    from hub.client.hubclient import HubClient
    from hub.client.producer import Producer

MESSAGES_PER_KEY: Final = 256
_VERSION: Final = 1
_MEMBERS_MAX: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One key of the pool with its token; `epoch` is set once the key is in use."""

    seed: bytes
    token: CapToken
    messages: int = 0
    epoch: int | None = None

    @property
    def client_id(self) -> ClientId:
        """The public half."""
        return ClientId(self.token.subject_pk)


class KeyPool:
    """An ordered file of keys: used ones first, then the one in use, then the reserve."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = DirectoryLock(path.with_name(path.name + ".lock"))
        self._members: list[Member] = []
        if path.exists():
            self._members = _decode(keystore.read_private(path))
        self._at = max(
            (place for place, one in enumerate(self._members) if one.epoch is not None), default=-1
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let another process use the pool."""
        self._lock.release()

    def add(self, keys: Sequence[tuple[SigningKey, CapToken]]) -> None:
        """Put keys into the reserve; each token must be for its key."""
        known = {one.client_id for one in self._members}
        for key, token in keys:
            client_id = ClientId(key.public)
            if token.subject_pk != key.public or client_id in known:
                raise VeenError(ErrorCode.CAP, "a token's subject is its own key, and used once")
            known.add(client_id)
        self._members += [Member(seed=key.seed, token=token) for key, token in keys]
        self._save()

    def remaining(self) -> int:
        """How many keys have not been used yet."""
        return len(self._members) - 1 - self._at

    def links(self) -> list[ClientId]:
        """The client_ids used so far, in order: the continuity that only this file knows."""
        return [one.client_id for one in self._members[: self._at + 1]]

    def previous(self) -> Member | None:
        """The key that was in use before the current one."""
        return self._members[self._at - 1] if self._at >= 1 else None

    def current(self, epoch: int, *, messages_max: int = MESSAGES_PER_KEY) -> Member:
        """The key to author with now; takes the next one when its time or count is over."""
        if self._at >= 0:
            member = self._members[self._at]
            if member.epoch == epoch and member.messages < messages_max:
                return member
        if self.remaining() == 0:
            detail = "the pool of client keys is used up; issue more with `veen cap issue`"
            raise VeenError(ErrorCode.POLICY, detail)
        self._at += 1
        self._members[self._at] = replace(self._members[self._at], epoch=epoch)
        self._save()
        return self._members[self._at]

    def count(self, messages: int) -> None:
        """Messages are about to be authored with the current key; durable before they are."""
        member = self._members[self._at]
        self._members[self._at] = replace(member, messages=member.messages + messages)
        self._save()

    def _save(self) -> None:
        Disk().write_atomic(self._path, _encode(self._members))


def _encode(members: Sequence[Member]) -> bytes:
    rows: list[cbor.Value] = [
        [one.seed, one.token.encode(), one.messages, one.epoch] for one in members
    ]
    return cbor.encode({"ver": _VERSION, "members": rows})


def _decode(data: bytes) -> list[Member]:
    reader = cbor.Reader(data)
    reader.map_length(minimum=2, maximum=2)
    reader.name("ver").uint(exactly=_VERSION)
    members = []
    for _ in range(reader.name("members").array_length(maximum=_MEMBERS_MAX)):
        reader.array(4)
        seed, token = reader.bstr(32), CapToken.decode(reader.bstr())
        messages, epoch = reader.uint(), reader.any(0)
        assert epoch is None or isinstance(epoch, int)
        members.append(Member(seed=seed, token=token, messages=messages, epoch=epoch))
    reader.end()
    return members


class RotatingProducer:
    """Submits to one stream under changing client_ids.

    The old key's outbox is emptied before the next key speaks, so that order is kept.
    """

    def __init__(
        self,
        client: HubClient,
        pool: KeyPool,
        *,
        routing_key: bytes,
        stream_id: StreamId,
        reader_pk: DhKey,
        now: Callable[[], int],
        profile: Profile = PRODUCT,
        messages_max: int = MESSAGES_PER_KEY,
    ) -> None:
        self._client = client
        self._pool = pool
        self._routing_key = routing_key
        self._stream_id = stream_id
        self._reader_pk = reader_pk
        self._now = now
        self._profile = profile
        self._messages_max = messages_max
        self._producer: Producer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the current key up."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def submit(self, header: PayloadHeader, body: bytes) -> Receipt:
        """One message under the key whose turn it is."""
        epoch = epoch_of(self._now(), self._profile.epoch_sec)
        member = self._pool.current(epoch, messages_max=self._messages_max)
        producer = self._producer_of(member)
        self._pool.count(1)
        label = derive(self._routing_key, self._stream_id, epoch)
        draft = Draft(
            label=label,
            reader_pk=self._reader_pk,
            header=header,
            body=body,
            profile=self._profile,
        )
        return producer.submit(draft)

    def _producer_of(self, member: Member) -> Producer:
        if self._producer is not None and self._producer.client_id == member.client_id:
            return self._producer
        before = self._pool.previous()
        if self._producer is None and before is not None:
            # The process may have ended between taking a new key and emptying the old outbox.
            self._producer = self._open(before)
        if self._producer is not None:
            self._producer.flush()
            self._producer.close()
        self._producer = self._open(member)
        return self._producer

    def _open(self, member: Member) -> Producer:
        auth_ref, _ = self._client.authorize(member.token)
        return self._client.producer(SigningKey(member.seed), auth_ref=auth_ref)
