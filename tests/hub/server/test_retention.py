"""Retention by policy: what goes, what stays, and what a stop in the middle leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from hub.admission import records
from hub.admission.records import LabelClass, RetentionPolicy
from hub.errors import ErrorCode, VeenError, WireError
from hub.server.core import HubCore
from hub.server.retention import Retention
from hub.storage.disk import Disk
from hub.storage.fsck import run_fsck
from tests.support.disks import CountingDisk, Fault, FaultyDisk, Stopped
from tests.support.hubs import Producer, Ticker, abandon, fill, label, open_core

A, B = label("A"), label("B")
DAY_S = 86_400


def retention_of(core: HubCore) -> Retention:
    return Retention(core, lambda: None)


def apply(core: HubCore) -> None:
    asyncio.run(retention_of(core).apply())


@pytest.fixture
def clock() -> Ticker:
    return Ticker()


@pytest.fixture
def core(tmp_path: Path, clock: Ticker) -> Iterator[HubCore]:
    """Ten days with four messages each on two labels."""
    core = open_core(tmp_path / "d", clock=clock, segment_bytes=4_000)
    producers = [Producer("a", A), Producer("b", B)]
    for _ in range(10):
        fill(core, producers, 8)
        clock.at += DAY_S
    yield core
    abandon(core)


def classify(core: HubCore, name: str, hint: int | None = None) -> None:
    given = LabelClass(label=A, name=name, retention_hint=hint)
    core.record(records.LABEL_CLASS, given.encode())


def test_without_a_policy_nothing_goes(core: HubCore) -> None:
    apply(core)
    assert (core.reader.first_held(A), core.reader.first_held(B)) == (1, 1)


@pytest.mark.parametrize(
    ("keep_s", "keep_messages", "first_held"),
    [
        (3 * DAY_S, None, 29),  # of the days 1 to 7 nothing is left
        (None, 10, 31),
        (3 * DAY_S, 20, 21),  # whichever keeps more
        (7 * DAY_S, 2, 13),
        (0, None, 41),
        (None, 1000, 1),
    ],
)
def test_a_payload_stays_while_any_bound_keeps_it(
    core: HubCore, keep_s: int | None, keep_messages: int | None, first_held: int
) -> None:
    policy = RetentionPolicy(target=A, keep_s=keep_s, keep_messages=keep_messages)
    retention_of(core).set_policy(policy)
    apply(core)
    assert (core.reader.first_held(A), core.reader.first_held(B)) == (first_held, 1)
    assert core.reader.receipt(A, 1)
    assert run_fsck(core.config.data_dir).findings == ()


def test_a_policy_of_a_class_reaches_its_labels_and_yields_to_their_own(core: HubCore) -> None:
    classify(core, "telemetry")
    retention_of(core).set_policy(RetentionPolicy(target="telemetry", keep_messages=5))
    apply(core)
    assert (core.reader.first_held(A), core.reader.first_held(B)) == (36, 1)
    retention_of(core).set_policy(RetentionPolicy(target=A, keep_messages=100))
    fill(core, [Producer("c", A)], 10)
    apply(core)
    assert core.reader.first_held(A) == 36


def test_no_policy_goes_below_the_hint_of_a_stream(core: HubCore) -> None:
    classify(core, "log", hint=5 * DAY_S)
    retention_of(core).set_policy(RetentionPolicy(target=A, keep_messages=1))
    apply(core)
    assert core.reader.first_held(A) == 21  # five days are held


def test_a_policy_and_each_pruning_are_records_and_outlive_a_start(
    core: HubCore, clock: Ticker
) -> None:
    admission = core.gate.admission_label
    retention_of(core).set_policy(RetentionPolicy(target=A, keep_s=3 * DAY_S))
    apply(core)
    records_before = core.reader.count(admission)
    apply(core)  # nothing is due, so nothing is said
    assert core.reader.count(admission) == records_before == 2
    core.store.snapshot()
    abandon(core)
    again = open_core(core.config.data_dir, clock=clock, segment_bytes=4_000)
    assert again.gate.policies == {A: RetentionPolicy(target=A, keep_s=3 * DAY_S)}
    clock.at += DAY_S
    apply(again)
    assert again.reader.first_held(A) == 33
    retention_of(again).set_policy(RetentionPolicy(target=A))
    assert again.gate.policies == {}
    again.close()


def test_hub_admission_is_never_pruned(core: HubCore) -> None:
    with pytest.raises(VeenError) as refused:
        retention_of(core).set_policy(
            RetentionPolicy(target=core.gate.admission_label, keep_messages=1)
        )
    assert refused.value.code is ErrorCode.POLICY
    retention_of(core).set_policy(RetentionPolicy(target="housekeeping", keep_messages=0))
    apply(core)
    assert core.reader.first_held(core.gate.admission_label) == 1


def test_a_record_that_is_no_policy_is_refused() -> None:
    for detail in ({}, {"label": b"x"}, {"class": "a", "label": A}, {"class": "a", "keep_s": "x"}):
        with pytest.raises(WireError):
            RetentionPolicy.of(detail)  # type: ignore[arg-type]


def life(root: Path, disk: Disk, clock: Ticker) -> HubCore:
    core = open_core(root, disk, clock, segment_bytes=2_000)
    fill(core, [Producer("a", A)], 8)
    clock.at += DAY_S
    fill(core, [Producer("b", B)], 4)
    retention_of(core).set_policy(RetentionPolicy(target=A, keep_messages=3))
    return core


def test_a_stop_at_any_call_leaves_what_the_next_round_completes(tmp_path: Path) -> None:
    sound = CountingDisk()
    core = life(tmp_path / "sound", sound, Ticker())
    first = sound.calls
    apply(core)
    last = sound.calls
    abandon(core)
    assert last - first > 20
    for at in range(first + 1, last + 1):
        root, clock = tmp_path / f"{at}", Ticker()
        disk = FaultyDisk(at, Fault.STOP)
        core = life(root, disk, clock)
        with pytest.raises(Stopped):
            apply(core)
        abandon(core)
        again = open_core(root, clock=clock)
        assert again.read_only is None
        apply(again)
        assert (again.reader.first_held(A), again.reader.count(A)) == (6, 8), at
        again.close()
        assert run_fsck(root).findings == (), at
