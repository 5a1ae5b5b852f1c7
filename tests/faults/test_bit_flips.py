"""C4: a flipped bit or a cut in any file is found, named and never served [assurance 1]."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hub.crypto.hashing import h
from hub.errors import ErrorCode, VeenError
from hub.storage import attachments
from hub.storage.fsck import run_fsck
from hub.storage.history import read_format
from hub.storage.layout import Layout
from hub.storage.reader import LogReader
from hub.types import Hash, Label
from tests.support.hubs import Truth, message_or_none, open_core, rich_directory

# Kinds of files and the glob of their members, relative to the directory that holds `d`.
KINDS = {
    "segment": "d/log/*.seg",
    "index": "d/labels/*/index",
    "nodes": "d/labels/*/nodes",
    "checkpoints": "d/labels/*/checkpoints",
    "leaves": "d/leaves.sqlite",
    "snapshot": "d/snapshot",
    "manifest": "d/manifests/??/*",
    "latest": "d/manifests/latest",
    "rotations": "d/rotations.log",
    "tokens": "d/tokens.json",
    "heads": "d.heads",
    "hub key": "d/keys/hub.key",
    "service key": "d/keys/service.key",
    "reader key": "d/keys/reader.key",
    "FORMAT": "d/FORMAT",
    "attachment": "d/attachments/??/*",
}
# A hub starts without these or makes them anew, so a flaw in one may pass without a finding. Heads
# that end early are what a power cut leaves, and five bits of an X25519 key do not count.
MAY_BE_HARMLESS = {
    "index", "nodes", "checkpoints", "leaves", "snapshot", "heads", "reader key",
}  # fmt: skip


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    found = rich_directory(tmp_path_factory.mktemp("rich") / "d")
    assert run_fsck(found.root).findings == ()
    return found


class Patient:
    """A copy that is hurt in one place and healed again."""

    def __init__(self, truth: Truth, base: Path) -> None:
        self.truth = truth
        self.base = base
        shutil.copytree(truth.root.parent, base)

    @property
    def root(self) -> Path:
        return self.base / "d"

    def files(self, kind: str) -> list[Path]:
        found = sorted(self.base.glob(KINDS[kind]))
        assert found, kind
        return [path for path in found if path.stat().st_size]

    def heal(self) -> None:
        shutil.rmtree(self.base)
        shutil.copytree(self.truth.root.parent, self.base)


@pytest.fixture
def patient(truth: Truth, tmp_path: Path) -> Patient:
    return Patient(truth, tmp_path / "patient")


def served(reader: LogReader, truth: Truth) -> Iterator[tuple[Label, int, bytes, bytes | None]]:
    """Everything that a reader hands out; refusals are left out, they must have the right code."""
    for where, seq in truth.entries:
        if seq > reader.count(where):
            continue
        try:
            receipt = reader.receipt(where, seq)
            message = message_or_none(reader, where, seq)
        except VeenError as refusal:
            check_is_damage(refusal)
            continue
        yield where, seq, receipt, message


def check_is_damage(refusal: VeenError) -> None:
    assert refusal.code is ErrorCode.DAMAGE, refusal


def check_served(root: Path, truth: Truth) -> set[tuple[Label, int]]:
    """What is served is what was written; returns which entries were."""
    reader = LogReader(root)
    found = set()
    try:
        for where, seq, receipt, message in served(reader, truth):
            assert (receipt, message) == truth.entries[where, seq]
            found.add((where, seq))
        _check_proofs(reader, truth)
    finally:
        reader.close()
    try:
        assert attachments.read(Layout(root), Hash(h(truth.sealed))) == truth.sealed
    except VeenError as refusal:
        check_is_damage(refusal)
    return found


def _check_proofs(reader: LogReader, truth: Truth) -> None:
    for where in {where for where, _ in truth.entries}:
        size = reader.count(where)
        for seq in {1, size // 2 + 1, size}:
            if size == 0:
                continue
            try:
                proof = reader.prove(where, seq, size)
            except VeenError as refusal:
                check_is_damage(refusal)
                continue
            proof.verify(stream_seq=seq, mmr_size=size, root=reader.root_at(where, size))


def check_harmless(patient: Patient, kind: str) -> None:
    """No finding: then a hub starts as if nothing had happened and leaves everything sound."""
    if kind == "tokens":
        _check_tokens(patient)
        return
    assert kind in MAY_BE_HARMLESS, f"{kind} is not checked"
    core = open_core(patient.root)
    try:
        assert core.read_only is None
        assert core.identity.hub_id == patient.truth.hub_id
        assert check_served(patient.root, patient.truth) == set(patient.truth.entries)
    finally:
        core.close()
    assert run_fsck(patient.root).findings == ()


def _check_tokens(patient: Patient) -> None:
    """The list has no checksum: a changed one may refuse a bearer, but opens no label to more."""
    labels = {where for where, _ in patient.truth.entries}
    before, after = (_reach(root / "tokens.json") for root in (patient.truth.root, patient.root))
    for name, reach in after.items():
        assert reach is None or reach & labels <= (before.get(name) or labels)


def _reach(path: Path) -> dict[str, set[bytes] | None]:
    return {
        name: None if row.get("all") else {bytes.fromhex(text) for text in row["labels"]}
        for name, row in json.loads(path.read_bytes()).items()
    }


def flip(data: bytes, rng: random.Random) -> tuple[bytes, int]:
    """One bit changed, and the offset of its byte."""
    changed = bytearray(data)
    offset = rng.randrange(len(data))
    changed[offset] ^= 1 << rng.randrange(8)
    return bytes(changed), offset


def cut(data: bytes, rng: random.Random) -> tuple[bytes, int]:
    """The end gone, and the offset where it began."""
    offset = rng.randrange(len(data))
    return data[:offset], offset


def hurt_and_look(
    patient: Patient,
    kind: str,
    hurt: Callable[[bytes, random.Random], tuple[bytes, int]],
    rng: random.Random,
) -> None:
    path = rng.choice(patient.files(kind))
    data = path.read_bytes()
    changed, offset = hurt(data, rng)
    path.write_bytes(changed)
    try:
        findings = run_fsck(patient.root).findings
        found = check_served(patient.root, patient.truth)
        if kind == "segment":
            assert findings[0].file == os.path.relpath(path, patient.root)
            assert findings[0].offset <= offset
            # The rest of the log stays readable.
            places = patient.truth.segments.items()
            assert found >= {place for place, segment in places if segment != path.name}
    except BaseException as flaw:
        flaw.add_note(f"{hurt.__name__} at {offset} of {path.name} ({kind})")
        raise
    if findings:
        path.write_bytes(data)
        return
    check_harmless(patient, kind)
    patient.heal()


@pytest.mark.slow
@pytest.mark.parametrize("hurt", [flip, cut], ids=["flipped bit", "truncation"])
def test_damage_is_found_or_harmless_and_never_served(
    hurt: Callable[[bytes, random.Random], tuple[bytes, int]],
    patient: Patient,
    seed: int,
    scaled: Callable[[int, int], int],
) -> None:
    rng = random.Random(f"{seed} {hurt.__name__}")
    kinds = itertools.cycle(KINDS)
    for _ in range(scaled(300, 10_000) if hurt is flip else scaled(60, 1_000)):
        hurt_and_look(patient, next(kinds), hurt, rng)


def test_every_kind_of_damage_to_the_log_itself_is_found(patient: Patient, seed: int) -> None:
    """Not harmless by luck: for these files there is always a finding."""
    rng = random.Random(f"{seed} sure")
    for kind in ("segment", "manifest", "rotations", "heads", "hub key", "FORMAT", "attachment"):
        for _ in range(4):
            path = rng.choice(patient.files(kind))
            data = path.read_bytes()
            path.write_bytes(flip(data, rng)[0])
            assert not run_fsck(patient.root).ok, (kind, path)
            path.write_bytes(data)
    assert run_fsck(patient.root).ok


def test_no_byte_of_format_can_go_or_change_unseen(patient: Patient) -> None:
    [path] = patient.files("FORMAT")
    data = path.read_bytes()
    first_pk = read_format(Layout(patient.root))
    cuts = [data[:end] for end in range(len(data))]
    edits = [
        data[:at] + bytes((data[at] ^ 1 << bit,)) + data[at + 1 :]
        for at in range(len(data))
        for bit in range(8)
    ]
    others = 0
    for changed in (*cuts, *edits, data + b"\n"):
        path.write_bytes(changed)
        try:
            assert read_format(Layout(patient.root)) != first_pk
        except VeenError as refusal:
            check_is_damage(refusal)
        else:
            others += 1  # A digit became another one: the log was never begun by that key.
            assert others % 16 or not run_fsck(patient.root).ok
    assert 0 < others < len(edits) // 2


def test_what_stands_behind_the_damage_is_still_checked(patient: Patient) -> None:
    first, last = (patient.files("segment")[index] for index in (1, -2))
    for path in (first, last):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(bytes(data))
    report = run_fsck(patient.root)
    named = [found.file for found in report.findings]
    assert named[0] == os.path.relpath(first, patient.root)
    assert os.path.relpath(last, patient.root) in named
    assert report.entries == len(patient.truth.entries)
