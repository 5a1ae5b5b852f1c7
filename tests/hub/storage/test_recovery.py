"""Opening a directory after any kind of end."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hub import mmr
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, StoreError, VeenError
from hub.server.core import HubCore, Submission
from hub.storage import frames, replay, segments
from hub.storage.disk import Disk
from hub.storage.fsck import run_fsck
from hub.storage.labels import INDEX_BYTES, NODE_BYTES
from hub.storage.layout import Layout
from hub.storage.replay import LoggedBatch, Replayer
from hub.storage.state import Entry
from hub.storage.store import Store, open_store
from hub.types import ClientSeq
from hub.wire import ciphertext
from hub.wire.msg import Msg
from hub.wire.profile import PRODUCT
from hub.wire.rotation import hub_id_of
from tests.support.hubs import (
    START_TS,
    Producer,
    abandon,
    contents,
    fill,
    label,
    open_core,
    opened,
    seed,
)

A = label("A")
KEY = SigningKey(seed("hub"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "d"


@pytest.fixture
def producer() -> Producer:
    return Producer("a", A)


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many entries each batch had that a start replayed."""
    counts: list[int] = []
    apply = Replayer.apply

    def counting(self: Replayer, batch: LoggedBatch, segment: int, where: str) -> None:
        counts.append(len(batch.entries))
        apply(self, batch, segment, where)

    monkeypatch.setattr(replay.Replayer, "apply", counting)
    return counts


def last_segment(root: Path) -> Path:
    layout = Layout(root)
    return layout.segment(layout.segment_numbers()[-1])


def test_a_start_after_a_clean_end_replays_nothing(
    root: Path, producer: Producer, replayed: list[int]
) -> None:
    with opened(root) as core:
        fill(core, [producer], 20)
    with opened(root) as core:
        assert core.store.state.entries == 20
    assert replayed == []


def test_a_start_after_a_kill_replays_only_what_came_after_the_snapshot(
    root: Path, producer: Producer, replayed: list[int]
) -> None:
    core = open_core(root)
    fill(core, [producer], 40)
    core.store.snapshot()
    fill(core, [producer], 7)
    abandon(core)
    with opened(root) as again:
        assert sum(replayed) == 7
        assert again.store.state.entries == again.reader.count(A) == 47


def test_a_roll_takes_a_snapshot_so_that_a_start_reads_one_segment(
    root: Path, producer: Producer, replayed: list[int]
) -> None:
    core = open_core(root, segment_bytes=4_000)
    fill(core, [producer], 60)
    assert core.store.segments.number > 3
    abandon(core)
    with opened(root) as again:
        assert sum(replayed) < 20
        assert again.reader.count(A) == 60


def test_a_log_without_any_index_is_replayed_whole_to_the_same_state(
    root: Path, producer: Producer, replayed: list[int]
) -> None:
    other = Producer("b", label("B"))
    with opened(root, segment_bytes=4_000) as core:
        fill(core, [producer, other], 40)
        before, state = contents(core), core.store.state
    layout = Layout(root)
    layout.snapshot.unlink()
    layout.leaves.unlink()
    for path in layout.labels.glob("*/*"):
        path.unlink()
    with opened(root) as core:
        assert sum(replayed) == 40
        assert contents(core) == before
        assert core.store.state.labels == state.labels
    assert run_fsck(root).findings == ()


@pytest.mark.parametrize("missing", [1, 8, 40, 300, 700])
def test_a_torn_tail_is_cut_and_the_log_goes_on(
    root: Path, producer: Producer, missing: int
) -> None:
    core = open_core(root)
    fill(core, [producer], 8)
    whole = last_segment(root).stat().st_size
    [item] = producer.messages(1)
    core.submit([item])
    abandon(core)
    path = last_segment(root)
    data = path.read_bytes()
    # What a stop before the sync leaves: a part of the batch, and no index of it.
    path.write_bytes(data[: max(whole + 1, len(data) - missing)])
    cut_index(root, 8)
    Layout(root).default_heads().unlink()
    with opened(root, take_over=True) as again:
        assert again.reader.count(A) == 8
        [outcome] = again.submit([item])
        assert isinstance(outcome, bytes)
    assert run_fsck(root).findings == ()


def cut_index(root: Path, size: int) -> None:

    folder = Layout(root).label(A)
    for name, length in (
        ("index", INDEX_BYTES * size),
        ("nodes", NODE_BYTES * mmr.node_count(size)),
    ):
        with (folder / name).open("r+b") as file:
            file.truncate(length)


