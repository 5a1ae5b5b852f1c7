"""An act stopped anywhere is finished by the next start: nothing doubled, nothing lost.

Every call by which an act leaves the process (a row, a file, a message, a verb of the hub) is
counted; the run is stopped at each of them in turn, before it took place and after.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import models

from hub import control, keystore
from hub.client import HubClient
from hub.client.producer import Producer as HubProducer
from recorder.models import Act, AuthoredEvent, Producer, ReaderGrant, ReaderKey, Stream
from tests.support.office import Office

ORDERS = "record/app/orders"


class Stopped(BaseException):
    """The machine stopped here."""


SEAMS: tuple[tuple[Any, str], ...] = (
    (models.Model, "save"),
    (models.QuerySet, "update"),
    (keystore, "write_private"),
    (control, "call"),
    (HubClient, "authorize"),
    (HubProducer, "enqueue_items"),
    (HubProducer, "flush"),
)


@contextmanager
def stopping(monkeypatch: pytest.MonkeyPatch, *, at: int, after: bool) -> Iterator[None]:
    """Stop at the seam number `at`."""
    count = 0

    def armed(real: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            mine = count
            if mine == at and not after:
                raise Stopped
            found = real(*args, **kwargs)
            if mine == at:
                raise Stopped
            return found

        return counted

    with monkeypatch.context() as patch:
        for owner, name in SEAMS:
            patch.setattr(owner, name, armed(getattr(owner, name)))
        yield


def stop_everywhere(
    office: Office,
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[[int], Act],
    check: Callable[[int, Act], None],
) -> int:
    """Run the act of `ask(n)` with a stop at its n-th seam, then to its end; returns the seams."""
    turn = 0
    for after in (False, True):
        at = 0
        stopped = True
        while stopped:
            at += 1
            turn += 1
            act = ask(turn)
            stopped = False
            with stopping(monkeypatch, at=at, after=after):
                try:
                    office.run()
                except Stopped:
                    stopped = True
            office.restart()
            office.run()
            act.refresh_from_db()
            assert act.state == Act.State.DONE, (at, after, act.message, act.error_code)
            check(turn, act)
    return at - 1


def told_once(office: Office) -> None:
    """Every act of this office is in the log exactly once."""
    rows = AuthoredEvent.objects.filter(key__startswith="act/")
    assert {row.state for row in rows} == {"recorded"}
    told = office.read()
    assert sorted(one.seq for one in told) == sorted(row.hub_commit_seq or 0 for row in rows)
    assert rows.count() == Act.objects.count()


def test_stream_create(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    classified: Counter[str] = Counter()
    real = control.call

    def counting(data_dir: Any, verb: str, **arguments: Any) -> Any:
        if verb == "label_class":
            classified[arguments["label"]] += 1
        return real(data_dir, verb, **arguments)

    monkeypatch.setattr(control, "call", counting)

    def check(turn: int, act: Act) -> None:
        name = f"record/app/s{turn}"
        assert Stream.objects.filter(name=name).count() == 1
        assert list(ReaderKey.objects.filter(stream=name).values_list("key_id", flat=True)) == [1]
        assert ReaderGrant.objects.filter(stream=name).count() == 1
        assert len(office.secrets(name)) == 1
        config = json.loads(office.files.gateway_config.read_bytes())
        assert [one["name"] for one in config["streams"]].count(name) == 1
        assert act.result["event"]["receipt_id"].startswith("rcpt-")

    seams = stop_everywhere(
        office,
        monkeypatch,
        lambda turn: office.ask(
            "stream.create", name=f"record/app/s{turn}", event_types=[f"type.{turn}"]
        ),
        check,
    )
    assert seams > 10, "the stops never reached most of the work"
    assert max(classified.values()) == 1, "the hub recorded a class twice"
    told_once(office)


def test_gateway_held_producer_add_and_rotate(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.do("stream.create", name=ORDERS)

    def seeds() -> set[str]:
        return set(json.loads(office.files.gateway_keys.read_bytes())["producers"])

    def active() -> set[str]:
        return set(
            Producer.objects.filter(ended_at__isnull=True).values_list("principal", flat=True)
        )

    def check(turn: int, act: Act) -> None:
        assert Producer.objects.filter(name=f"p{turn}").count() == 1
        assert seeds() == active()
        config = json.loads(office.files.gateway_config.read_bytes())
        assert {one["principal"] for one in config["producers"]} == active()

    seams = stop_everywhere(
        office,
        monkeypatch,
        lambda turn: office.ask("producer.add", name=f"p{turn}", streams=[ORDERS], held="gateway"),
        check,
    )
    assert seams > 8

    def check_rotated(turn: int, act: Act) -> None:
        old = Producer.objects.get(principal=act.result["old_principal"])
        assert old.revoked_at is not None
        assert seeds() == active()
        assert Producer.objects.filter(name="p1").count() == turn + 1

    seams = stop_everywhere(
        office, monkeypatch, lambda _: office.ask("producer.rotate", name="p1"), check_rotated
    )
    assert seams > 10
    told_once(office)


def test_reader_revoke_token_and_checkpoint(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.do("stream.create", name=ORDERS)

    def ask_reader(turn: int) -> Act:
        office.do("reader.add", name=f"r{turn}", dh_pk=f"{turn:02x}" * 32, streams=[ORDERS])
        return office.ask("reader.revoke", name=f"r{turn}")

    def check_reader(turn: int, act: Act) -> None:
        assert act.result["rotated"][0]["key_id"] == turn + 1
        assert len(office.secrets(ORDERS)) == turn + 1

    assert stop_everywhere(office, monkeypatch, ask_reader, check_reader) > 8

    manifests: list[str] = []

    def check_manifest(turn: int, act: Act) -> None:
        manifests.append(act.result["manifest_id"])
        newest = office.hub.control("status")["last_manifest_id"]
        assert newest == act.result["manifest_id"], "a second manifest was made"

    assert (
        stop_everywhere(office, monkeypatch, lambda _: office.ask("checkpoint.now"),
                        check_manifest)
        > 6
    )  # fmt: skip
    assert len(set(manifests)) == len(manifests)
    told_once(office)


def test_a_hub_that_is_away_leaves_the_act_waiting(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are changed, the hub is told later, and nobody is told that it is done."""
    act = office.ask("stream.create", name=ORDERS)
    _ = office.authority
    with monkeypatch.context() as patch:
        patch.setattr(control, "SOCKET_NAME", "gone.sock")
        office.run()
    act.refresh_from_db()
    assert (act.state, act.message[:13]) == ("pending", "N.UNREACHABLE")
    office.run()
    act.refresh_from_db()
    assert (act.state, act.message) == ("done", "")


