"""A lane sends in the background, through every kind of trouble, each event once and in order."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from hub.authoring import open_message
from hub.client import HubClient, Item
from hub.client.lane import KeyConflictError, Lane, Outcome
from hub.client.outbox import Entry, Outbox
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, StoreError, VeenError
from hub.label import stream_id
from hub.types import Label
from hub.wire.captoken import CapToken
from hub.wire.msg import Msg
from hub.wire.profile import PRODUCT
from hub.wire.receipt import Receipt
from tests.hub.client.drafts import LABEL, READER, draft
from tests.hub.client.scripted_hub import HangupError, ScriptedHub
from tests.support.live_hub import until

KEY = SigningKey(b"\x01" * 32)
ISSUER = SigningKey(b"\x02" * 32)
TOKEN = CapToken.issue(ISSUER, subject_pk=KEY.public, stream_ids=[stream_id("test/x")], ttl=60)
WAIT_S = 30.0


@contextmanager
def open_lane(hub: ScriptedHub, state: Path, **more: object) -> Iterator[Lane]:
    with HubClient(hub.url, hub.key.public, state_dir=state, timeout_s=5) as client:
        lane = Lane(client, KEY, TOKEN, **more)  # type: ignore[arg-type]
        try:
            yield lane
        finally:
            lane.close()


def items(*bodies: bytes, label: Label = LABEL) -> list[Item]:
    return [Item(draft=draft(body, label=label)) for body in bodies]


def texts(hub: ScriptedHub, label: Label = LABEL) -> list[bytes]:
    return [
        open_message(Msg.decode(data), profile=PRODUCT, secret=READER).body
        for _, data in hub.log(label).entries
    ]


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_an_outbox_that_cannot_be_read_keeps_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner tries again until the disk has room; it must not meet its own lock then."""

    def refuse(_: Outbox) -> int:
        raise StoreError("the outbox refuses: database or disk is full")

    with ScriptedHub() as hub:
        with monkeypatch.context() as patch, pytest.raises(StoreError, match="full"):
            patch.setattr(Outbox, "count", refuse)
            with open_lane(hub, tmp_path):
                pass
        with open_lane(hub, tmp_path) as lane:
            lane.place(items(b"there is room"))
            assert lane.wait_idle(WAIT_S)
        assert texts(hub) == [b"there is room"]


class Heard:
    """Tickets that remember what they were told."""

    def __init__(self) -> None:
        self.outcomes: dict[int, list[Outcome]] = {}

    def ticket(self, number: int):  # type: ignore[no-untyped-def]  # noqa: ANN201 - a Ticket
        return lambda outcome: self.outcomes.setdefault(number, []).append(outcome)

    def tickets(self, count: int):  # type: ignore[no-untyped-def]  # noqa: ANN201 - of them
        return [self.ticket(number) for number in range(count)]


def test_rows_are_sent_without_waiting_and_every_ticket_is_told_once(
    hub: ScriptedHub, tmp_path: Path
) -> None:
    heard = Heard()
    with open_lane(hub, tmp_path) as lane:
        for start in range(0, 300, 50):
            lane.place(
                items(*numbers(300)[start : start + 50]),
                [heard.ticket(start + place) for place in range(50)],
            )
        assert lane.wait_idle(WAIT_S)
        state = lane.state()
        assert (state.sent, state.refused, state.trouble) == (300, 0, None)
    assert texts(hub) == numbers(300)
    for number, outcomes in heard.outcomes.items():
        (outcome,) = outcomes
        assert isinstance(outcome, Receipt)
        assert outcome.stream_seq == number + 1
    assert len(heard.outcomes) == 300


def test_lost_answers_and_requests_change_nothing(
    hub: ScriptedHub, tmp_path: Path, rng: random.Random
) -> None:
    def maybe(*_: object) -> None:
        if rng.random() < 0.02:
            raise HangupError

    hub.before = maybe
    hub.after = maybe
    heard = Heard()
    with open_lane(hub, tmp_path) as lane:
        for number in range(200):
            lane.place(items(b"%d" % number), [heard.ticket(number)])
        assert lane.wait_idle(WAIT_S)
    assert texts(hub) == numbers(200)
    assert {number: len(told) for number, told in heard.outcomes.items()} == dict.fromkeys(
        range(200), 1
    )


