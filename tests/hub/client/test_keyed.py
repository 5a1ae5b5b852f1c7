"""Keyed entries: the same key is enqueued once, whatever happens and however often it is asked."""

from __future__ import annotations

import resource
import sqlite3
import threading
from pathlib import Path

import pytest

from hub.authoring import open_message
from hub.client import Draft, HubClient, Item, Mark, OutboxReader, RefusedError
from hub.client.outbox import Outbox
from hub.client.outbox_file import outbox_path
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.types import ClientId
from hub.wire.msg import Msg
from hub.wire.profile import PRODUCT
from tests.hub.client.drafts import LABEL, READER, draft
from tests.hub.client.scripted_hub import ScriptedHub

KEY = SigningKey(b"\x01" * 32)


def texts(hub: ScriptedHub) -> list[bytes]:
    return [
        open_message(Msg.decode(data), profile=PRODUCT, secret=READER).body
        for _, data in hub.log(LABEL).entries
    ]


def test_a_known_key_is_never_enqueued_again(hub: ScriptedHub, client: HubClient) -> None:
    with client.producer(KEY) as producer:
        first = producer.enqueue_keyed("k", draft(b"one"), b"content")
        assert first.is_new
        assert not first.is_settled
        again = producer.enqueue_keyed("k", draft(b"two"), b"other")
        assert not again.is_new
        assert again.entry_id == first.entry_id
        assert again.is_about(b"content")
        assert not again.is_about(b"other")
        assert producer.pending() == 1
        producer.flush()
        settled = producer.enqueue_keyed("k", draft(b"three"), b"content")
        assert settled.receipt is not None
        assert settled.receipt.stream_seq == 1
        assert settled.entry_id is None
        assert producer.pending() == 0
        assert producer.keyed("unknown") is None
    assert texts(hub) == [b"one"]


def test_a_batch_mixes_keys_and_keeps_its_order(hub: ScriptedHub, client: HubClient) -> None:
    with client.producer(KEY) as producer:
        placed = producer.enqueue_items(
            [
                Item(draft=draft(b"0")),
                Item(draft=draft(b"1"), key="a", content=b"x"),
                Item(draft=draft(b"2"), key="a", content=b"y"),
                Item(draft=draft(b"3"), key="b"),
                Item(draft=draft(b"4")),
            ]
        )
        assert [one.entry is not None for one in placed] == [True, True, False, True, True]
        assert [one.state is not None for one in placed] == [False, True, True, True, False]
        first, second = placed[1].state, placed[2].state
        assert first is not None
        assert second is not None
        assert (first.is_new, second.is_new) == (True, False)
        assert second.is_about(b"x")
        assert second.entry_id == first.entry_id
        producer.flush()
    assert texts(hub) == [b"0", b"1", b"3", b"4"]


def test_keys_and_receipts_outlive_the_process(hub: ScriptedHub, tmp_path: Path) -> None:
    def open_client() -> HubClient:
        return HubClient(hub.url, hub.key.public, state_dir=tmp_path / "s")

    with open_client() as client, client.producer(KEY) as producer:
        producer.enqueue_keyed("pending", draft(b"p"))
        receipt = producer.submit(draft(b"x"))
    with open_client() as client, client.producer(KEY) as producer:
        state = producer.keyed("pending")
        assert state is not None
        assert state.receipt is not None
        assert state.receipt.stream_seq == receipt.stream_seq - 1


def test_a_refused_event_leaves_no_key(hub: ScriptedHub, client: HubClient) -> None:
    def refuse(msg: Msg) -> None:
        if open_message(msg, profile=PRODUCT, secret=READER).body == b"poison":
            raise VeenError(ErrorCode.SIZE, "too large for this hub")

    hub.before = refuse
    with client.producer(KEY) as producer:
        producer.submit(draft(b"first"))
        producer.enqueue_items(
            [Item(draft=draft(b"poison"), key="bad"), Item(draft=draft(b"good"), key="good")]
        )
        with pytest.raises(RefusedError) as refused:
            producer.flush()
        entry = refused.value.entry
        assert producer.key_of(entry) == "bad"
        producer.withdraw(entry)
        assert producer.keyed("bad") is None
        producer.flush()
        good = producer.keyed("good")
        assert good is not None
        assert good.is_settled
    assert texts(hub) == [b"first", b"good"]


