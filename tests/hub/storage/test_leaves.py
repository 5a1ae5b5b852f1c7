from __future__ import annotations

from pathlib import Path

import pytest

from hub.errors import ErrorCode, StoreError
from hub.storage.leaves import LeafIndex
from tests.support.hubs import label, seed

A, B = label("A"), label("B")


def filled(path: Path, count: int = 50) -> LeafIndex:
    leaves = LeafIndex(path)
    for number in range(1, count + 1):
        leaves.add(seed(f"leaf {number}"), A if number % 2 else B, number)
    return leaves


def test_leaves_are_found_before_and_after_the_flush_and_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "leaves.sqlite"
    leaves = filled(path)
    assert leaves.find_recent(seed("leaf 7")) == (A, 7)
    assert leaves.find(seed("leaf 8")) == [(B, 8)]
    leaves.flush(50)
    assert leaves.pending() == 0
    assert leaves.find_recent(seed("leaf 7")) is None
    assert leaves.find(seed("leaf 7")) == [(A, 7)]
    leaves.close()
    again = LeafIndex(path)
    assert again.entries == 50
    assert again.find(seed("leaf 50")) == [(B, 50)]
    assert again.find(seed("no such leaf")) == []
    again.close()


def test_leaves_behind_the_end_of_the_log_are_forgotten(tmp_path: Path) -> None:
    leaves = filled(tmp_path / "leaves.sqlite")
    leaves.flush(50)
    leaves.cut({A: 31})
    assert leaves.find(seed("leaf 31")) == [(A, 31)]
    assert leaves.find(seed("leaf 33")) == []
    assert leaves.find(seed("leaf 2")) == []
    leaves.close()


def test_a_file_that_is_no_database_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "leaves.sqlite"
    leaves = filled(path)
    leaves.flush(50)
    leaves.close()
    path.write_bytes(b"\x00garbage" + path.read_bytes()[8:])
    again = LeafIndex(path)
    assert again.entries == 0
    assert again.find(seed("leaf 1")) == []
    again.close()


def test_a_damaged_page_is_named_and_not_taken_for_absence(tmp_path: Path) -> None:
    path = tmp_path / "leaves.sqlite"
    leaves = filled(path, 2000)
    leaves.flush(2000)
    leaves.close()
    data = bytearray(path.read_bytes())
    for page in range(5 * 4096, len(data), 4096):
        data[page] = 0xFF
    path.write_bytes(data)
    again = LeafIndex(path)
    with pytest.raises(StoreError) as caught:
        for number in range(1, 2001):
            again.find(seed(f"leaf {number}"))
    assert caught.value.code is ErrorCode.DAMAGE
    again.close()


def test_a_flush_that_was_refused_leaves_no_open_transaction(tmp_path: Path) -> None:
    leaves = filled(tmp_path / "leaves.sqlite")
    leaves._db.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreError):
        leaves.flush(50)
    leaves._db.execute("PRAGMA query_only = OFF")
    leaves.flush(50)
    assert leaves.find(seed("leaf 9")) == [(A, 9)]
    leaves.close()


def test_leaves_are_found_while_a_thread_flushes_and_after_it(tmp_path: Path) -> None:
    leaves = filled(tmp_path / "leaves.sqlite", 5000)
    leaves.begin_flush(5000)
    leaves.add(seed("next"), A, 5001)
    assert leaves.find(seed("leaf 7")) == [(A, 7)]
    assert leaves.find(seed("next")) == [(A, 5001)]
    leaves.sync()
    assert leaves.entries == 5000
    assert leaves.find_recent(seed("leaf 7")) is None
    assert leaves.find(seed("leaf 7")) == [(A, 7)]
    leaves.close()


def test_what_the_thread_was_refused_is_not_lost(tmp_path: Path) -> None:
    leaves = filled(tmp_path / "leaves.sqlite")
    leaves._db.execute("PRAGMA query_only = ON")
    leaves.begin_flush(50)
    leaves.sync()
    assert leaves.entries == 0
    assert leaves.find(seed("leaf 9")) == [(A, 9)]
    leaves.add(seed("next"), B, 51)
    with pytest.raises(StoreError, match="leaf index refuses"):
        leaves.begin_flush(51)
    leaves._db.execute("PRAGMA query_only = OFF")
    leaves.begin_flush(51)
    assert leaves.entries == 51
    assert leaves.find_recent(seed("leaf 9")) is None
    assert leaves.find(seed("leaf 9")) == [(A, 9)]
    assert leaves.find(seed("next")) == [(B, 51)]
    leaves.close()
