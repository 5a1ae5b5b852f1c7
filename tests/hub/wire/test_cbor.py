from __future__ import annotations

import time
import tracemalloc

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import ErrorCode, WireError
from hub.wire import cbor
from tests.support.strategies import flipped_bits, uint64, values

MEGABYTE = 1 << 20


@given(values)
def test_decode_gives_back_what_was_encoded(value: cbor.Value) -> None:
    assert cbor.decode(cbor.encode(value)) == value


@given(values)
def test_a_general_library_writes_and_reads_the_same_bytes(value: cbor.Value) -> None:
    data = cbor.encode(value)
    assert cbor2.dumps(value) == data
    assert cbor2.loads(data) == value


def _check_one_spelling(data: bytes) -> None:
    try:
        value = cbor.decode(data)
    except WireError:
        return
    assert cbor.encode(value) == data
    assert cbor2.loads(data) == value
    assert cbor.skip(data) == len(data)


@given(st.binary(max_size=64))
def test_arbitrary_bytes_are_refused_or_the_only_spelling_of_their_value(data: bytes) -> None:
    _check_one_spelling(data)


@given(values)
def test_a_flipped_bit_never_makes_a_second_spelling(value: cbor.Value) -> None:
    for changed in flipped_bits(cbor.encode(value)[:64]):
        _check_one_spelling(changed)


@given(values, st.binary(min_size=1, max_size=4))
def test_trailing_bytes_are_refused(value: cbor.Value, tail: bytes) -> None:
    with pytest.raises(WireError):
        cbor.decode(cbor.encode(value) + tail)


@given(values)
def test_every_truncation_is_refused(value: cbor.Value) -> None:
    data = cbor.encode(value)
    for size in range(len(data)):
        with pytest.raises(WireError):
            cbor.decode(data[:size])
        with pytest.raises(WireError):
            cbor.skip(data[:size])


@given(uint64)
def test_integers_have_exactly_one_width(number: int) -> None:
    minimal = cbor.uint(number)
    for first, width in ((0x18, 1), (0x19, 2), (0x1A, 4), (0x1B, 8)):
        if number >> (8 * width) or len(minimal) == width + 1:
            continue
        with pytest.raises(WireError):
            cbor.decode(bytes((first,)) + number.to_bytes(width, "big"))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param("", id="nothing"),
        pytest.param("1817", id="23 in two bytes"),
        pytest.param("1900ff", id="255 in three bytes"),
        pytest.param("1a0000ffff", id="65535 in five bytes"),
        pytest.param("1b00000000ffffffff", id="32 bits in nine bytes"),
        pytest.param("3817", id="negative number not minimal"),
        pytest.param("580161", id="length of bytes not minimal"),
        pytest.param("780161", id="length of text not minimal"),
        pytest.param("980101", id="length of array not minimal"),
        pytest.param("b801616101", id="length of map not minimal"),
        pytest.param("1c", id="reserved length 28"),
        pytest.param("1f", id="indefinite integer"),
        pytest.param("5f4101ff", id="indefinite bytes"),
        pytest.param("7f6161ff", id="indefinite text"),
        pytest.param("9f01ff", id="indefinite array"),
        pytest.param("bf616101ff", id="indefinite map"),
        pytest.param("c001", id="tag 0"),
        pytest.param("d81801", id="tag 24"),
        pytest.param("c249010000000000000000", id="big number"),
        pytest.param("f93c00", id="half float"),
        pytest.param("fa3f800000", id="single float"),
        pytest.param("fb3ff0000000000000", id="double float"),
        pytest.param("f7", id="undefined"),
        pytest.param("f0", id="simple value 16"),
        pytest.param("f820", id="simple value 32"),
        pytest.param("ff", id="break"),
        pytest.param("61ff", id="text that is not UTF-8"),
        pytest.param("63eda080", id="surrogate in text"),
        pytest.param("a2616101616102", id="duplicate text key"),
        pytest.param("a201010102", id="duplicate number key"),
        pytest.param("a202010101", id="number keys descending"),
        pytest.param("a2010161 6102".replace(" ", ""), id="number key, then text key"),
        pytest.param("a2616101 0102".replace(" ", ""), id="text key, then number key"),
        pytest.param("a12001", id="negative key"),
        pytest.param("a1410101", id="bytes as key"),
        pytest.param("a1f501", id="true as key"),
        pytest.param("a1f601", id="null as key"),
        pytest.param("a18001", id="array as key"),
        pytest.param("a101", id="key without value"),
    ],
)
def test_another_spelling_is_refused(data: str) -> None:
    with pytest.raises(WireError) as refusal:
        cbor.decode(bytes.fromhex(data))
    assert refusal.value.code is ErrorCode.FORMAT


