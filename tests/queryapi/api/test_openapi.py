"""Made-up requests to every route of the Query API, judged by its own description [Query 7]."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from django.core.handlers.wsgi import WSGIHandler
from hypothesis import HealthCheck, Phase, given, settings

from queryapi import api_docs, services
from queryapi.contract.codes import QueryCode
from queryapi.contract.descriptor_reader import STREAMS_MAX
from queryapi.models import Execution, Replay, State
from recorder.api_operations import Operation
from tests.queryapi.api.conftest import Call, Callers
from tests.queryapi.api.test_submit import question
from tests.support import query_desk
from tests.support.web_bundle import WebBundle, bearer

ROOT = Path(__file__).resolve().parents[3]
DESCRIPTION = json.loads((ROOT / "docs" / "openapi.json").read_text())
CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance",
    "response_headers_conformance", "response_schema_conformance", "negative_data_rejection",
    "positive_data_acceptance", "unsupported_method", "allow_header_conformance",
)  # fmt: skip
BOUNDED = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def test_every_code_of_a_query_is_described_and_refused_somewhere() -> None:
    operations = [one for one in vars(api_docs).values() if isinstance(one, Operation)]
    named = {str(code) for one in operations for code in one.errors}
    common = {QueryCode.INVALID_JSON, QueryCode.INVALID_PARAMETER, QueryCode.INTERNAL_ERROR}
    assert named | common == set(QueryCode)


@dataclass
class Known:
    """Things that exist, by the name of the parameter that asks for them."""

    ids: dict[str, list[str]]
    replayed: list[dict[str, Any]]
    name: str
    rng: random.Random

    def put_into(self, case: Any, mode: Any) -> None:
        """Every other request is about something that is there; what is wrong in it stays."""
        if self.rng.random() < 0.5:
            return
        body = case.body
        if isinstance(body, dict) and _is_scope(body.get("scope")):
            case.body = {**body, "scope": [self.name]}
        if mode is not schemathesis.GenerationMode.POSITIVE:
            return
        for key, found in self.ids.items():
            if key in (case.path_parameters or {}):
                case.path_parameters[key] = self.rng.choice(found)
        if isinstance(body, dict) and "result_digest" in body:
            case.body = copy.deepcopy(self.rng.choice(self.replayed))


def _is_scope(found: Any) -> bool:
    return (
        isinstance(found, list)
        and 0 < len(found) <= STREAMS_MAX
        and all(isinstance(one, str) for one in found)
    )


@pytest.fixture
def known(call: Call, callers: Callers, asked: WebBundle, name: str, rng: random.Random) -> Known:
    """One query in every state, a replay with its comparison and one without."""
    taken = [
        call(callers.alice, "POST", "submit", question(name, **changes)).json()
        for changes in (
            {"evidence": {"mode": "full"}, "projection": ["*"]},
            {"projection": None, "aggregate": {"group_by": ["event_type"], "metrics": ["count"]}},
            {}, {}, {}, {},
        )
    ]  # fmt: skip
    ids = [one["result_id"] for one in taken]
    done = [query_desk.complete(asked, one) for one in ids[:3]]
    services.forget_rows(done[2])
    call(callers.alice, "POST", f"cancel/{ids[3]}")
    assert services.start(Execution.objects.get(pk=ids[4]), query_desk.HOLDER, query_desk.LEASE)
    bodies = [
        {"descriptor": json.loads(one.descriptor), "result_digest": json.loads(one.digest)}
        for one in done
    ]
    replays = [
        call(callers.alice, "POST", "replay", body).json()["replay_id"] for body in bodies[:2]
    ]
    Replay.objects.filter(pk=replays[0]).update(state=State.COMPLETED, local_digest=done[0].digest)
    return Known(
        ids={"result_id": ids, "query_id": [one["query_id"] for one in taken],
             "replay_id": replays},
        replayed=bodies,
        name=name,
        rng=rng,
    )  # fmt: skip


def whole(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """The web process for a caller who reads every answer to its end and closes it."""
    answer = WSGIHandler()(environ, start_response)
    try:
        return [b"".join(answer)]
    finally:
        answer.close()


def described(prefix: str) -> Any:
    """The committed description as schemathesis reads it; tokens are given by the test."""
    text = json.dumps(DESCRIPTION).replace("/api/query", f"/api{prefix}/query")
    found = json.loads(text)
    for methods in found["paths"].values():
        for operation in methods.values():
            del operation["security"]
    schema = schemathesis.openapi.from_dict(found)
    schema.app = whole
    # A query that is not finished is no flaw of the request.
    accepted = schema.config.checks.positive_data_acceptance
    accepted.expected_statuses = [*accepted.expected_statuses, "409"]
    return schema.include(path_regex=r"/query/")


@pytest.mark.django_db
@pytest.mark.slow
@pytest.mark.parametrize(("who", "prefix"), [("alice", ""), ("stranger", ""), ("alice", "/v1")])
def test_no_request_breaks_a_route_or_its_description(
    callers: Callers, known: Known, who: str, prefix: str
) -> None:
    """schemathesis: right requests are taken, wrong ones refused, all answers as described."""
    seen: Counter[int] = Counter()

    def asked(operation: Any, mode: Any) -> None:
        names = set(CHECKS)
        if operation.label.endswith("/query/replay"):
            # A recorded descriptor has one spelling, which no schema can tell from the others.
            names.remove("positive_data_acceptance")
        wanted = [schemathesis.checks.CHECKS.get_one(one) for one in sorted(names)]

        def judge(case: Any) -> None:
            known.put_into(case, mode)
            case.headers["Prefer"] = "respond-async"
            answer = case.call(headers=bearer(getattr(callers, who)))
            seen[answer.status_code] += 1
            case.validate_response(answer, checks=wanted)

        BOUNDED(given(case=operation.as_strategy(generation_mode=mode))(judge))()

    operations = [found.ok() for found in described(prefix).get_all_operations()]
    for operation in sorted(operations, key=lambda one: "/cancel/" in one.label):  # cancel last
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):
            asked(operation, mode)
    expected = {200, 202, 400, 404, 409} if who == "alice" else {200, 400, 403, 404}
    assert expected <= set(seen)
