"""Administration by command on a real bundle: every act is done, recorded, and can be read back."""

from __future__ import annotations

import http.client
import json
import os
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from config.up_state import StateDir
from hub import keystore, label
from hub.authoring import open_message
from hub.client import Draft, HubClient
from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.types import Label, PublicKey
from hub.wire.payload import PayloadHeader
from hub.wire.profile import PRODUCT
from recorder.connection import Connection
from recorder.event import SCHEMA, RecorderEvent, UnixMillis
from recorder.streams import CHANGES, CHECKPOINTS
from tests.support.bundles import Up, free_port, veen

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

ORDERS = "record/app/orders"


class Shell:
    """Commands on the state directory of one bundle."""

    def __init__(self, up: Up) -> None:
        self.up = up

    def run(self, *arguments: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
        words = [str(one) for one in arguments]
        done = veen(*words, "--state-dir", str(self.up.state.root))
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done

    def json(self, *arguments: str | Path, code: int = 0) -> dict[str, Any]:
        """Exactly one document on stdout."""
        done = self.run(*arguments, "--json", code=code)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def client(self) -> HubClient:
        status = self.up.status()
        token = keystore.read_private(self.up.state.secret("worker.token")).decode().strip()
        pinned = PublicKey(bytes.fromhex(status["hub_pk"]))
        return HubClient(status["hub_url"], pinned, token=token)

    def read(self, stream: str) -> list[RecorderEvent]:
        """A stream as the worker reads it: verified, and opened with readers.keys."""
        keys = json.loads(keystore.read_private(self.up.state.secret("readers.keys")))
        secrets = [bytes.fromhex(one["secret"]) for one in keys["streams"][stream]]
        routing_key = keystore.read_key_file(self.up.state.secret("routing.key"))
        where = Label(label.derive(routing_key, label.stream_id(stream)))
        with self.client() as client:
            items = list(client.follow(where))
        return [
            RecorderEvent.decode(open_message(item.msg, profile=PRODUCT, secret=secrets).body)
            for item in items
        ]

    def post(self, token: str, event: dict[str, object], patience_s: float = 0) -> int:
        """One event to the gateway; it may not have read a new token yet."""
        url = self.up.status()["gateway_url"]
        deadline = time.monotonic() + patience_s
        while True:
            parts = urlsplit(url)
            link = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=20)
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            link.request("POST", "/api/record/events", json.dumps(event), headers)
            status = link.getresponse().status
            link.close()
            if status != 401 or time.monotonic() > deadline:
                return status
            time.sleep(0.1)

    def changes(self, *types: str) -> list[dict[str, Any]]:
        """What was recorded of these kinds."""
        found = [one for one in self.read(CHANGES) if one.event_type in types]
        return [json.loads(one.payload) for one in found]


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    state = StateDir.at(tmp_path_factory.mktemp("bundle") / "s")
    up = Up(state, "--port", str(free_port()))
    try:
        yield Shell(up.ready())
    finally:
        up.end()


@pytest.fixture(scope="module")
def orders(shell: Shell) -> str:
    """A stream that all tests of the module share."""
    shell.json("stream", "create", ORDERS, "--event-type", "order.placed", "--reason", "shop")
    return ORDERS


def record(connection: Connection, key: SigningKey) -> int:
    """One event, as a service records it that has nothing but its connection file."""
    entry = connection.stream_of("order.placed")
    assert entry is not None
    assert connection.cap_token is not None
    event = RecorderEvent(
        subject_id="carol", event_type="order.placed", event_time=UnixMillis(0), origin="shop",
        payload='{"total":7}',
    )  # fmt: skip
    draft = Draft(
        label=entry.label,
        reader_pk=entry.reader_key.reader_pk,
        header=PayloadHeader(schema=SCHEMA),
        body=event.encode(),
    )
    with (
        HubClient(connection.hub_url, connection.hub_pk) as client,
        client.producer(key, auth_ref=connection.cap_token.auth_ref()) as producer,
    ):
        return producer.submit(draft).stream_seq