BOMBS = {
    "arrays in arrays": b"\x81" * MEGABYTE,
    "maps in maps": b"\xa1\x01" * (MEGABYTE // 2),
    "bytes of 2^64-1": b"\x5b" + b"\xff" * 8,
    "text of 2^64-1": b"\x7b" + b"\xff" * 8,
    "array of 2^64-1": b"\x9b" + b"\xff" * 8,
    "map of 2^64-1": b"\xbb" + b"\xff" * 8,
    "bytes of 2^32 in five bytes": b"\x5a" + b"\xff" * 4,
    "array of 2^32 in five bytes": b"\x9a" + b"\xff" * 4,
    "claim one over what remains": b"\x9a\x00\x10\x00\x01" + bytes(MEGABYTE),
    "rising claims": b"".join(cbor.head(cbor.ARRAY, 2**n) for n in range(16)) + bytes(100),
}


@pytest.mark.parametrize("name", sorted(BOMBS))
def test_a_bomb_is_refused_at_once_with_little_memory(name: str) -> None:
    for read in (cbor.decode, cbor.skip):
        peak, seconds = _cost_of_refusal(read, BOMBS[name])
        assert peak < 64 * 1024
        assert seconds < 0.5


@pytest.mark.parametrize("item", [b"\x80", b"\xa0", b"\x40"])
def test_a_megabyte_of_empty_items_costs_bounded_memory(item: bytes) -> None:
    groups = cbor.head(cbor.ARRAY, 200_000) + item * 200_000
    peak, _ = _cost_of_refusal(cbor.decode, cbor.head(cbor.ARRAY, 5) + groups * 5)
    assert peak < 32 * MEGABYTE


def _cost_of_refusal(read: object, data: bytes) -> tuple[int, float]:
    assert callable(read)
    tracemalloc.start()
    started = time.process_time()
    with pytest.raises(WireError):
        read(data)
    seconds = time.process_time() - started
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak, seconds


def test_depth_is_counted_the_same_by_decode_and_skip() -> None:
    deepest = b"\x81" * (cbor.DEPTH_MAX - 1) + b"\x80"
    assert cbor.decode(deepest)
    assert cbor.skip(deepest) == len(deepest)
    for read in (cbor.decode, cbor.skip):
        with pytest.raises(WireError, match="deep"):
            read(b"\x81" + deepest)


@given(st.lists(values, max_size=6))
def test_a_sequence_splits_into_the_exact_bytes_of_its_items(items: list[cbor.Value]) -> None:
    encoded = [cbor.encode(item) for item in items]
    assert cbor.split_sequence(b"".join(encoded), items_max=6) == encoded


def test_a_sequence_has_a_bounded_number_of_items() -> None:
    assert cbor.split_sequence(bytes(3), items_max=3) == [b"\x00"] * 3
    with pytest.raises(WireError):
        cbor.split_sequence(bytes(4), items_max=3)


@pytest.mark.parametrize("tail", ["58", "5f", "c001", "f93c00", "8201", "1817"])
def test_a_sequence_with_one_malformed_item_is_refused_whole(tail: str) -> None:
    with pytest.raises(WireError):
        cbor.split_sequence(b"\x01\x02" + bytes.fromhex(tail), items_max=10)


def test_a_reader_refuses_another_key_length_or_value_than_the_schema_names() -> None:
    with pytest.raises(WireError, match="expected 2"):
        cbor.Reader(b"\x01").key(2)
    with pytest.raises(WireError, match="expected key 'b'"):
        cbor.Reader(b"\x61a").name("b")
    with pytest.raises(WireError, match="expected 3"):
        cbor.Reader(b"\x82\x01\x02").array(3)
    with pytest.raises(WireError, match="over 4"):
        cbor.Reader(b"\x05").uint(maximum=4)
    with pytest.raises(WireError, match="at most 1"):
        cbor.Reader(b"\x42ab").bstr(maximum=1)
    with pytest.raises(WireError, match="at most 1"):
        cbor.Reader(b"\x62ab").tstr(maximum=1)
    with pytest.raises(WireError, match="allowed 1 to 2"):
        cbor.Reader(b"\x80").array_length(minimum=1, maximum=2)


def test_a_reader_knows_where_it_is_and_what_it_read() -> None:
    reader = cbor.Reader(b"\x00\x82\x01\x02", 1)
    reader.array(2).key(1).key(2)
    assert reader.pos == 4
    assert reader.raw(1) == b"\x82\x01\x02"
    assert cbor.Reader(b"\x61a").name("a").pos == 2


def test_a_mutable_buffer_is_not_mistaken_for_a_list_of_numbers() -> None:
    with pytest.raises(AssertionError):
        cbor.encode(bytearray(b"ab"))
