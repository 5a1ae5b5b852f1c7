from __future__ import annotations

import io

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import WireError
from hub.wire import cbor
from hub.wire.wellformed import Walk
from tests.support.strategies import values


def _end(data: bytes, *, items_max: int = 1000) -> int:
    walk = Walk(data, 0, items_max=items_max)
    walk.item()
    return walk.pos


@pytest.mark.parametrize(
    "item",
    [
        "00", "1800", "1b0000000000000000", "20", "3800", "40", "580161", "5f41004101ff", "5fff",
        "60", "61ff", "7f6161ff", "80", "98020102", "9fff", "9f9f01ffff", "a0", "a201010102",
        "bf0102ff", "bf8001ff", "c001", "d9d9f780", "c1c1c101", "e0", "f4", "f6", "f7", "f8ff",
        "f93c00", "fa00000000", "fb0000000000000000",
    ],
)  # fmt: skip
@pytest.mark.parametrize("tail", [b"", b"\x00", b"\xff"])
def test_every_spelling_of_an_item_ends_where_it_ends(item: str, tail: bytes) -> None:
    data = bytes.fromhex(item)
    assert _end(data + tail) == len(data)
    for size in range(len(data)):
        with pytest.raises(WireError):
            _end(data[:size])


@pytest.mark.parametrize(
    "data",
    [
        "", "1c", "1f", "3f", "5c", "5f00ff", "5f6161ff", "5f5f4100ffff", "7f4100ff", "9c",
        "bf01ff", "bf010203ff", "c0", "c0ff", "df01", "dc01", "f800", "f81f", "fc", "ff", "81ff",
        "a101ff", "5bffffffffffffffff00", "9bffffffffffffffff00", "bbffffffffffffffff00",
        "9f01", "bf0102",
    ],
)  # fmt: skip
def test_what_is_not_well_formed_is_refused(data: str) -> None:
    with pytest.raises(WireError):
        _end(bytes.fromhex(data))


@given(values, st.binary(max_size=4))
def test_canonical_items_end_where_the_strict_reader_ends_them(
    value: cbor.Value, tail: bytes
) -> None:
    data = cbor.encode(value)
    assert _end(data + tail) == cbor.skip(data + tail) == len(data)


@given(st.binary(min_size=1, max_size=48))
def test_whatever_another_decoder_reads_ends_at_the_same_byte(data: bytes) -> None:
    source = io.BytesIO(data)
    try:
        cbor2.CBORDecoder(source, read_size=1).decode()
    except Exception:  # noqa: BLE001 - it also refuses values, which have an end nevertheless
        return
    assert _end(data) == source.tell()


def test_depth_and_number_are_bounded() -> None:
    for nest in (b"\x81", b"\x9f", b"\xc1"):
        assert _end(nest * cbor.DEPTH_MAX + b"\x01" + b"\xff" * cbor.DEPTH_MAX)
        with pytest.raises(WireError, match="deep"):
            _end(nest * 100_000)
    assert _end(b"\x83\x01\x02\x03", items_max=4) == 4
    with pytest.raises(WireError, match="many"):
        _end(b"\x83\x01\x02\x03", items_max=3)
    with pytest.raises(WireError, match="many"):
        _end(b"\x9f" + b"\x01" * 4 + b"\xff", items_max=4)
