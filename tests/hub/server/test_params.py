"""Query parameters are read strictly."""

from __future__ import annotations

import pytest

from hub.errors import ErrorCode, VeenError
from hub.server.params import Params

LABEL = "0a" * 32


def code(query: str, name: str = "seq") -> ErrorCode:
    with pytest.raises(VeenError) as refused:
        params = Params(query)
        params.uint(name)
        params.end()
    return refused.value.code


def test_an_empty_query_has_no_parameters() -> None:
    params = Params("")
    assert params.uint("seq") is None
    assert params.hash("label") is None
    assert params.flag("with_proof") is False
    params.end()


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("7", 7), ("18446744073709551615", 2**64 - 1)]
)
def test_unsigned_integers_have_one_spelling(text: str, number: int) -> None:
    assert Params(f"seq={text}").uint("seq") == number


@pytest.mark.parametrize(
    "text",
    ["", "-1", "+1", "01", "1.0", "0x1", "1e3", "%201", "1_000", "٣", "18446744073709551616",
     "9" * 30],
)  # fmt: skip
def test_every_other_spelling_is_e_format(text: str) -> None:
    assert code(f"seq={text}") is ErrorCode.FORMAT


@pytest.mark.parametrize(
    "query", ["seq=1&seq=1", "seq=1&other=2", "seq", "&", "seq=1&", "%zz=1&seq=1"]
)
def test_repeats_and_strangers_are_e_format(query: str) -> None:
    assert code(query) is ErrorCode.FORMAT


def test_more_fields_than_any_route_has_are_e_format() -> None:
    assert code("&".join(f"a{n}=1" for n in range(50))) is ErrorCode.FORMAT


@pytest.mark.parametrize("text", ["0A" * 32, "0a" * 31, "0a" * 33, "zz" * 32, ""])
def test_hashes_are_64_lower_case_hex_digits(text: str) -> None:
    with pytest.raises(VeenError) as refused:
        Params(f"label={text}").label()
    assert refused.value.code is ErrorCode.FORMAT


def test_what_must_be_there_is_asked_for_by_name() -> None:
    with pytest.raises(VeenError, match="label is missing"):
        Params("").label()
    with pytest.raises(VeenError, match="seq is missing"):
        Params("").need("seq")


def test_a_label_is_its_bytes() -> None:
    assert Params(f"label={LABEL}").label() == bytes.fromhex(LABEL)
