"""Many entries in few reads are the same entries, and what is not there is said."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from hub.errors import ErrorCode, VeenError
from hub.server.core import HubCore
from hub.storage import reader as reader_module
from hub.storage.prune import prune_label
from hub.storage.reader import LogReader
from tests.support.hubs import Producer, fill, label, open_core

A, B = label("A"), label("B")


@pytest.fixture
def core(tmp_path: Path) -> Iterator[HubCore]:
    found = open_core(tmp_path / "d", segment_bytes=5_000)
    fill(found, [Producer("a", A), Producer("b", B), Producer("c", B)], 60)
    yield found
    found.close()


@pytest.fixture
def reader(core: HubCore) -> Iterator[LogReader]:
    found = LogReader(core.config.data_dir)
    yield found
    found.close()


@pytest.mark.parametrize("span", [1, 2_000, 4_000_000], ids=["single", "short", "long"])
@pytest.mark.parametrize("gap", [0, 65_536], ids=["close", "far"])
def test_a_block_is_its_entries_for_every_range(
    reader: LogReader, monkeypatch: pytest.MonkeyPatch, span: int, gap: int
) -> None:
    monkeypatch.setattr(reader_module, "_SPAN_BYTES_MAX", span)
    monkeypatch.setattr(reader_module, "_GAP_BYTES_MAX", gap)
    for where in (A, B):
        last = reader.count(where)
        whole = list(reader.entries(where, 1, last))
        for first in range(1, last + 1, 3):
            for end in range(first, last + 1):
                assert reader.block(where, first, end) == whole[first - 1 : end]


def test_a_pruned_payload_is_named(core: HubCore, reader: LogReader) -> None:
    core.store.roll()
    asyncio.run(prune_label(core.store, A, 5))
    assert reader.first_held(A) == 5
    with pytest.raises(VeenError) as refusal:
        reader.block(A, 3, 9)
    assert (refusal.value.code, refusal.value.detail) == (ErrorCode.PRUNED, "first_held=5")
    assert len(reader.block(A, 5, 9)) == 5


def test_a_flipped_bit_is_damage(core: HubCore, reader: LogReader) -> None:
    position = core.store.files.position(A, 3)
    path = core.store.layout.segment(position.segment)
    data = bytearray(path.read_bytes())
    data[position.receipt_offset + 40] ^= 1
    path.write_bytes(data)
    with pytest.raises(VeenError) as refusal:
        reader.block(A, 1, 5)
    assert refusal.value.code is ErrorCode.DAMAGE
