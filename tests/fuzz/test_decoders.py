"""Every decoder under mutation with a fixed seed, and the corpus of what once was worth keeping."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from hub.selftest.fuzz import fuzz_kind, judge
from hub.selftest.fuzz_targets import CBOR_BOMBS, targets
from hub.selftest.kinds import Kind
from hub.selftest.mutation import mutate, spans
from hub.selftest.specimens import message
from hub.wire import ciphertext
from tests.support import vectors

CORPUS = Path(__file__).parent / "corpus"
TARGETS = {kind.name: kind for kind in targets()}
every_target = pytest.mark.parametrize("name", sorted(TARGETS))


class Case(NamedTuple):
    target: str
    is_accepted: bool
    data: bytes
    why: str


def read_corpus(name: str, target: str | None = None) -> list[Case]:
    """Lines of [target,] verdict, hex (- for nothing), why."""
    cases = []
    for line in (CORPUS / name).read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        words = line.split(maxsplit=2) if target else line.split(maxsplit=3)
        aim, verdict, data, why = words if target is None else (target, *words)
        assert verdict in {"accept", "refuse"}, line
        cases.append(Case(aim, verdict == "accept", bytes.fromhex(data.strip("-")), why))
    return cases


CASES = [
    *read_corpus("cbor.txt", "cbor"),
    *read_corpus("trust_file.txt", "trust_file"),
    *read_corpus("objects.txt"),
]


@every_target
def test_only_refusals_escape(name: str, seed: int, scaled: Callable[[int, int], int]) -> None:
    """No other exception, no second spelling, no slow input, no growing memory (C8)."""
    tally = fuzz_kind(TARGETS[name], seed, runs=scaled(2_000, 400_000))
    found = tally.finding
    assert found is None, f"seed {seed}: {found.reason}, input {found.data.hex()}"
    assert tally.accepted > 0, "no mutant got past the decoder: the mutations are too coarse"


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.target}: {case.why}"[:60])
def test_the_corpus_is_judged_as_it_says(case: Case) -> None:
    kind = TARGETS[case.target]
    taken, finding = judge(kind, case.data)
    assert finding is None, finding
    assert taken is case.is_accepted


def test_the_corpus_has_enough_cbor() -> None:
    assert len(read_corpus("cbor.txt", "cbor")) >= 43
    assert len(CASES) == len({(case.target, case.data) for case in CASES})


@every_target
def test_no_decoder_stumbles_over_what_was_meant_for_another(name: str) -> None:
    seeds = [seed for kind in TARGETS.values() for seed in kind.seeds]
    for data in (*[case.data for case in CASES], *CBOR_BOMBS, *seeds):
        _, finding = judge(TARGETS[name], data)
        assert finding is None, finding


@pytest.mark.parametrize("target", ["msg", "payload_hdr", "checkpoint", "mmr_proof"])
def test_the_negative_vectors_are_seeds_too(target: str, seed: int) -> None:
    """What is wrong in one way, made wrong in another: the wrongs must not cancel out."""
    bad = tuple(bytes.fromhex(one["cbor"]) for one in vectors.load("cbor_negative")[target])
    assert bad
    tally = fuzz_kind(_seeded(TARGETS[target], bad), seed, runs=1_000)
    assert tally.finding is None, tally.finding


def _seeded(kind: Kind, seeds: tuple[bytes, ...]) -> Kind:
    return Kind(name=kind.name, seeds=seeds, decode=kind.decode, encode=kind.encode)


def test_longer_padding_than_needed_is_well_framed() -> None:
    """Found by the fuzzer: wire.md asks for zeros and whole blocks, not for the fewest."""
    sealed = message().ciphertext
    assert ciphertext.split(sealed + bytes(256), 256) == ciphertext.split(sealed, 256)


def test_mutations_cut_at_items_where_there_are_any() -> None:
    assert spans(b"\x82\x01\x41\x00") == [(0, 4), (2, 4), (1, 2)]
    assert spans(b"\xff") == []


def test_a_mutant_is_bounded_and_most_differ(rng: Random) -> None:
    data = message().encode()
    mutants = [mutate(data, rng, [data]) for _ in range(500)]
    assert max(map(len, mutants)) <= 1 << 16
    assert len(set(mutants)) > 400