def load(path: Path) -> tuple[Connection, SigningKey]:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    connection = Connection.parse(path.read_bytes())
    assert connection.producer is not None
    assert connection.producer.key is not None
    return connection, SigningKey(connection.producer.key)


def test_a_stream_is_made_listed_and_given_a_new_key(shell: Shell, orders: str) -> None:
    listed = shell.json("stream", "list")["streams"]
    found = {one["name"]: one for one in listed}
    assert found[orders]["event_types"] == ["order.placed"]
    assert CHANGES in found
    assert [one["key_id"] for one in shell.json("stream", "keys", orders)["keys"]] == [1]
    rotated = shell.json("stream", "keys", orders, "--rotate", "--reason", "yearly")
    assert [one["key_id"] for one in rotated["keys"]] == [2, 1]
    assert shell.changes("stream.key_rotated")[-1]["reason"] == "yearly"
    again = shell.json("stream", "create", orders, code=6)
    assert again["error"]["code"] == "P.POLICY"


def test_a_producers_file_is_all_it_needs_until_it_is_revoked(
    shell: Shell, orders: str, tmp_path: Path
) -> None:
    out = tmp_path / "shop.json"
    added = shell.json("recorder", "producer", "add", "shop", "--stream", orders, "--out", out)
    connection, key = load(out)
    assert [path.name for path in tmp_path.iterdir()] == ["shop.json"], "no key is left beside it"
    assert added["principal"] == key.public.hex()
    status = shell.up.status()
    assert (connection.web_url, connection.hub_url) == (status["web_url"], status["hub_url"])
    assert connection.gateway_url == status["gateway_url"]
    record(connection, key)
    assert shell.read(orders)[-1].payload == '{"total":7}'

    new = tmp_path / "new.json"
    shell.json("recorder", "producer", "rotate", "shop", "--out", new)
    record(*load(new))
    with pytest.raises(VeenError) as refusal:
        record(connection, key)
    assert refusal.value.code is ErrorCode.CAP
    [linked] = shell.changes("producer.rotated")
    assert linked["old_principal"] == key.public.hex()
    assert linked["new_principal"] == load(new)[1].public.hex()

    shell.json("recorder", "producer", "revoke", "shop", "--reason", "over")
    with pytest.raises(VeenError):
        record(*load(new))
    assert shell.json("recorder", "producer", "list")["producers"] == []
    every = shell.json("recorder", "producer", "list", "--all")["producers"]
    assert [one["name"] for one in every] == ["shop", "shop"]


def test_a_connection_file_is_brought_up_to_date_and_no_key_is_lost(
    shell: Shell, orders: str, tmp_path: Path
) -> None:
    out, news = tmp_path / "web.json", tmp_path / "news.json"
    words = ("recorder", "producer", "connection")
    shell.json("recorder", "producer", "add", "web", "--stream", orders, "--out", out)
    before = out.read_bytes()
    told = shell.json(*words, "web", "--update", out)
    assert (told["changed"], out.read_bytes()) == (False, before)
    held = shell.json("stream", "keys", orders, "--rotate")["keys"][0]["key_id"]
    told = shell.json(*words, "web", "--update", out)
    assert (told["changed"], told["streams"][0]["key_id"]) == (True, held)
    assert load(out)[1].seed.hex() in before.decode()
    record(*load(out))
    for _ in range(2):  # what holds no key may be written again
        shell.json(*words, "web", "--out", news)
    assert Connection.parse(news.read_bytes()).producer is None
    assert shell.json(*words, "web", "--update", out, "--from", news)["changed"] is False
    shell.json(*words, "web", "--out", tmp_path / "k.json", "--key-file", "/k/web.key")
    kept = Connection.parse((tmp_path / "k.json").read_bytes())
    assert kept.producer is not None
    assert kept.producer.key_file == "/k/web.key"
    assert "holds the key" in shell.json(*words, "web", "--out", out, code=1)["error"]["message"]
    shell.json(*words, "other", "--update", out, code=1)
    shell.json(*words, "nobody", "--out", tmp_path / "n.json", code=1)
    shell.json(*words, "web", code=1)


