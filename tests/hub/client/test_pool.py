from __future__ import annotations

from pathlib import Path

import pytest

from hub.client import HubClient, KeyPool, RotatingProducer
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.label import derive, stream_id
from hub.wire.captoken import CapToken
from hub.wire.msg import Msg
from hub.wire.payload import PayloadHeader
from hub.wire.profile import Profile
from tests.hub.client.drafts import READER, SCHEMA
from tests.hub.client.scripted_hub import ScriptedHub

ISSUER = SigningKey(b"\x09" * 32)
STREAM = stream_id("test/pool")
ROUTING = b"\x08" * 32
HOURLY = Profile(epoch_sec=3600, pad_block=256)


def members(count: int) -> list[tuple[SigningKey, CapToken]]:
    """Keys whose tokens were issued ahead."""
    keys = [SigningKey.generate() for _ in range(count)]
    return [
        (key, CapToken.issue(ISSUER, subject_pk=key.public, stream_ids=[STREAM], ttl=60))
        for key in keys
    ]


def test_a_key_ends_after_its_messages_or_with_its_epoch(tmp_path: Path) -> None:
    with KeyPool(tmp_path / "pool") as pool:
        pool.add(members(3))
        first = pool.current(epoch=1, messages_max=2)
        pool.count(1)
        assert pool.current(epoch=1, messages_max=2).client_id == first.client_id
        pool.count(1)
        second = pool.current(epoch=1, messages_max=2)
        assert second.client_id != first.client_id
        third = pool.current(epoch=2, messages_max=2)
        assert pool.links() == [first.client_id, second.client_id, third.client_id]
        assert pool.remaining() == 0
        with pytest.raises(VeenError) as empty:
            pool.current(epoch=3, messages_max=2)
    assert empty.value.code is ErrorCode.POLICY


def test_the_pool_outlives_its_process(tmp_path: Path) -> None:
    with KeyPool(tmp_path / "pool") as pool:
        pool.add(members(3))
        used = pool.current(epoch=1)
        pool.count(5)
    with KeyPool(tmp_path / "pool") as pool:
        again = pool.current(epoch=1)
        assert (again.client_id, again.messages, pool.remaining()) == (used.client_id, 5, 2)
    assert (tmp_path / "pool").stat().st_mode & 0o777 == 0o600


def test_a_token_of_another_key_is_refused(tmp_path: Path) -> None:
    (one, _), (_, foreign) = members(2)
    with KeyPool(tmp_path / "pool") as pool, pytest.raises(VeenError) as refused:
        pool.add([(one, foreign)])
    assert refused.value.code is ErrorCode.CAP


def test_one_process_per_pool(tmp_path: Path) -> None:
    with KeyPool(tmp_path / "pool"), pytest.raises(VeenError) as locked:
        KeyPool(tmp_path / "pool")
    assert locked.value.code is ErrorCode.LOCKED


def test_messages_change_their_author_and_label_but_not_their_order(
    hub: ScriptedHub, client: HubClient, tmp_path: Path
) -> None:
    hub.admitted = set()
    now = 3600
    header = PayloadHeader(schema=SCHEMA)
    with KeyPool(tmp_path / "pool") as pool:
        pool.add(members(4))
        with RotatingProducer(
            client,
            pool,
            routing_key=ROUTING,
            stream_id=STREAM,
            reader_pk=READER.public,
            now=lambda: now,
            profile=HOURLY,
            messages_max=2,
        ) as producer:
            for number in range(5):
                now = 3600 if number < 3 else 7200
                producer.submit(header, b"%d" % number)
        authors = [Msg.decode(data).client_id for data in hub.submitted]
        assert list(dict.fromkeys(authors)) == pool.links()
        assert [authors.count(one) for one in pool.links()] == [2, 1, 2]
    labels = [Msg.decode(data).label for data in hub.submitted]
    assert labels == [derive(ROUTING, STREAM, 1)] * 3 + [derive(ROUTING, STREAM, 2)] * 2
