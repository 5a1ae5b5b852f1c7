"""The API of a running bundle: web, gateway, author and hub, each its own process."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django import Settings as DjangoSettings

from config.up_state import StateDir
from hub.types import PublicKey
from hub.wire.receipt import Receipt
from recorder.admin_state import gateway_state
from recorder.web_client import WebClient
from tests.support.bundles import Up, free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

STREAM = "record/app/shop"
EVENTS = "/api/record/events"
EVENT = {"event_type": "order.placed", "subject_id": "customer-7", "payload": {"total": 1250}}


class Desk:
    """An administrator at a bundle, with a token of each role."""

    def __init__(self, up: Up) -> None:
        self.up = up
        self.url = str(up.status()["web_url"]).rstrip("/")
        admin = up.state.secret("admin.token").read_text().strip()
        self._client = WebClient(self.url, token=admin)
        self.act("stream.create", name=STREAM, event_types=["order.placed"])
        self.act("producer.add", name="billing", held="gateway", streams=[STREAM])
        self.tokens = {
            "admin": admin,
            "second admin": self.token(role="admin", name="ops"),
            "reader": self.token(role="reader", name="audit", all=True),
            "producer": self.token(role="producer", name="till", producer="billing"),
        }

    def act(self, verb: str, **args: Any) -> dict[str, Any]:
        body = {"verb": verb, "args": args, "reason": "tests"}
        taken = self._client.post("/api/admin/acts", body)
        done = self._client.get(f"/api/admin/acts/{taken['act_id']}", {"wait": "30"})
        assert done["state"] == "done", done
        return {**done, "token": taken.get("token")}

    def token(self, **args: Any) -> str:
        return str(self.act("token.create", **args)["token"])

    def ask(
        self, method: str, path: str, role: str | None, body: Any = None
    ) -> tuple[int, dict[str, Any], dict[str, str]]:
        headers = {"Content-Type": "application/json"}
        if role is not None:
            headers["Authorization"] = f"Bearer {self.tokens[role]}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310 - our own server
            self.url + path, data=data, headers=headers, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                return answer.status, json.loads(answer.read()), dict(answer.headers)
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, json.loads(refused.read()), dict(refused.headers)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    state = StateDir.at(tmp_path_factory.mktemp("bundle") / "state")
    up = Up(state, "--port", str(free_port()))
    try:
        yield Desk(up.ready())
    finally:
        up.end()


def test_a_producer_records_through_the_web(desk: Desk) -> None:
    key = {**EVENT, "idempotency_key": "order-1"}
    status, found, _ = desk.ask("POST", EVENTS, "producer", key)
    assert status == 201, found
    assert found["stream"] == STREAM
    receipt = Receipt.decode(base64.b64decode(found["receipt"]))
    receipt.verify(PublicKey(bytes.fromhex(desk.up.status()["hub_pk"])))
    assert desk.ask("POST", EVENTS, "producer", key)[:2] == (200, found)
    other = {**key, "payload": None}
    assert desk.ask("POST", EVENTS, "producer", other)[1]["error_code"] == "idempotency_conflict"
    status, found, _ = desk.ask("POST", EVENTS, "producer", {"events": [EVENT, {"x": 1}]})
    assert status == 200
    assert [one.get("error_code") for one in found["results"]] == [None, "invalid_event"]


@pytest.mark.parametrize("role", [None, "reader", "admin", "second admin"])
def test_nobody_but_a_producer_records(desk: Desk, role: str | None) -> None:
    before = _head(desk)
    status, found, _ = desk.ask("POST", EVENTS, role, EVENT)
    wanted = (401, "unauthorized") if role is None else (403, "forbidden")
    assert (status, found["error_code"]) == wanted
    assert _head(desk) == before


def _head(desk: Desk) -> int:
    _, found, _ = desk.ask("GET", "/api/record/streams", "reader")
    [stream] = [one for one in found["streams"] if one["name"] == STREAM]
    return int(stream["head_seq"])


def test_a_refusal_of_the_gateway_has_one_request_id_in_body_and_header(desk: Desk) -> None:
    status, found, headers = desk.ask("POST", EVENTS, "producer", {"event_type": "x"})
    assert (status, found["error_code"]) == (400, "invalid_event")
    assert found["request_id"] == headers["Veen-Request-Id"]


def test_a_revoked_token_records_no_more(desk: Desk) -> None:
    text = desk.token(role="producer", name="old-till", producer="billing")
    desk.tokens["old-till"] = text
    # Both acts count from the moment they are done.
    assert desk.ask("POST", EVENTS, "old-till", EVENT)[0] == 201
    _, found, _ = desk.ask("GET", "/api/admin/tokens", "admin")
    [row] = [one for one in found["tokens"] if one["name"] == "old-till"]
    desk.act("token.revoke", token_id=row["token_id"])
    status, found, _ = desk.ask("POST", EVENTS, "old-till", EVENT)
    assert (status, found["error_code"]) == (401, "unauthorized")


@pytest.mark.parametrize(
    ("path", "role", "status", "code"),
    [
        ("/api/query/submit", "reader", 400, "invalid_query_descriptor"),
        ("/api/query/submit", None, 401, "unauthorized"),
        ("/api/record/checkpoints", "admin", 400, "invalid_parameter"),
        ("/api/nothing", None, 404, "not_found"),
    ],
)
def test_whoever_sends_far_too_much_hears_why_it_is_refused(
    desk: Desk, path: str, role: str | None, status: int, code: str
) -> None:
    refused = desk.ask("POST", path, role, "x" * 10_000_000)
    assert (refused[0], refused[1]["error_code"]) == (status, code)


def test_a_checkpoint_covers_what_was_recorded(desk: Desk) -> None:
    desk.ask("POST", EVENTS, "producer", EVENT)
    status, found, _ = desk.ask("POST", "/api/record/checkpoints", "admin", {"reason": "drill"})
    assert status == 201, found
    [stream] = [one for one in found["streams"] if one["name"] == STREAM]
    assert stream["upto_seq"] == _head(desk)
    _, manifest, _ = desk.ask("GET", f"/api/record/manifests/{found['manifest_id']}", "reader")
    assert manifest["manifest"]


def test_without_a_worker_a_replay_says_that_the_lake_is_behind(desk: Desk) -> None:
    desk.ask("POST", EVENTS, "producer", EVENT)
    status, found, headers = desk.ask("GET", f"/api/record/replay?stream={STREAM}", "reader")
    assert (status, found["error_code"]) == (503, "lake_behind")
    assert int(headers["Retry-After"]) > 0


def test_the_admin_page_shows_what_the_gateway_says_of_itself(
    desk: Desk, settings: DjangoSettings
) -> None:
    desk.ask("POST", EVENTS, "producer", EVENT)
    settings.VEEN_STATUS_FILE = desk.up.state.status
    found = gateway_state()
    assert (found.is_up, found.pending, found.dead) == (True, 0, 0)
    assert found.recorded >= 1
