"""The fast judge of payloads says yes to nothing that the careful one spells otherwise."""

from __future__ import annotations

import json
from json.encoder import encode_basestring

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hub import canonical_json
from hub.canonical_json import JsonError
from recorder import canonical

numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)
canonical_texts = values.map(canonical_json.encode)
DEEP = b"[" * canonical_json.DEPTH_MAX + b"]" * canonical_json.DEPTH_MAX
COMMON = '{"ms":12.5,"path":"/api/é","tags":["a","b"],"user":{"id":-7,"role":null}}'.encode()


def careful(text: bytes) -> bool:
    try:
        return canonical_json.canonicalize(text) == text
    except JsonError:
        return False


@given(canonical_texts)
def test_what_is_spelled_canonically_is_canonical(text: bytes) -> None:
    assert canonical.is_canonical(text)


@given(canonical_texts, st.data())
def test_no_edit_of_a_canonical_text_is_taken_unless_it_is_one_again(
    text: bytes, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(text)))
    gone = data.draw(st.integers(0, 3))
    new = data.draw(
        st.sampled_from([b"", b" ", b"0", b".", b"e", b"-", b"\\u", b'"', b",", b"\x7f"])
    )
    changed = text[:at] + new + text[at + gone :]
    assert careful(changed) or not canonical._is_plain(changed)


@given(values.map(lambda value: json.dumps(value).encode()))
@example(b"1.0")
@example(b"-0")
@example(b"-0.0")
@example(b"1e5")
@example(b"1E400")
@example(b"0.00001")
@example(b"1" * 401)
@example(b"1" * 402)
@example(b"-" + b"1" * 401)
@example(b"[" + b"1" * 5_000 + b"]")
@example(b'{"a":1,"a":1}')
@example(b'{"b":1,"a":1}')
@example(b'{"\xf0\x9f\x98\x80":1,"\xef\xbd\x9e":1}')
@example(b'"\\ud83d\\ude00"')
@example(b'"\\ud800"')
@example(b'"\\/"')
@example(b"NaN")
@example(b" 1")
@example(b"")
@example(b"\xff")
@example(DEEP)
@example(b"[" + DEEP + b"]")
def test_any_other_spelling_is_judged_as_the_careful_way_does(text: bytes) -> None:
    assert careful(text) or not canonical._is_plain(text)


def test_every_character_is_spelled_as_the_contract_spells_it() -> None:
    for start in range(0, 0x110000, 0x1000):
        text = "".join(
            chr(code) for code in range(start, start + 0x1000) if not 0xD800 <= code < 0xE000
        )
        assert canonical._ENCODER.encode(text).decode() == encode_basestring(text)


def test_the_common_payload_goes_the_fast_way() -> None:
    assert canonical._is_plain(COMMON)


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(JsonError):
        canonical.is_canonical(b"{")