def test_an_answer_that_never_came_costs_no_key(shell: Shell, orders: str, tmp_path: Path) -> None:
    """The same command again finds its key and its act, and nothing is asked for twice."""
    out = tmp_path / "late.json"
    words = ("recorder", "producer", "add", "late", "--stream", orders, "--out", out)
    os.kill(shell.up.pid("author"), signal.SIGSTOP)
    try:
        shell.json(*words, "--timeout", "0.1", code=9)
    finally:
        os.kill(shell.up.pid("author"), signal.SIGCONT)
    assert not out.exists()
    shell.json(*words)
    record(*load(out))
    assert len([one for one in shell.changes("producer.added") if one["producer"] == "late"]) == 1


def test_tokens_are_for_gateway_held_producers_and_readers_and_administrators(
    shell: Shell, orders: str, tmp_path: Path
) -> None:
    shell.json("recorder", "producer", "add", "till", "--stream", orders, "--gateway")
    path = tmp_path / "till.token"
    made = shell.json("token", "create", "--role", "producer", "till", "--out", path)
    text = keystore.read_private(path).decode().strip()
    config = json.loads((shell.up.state.gateway / "config.json").read_bytes())
    assert [one["id"] for one in config["tokens"]] == [made["token_id"]]
    assert text not in (shell.up.state.gateway / "config.json").read_text()
    placed: dict[str, object] = {"event_type": "order.placed", "subject_id": "dave"}
    assert shell.post(text, placed, patience_s=10) == 201
    assert shell.read(orders)[-1].subject_id == "dave"
    admin = keystore.read_private(shell.up.state.secret("admin.token")).decode().strip()
    assert shell.post(admin, placed) == 403
    shown = shell.json("token", "create", "--role", "reader", "auditor", "--stream", orders)
    assert shown["token"].startswith("veen-")
    assert shell.post(shown["token"], placed) == 403
    names = {one["name"] for one in shell.json("token", "list")["tokens"]}
    assert {"till", "auditor", "state-directory"} <= names
    shell.json("token", "revoke", "auditor")
    assert shell.post(shown["token"], placed) == 401
    assert "auditor" not in {one["name"] for one in shell.json("token", "list")["tokens"]}
    kinds = [one["role"] for one in shell.changes("token.created")]
    assert kinds == ["producer", "reader"]
    refused = shell.json("token", "create", "--role", "producer", "nobody", code=4)
    assert "not_found" in refused["error"]["message"]


def test_readers_are_given_wrapped_secrets(shell: Shell, orders: str, tmp_path: Path) -> None:
    partner = DhSecret.generate().public.hex()
    out = tmp_path / "partner.json"
    words = ("recorder", "reader", "add", "partner", "--dh-pk", partner, "--stream", orders)
    result = shell.json(*words, "--out", out)
    assert result["streams"][0]["keys"]
    assert Connection.parse(out.read_bytes()).producer is None
    assert "partner" in {one["name"] for one in shell.json("recorder", "reader", "list")["readers"]}
    shell.json("recorder", "reader", "revoke", "partner", "--keep-keys")
    assert shell.changes("reader.added", "reader.revoked")[-1]["rotated"] == []


def test_types_are_mapped_and_moved_with_a_reason(shell: Shell, orders: str) -> None:
    shell.json("recorder", "stream", "map", orders, "--event-type", "order.paid")
    shell.json("stream", "create", "record/app/bills")
    move = ("--move", "record/app/bills=order.paid")
    shell.json("recorder", "stream", "migrate", "split", orders, *move, code=4)
    shell.json("recorder", "stream", "migrate", "split", orders, *move, "--reason", "too many")
    [told] = shell.changes("stream.split")
    assert told == {
        "from": orders,
        "to": [{"stream": "record/app/bills", "event_types": ["order.paid"]}],
        "reason": "too many",
    }
    shell.json("recorder", "stream", "set", orders, "--sensitivity", "high")
    assert shell.changes("stream.classified")[-1]["after"]["sensitivity"] == "high"


