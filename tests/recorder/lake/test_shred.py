"""A shredded column holds the canonical bytes at its path, nothing rounded, nothing guessed."""

from __future__ import annotations

import random

import pytest

from hub import canonical_json
from hub.canonical_json import Encodable
from recorder.lake.shred import PATHS_MAX, frequent_paths, shred, value_at

ODD: list[Encodable] = [
    {"a": {"b": 1}},
    {"a": {"b": "1"}},
    {"a": {"b": None}},
    {"a": None},
    {"a": []},
    {"a": [1, {"b": 2}]},
    {"a": "text"},
    {"a": {"b": {"c": [1, 2]}}},
    {"A": 1, "a": 2},
    {"b": 10**39},
    {"b": '\u00e9\U0001f600\u0007"\\'},
    {"b": 3.14159265358979},
    {},
    [],
    [1],
    "a",
    7,
    None,
]


def at(value: object, path: str) -> object:
    """The value at a path, by plain walking; KeyError when it is missing."""
    for key in path.split("."):
        if not isinstance(value, dict):
            raise KeyError(path)
        value = value[key]
    return value


@pytest.mark.parametrize("path", ["a", "b", "A", "a.b", "a.b.c", "missing", "a.missing"])
def test_the_column_is_the_canonical_text_of_the_value(path: str) -> None:
    texts = [canonical_json.encode_text(value) for value in ODD]
    column = shred([*texts, None], [path, "a"])[path].to_pylist()
    assert column[-1] is None
    for value, found in zip(ODD, column, strict=False):
        try:
            expected = canonical_json.encode_text(at(value, path))
        except KeyError:
            expected = None
        assert found == expected, value
        assert value_at(canonical_json.encode_text(value), path) == expected


def test_random_payloads_are_cut_as_walking_finds_them(rng: random.Random) -> None:
    def value(depth: int) -> Encodable:
        kind = rng.randrange(6 if depth else 4)
        if kind == 0:
            return rng.choice([None, True, False, "", "null", "{", '"', "\n"])
        if kind == 1:
            return rng.randrange(-(10**40), 10**40)
        if kind == 2:
            return rng.random()
        if kind == 3:
            return "".join(rng.choice('ab\u00e9"\\{}[],:') for _ in range(5))
        if kind == 4:
            return [value(depth - 1) for _ in range(rng.randrange(3))]
        return {rng.choice(["a", "b", "c", "A"]): value(depth - 1) for _ in range(4)}

    values = [value(4) for _ in range(2_000)]
    texts = [canonical_json.encode_text(one) for one in values]
    paths = ["a", "a.b", "b.a.c", "c", "A.a", "a.a.a.a"]
    columns = {path: column.to_pylist() for path, column in shred(texts, paths).items()}
    for number, one in enumerate(values):
        for path in paths:
            try:
                expected = canonical_json.encode_text(at(one, path))
            except KeyError:
                expected = None
            assert columns[path][number] == expected, (one, path)


def test_frequent_paths_are_those_of_values_that_many_payloads_have() -> None:
    texts = [
        canonical_json.encode_text({"n": number, "user": {"id": "x"}, f"rare{number}": 1})
        for number in range(200)
    ]
    assert frequent_paths(texts) == ("n", "user.id")


def test_keys_that_no_column_can_name_are_left_to_the_exact_decoder() -> None:
    keys = ["a.b", 'a"b', "a\\b", "a\nb", "", "0", "17"]
    texts = [canonical_json.encode_text({**dict.fromkeys(keys, 1), "good": 2})] * 10
    assert frequent_paths(texts) == ("good",)


def test_there_is_a_bound_on_the_number_of_paths_and_on_the_length_of_values() -> None:
    wide = canonical_json.encode_text({f"k{number:03}": 1 for number in range(100)})
    assert frequent_paths([wide]) == tuple(f"k{number:03}" for number in range(PATHS_MAX))
    assert frequent_paths([canonical_json.encode_text({"long": "x" * 300})]) == ()


def test_payloads_that_are_no_objects_have_no_paths() -> None:
    assert frequent_paths(["[1]", "null", '"a"', None]) == ()
    assert frequent_paths([]) == ()