def test_a_hub_that_comes_back_gets_what_waited(tmp_path: Path) -> None:
    with ScriptedHub() as hub:
        down = threading.Event()
        down.set()

        def refuse(_: Msg) -> None:
            if down.is_set():
                raise HangupError

        hub.before = refuse
        with open_lane(hub, tmp_path) as lane:
            lane.place(items(*numbers(40)))
            until(lambda: lane.state().trouble is not None)
            assert not lane.wait_idle(0)
            down.clear()
            assert lane.wait_idle(WAIT_S)
            assert lane.state().trouble is None
        assert texts(hub) == numbers(40)


def test_what_an_earlier_process_left_is_sent_first(hub: ScriptedHub, tmp_path: Path) -> None:
    with (
        HubClient(hub.url, hub.key.public, state_dir=tmp_path) as client,
        client.producer(KEY, auth_ref=TOKEN.auth_ref()) as producer,
    ):
        producer.enqueue([draft(b"0"), draft(b"1")])
    with open_lane(hub, tmp_path) as lane:
        lane.place(items(b"2"))
        assert lane.wait_idle(WAIT_S)
        assert lane.state().pending == 0
    assert texts(hub) == numbers(3)


def test_an_authority_that_is_not_admitted_is_authorized(hub: ScriptedHub, tmp_path: Path) -> None:
    hub.admitted = set()
    with open_lane(hub, tmp_path) as lane:
        lane.place(items(*numbers(3)))
        assert lane.wait_idle(WAIT_S)
    assert texts(hub) == numbers(3)


def test_a_renewed_authority_frees_what_waits(hub: ScriptedHub, tmp_path: Path) -> None:
    renewed = TOKEN.renew(ISSUER)

    def expired(msg: Msg) -> None:
        if msg.auth_ref == TOKEN.auth_ref():
            raise VeenError(ErrorCode.TIME, "the ttl is over")

    with open_lane(hub, tmp_path) as lane:
        lane.place(items(b"0"))
        assert lane.wait_idle(WAIT_S)
        hub.before = expired
        lane.place(items(b"1", b"2"))
        until(lambda: lane.state().trouble is not None)
        lane.renew(renewed)
        assert lane.wait_idle(WAIT_S)
    assert texts(hub) == numbers(3)


def test_a_refusal_for_good_is_handed_over_and_the_rest_goes_on(
    hub: ScriptedHub, tmp_path: Path
) -> None:
    def refuse(msg: Msg) -> None:
        if open_message(msg, profile=PRODUCT, secret=READER).body in (b"3", b"17"):
            raise VeenError(ErrorCode.SIZE, "not here")

    kept: list[tuple[bytes, ErrorCode]] = []
    heard = Heard()
    hub.before = refuse
    with open_lane(hub, tmp_path, on_refused=None) as lane:

        def keep(entry: Entry, refusal: VeenError) -> None:
            kept.append((lane.producer.draft(entry).body, refusal.code))

        lane._on_refused = keep
        lane.place(items(b"first"))
        assert lane.wait_idle(WAIT_S)
        lane.place(items(*numbers(40)), heard.tickets(40))
        assert lane.wait_idle(WAIT_S)
        assert lane.state().refused == 2
    assert kept == [(b"3", ErrorCode.SIZE), (b"17", ErrorCode.SIZE)]
    expected = [number for number in numbers(40) if number not in (b"3", b"17")]
    assert texts(hub) == [b"first", *expected]
    for number, told in heard.outcomes.items():
        assert isinstance(told[0], VeenError) == (number in (3, 17))


def test_a_receipt_signed_by_another_key_is_never_believed(
    hub: ScriptedHub, tmp_path: Path
) -> None:
    liar = SigningKey.generate()

    def forge(_: Msg, receipt: Receipt) -> Receipt:
        return Receipt.sign(
            liar,
            receipt.label,
            receipt.stream_seq,
            receipt.leaf_hash,
            receipt.mmr_root,
            receipt.hub_ts,
        )

    heard = Heard()
    hub.after = forge
    with open_lane(hub, tmp_path) as lane:
        lane.place(items(b"0"), heard.tickets(1))
        until(lambda: lane.state().trouble is not None)
        trouble = lane.state().trouble
        assert trouble is not None
        assert trouble.code is ErrorCode.TRUST
        assert heard.outcomes == {}
        hub.after = None
        assert lane.wait_idle(WAIT_S)  # the true receipt is fetched after all
    assert texts(hub) == [b"0"]


