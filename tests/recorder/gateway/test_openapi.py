"""Made-up requests to POST /api/record/events of a real gateway, judged by its description."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings

from tests.recorder.gateway.test_record import Door, door
from tests.support.gateways import EVENTS, token_of

__all__ = ["door"]
ROOT = Path(__file__).resolve().parents[3]
CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance",
    "response_headers_conformance", "response_schema_conformance",
)  # fmt: skip
BOUNDED = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def described() -> Any:
    """The committed description; the token is given by the test."""
    found = json.loads((ROOT / "docs" / "openapi.json").read_text())
    del found["paths"][EVENTS]["post"]["security"]
    return schemathesis.openapi.from_dict(found).include(path=EVENTS)


@pytest.mark.slow
def test_no_request_breaks_the_gateway_or_its_description(door: Door, rng: random.Random) -> None:
    """schemathesis, every other event of a type that the producer may record."""
    event_type = next(iter(door.shop.types.values()))[0]
    [operation] = [one.ok() for one in described().get_all_operations()]
    wanted = [schemathesis.checks.CHECKS.get_one(one) for one in CHECKS]
    seen: Counter[int] = Counter()

    def judge(case: Any) -> None:
        body = case.body
        if (
            isinstance(body, dict)
            and isinstance(body.get("event_type"), str)
            and rng.random() < 0.5
        ):
            case.body = {**body, "event_type": event_type, "stream": None}
        answer = case.call(
            base_url=door.gateway.url, headers={"Authorization": f"Bearer {token_of('shop')}"}
        )
        seen[answer.status_code] += 1
        case.validate_response(answer, checks=wanted)

    for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):
        BOUNDED(given(case=operation.as_strategy(generation_mode=mode))(judge))()
    assert {201, 400} <= set(seen), seen
    assert door.gateway.process.poll() is None
