from __future__ import annotations

import random
from decimal import Decimal, localcontext

from hypothesis import given
from hypothesis import strategies as st

from hub import canonical_json
from hub.canonical_json import Value
from queryapi.contract.codes import QueryError
from queryapi.contract.descriptor_reader import read_recorded, read_submitted
from queryapi.contract.evaluate import evaluate
from queryapi.contract.evidence import spot_threshold
from queryapi.contract.values import order_key, sort_key
from queryapi.selftest.questions import Asker
from recorder.event import UnixMillis
from tests.support.query_rows import coverage_of, random_rows

STREAMS = ["record/app/a", "record/app/b"]
PRINCIPAL = "ab" * 32

_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
json_values: st.SearchStrategy[Value] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | _text
    | st.decimals(allow_nan=False, allow_infinity=False, places=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=6,
)


@given(json_values, json_values)
def test_sort_keys_order_as_values_do(left: Value, right: Value) -> None:
    left_key, right_key = (sort_key(canonical_json.encode_text(one)) for one in (left, right))
    assert (left_key < right_key) is (order_key(left) < order_key(right))
    assert (left_key == right_key) is (order_key(left) == order_key(right))


@given(
    st.decimals(
        allow_nan=False, allow_infinity=False, places=30, min_value=-(10**20), max_value=10**20
    ),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-1000, max_value=1000),
)
def test_sort_keys_order_numbers_by_value(left: Decimal, right: Decimal) -> None:
    keys = [sort_key(canonical_json.encode_text(one)) for one in (left, right)]
    assert (keys[0] < keys[1]) is (left < right)


@given(st.decimals(min_value=Decimal("1e-400"), max_value=1, allow_nan=False))
def test_a_spot_threshold_is_the_floor_of_the_exact_product(rate: Decimal) -> None:
    with localcontext() as context:
        context.prec = 2000
        product = rate * 2**64
        assert spot_threshold(rate) <= product < spot_threshold(rate) + 1


def test_a_pinned_descriptor_reads_back_as_itself_and_stays_one_question(
    rng: random.Random,
) -> None:
    asker = Asker(rng)
    rows = [row for stream in STREAMS for row in random_rows(rng, stream, 5)]
    for _ in range(300):
        source = asker.question(STREAMS, [row.hub_commit_time for row in rows])
        text = canonical_json.encode(source)
        asked = read_submitted(text, query_id="q-1").asked_by(PRINCIPAL, UnixMillis(0))
        later = read_submitted(text, query_id="q-1").asked_by(PRINCIPAL, UnixMillis(1))
        pinned = asked.pin([coverage_of(rows, name) for name in asked.scope])
        assert read_recorded(pinned.canonical()) == pinned
        assert pinned.canonical() != asked.canonical() != later.canonical()
        assert pinned.question() == asked.question() == later.question()


def test_an_answer_does_not_depend_on_the_order_of_its_input(rng: random.Random) -> None:
    asker = Asker(rng)
    rows = [row for stream in STREAMS for row in random_rows(rng, stream, 60)]
    for _ in range(60):
        source = canonical_json.encode(asker.question(STREAMS, [rows[0].hub_commit_time + 5000]))
        asked = read_submitted(source, query_id="q-1").asked_by(PRINCIPAL, UnixMillis(0))
        pinned = asked.pin([coverage_of(rows, name) for name in asked.scope])
        outcomes = []
        for _ in range(2):
            rng.shuffle(rows)
            try:
                outcomes.append(str(evaluate(pinned, rows)))
            except QueryError as failure:
                outcomes.append(str(failure))
        assert outcomes[0] == outcomes[1]