def test_a_torn_batch_whose_commit_arrived_is_still_a_torn_tail(
    root: Path, producer: Producer
) -> None:
    core = open_core(root)
    fill(core, [producer], 8)
    start = last_segment(root).stat().st_size
    fill(core, [producer], 4)
    abandon(core)
    path = last_segment(root)
    data = path.read_bytes()
    path.write_bytes(data[: start + 20] + bytes(300) + data[start + 320 :])
    cut_index(root, 8)
    Layout(root).default_heads().unlink()
    with opened(root, take_over=True) as again:
        assert again.read_only is None
        assert again.reader.count(A) == 8


def test_a_client_cannot_make_a_torn_tail_look_like_damage(root: Path) -> None:
    """A COMMIT in the bytes of a message is not one, even behind a RECEIPT that was answered."""
    producer = Producer("a", A)
    core = open_core(root)
    old = fill(core, [producer], 8)[3]
    fake = frames.frame(frames.RECEIPT, old) + frames.commit(1, 10_000)
    start = last_segment(root).stat().st_size
    core.submit([_message_with(producer, fake)])
    abandon(core)
    path = last_segment(root)
    data = bytearray(path.read_bytes())
    assert fake in data
    data[start + 12] ^= 1  # the batch was not synced when the power went
    path.write_bytes(data)
    cut_index(root, 8)
    Layout(root).default_heads().unlink()
    with opened(root, take_over=True) as again:
        assert again.read_only is None
        assert again.reader.count(A) == 8


def _message_with(producer: Producer, inside: bytes) -> Submission:
    producer.client_seq += 1
    msg = Msg.sign(
        producer.key,
        profile_id=PRODUCT.id,
        label=producer.label,
        client_seq=ClientSeq(producer.client_seq),
        prev_ack=0,
        auth_ref=None,
        ciphertext=ciphertext.join(seed("enc"), b"h", inside, PRODUCT.pad_block),
    )
    return Submission(msg.encode(), msg.leaf_hash())


def damage_batch(root: Path, number: int, entry: int) -> int:
    """Change a byte of the entry with this number (from 0) in a segment; returns its offset."""
    path = Layout(root).segment(number)
    data = bytearray(path.read_bytes())
    places = [
        found.offset
        for found in frames.scan(bytes(data), len(frames.MAGIC), str(path))
        if found.kind == frames.MSG
    ]
    data[places[entry] + 100] ^= 1
    path.write_bytes(data)
    return places[entry]


def test_damage_in_the_middle_makes_the_hub_read_only_and_the_rest_stays_readable(
    root: Path, producer: Producer
) -> None:
    core = open_core(root)
    fill(core, [producer], 20)
    before = contents(core)
    abandon(core)
    offset = damage_batch(root, 1, entry=9)
    again = open_core(root)
    try:
        assert again.read_only is not None
        assert again.read_only.code is ErrorCode.DAMAGE
        assert f"at offset {offset}" in again.read_only.detail
        [refused] = again.submit([producer.message()])
        assert isinstance(refused, StoreError)
        assert refused.code is ErrorCode.STORE
        for place, entry in before.items():
            if place[1] != 10:
                assert again.reader.entry(*place) == entry
        with pytest.raises(VeenError, match=str(offset)):
            again.reader.entry(A, 10)
    finally:
        again.close()


def test_damage_in_the_last_batch_that_was_answered_is_no_torn_tail(
    root: Path, producer: Producer
) -> None:
    core = open_core(root)
    fill(core, [producer], 8)
    abandon(core)
    damage_batch(root, 1, entry=7)
    again = open_core(root)
    assert again.read_only is not None
    assert again.read_only.code is ErrorCode.DAMAGE
    again.close()


def test_a_missing_segment_is_named_and_what_is_there_is_served(
    root: Path, producer: Producer
) -> None:
    core = open_core(root, segment_bytes=4_000)
    fill(core, [producer], 60)
    before = contents(core)
    abandon(core)
    Layout(root).segment(2).unlink()
    again = open_core(root)
    try:
        assert again.read_only is not None
        assert "00000002.seg" in again.read_only.detail
        kept = 0
        for place, entry in before.items():
            try:
                assert again.reader.entry(*place) == entry
                kept += 1
            except StoreError as refusal:
                assert "00000002.seg" in refusal.detail  # noqa: PT017 - the others must not raise
        assert kept > 40
    finally:
        again.close()


