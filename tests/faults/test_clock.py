"""The clock goes back an hour and ahead a day (C16): refused, accepted, recorded, monotone."""

from __future__ import annotations

from pathlib import Path

import pytest

from hub import authoring
from hub.admission import records
from hub.admission.records import ControlRecord
from hub.errors import ErrorCode, VeenError
from hub.server.config import HubConfig
from hub.server.core import HubCore, open_hub
from hub.types import Label
from hub.wire.msg import Msg
from hub.wire.profile import PRODUCT
from hub.wire.receipt import Receipt
from tests.support.hubs import abandon
from tests.support.live_hub import Author, Hands, commit, receipt_of

T0 = 1_700_000_000
HOUR, DAY = 3600, 86400
OLD, NEW = Label(b"o" * 32), Label(b"n" * 32)


def opened(path: Path, hands: Hands) -> HubCore:
    config = HubConfig(data_dir=path / "d", open_admission=True, open_reads=True)
    return open_hub(config, wall=hands.wall, boot=hands.boot)


def control_records(core: HubCore) -> list[ControlRecord]:
    found = []
    label = core.gate.admission_label
    for seq in range(1, core.reader.count(label) + 1):
        msg = Msg.decode(core.reader.entry(label, seq)[1])
        opened = authoring.open_message(msg, profile=PRODUCT, secret=core.identity.reader.secret)
        if opened.header.schema == records.CONTROL:
            found.append(ControlRecord.decode(opened.body))
    return found


@pytest.mark.parametrize("jump", [-HOUR, DAY, -DAY, HOUR])
def test_a_jump_stops_writes_keeps_reads_and_is_accepted_on_record(
    tmp_path: Path, jump: int
) -> None:
    hands = Hands(T0)
    core = opened(tmp_path, hands)
    old, new = Author(OLD), Author(NEW)
    before = receipt_of(core, old.next())
    hands.jumps(jump)
    refused = old.draft().encode()
    assert commit(core, refused) == [ErrorCode.TIME]
    with pytest.raises(VeenError):
        core.checkpoint()
    assert core.reader.receipt(OLD, 1) == before.encode()
    assert core.find_leaf(before.leaf_hash) == before.encode()
    assert core.accept_clock() == T0 + jump
    [record] = control_records(core)
    assert record.verb == "clock_accept"
    assert record.detail["now"] == T0 + jump
    # From here on hub_ts = max(last of the label, now).
    assert receipt_of(core, old.next()).hub_ts == max(T0, T0 + jump)
    assert receipt_of(core, new.next()).hub_ts == T0 + jump
    hands.passes(10)
    assert receipt_of(core, new.next()).hub_ts == T0 + jump + 10
    core.close()


@pytest.mark.parametrize("jump", [-HOUR, DAY])
def test_an_accepted_jump_needs_nobody_again_after_a_restart(tmp_path: Path, jump: int) -> None:
    hands = Hands(T0)
    core = opened(tmp_path, hands)
    old, new = Author(OLD), Author(NEW)
    receipt_of(core, old.next())
    hands.jumps(jump)
    core.accept_clock()
    receipt_of(core, old.next())
    for crash in (False, True):
        if crash:
            abandon(core)
        else:
            core.close()
        hands.passes(60)
        core = opened(tmp_path, hands)
        receipt_of(core, new.next())
        receipt_of(core, old.next())
    core.close()


def test_a_second_step_back_behind_the_accepted_one_is_refused_at_start(tmp_path: Path) -> None:
    hands = Hands(T0)
    core = opened(tmp_path, hands)
    author = Author(OLD)
    receipt_of(core, author.next())
    hands.jumps(-HOUR)
    core.accept_clock()
    core.close()
    hands.jumps(-HOUR)
    core = opened(tmp_path, hands)
    assert commit(core, author.draft().encode()) == [ErrorCode.TIME]
    core.close()


def test_a_start_behind_the_last_hub_ts_serves_reads_and_waits_for_the_operator(
    tmp_path: Path,
) -> None:
    hands = Hands(T0)
    core = opened(tmp_path, hands)
    author = Author(OLD)
    first = receipt_of(core, author.next())
    core.close()
    hands.jumps(-HOUR)
    core = opened(tmp_path, hands)
    assert commit(core, author.draft().encode()) == [ErrorCode.TIME]
    assert core.reader.receipt(OLD, 1) == first.encode()
    core.accept_clock()
    assert receipt_of(core, author.next()).hub_ts == T0
    core.close()


def test_an_acceptance_that_cannot_be_recorded_does_not_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hands = Hands(T0)
    core = opened(tmp_path, hands)
    author = Author(OLD)
    receipt_of(core, author.next())
    hands.jumps(-HOUR)

    def full(*_: object) -> None:
        raise OSError(28, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(type(core.store.segments), "write", full)
        with pytest.raises(VeenError) as refused:
            core.accept_clock()
    assert refused.value.code is ErrorCode.STORE
    assert commit(core, author.draft().encode()) == [ErrorCode.TIME]
    core.close()


def test_hub_ts_is_monotone_on_every_label_through_any_weather(tmp_path: Path, rng: object) -> None:
    import random  # noqa: PLC0415 - only for the type of the fixture

    assert isinstance(rng, random.Random)
    hands = Hands(T0)
    core = opened(tmp_path, hands)
    authors = [Author(Label(bytes([number]) * 32)) for number in range(1, 6)]
    last: dict[Label, int] = {}
    refusals = 0
    for _ in range(600):
        author = rng.choice(authors)
        move = rng.random()
        if move < 0.05:
            hands.jumps(rng.choice([-DAY, -HOUR, -6, -3, 30, 61, HOUR, DAY]))
        else:
            hands.passes(rng.random() * 3)
        [outcome] = commit(core, author.draft().encode())
        if isinstance(outcome, Receipt):
            author.seq += 1
            assert outcome.hub_ts >= last.get(author.label, 0)
            last[author.label] = outcome.hub_ts
        else:
            assert outcome is ErrorCode.TIME
            refusals += 1
            if rng.random() < 0.5:
                core.accept_clock()
    assert refusals > 5
    core.close()
    reopened = opened(tmp_path, hands)
    assert sum(state.size for state in reopened.store.state.labels.values()) > 400
    reopened.close()