def test_only_old_settled_keys_are_forgotten(hub: ScriptedHub, tmp_path: Path) -> None:
    moment = [1000.0]
    with (
        HubClient(hub.url, hub.key.public, state_dir=tmp_path / "s") as client,
        client.producer(KEY, now=lambda: moment[0]) as producer,
    ):
        producer.enqueue_keyed("old", draft(b"1"))
        moment[0] = 2000.0
        producer.enqueue_keyed("new", draft(b"2"))
        producer.flush()
        moment[0] = 500.0
        producer.enqueue_keyed("pending", draft(b"3"))
        assert producer.forget_keys(1500) == 1
        assert producer.keyed("old") is None
        assert producer.keyed("new") is not None
        assert producer.keyed("pending") is not None


@pytest.mark.parametrize("key", ["", "x" * 513, "a\0b"])
def test_a_key_that_cannot_be_kept_is_refused(client: HubClient, key: str) -> None:
    with client.producer(KEY) as producer:
        with pytest.raises(VeenError) as refused:
            producer.enqueue_keyed(key, draft())
        assert refused.value.code is ErrorCode.FORMAT
        assert producer.pending() == 0


def test_a_mark_moves_with_what_was_taken_and_never_back(client: HubClient) -> None:
    with client.producer(KEY) as producer:
        producer.enqueue_items([Item(draft=draft())], mark=Mark(source="file", position=10))
        producer.enqueue_items([], mark=Mark(source="file", position=7))
        producer.enqueue_items([], mark=Mark(source="other", position=1))
        assert producer.marks() == {"file": 10, "other": 1}
        producer.drop_mark("file")
        assert producer.marks() == {"other": 1}


def test_another_process_may_look_keys_up(hub: ScriptedHub, tmp_path: Path) -> None:
    state = tmp_path / "s"
    reader = OutboxReader(outbox_path(state / "outbox", ClientId(KEY.public)))
    assert reader.find(["k"]) == {}
    with (
        HubClient(hub.url, hub.key.public, state_dir=state) as client,
        client.producer(KEY) as producer,
    ):
        producer.enqueue_keyed("k", draft())
        assert not reader.find(["k", "l"])["k"].is_settled
        producer.flush()
        assert reader.find(["k"])["k"].is_settled
        assert reader.pending_ids() is None
        producer.enqueue_items([Item(draft=draft())], mark=Mark(source="file", position=3))
        assert reader.pending_ids() == (2, 2)
        assert reader.marks() == {"file": 3}


def test_one_thread_may_enqueue_while_another_sends(hub: ScriptedHub, client: HubClient) -> None:
    total = 300
    settled: list[int] = []
    with client.producer(KEY) as producer:
        producer.on_settled = lambda done: settled.extend(entry.id for entry, _ in done)

        def enqueue() -> None:
            for number in range(total):
                producer.enqueue([draft(b"%d" % number)])

        thread = threading.Thread(target=enqueue)
        thread.start()
        while thread.is_alive() or producer.pending():
            producer.flush()
        thread.join()
    assert texts(hub) == [b"%d" % number for number in range(total)]
    assert len(settled) == len(set(settled)) == total


def test_an_outbox_of_the_first_version_is_taken_over(tmp_path: Path) -> None:
    client_id = ClientId(KEY.public)
    Outbox(tmp_path, client_id).close()
    path = outbox_path(tmp_path, client_id)
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE keyed")
        db.execute("DROP TABLE mark")
        db.execute("CREATE INDEX entry_label ON entry (label, client_seq)")
        db.execute("PRAGMA user_version=1")
    db.close()
    outbox = Outbox(tmp_path, client_id)
    assert outbox.find_keys(["k"]) == {}
    outbox.close()


def test_a_full_disk_refuses_and_loses_nothing(tmp_path: Path, hub: ScriptedHub) -> None:
    """The file may not grow: enqueueing is refused whole, and what was stored before goes out."""
    with (
        HubClient(hub.url, hub.key.public, state_dir=tmp_path / "s") as client,
        client.producer(KEY) as producer,
    ):
        producer.enqueue_keyed("before", draft(b"before"))
        path = outbox_path(tmp_path / "s" / "outbox", ClientId(KEY.public))
        sizes = [Path(f"{path}{tail}").stat().st_size for tail in ("", "-wal")]
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (max(sizes) + 100, hard))
        try:
            large: list[Draft] = [draft(b"x" * 60_000) for _ in range(5)]
            with pytest.raises(VeenError) as refused:
                producer.enqueue_items(
                    [Item(draft=one, key=f"k{i}") for i, one in enumerate(large)]
                )
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        assert refused.value.code is ErrorCode.STORE
        assert producer.keyed("k0") is None
        producer.submit(draft(b"after"))
    assert texts(hub) == [b"before", b"after"]