def test_a_batch_that_contradicts_the_log_is_damage_even_at_its_end(
    root: Path, producer: Producer
) -> None:
    """Whole frames, good checksums, a genuine receipt: but of a place that is taken."""
    core = open_core(root)
    fill(core, [producer], 3, per_batch=1)
    path = last_segment(root)
    data = path.read_bytes()
    found = list(frames.scan(data, len(frames.MAGIC), str(path)))
    abandon(core)
    again = frames.frame(found[-3].kind, found[-3].payload)
    again += frames.frame(found[-2].kind, found[-2].payload) + frames.commit(1, 4)
    path.write_bytes(data + again)
    reopened = open_core(root)
    assert reopened.read_only is not None
    assert "out of order" in reopened.read_only.detail
    assert reopened.store.state.entries == 3
    reopened.close()


def test_a_receipt_by_an_unknown_key_is_damage(root: Path, tmp_path: Path) -> None:
    producer = Producer("a", A)
    store = plain_store(root)
    append(store, producer, 4)
    store.segments.close()
    store.files.close()
    store.leaves.close()
    other = SigningKey(seed("other"))
    again, damage = open_store(
        root, Disk(), hub_id=hub_id_of(KEY.public), ledger=None, keys=[other.public]
    )
    assert damage is not None
    assert "no known key" in damage.reason
    again.close_unchanged()


def test_a_segment_of_a_roll_that_never_finished_is_removed(root: Path, producer: Producer) -> None:
    core = open_core(root)
    fill(core, [producer], 4)
    abandon(core)
    Layout(root).segment(2).write_bytes(b"VEENL")
    with opened(root) as again:
        assert again.store.segments.number == 1
        fill(again, [producer], 1)
    assert run_fsck(root).findings == ()


def test_a_stale_empty_segment_of_a_failed_roll_is_removed(root: Path, producer: Producer) -> None:
    core = open_core(root)
    fill(core, [producer], 4)
    stale = segments.header(2, core.identity.hub_id, 4)
    fill(core, [producer], 4)
    abandon(core)
    Layout(root).segment(2).write_bytes(stale)
    with opened(root) as again:
        assert again.read_only is None
        assert again.reader.count(A) == 8


@pytest.mark.parametrize("file", ["snapshot", "leaves.sqlite"])
def test_a_damaged_shortcut_only_makes_the_start_longer(
    root: Path, producer: Producer, file: str, replayed: list[int]
) -> None:
    with opened(root) as core:
        fill(core, [producer], 12)
        before = contents(core)
    (root / file).write_bytes(b"garbage" * 400)
    with opened(root) as core:
        assert contents(core) == before
    assert sum(replayed) == 12
    assert run_fsck(root).findings == ()


def plain_store(root: Path) -> Store:
    store, damage = open_store(
        root, Disk(), hub_id=hub_id_of(KEY.public), ledger=None, keys=[KEY.public]
    )
    assert damage is None
    return store


def append(store: Store, producer: Producer, count: int) -> None:
    batch = store.begin()
    for item in producer.messages(count):
        entry = Entry.of(item.data, item.leaf)
        entry.hub_ts = START_TS
        batch.add(batch.label(entry.label), entry)
    store.commit(batch, KEY)


@pytest.mark.slow
def test_ten_to_the_five_entries_open_in_a_blink(root: Path) -> None:
    store = plain_store(root)
    producers = [Producer(f"p{number}", label(f"P{number}")) for number in range(4)]
    for number in range(1000):
        append(store, producers[number % 4], 100)
    store.close()
    started = time.perf_counter()
    store = plain_store(root)
    elapsed = time.perf_counter() - started
    assert store.state.entries == 100_000
    store.close()
    assert elapsed < 1.0


def test_the_same_state_whichever_way_a_start_takes(root: Path, producer: Producer) -> None:
    """By snapshot, by snapshot and tail, or by the whole log: the cursors are equal."""
    states = []
    core: HubCore = open_core(root, segment_bytes=4_000)
    fill(core, [producer, Producer("b", label("B"))], 30)
    abandon(core)
    for drop in (False, True):
        if drop:
            (root / "snapshot").unlink()
        again = open_core(root)
        states.append(again.store.state.labels)
        again.close()
    assert states[0] == states[1] == core.store.state.labels