def test_a_key_on_a_foreign_stream_is_found_recorded_and_acknowledged(
    shell: Shell, orders: str, tmp_path: Path, until: Callable[[Callable[[], object]], None]
) -> None:
    shell.json("stream", "create", "record/app/foreign")
    out = tmp_path / "stray.json"
    shell.json("recorder", "producer", "add", "stray", "--stream", orders, "--out", out)
    found = Connection.parse(keystore.read_private(out))
    assert found.producer is not None
    assert found.producer.key is not None
    assert found.cap_token is not None
    routing_key = keystore.read_key_file(shell.up.state.secret("routing.key"))
    where = Label(label.derive(routing_key, label.stream_id("record/app/foreign")))
    draft = Draft(
        label=where, reader_pk=found.streams[0].reader_key.reader_pk,
        header=PayloadHeader(schema=SCHEMA), body=b"not mine",
    )  # fmt: skip
    key = SigningKey(found.producer.key)
    with (
        shell.client() as client,
        client.producer(key, auth_ref=found.cap_token.auth_ref()) as producer,
        pytest.raises(VeenError) as refusal,
    ):
        producer.submit(draft)
    assert refusal.value.code is ErrorCode.CAP
    what = "stray on record/app/foreign"

    def listed(*flags: str) -> list[dict[str, Any]]:
        rows = shell.json("recorder", "finding", "list", *flags)["findings"]
        return [one for one in rows if one["object"] == what]

    until(listed)
    [finding] = listed()
    assert (finding["code"], finding["acknowledged_by"]) == ("key_out_of_scope", None)
    until(lambda: [one for one in shell.changes("finding.noted") if one["object"] == what])
    number = str(finding["finding_id"])
    shell.json("recorder", "finding", "acknowledge", number, code=4)  # without a reason
    shell.json("recorder", "finding", "acknowledge", number, "--reason", "a wrong file")
    assert listed() == []
    assert listed("--all")[0]["reason"] == "a wrong file"
    assert shell.changes("finding.acknowledged")[-1]["object"] == what


def test_nothing_is_pruned_before_its_time(shell: Shell, orders: str) -> None:
    shown = shell.json("recorder", "retention", orders)["streams"]
    assert shown == [{"name": orders, "retention_hint": "long_term"}]
    prune = ("recorder", "retention", CHANGES, "--prune-before", "2")
    assert shell.run(*prune, code=1).stderr.count("--reason") == 1
    refused = shell.json(*prune, "--reason", "space", code=6)
    assert refused["error"]["code"] == "P.POLICY"
    assert shell.changes("retention.pruned") == []


def test_a_manifest_is_published_without_anybody_asking(
    shell: Shell, until: Callable[[Callable[[], object]], None]
) -> None:
    made = json.loads(
        veen("hub", "checkpoint", "--state-dir", str(shell.up.state.root), "--json").stdout
    )

    def published() -> list[str]:
        return [json.loads(one.payload)["manifest_id"] for one in shell.read(CHECKPOINTS)]

    until(lambda: made["manifest_id"] in published())
    assert len(published()) == len(set(published()))


@pytest.fixture
def until(shell: Shell) -> Callable[[Callable[[], object]], None]:
    return shell.up.until


def test_a_killed_author_comes_back_and_finishes_what_was_asked(shell: Shell) -> None:
    pid = shell.up.pid("author")
    os.kill(pid, signal.SIGKILL)
    result = shell.json("stream", "create", "record/app/after-a-kill")
    assert result["event"]["receipt_id"].startswith("rcpt-")
    assert shell.up.pid("author") != pid
    told = [one["stream"] for one in shell.changes("stream.created")]
    assert told.count("record/app/after-a-kill") == 1


def test_usage_and_a_missing_bundle_have_their_exit_codes(shell: Shell, tmp_path: Path) -> None:
    assert shell.run("recorder", "producer", "add", "x", code=1).returncode == 1
    done = veen("token", "list", "--state-dir", str(tmp_path))
    assert (done.returncode, "nothing is up" in done.stderr) == (1, True)
