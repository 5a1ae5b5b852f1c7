"""Whoever keeps the verifier busy in vain has to wait; nobody else does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import create_autospec

import pytest

from hub.errors import ErrorCode, VeenError
from hub.limits import DEFAULT
from hub.server import ipc, refusals
from hub.server.app import DataPlane, PlaneSettings
from hub.server.http import Request, Response
from hub.server.refusals import RefusalBudget
from hub.types import Label
from hub.wire import cbor
from hub.wire.profile import PRODUCT
from tests.support.live_hub import Author

THEM, OTHERS = "192.0.2.7", "2001:db8::1"


class Clock:
    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def budget(clock: Clock) -> RefusalBudget:
    return RefusalBudget(per_s=2, burst=5, clock=clock)


def waste(budget: RefusalBudget, address: str, count: int) -> None:
    for _ in range(count):
        budget.spend(address, ErrorCode.SIG)


def test_a_spent_budget_is_e_rate_with_the_time_to_wait(budget: RefusalBudget) -> None:
    waste(budget, THEM, 4)
    budget.check(THEM)
    waste(budget, THEM, 1)
    with pytest.raises(VeenError) as refused:
        budget.check(THEM)
    assert refused.value.code is ErrorCode.RATE
    assert refused.value.retry_after_s == 1
    budget.check(OTHERS)


def test_it_fills_up_again_with_time(budget: RefusalBudget, clock: Clock) -> None:
    waste(budget, THEM, 50)
    clock.at += 0.5
    budget.check(THEM)
    waste(budget, THEM, 1)
    with pytest.raises(VeenError):
        budget.check(THEM)
    clock.at += 1000
    waste(budget, THEM, 4)
    budget.check(THEM)


@pytest.mark.parametrize(
    "code", [ErrorCode.FORMAT, ErrorCode.DUP, ErrorCode.SEQ, ErrorCode.BUSY, ErrorCode.RATE]
)
def test_refusals_that_waste_no_signature_are_free(budget: RefusalBudget, code: ErrorCode) -> None:
    for _ in range(50):
        budget.spend(THEM, code)
    budget.check(THEM)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1", "local"])
def test_the_machine_itself_never_waits(budget: RefusalBudget, address: str) -> None:
    waste(budget, address, 50)
    budget.check(address)


def test_memory_is_bounded_in_addresses(
    budget: RefusalBudget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "ADDRESSES_MAX", 10)
    for number in range(100):
        waste(budget, f"192.0.2.{number}", 5)
    assert len(budget._left) == 10
    with pytest.raises(VeenError):
        budget.check("192.0.2.99")


class Door:
    """A worker's data plane without its sockets."""

    def __init__(self, root: Path) -> None:
        self.writer = create_autospec(ipc.Peer, instance=True)
        settings = PlaneSettings(
            data_dir=root, hub_pk=bytes(32), hub_id=bytes(32), open_admission=True,
            open_reads=True, stream_scoping=False, routing_key=None, log_submits=False,
            queue_max=10, profiles=(PRODUCT,), limits=replace(DEFAULT, refusals_burst=3),
        )  # fmt: skip
        self.plane = DataPlane(settings, self.writer)

    def post(self, path: str, body: bytes, peer: str, media: str = "application/cbor") -> str:
        """The code of the refusal, or what the writer was asked."""
        answers: list[Response] = []
        request = Request("POST", path, "", {"content-type": media}, body, "0" * 16, 0.0, peer)
        self.plane.serve(request, answers.append)
        if not answers:
            return "asked"
        said = answers[0].body
        assert isinstance(said, bytes)
        found = cbor.decode(said)
        assert isinstance(found, dict)
        return str(found["code"])


def test_an_address_that_floods_with_bad_signatures_waits_and_no_other(tmp_path: Path) -> None:
    door, author = Door(tmp_path), Author(Label(bytes(32)))
    good = author.next()
    bad = good[:-1] + bytes([good[-1] ^ 1])
    said = [door.post("/submit", bad, THEM) for _ in range(5)]
    assert said == ["E.SIG"] * 3 + ["E.RATE"] * 2
    assert door.post("/submit", good, THEM) == "E.RATE"
    assert door.post("/authorize", b"", THEM) == "E.RATE"
    assert door.post("/submit", b"", THEM) == "E.FORMAT"  # costs nothing and says so
    assert door.post("/submit", good, OTHERS) == "asked"


def test_in_a_batch_a_bad_signature_costs_its_own_message_and_the_budget(tmp_path: Path) -> None:
    checks, author = Door(tmp_path).plane.checks, Author(Label(bytes(32)))
    good = [author.next() for _ in range(8)]
    row = [one[:-1] + bytes([one[-1] ^ 1]) if place in (2, 5) else one
           for place, one in enumerate(good)]  # fmt: skip
    said = [getattr(one, "code", "good") for one in checks.verified(row, THEM)]
    assert said == ["good"] * 2 + ["E.SIG"] + ["good"] * 2 + ["E.SIG"] + ["good"] * 2
    assert checks.queued == 6
    said = [getattr(one, "code", "good") for one in checks.verified([row[2], row[5], *good], THEM)]
    assert said == ["E.SIG"] + ["E.RATE"] * 3 + ["E.BUSY"] * 6  # four fit into the queue


def test_refusals_by_the_writer_count_as_well(tmp_path: Path) -> None:
    door = Door(tmp_path)
    for number in range(1, 4):
        assert door.post("/authorize", b"", THEM) == "asked"
        refusal = ipc.refusal(VeenError(ErrorCode.CAP))
        door.plane.answered(ipc.REFUSED, number, refusal)
    assert door.post("/authorize", b"", THEM) == "E.RATE"
