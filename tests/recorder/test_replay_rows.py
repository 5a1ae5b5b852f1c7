"""Lines of a replay are judged in rows as each would be alone; the benchmark verifies them too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from hub.errors import VeenError
from hub.types import PublicKey
from hub.verify_report import Pins
from hub.wire.manifest import Manifest
from recorder.bench.replay import figures, make_answer
from recorder.replay_verify import EventLine, Judge
from tests.support.strategies import flipped_bits

COUNT = 12


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> tuple[PublicKey, Path]:
    folder = tmp_path_factory.mktemp("answer")
    return make_answer(folder, COUNT), folder


@pytest.fixture
def judge(answer: tuple[PublicKey, Path]) -> Judge:
    hub_pk, folder = answer
    found = msgspec.json.decode((folder / "manifest").read_bytes(), type=dict[str, object])
    manifest = Manifest.decode(msgspec.convert(found["manifest"], bytes))
    return Judge(pins=Pins.of_key(hub_pk), manifest=manifest)


@pytest.fixture
def lines(answer: tuple[PublicKey, Path]) -> list[EventLine]:
    text = (answer[1] / "answer").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=EventLine) for line in text[:COUNT]]


def _verdict(work: Callable[[], object]) -> object:
    try:
        return work()
    except VeenError as refusal:
        return refusal.code, refusal.detail


def test_a_row_that_holds_is_what_its_lines_are_alone(judge: Judge, lines: list[EventLine]) -> None:
    assert judge.check_all(lines) == [judge.check(line) for line in lines]
    assert judge.check_all([]) == []


@pytest.mark.parametrize("place", [0, 5, COUNT - 1])
@pytest.mark.parametrize("name", ["receipt", "msg", "proof"])
def test_a_flipped_bit_anywhere_gets_the_verdict_of_its_line(
    judge: Judge, lines: list[EventLine], name: str, place: int
) -> None:
    for changed in [*flipped_bits(getattr(lines[place], name))][:: 191 if name == "msg" else 61]:
        spoilt = [*lines]
        spoilt[place] = msgspec.structs.replace(lines[place], **{name: changed})
        alone = _verdict(lambda: [judge.check(line) for line in spoilt])  # noqa: B023 - called here
        assert isinstance(alone, tuple)
        assert _verdict(lambda: judge.check_all(spoilt)) == alone  # noqa: B023


def test_another_key_and_another_field_get_the_verdict_of_their_line(
    judge: Judge, lines: list[EventLine], tmp_path: Path
) -> None:
    stranger = make_answer(tmp_path, 1)
    for other in (Pins.of_key(stranger), Pins(active=frozenset({stranger, *judge.pins.active}))):
        judged = Judge(pins=other, manifest=judge.manifest)
        alone = _verdict(lambda: [judged.check(line) for line in lines])  # noqa: B023
        assert _verdict(lambda: judged.check_all(lines)) == alone  # noqa: B023
    lines[3] = msgspec.structs.replace(lines[3], hub_commit_seq=7)
    said = _verdict(lambda: judge.check_all(lines))
    assert said == _verdict(lambda: judge.check(lines[3]))
    assert "other than its receipt" in str(said)


def test_the_benchmark_of_replay_verifies_what_it_counts(tmp_path: Path) -> None:
    found = figures(tmp_path, 300, rounds=1, say=lambda _: None)
    assert found["replay_events"] == 300
    assert found["replay_per_s"] > 0
    assert 0 < found["replay_ratio"] < 2
