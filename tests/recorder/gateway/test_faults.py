"""The gateway when the hub is away, when it is killed, and when its files change."""

from __future__ import annotations

import contextlib
import http.client
import io
import itertools
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from config import cli
from hub.crypto.signing import SigningKey
from hub.storage.disk import Disk
from tests.recorder.conftest import MakeCast, closed_config
from tests.support import gateways, live_hub
from tests.support.connections import Cast
from tests.support.gateways import Gateway, Publisher, token_of
from tests.support.live_hub import LiveHub, until


def event(subject_id: str, **fields: object) -> dict[str, object]:
    return {"event_type": "http.request", "subject_id": subject_id, **fields}


def subjects(cast: Cast, url: str) -> list[str]:
    return [one.subject_id for one in cast.events(url, next(iter(cast.types)))]


def test_while_the_hub_is_away_keyed_events_are_pending_and_others_not_taken(
    make_cast: MakeCast, tmp_path: Path
) -> None:
    hub = live_hub.start(closed_config(tmp_path / "d"))
    cast = make_cast(hub)
    Publisher(tmp_path).publish(cast)
    with gateways.running(tmp_path, patience_s=0.5) as gateway:
        token = token_of("shop")
        assert gateway.post(event("before"), token=token).status == 201
        hub.kill()
        keyed = gateway.post(event("keyed", idempotency_key="k"), token=token)
        assert (keyed.status, keyed.code, keyed.body["pending"]) == (503, "hub_unavailable", True)
        until(lambda: gateway.ask("GET", "/readyz").status == 503)
        plain = gateway.post(event("plain"), token=token)
        assert (plain.status, plain.code) == (503, "hub_unavailable")
        assert "pending" not in plain.body
        batch = gateway.post(
            {"events": [event("plain"), event("keyed", idempotency_key="k"), event("x", y=1)]},
            token=token,
        )
        assert batch.status == 200
        results = batch.body["results"]
        assert [one["error_code"] for one in results] == [
            "hub_unavailable", "hub_unavailable", "invalid_event",
        ]  # fmt: skip
        assert [one.get("pending") for one in results] == [None, True, None]
        conflict = gateway.post(event("other", idempotency_key="k"), token=token)
        assert (conflict.status, conflict.code) == (409, "idempotency_conflict")
        with live_hub.running(closed_config(tmp_path / "d", port=urlsplit(hub.url).port)):
            until(lambda: gateway.ask("GET", "/readyz").status == 200)
            again = gateway.post(event("keyed", idempotency_key="k"), token=token)
            assert (again.status, again.body["hub_commit_seq"]) == (200, 2)
            assert subjects(cast, hub.url) == ["before", "keyed"]


def test_kill_9_in_mid_request_and_a_retry_records_once(
    hub: LiveHub, make_cast: MakeCast, tmp_path: Path, scaled: Callable[[int, int], int]
) -> None:
    """Whatever the killed gateway had done of each request, the retry finishes it."""
    cast = make_cast(hub)
    Publisher(tmp_path).publish(cast)
    rounds, each = scaled(4, 100), 60
    for number in range(rounds):
        batch = {
            "events": [
                event(f"{number}-{one}", idempotency_key=f"{number}-{one}") for one in range(each)
            ]
        }
        with gateways.running(tmp_path) as gateway:

            def send(to: Gateway = gateway, found: object = batch) -> None:
                with contextlib.suppress(OSError, http.client.HTTPException):
                    to.post(found, token=token_of("shop"))

            thread = threading.Thread(target=send)
            thread.start()
            thread.join(0.03 * (number % 5))
            gateway.kill()
            thread.join()
        with gateways.running(tmp_path) as gateway:
            reply = gateway.post(batch, token=token_of("shop"))
            assert reply.status == 200
            assert all("receipt_id" in one for one in reply.body["results"]), reply.body
    expected = [f"{number}-{one}" for number in range(rounds) for one in range(each)]
    assert subjects(cast, hub.url) == expected