def told(heard: Heard, number: int) -> Outcome:
    (outcome,) = heard.outcomes[number]
    return outcome


def test_a_key_is_joined_while_pending_and_after_and_guards_its_content(
    hub: ScriptedHub, tmp_path: Path
) -> None:
    down = threading.Event()
    down.set()

    def refuse(_: Msg) -> None:
        if down.is_set():
            raise HangupError

    def keyed(body: bytes) -> list[Item]:
        return [Item(draft=draft(body), key="k", content=body)]

    hub.before = refuse
    heard = Heard()
    with open_lane(hub, tmp_path) as lane:
        lane.place(keyed(b"a"), [heard.ticket(0)])
        lane.place(keyed(b"a"), [heard.ticket(1)])
        lane.place(keyed(b"b"), [heard.ticket(2)])
        assert isinstance(told(heard, 2), KeyConflictError)
        assert lane.state().pending == 1
        down.clear()
        assert lane.wait_idle(WAIT_S)
        lane.place(keyed(b"a"), [heard.ticket(3)])
        lane.place(keyed(b"b"), [heard.ticket(4)])
    first = told(heard, 0)
    assert isinstance(first, Receipt)
    assert told(heard, 1) == first
    assert told(heard, 3) == first
    assert isinstance(told(heard, 4), KeyConflictError)
    assert texts(hub) == [b"a"]


def test_a_key_that_an_earlier_process_enqueued_is_joined(hub: ScriptedHub, tmp_path: Path) -> None:
    hub.admitted = {b"nobody"}
    with (
        HubClient(hub.url, hub.key.public, state_dir=tmp_path) as client,
        client.producer(KEY, auth_ref=TOKEN.auth_ref()) as producer,
    ):
        producer.enqueue_keyed("k", draft(b"a"), b"a")
    heard = Heard()
    with open_lane(hub, tmp_path) as lane:
        lane.place([Item(draft=draft(b"a"), key="k", content=b"a")], [heard.ticket(0)])
        hub.admitted = None
        assert lane.wait_idle(WAIT_S)
        until(lambda: 0 in heard.outcomes)
    assert isinstance(told(heard, 0), Receipt)
    assert texts(hub) == [b"a"]


def test_a_feeder_waits_for_room(hub: ScriptedHub, tmp_path: Path) -> None:
    gate = threading.Event()

    def hold(_: Msg) -> None:
        gate.wait(WAIT_S)

    hub.before = hold
    with open_lane(hub, tmp_path, pending_max=5) as lane:
        lane.place(items(*numbers(5)))
        assert not lane.wait_for_room(0)
        gate.set()
        assert lane.wait_for_room(WAIT_S)
        assert lane.wait_idle(WAIT_S)


def test_several_labels_keep_their_own_order(hub: ScriptedHub, tmp_path: Path) -> None:
    labels: Sequence[Label] = [Label(bytes([number]) * 32) for number in (40, 41, 42)]
    with open_lane(hub, tmp_path) as lane:
        for number in range(60):
            for label in labels:
                lane.place(items(b"%d" % number, label=label))
        assert lane.wait_idle(WAIT_S)
    for label in labels:
        assert texts(hub, label) == numbers(60)


def test_closing_leaves_what_is_pending_in_the_outbox(hub: ScriptedHub, tmp_path: Path) -> None:
    hub.before = lambda _: (_ for _ in ()).throw(HangupError())
    with open_lane(hub, tmp_path) as lane:
        lane.place(items(*numbers(3)))
    assert texts(hub) == []
    hub.before = None
    with open_lane(hub, tmp_path) as lane:
        assert lane.wait_idle(WAIT_S)
    assert texts(hub) == numbers(3)


@pytest.mark.parametrize("stuck", ["answer", "none"])
def test_closing_does_not_wait_for_a_hub_that_hangs(tmp_path: Path, stuck: str) -> None:
    gate = threading.Event()
    with ScriptedHub() as hub:

        def hang(_: Msg) -> None:
            gate.wait(WAIT_S)

        hub.before = hang if stuck == "answer" else None
        with open_lane(hub, tmp_path) as lane:
            lane.place(items(b"0"))
            until(lambda: bool(hub.submitted))
        gate.set()
