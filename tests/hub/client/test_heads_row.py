"""A row of receipts is remembered as one by one, or not at all."""

from __future__ import annotations

import dataclasses

import pytest

from hub.client.heads import HeadStore
from hub.crypto.signing import SigningKey
from hub.errors import VeenError
from hub.types import Label, LeafHash, MmrRoot, StreamSeq, UnixSeconds
from hub.wire.receipt import Receipt
from tests.support.memory_log import MemoryLog

HUB = SigningKey(b"\x05" * 32)
LABEL = Label(b"\x11" * 32)
COUNT = 40


def _receipts() -> list[Receipt]:
    tree = MemoryLog()
    made = []
    for number in range(COUNT):
        leaf = LeafHash(bytes([number]) * 32)
        tree.append(leaf)
        at = UnixSeconds(1_700_000_000 + number // 3)
        made.append(
            Receipt.sign(HUB, LABEL, StreamSeq(number + 1), leaf, MmrRoot(tree.roots[-1]), at)
        )
    return made


RECEIPTS = _receipts()


def _store(upto: int) -> HeadStore:
    store = HeadStore(None)
    for receipt in RECEIPTS[:upto]:
        store.observe(receipt)
    return store


@pytest.mark.parametrize("first", [1, 2, 7, 8])
@pytest.mark.parametrize("size", [1, 5, 32])
def test_a_row_that_follows_gives_the_head_of_its_last(first: int, size: int) -> None:
    store = _store(first)
    assert store.observe_row(RECEIPTS[first : first + size])
    assert store.get(LABEL) == _store(first + size).get(LABEL)


def test_a_row_is_left_to_be_judged_where_any_receipt_does_not_follow() -> None:
    """Whatever `observe` refuses or has to look at closer is no row."""
    row = RECEIPTS[7:12]
    strange = [
        dataclasses.replace(row[2], label=Label(b"\x12" * 32)),
        dataclasses.replace(row[2], mmr_root=MmrRoot(bytes(32))),
        dataclasses.replace(row[2], leaf_hash=LeafHash(bytes(32))),
        dataclasses.replace(row[2], hub_ts=UnixSeconds(1)),
        dataclasses.replace(row[2], hub_ts=UnixSeconds(1 << 40)),
        RECEIPTS[1],
        RECEIPTS[20],
    ]
    for one in strange:
        store = _store(7)
        before = store.get(LABEL)
        assert not store.observe_row([*row[:2], one, *row[3:]])
        assert store.get(LABEL) == before


def test_a_label_that_is_new_or_has_a_gap_is_no_row() -> None:
    assert not HeadStore(None).observe_row(RECEIPTS[:3])
    store = _store(3)
    store.observe(RECEIPTS[9])
    assert not store.observe_row(RECEIPTS[10:12])
    with pytest.raises(VeenError):
        store.observe(dataclasses.replace(RECEIPTS[9], mmr_root=MmrRoot(bytes(32))))
