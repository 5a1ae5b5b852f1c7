"""The recorder's bundle with a stream that two readers and an administrator may ask about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings as DjangoSettings

from hub import canonical_json
from hub.canonical_json import Value
from tests.recorder.api.conftest import bundle, name, read_token, shared_hub, web
from tests.support.web_bundle import WebBundle, bearer, token

__all__ = ["bundle", "name", "read_token", "shared_hub", "web"]

Call = Callable[..., Any]


@dataclass
class Callers:
    """Tokens by who holds them."""

    alice: str
    bob: str
    admin: str
    stranger: str  # reads, but not this stream


@pytest.fixture
def asked(bundle: WebBundle, name: str, settings: DjangoSettings) -> WebBundle:
    bundle.stream(name, "type.0", "type.1", "type.2")
    bundle.record(name, 12)
    settings.VEEN_RESULTS_DIR = bundle.root / "results"
    settings.VEEN_QUERY_LAUNCHER = "queryapi.launcher.NoLauncher"
    return bundle


@pytest.fixture
def callers(asked: WebBundle, name: str) -> Callers:
    asked.stream("record/app/elsewhere")
    return Callers(
        alice=token("reader", "alice", (name,), principal_id="a1" * 32),
        bob=token("reader", "bob", (name,), principal_id="b0" * 32),
        admin=token("admin", principal_id="ad" * 32),
        stranger=token("reader", "mallory", ("record/app/elsewhere",), principal_id="ee" * 32),
    )


@pytest.fixture
def call(web: Client) -> Call:
    def once(
        who: str,
        method: str,
        path: str,
        body: Value | bytes = None,
        **headers: str,
    ) -> Any:
        data = body if isinstance(body, bytes) else canonical_json.encode(body)
        answer = web.generic(
            method,
            f"/api/query/{path}",
            data if method == "POST" else b"",
            content_type="application/json",
            headers={**bearer(who), "Prefer": "respond-async", **headers},
        )
        if answer.streaming:
            # Read to its end, which closes the file. A close of our own would end the request a
            # second time, and with it the connection that holds the test's transaction.
            whole = answer.getvalue()
            setattr(answer, "getvalue", lambda: whole)  # noqa: B010 - a method of Django's
        return answer

    return once
