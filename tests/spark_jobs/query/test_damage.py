"""A bit that flips in the lake is named, or changes nothing; it is never an error of ours."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from hub.canonical_json import Value
from queryapi.contract.codes import QueryCode, QueryError
from queryapi.contract.descriptor import Descriptor
from recorder.lake.folder import LakeFolder
from recorder.lake.manifest import LakeFile
from spark_jobs.evidence_trust import Means
from spark_jobs.sources import HubReads
from tests.spark_jobs.query.conftest import Answered, Ask
from tests.spark_jobs.query.test_evidence import A, count, lake, means, original, question
from tests.support.query_log import QuestionedLog

__all__ = ["lake", "means", "original"]
LIVE = (61, 90)  # of stream A: no record in the log names the file
FLIPS = 100


def file_of(log: QuestionedLog, lake: Path, kind: str, number: int = -1) -> Path:
    """A file of one segment of stream A, the live one unless told."""
    folder = LakeFolder.of(lake, log.streams[A].label)
    manifest = folder.read()
    assert manifest is not None
    segment = manifest.segments[number]
    assert number == 0 or (segment.from_seq, segment.to_seq) == LIVE
    one: LakeFile = getattr(segment, kind)
    return folder.path(one)


def flipped(rng: random.Random, content: bytes) -> bytes:
    """With one other bit; half of them in the footer, where few bits do much."""
    footer = int.from_bytes(content[-8:-4], "little") + 8
    first = len(content) - footer if rng.random() < 0.5 else 0
    bit = rng.randrange(first * 8, len(content) * 8)
    spoiled = bytearray(content)
    spoiled[bit // 8] ^= 1 << bit % 8
    return bytes(spoiled)


def asked_of(ask: Ask, lake: Path, descriptor: Descriptor, means: Means) -> Answered | QueryError:
    try:
        return ask(lake, descriptor, means=means)
    except QueryError as failure:
        return failure


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rows", "proofs"])
def test_a_flipped_bit_fails_full_evidence_where_it_is_or_changes_nothing(  # noqa: PLR0917 - fixtures
    ask: Ask,
    original: QuestionedLog,
    lake: Path,
    means: Means,
    rng: random.Random,
    kind: str,
) -> None:
    path = file_of(original, lake, kind)
    content = path.read_bytes()
    asked = [question(original), count(original)]
    honest = [ask(lake, one, means=means) for one in asked]
    caught = 0
    for number in range(FLIPS if kind == "rows" else FLIPS // 4):
        path.write_bytes(flipped(rng, content))
        found = asked_of(ask, lake, asked[number % 2], means)
        if isinstance(found, Answered):
            assert found.rows == honest[number % 2].rows
            assert found.evidence == honest[number % 2].evidence
            continue
        caught += 1
        assert found.error_code is QueryCode.EVIDENCE_FAILED, found
        place = re.match(rf"{A} (\d+): ", found.message)
        assert place is not None, found
        assert LIVE[0] <= int(place[1]) <= LIVE[1]
        assert str(lake) not in found.message
    assert caught


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rows", "groups", "keys"])
def test_without_evidence_a_flipped_bit_is_still_no_error_of_ours(  # noqa: PLR0917 - fixtures
    ask: Ask,
    original: QuestionedLog,
    lake: Path,
    means: Means,
    rng: random.Random,
    kind: str,
) -> None:
    """Nothing is promised about the values, but what cannot be read is named."""
    path = file_of(original, lake, kind, -1 if kind == "rows" else 0)  # the live one has no others
    content = path.read_bytes()
    subject = next(one.subject_id for one in original.rows(A) if one.subject_id)
    told: Value = {"group_by": ["event_type"], "metrics": ["count", "max(event_time)"]}
    asked = {
        "rows": [question(original, "none"), count(original, "none")],
        "groups": [question(original, "none", projection=None, aggregate=told)],
        "keys": [question(original, "none", filter={"subject_id": subject})],
    }[kind]
    named = 0
    for number in range(FLIPS // 4):
        path.write_bytes(flipped(rng, content))
        found = asked_of(ask, lake, asked[number % len(asked)], means)
        if isinstance(found, QueryError):
            named += 1
            assert found.error_code is QueryCode.EXECUTION_FAILED, found
            assert f"the lake is damaged: {path.name}: " in found.message, found
            assert str(lake) not in found.message
    assert named


@pytest.mark.parametrize(("mode", "code"), [
    ("none", QueryCode.EXECUTION_FAILED), ("spot", QueryCode.EVIDENCE_FAILED),
    ("full", QueryCode.EVIDENCE_FAILED),
])  # fmt: skip
@pytest.mark.parametrize("spoil", ["manifest", "root", "rows", "unreadable"])
def test_whoever_meets_the_damage_its_code_says_what_was_promised(  # noqa: PLR0917 - fixtures
    ask: Ask, original: QuestionedLog, lake: Path, means: Means, mode: str, code: str, spoil: str
) -> None:
    """The driver reads the manifest and a root inside a segment; tasks read the rows."""
    path = file_of(original, lake, "rows")
    folder = LakeFolder.of(lake, original.streams[A].label)
    descriptor = question(original, mode)
    if spoil == "manifest":
        folder.manifest_path.write_bytes(folder.manifest_path.read_bytes()[:-9])
    elif spoil == "unreadable":
        folder.manifest_path.unlink()
        folder.manifest_path.mkdir()
    else:
        path.write_bytes(path.read_bytes()[:-99])
    if spoil == "root":
        descriptor = descriptor.pin([
            original.coverage(name, 80 if name == A else None) for name in descriptor.scope
        ])  # fmt: skip
    with pytest.raises(QueryError) as failure:
        ask(lake, descriptor, means=means)
    assert failure.value.error_code is code
    assert failure.value.message.startswith(f"{A} "), failure.value
    assert "the lake is damaged: " in failure.value.message
    assert str(lake) not in failure.value.message


def test_a_fault_of_ours_is_not_blamed_on_a_sound_lake(
    ask: Ask, original: QuestionedLog, lake: Path, means: Means
) -> None:
    descriptor = question(original, "none")
    with pytest.raises(TypeError):
        ask(lake, descriptor, means=means, tasks="three")


def test_a_log_that_cannot_be_asked_is_no_evidence_against_anybody(
    ask: Ask, original: QuestionedLog, lake: Path, means: Means
) -> None:
    nobody = HubReads(url="http://127.0.0.1:9", token=None, timeout_s=1)
    places = {name: replace(place, source=nobody) for name, place in means.places.items()}
    with pytest.raises(QueryError) as failure:
        ask(lake, question(original, "spot"), means=replace(means, places=places))
    assert failure.value.error_code is QueryCode.LAKE_BEHIND
