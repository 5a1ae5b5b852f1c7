from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub import label
from hub.crypto import hashing
from hub.errors import ErrorCode, VeenError
from hub.types import StreamId
from tests.support import vectors
from tests.support.vectors import Section, unhex

VECTORS = vectors.load("identifiers")


@pytest.mark.parametrize("entry", VECTORS["labels"], ids=lambda entry: entry["note"])
def test_the_labels_of_the_vectors(entry: Section) -> None:
    stream_id = StreamId(unhex(entry["stream_id"]))
    found = label.derive(unhex(entry["routing_key"]), stream_id, entry["epoch"])
    assert found == unhex(entry["label"])


@pytest.mark.parametrize("entry", VECTORS["stream_names"], ids=lambda entry: entry["name"])
def test_the_stream_ids_of_the_vectors(entry: Section) -> None:
    expected = unhex(entry["stream_id_H"])
    assert hashing.h(entry["name"].encode()) == expected
    if "/" in entry["name"]:
        assert label.stream_id(entry["name"]) == expected
    else:  # One segment has a hash, but it is no stream name of ours.
        with pytest.raises(VeenError):
            label.stream_id(entry["name"])


def test_an_id_in_hex_is_taken_as_it_is() -> None:
    digits = VECTORS["stream_names"][0]["stream_id_H"]
    assert label.stream_id(digits) == label.stream_id(digits.upper()) == unhex(digits)


@pytest.mark.parametrize(
    "name",
    [
        "a/b",
        "record/app/http",
        "0/1",
        "a.b/c_d-e",
        "a/b/c/d/e/f/g/h",
        "a" * 63 + "/" + "b" * 64,
    ],
)
def test_names_of_the_grammar_are_taken(name: str) -> None:
    label.check_stream_name(name)
    assert label.stream_id(name) == hashing.h(name.encode())


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a",
        "/a",
        "a/",
        "a//b",
        "a/b/c/d/e/f/g/h/i",
        "A/b",
        "a/.b",
        "../a",
        "a/..",
        "-a/b",
        "_a/b",
        "a b/c",
        "a/b\n",
        "\na/b",
        "a/b\x00",
        "é/b",
        "a/\u0661",  # a digit, but not of ASCII
        "a" * 64 + "/" + "b" * 64,
        "ab" * 31 + "a",  # 63 hex digits
        "ab" * 32 + "a",
        "ab" * 32 + "\n",
        "0x" + "ab" * 31,
    ],
)
def test_other_names_are_refused(name: str) -> None:
    for use in (label.check_stream_name, label.stream_id):
        with pytest.raises(VeenError) as refusal:
            use(name)
        assert refusal.value.code is ErrorCode.FORMAT


def test_an_id_in_hex_is_not_a_stream_name() -> None:
    with pytest.raises(VeenError):
        label.check_stream_name("ab" * 32)


@pytest.mark.parametrize(
    ("unix", "epoch_sec", "epoch"),
    [
        (0, 0, 0),
        (1_700_000_000, 0, 0),
        (1_700_000_000, 60, 28_333_333),
        (59, 60, 0),
        (60, 60, 1),
        (2**64 - 1, 1, 2**64 - 1),
    ],
)
def test_the_epoch_of_a_second(unix: int, epoch_sec: int, epoch: int) -> None:
    assert label.epoch_of(unix, epoch_sec) == epoch


@given(st.integers(0, 2**32), st.integers(1, 10**6))
def test_a_second_lies_within_its_epoch(unix: int, epoch_sec: int) -> None:
    epoch = label.epoch_of(unix, epoch_sec)
    assert epoch * epoch_sec <= unix < (epoch + 1) * epoch_sec


@pytest.mark.parametrize("size", [0, 11, 31, 33])
def test_a_routing_key_of_another_size_is_refused(size: int) -> None:
    label.check_routing_key(bytes(32))
    with pytest.raises(VeenError) as refusal:
        label.check_routing_key(bytes(size))
    assert refusal.value.code is ErrorCode.FORMAT


def test_key_stream_and_epoch_each_change_the_label() -> None:
    key, other = bytes(32), bytes([1]) + bytes(31)
    stream = label.stream_id("a/b")
    found = {
        label.derive(key, stream),
        label.derive(other, stream),
        label.derive(key, label.stream_id("a/c")),
        label.derive(key, stream, 1),
    }
    assert len(found) == 4