def test_what_was_pending_goes_out_after_a_restart_without_being_asked_for(
    make_cast: MakeCast, tmp_path: Path
) -> None:
    hub = live_hub.start(closed_config(tmp_path / "d"))
    cast = make_cast(hub)
    Publisher(tmp_path).publish(cast)
    hub.kill()
    with gateways.running(tmp_path, patience_s=0.1) as gateway:
        keyed = event("x", idempotency_key="k")
        until(lambda: gateway.post(keyed, token=token_of("shop")).body.get("pending") is True)
        gateway.kill()
    with (
        live_hub.running(closed_config(tmp_path / "d", port=urlsplit(hub.url).port)),
        gateways.running(tmp_path),
    ):
        until(lambda: subjects(cast, hub.url) == ["x"])


def test_the_files_are_followed_while_it_runs(
    hub: LiveHub, make_cast: MakeCast, tmp_path: Path
) -> None:
    shop, till = make_cast(hub), make_cast(hub, name="till")
    publisher = Publisher(tmp_path)
    with gateways.running(tmp_path) as gateway:

        def status(name: str, found: object = None) -> int:
            return gateway.post(found or event("x"), token=token_of(name)).status

        assert status("shop") == 503  # not configured yet
        assert gateway.ask("GET", "/readyz").status == 503
        publisher.publish(shop)
        # What is published counts for the next request: the administrator was told it is done.
        assert status("shop") == 201
        assert status("till") == 401
        till.types = {next(iter(till.types)): ("till.sale",)}
        publisher.publish(shop, till)
        sale = {"event_type": "till.sale", "subject_id": "y"}
        assert status("till", sale) == 201
        publisher.publish(shop, till, without_tokens=["shop"])
        assert status("shop") == 401
        assert status("till", sale) == 201
        config = tmp_path / "gateway" / "config.json"
        Disk().write_atomic(config, b"{}")
        until(lambda: gateway.ask("GET", "/readyz").status == 503)
        assert status("till", sale) == 201  # the last good state stays in force
        publisher.serial = 0
        publisher.publish(shop, till)  # an older serial, with the shop's token
        until(lambda: "serial" in str(gateway.ask("GET", "/readyz").body))
        assert status("shop") == 401


def test_a_rotated_key_keeps_the_producers_idempotency(
    hub: LiveHub, make_cast: MakeCast, tmp_path: Path
) -> None:
    old = make_cast(hub)
    publisher = Publisher(tmp_path)
    publisher.publish(old)
    with gateways.running(tmp_path) as gateway:

        def post(subject_id: str, key: str) -> Any:
            found = event(subject_id, idempotency_key=key)
            return gateway.post(found, token=token_of("shop"))

        first = post("a", "k")
        assert first.status == 201
        new = make_cast(hub, types=old.types, key=SigningKey.generate())
        new.readers = old.readers
        publisher.publish(new)
        keys = itertools.count()
        principal = new.key.public.hex()
        until(lambda: post("b", f"b{next(keys)}").body["principal_id"] == principal)
        again = post("a", "k")
        assert (again.status, again.body) == (200, first.body)
        assert post("c", "k").code == "idempotency_conflict"
        other = post("d", "l")
        assert other.body["principal_id"] == principal


def test_what_a_rotated_key_took_goes_out_under_it_also_after_a_restart(
    make_cast: MakeCast, tmp_path: Path
) -> None:
    hub = live_hub.start(closed_config(tmp_path / "d"))
    old = make_cast(hub)
    new = make_cast(hub, types=old.types, key=SigningKey.generate())
    publisher = Publisher(tmp_path)
    publisher.publish(old)
    hub.kill()
    with gateways.running(tmp_path, patience_s=0.1) as gateway:
        keyed = event("x", idempotency_key="k")
        # A request that was not even read within its patience is asked again.
        until(lambda: gateway.post(keyed, token=token_of("shop")).body.get("pending") is True)
        gateway.kill()
    publisher.publish(new, retiring=[old])
    with (
        live_hub.running(closed_config(tmp_path / "d", port=urlsplit(hub.url).port)),
        gateways.running(tmp_path) as gateway,
    ):
        until(lambda: subjects(old, hub.url) == ["x"])
        again = gateway.post(event("x", idempotency_key="k"), token=token_of("shop"))
        assert again.body["principal_id"] == old.key.public.hex()


