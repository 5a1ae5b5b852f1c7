from __future__ import annotations

import json
import random

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hub import canonical_json
from hub.canonical_json import Value, encode_text
from queryapi.contract.fields import MISSING, follow, parse_field
from queryapi.contract.predicates import Op, Predicate, check_operand
from queryapi.contract.rows import RowShape
from queryapi.contract.values import sort_key, text_of
from queryapi.selftest.questions import Asker
from recorder.event import EVENT_TIME_MAX, format_time
from spark_jobs.query_batch import cut_path
from spark_jobs.query_filter import holds
from spark_jobs.query_text import encode_columns, quote, sort_keys, timestamps

_unicode = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_keys = st.sampled_from(["a", "b", "0", "1", "01", 'q"', "\\", "\u0007", "\U00010000", "e\u0301"])
_json: st.SearchStrategy[Value] = st.recursive(
    st.none() | st.booleans() | st.integers() | _unicode,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(_keys | _unicode, inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.lists(_json, max_size=4), st.lists(_keys, min_size=1, max_size=3))
def test_a_sub_text_is_the_value_at_its_path(payloads: list[Value], path: list[str]) -> None:
    texts = pa.array([encode_text(one) for one in payloads], pa.string())
    found = [follow(payload, tuple(path)) for payload in payloads]
    expected = [None if one is MISSING else encode_text(one) for one in found]
    assert cut_path(texts, tuple(path)).to_pylist() == expected


def test_a_predicate_on_sub_texts_is_the_contract_s_predicate(rng: random.Random) -> None:
    asker = Asker(rng)
    field = parse_field("payload.a")
    for _ in range(400):
        values = [asker.value() for _ in range(8)]
        op = rng.choice(list(Op))
        operand = asker.value()
        try:
            check_operand(op, operand)
        except ValueError:
            continue
        predicate = Predicate(field=field, op=op, value=operand)
        texts = pa.array([None, *map(encode_text, values)], pa.string())
        expected = [predicate.holds(one) for one in (MISSING, *values)]
        assert holds(predicate, texts).to_pylist() == expected, predicate
        # As a file's dictionary, and after most of its rows were left out.
        entries = texts.dictionary_encode()
        assert holds(predicate, entries).to_pylist() == expected, predicate
        kept = rng.sample(range(len(texts)), 3)
        few = holds(predicate, entries.take(pa.array(kept)))
        assert few.to_pylist() == [expected[one] for one in kept], predicate


@given(st.lists(st.none() | _unicode, max_size=5))
def test_texts_are_quoted_as_canonical_json_does(texts: list[str | None]) -> None:
    expected = [None if text is None else encode_text(text) for text in texts]
    assert quote(pa.array(texts, pa.string())).to_pylist() == expected


@given(st.lists(st.none() | st.integers(0, EVENT_TIME_MAX), max_size=5))
def test_times_are_printed_with_three_decimals(millis: list[int | None]) -> None:
    expected = [None if one is None else format_time(one) for one in millis]
    assert timestamps(pa.array(millis, pa.int64())).to_pylist() == expected


@given(st.lists(st.tuples(_json, _json), min_size=1, max_size=5), _unicode)
def test_rows_joined_from_columns_are_canonical_json(
    pairs: list[tuple[Value, Value]], name: str
) -> None:
    shape = RowShape([name, "payload"] if name != "payload" else ["x", "payload"])
    columns = [pa.array([encode_text(pair[side]) for pair in pairs]) for side in (0, 1)]
    (encoded,) = encode_columns(shape, columns)
    text = f"[{bytes(encoded.data).decode()[:-1]}]"
    expected = [dict(zip(shape.names, pair, strict=True)) for pair in pairs]
    assert text == encode_text(expected)
    assert sum(encoded.lengths.to_pylist()) == len(encoded.data)


def test_rows_of_a_slice_are_only_those_of_the_slice() -> None:
    shape = RowShape(["a"])
    column = pa.array([str(number) for number in range(10)], pa.string())
    (encoded,) = encode_columns(shape, [column.slice(3, 2)])
    assert json.loads(f"[{bytes(encoded.data).decode()[:-1]}]") == [{"a": 3}, {"a": 4}]


@given(_json | st.decimals(allow_nan=False, allow_infinity=False, places=9))
def test_a_sort_key_gives_its_value_back(value: Value) -> None:
    text = canonical_json.encode_text(value)
    assert text_of(sort_key(text)) == text


@given(st.lists(_json | st.decimals(allow_nan=False, allow_infinity=False, places=9), min_size=1))
def test_a_column_of_sort_keys_is_that_of_its_texts(values: list[Value]) -> None:
    texts = [canonical_json.encode_text(value) for value in values]
    assert sort_keys(pa.array(texts, pa.string())).to_pylist() == [sort_key(one) for one in texts]