def test_an_error_of_ours_ends_one_act_and_not_the_others(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = office.ask("stream.create", name=ORDERS)
    Act.objects.filter(pk=broken.pk).update(verb="stream.never_heard_of")
    fine = office.ask("stream.create", name="record/app/other")
    office.run()
    broken.refresh_from_db()
    fine.refresh_from_db()
    assert (broken.state, broken.error_code) == ("failed", "internal")
    assert fine.state == "done"


def test_a_full_disk_leaves_the_act_waiting(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.do("stream.create", name=ORDERS)
    act = office.ask("producer.add", name="till", streams=[ORDERS], held="gateway")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device", "gateway.keys")

    with monkeypatch.context() as patch:
        patch.setattr(keystore, "write_private", full)
        office.run()
    act.refresh_from_db()
    assert (act.state, act.result) == ("pending", {})
    assert "No space left" in act.message
    office.run()
    act.refresh_from_db()
    assert act.state == "done"
    assert Producer.objects.count() == 1


def test_an_error_of_ours_after_rows_changed_never_hides_them(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    act = office.ask("stream.create", name=ORDERS)

    def broken(*_: Any, **__: Any) -> None:
        raise KeyError("x")

    with monkeypatch.context() as patch:
        patch.setattr(control, "call", broken)
        office.run()
    act.refresh_from_db()
    assert (act.state, "KeyError" in act.message) == ("pending", True)
    office.run()
    act.refresh_from_db()
    assert act.state == "done"
    told_once(office)