def test_a_revoked_producer_is_refused_and_its_event_kept(
    hub: LiveHub, make_cast: MakeCast, tmp_path: Path
) -> None:
    cast = make_cast(hub)
    Publisher(tmp_path).publish(cast)
    with gateways.running(tmp_path) as gateway:
        token = token_of("shop")
        assert gateway.post(event("before"), token=token).status == 201
        hub.control("revoke", kind="client-id", target=cast.key.public.hex(), reason="test")
        reply = gateway.post(event("after", idempotency_key="k"), token=token)
        assert (reply.status, reply.code) == (403, "forbidden_stream")
        assert "veen_gateway_dead_letters_total 1" in gateway.ask("GET", "/metrics").body
    (letters,) = (tmp_path / "gateway" / "producers").glob("*/dead-letters.ndjson")
    assert json.loads(letters.read_text())["event"]["subject_id"] == "after"


def test_requests_at_once_are_answered_each_with_its_own(
    hub: LiveHub, make_cast: MakeCast, tmp_path: Path
) -> None:
    cast = make_cast(hub)
    Publisher(tmp_path).publish(cast)
    found: dict[str, int] = {}
    with gateways.running(tmp_path) as gateway:

        def work(letter: str) -> None:
            for number in range(10):
                reply = gateway.post(event(f"{letter}{number}"), token=token_of("shop"))
                assert reply.status == 201
                found[f"{letter}{number}"] = reply.body["hub_commit_seq"]

        threads = [threading.Thread(target=work, args=(letter,)) for letter in "abcdef"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    in_log = subjects(cast, hub.url)
    assert len(in_log) == 60
    assert {subject: place for place, subject in enumerate(in_log, start=1)} == found


class Stdin:
    """What sys.stdin is to a command."""

    def __init__(self, text: bytes) -> None:
        self.buffer = io.BytesIO(text)


def test_the_command_goes_through_the_gateway_with_a_token(
    hub: LiveHub,
    make_cast: MakeCast,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cast = make_cast(hub)
    Publisher(tmp_path).publish(cast)
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text(token_of("shop"))
    with gateways.running(tmp_path) as gateway:
        flags = ["recorder", "record", "--token-file", str(token), "--url", gateway.url, "--json"]
        assert cli.run([*flags, "--event-type", "login.ok", "--subject-id", "x"]) == 0
        assert json.loads(capsys.readouterr().out)["hub_commit_seq"] == 1
        lines = [json.dumps(event(str(number))).encode() for number in range(250)]
        lines[7] = b"{"
        lines[8] = json.dumps(event("8", colour=1)).encode()
        monkeypatch.setattr(sys, "stdin", Stdin(b"\n".join(lines)))
        assert cli.run([*flags, "-"]) == 4
        answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answer["line"] for answer in answers] == list(range(1, 251))
    refused = {answer["line"]: answer["error_code"] for answer in answers if "error_code" in answer}
    assert refused == {8: "invalid_json", 9: "invalid_event"}
    assert subjects(cast, hub.url) == [str(n) for n in range(250) if n not in (7, 8)]
    assert (
        cli.run([*flags, "--event-type", "login.ok", "--subject-id", "x", "--timeout", "0.1"]) == 2
    )


@pytest.mark.parametrize("name", ["config.json", "gateway.keys"])
def test_files_that_others_may_read_are_not_used(
    hub: LiveHub, make_cast: MakeCast, tmp_path: Path, name: str
) -> None:
    Publisher(tmp_path).publish(make_cast(hub))
    (path,) = tmp_path.glob(f"*/{name}")
    path.chmod(0o644)
    with gateways.running(tmp_path) as gateway:
        reply = gateway.post(event("x"), token=token_of("shop"))
        assert (reply.status, reply.code) == (503, "hub_unavailable")
        assert "0600" in str(gateway.ask("GET", "/readyz").body)
