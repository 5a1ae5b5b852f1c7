from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from hub.crypto.signing import Signed, SigningKey
from hub.verifiers import Verifiers, serve
from tests.support.hubs import seed

KEY = SigningKey(seed("verifiers"))


def signed(count: int, flawed: int | None = None) -> list[Signed]:
    """Good signatures, but for one."""
    made: list[Signed] = []
    for number in range(count):
        digest = number.to_bytes(32, "big")
        signature = KEY.sign(digest)
        made.append((KEY.public, signature, bytes(31) + b"\xff" if number == flawed else digest))
    return made


@pytest.fixture(scope="module")
def verifiers() -> Iterator[Verifiers]:
    with Verifiers(2) as children:
        yield children


def test_answers_are_those_of_the_questions_in_any_number(verifiers: Verifiers) -> None:
    asked = [
        (signed(300), True),
        (signed(300, flawed=299), False),
        (signed(1), True),
        ([], True),
        (signed(64, flawed=1), False),
    ]
    answers = [verifiers.ask(one) for one, _ in asked]
    assert [answer() for answer in answers] == [expected for _, expected in asked]


def test_what_is_no_key_is_not_valid(verifiers: Verifiers) -> None:
    assert not verifiers.ask([(bytes(32), bytes(64), bytes(32))])()


def test_children_that_ended_make_nothing_valid() -> None:
    with Verifiers(1) as children:
        asked = children.ask(signed(3, flawed=2))
        children._children[0].kill()
        children._children[0].wait()
        assert not asked()
        assert children.ask(signed(3))()
        assert not children.ask(signed(3, flawed=0))()


def test_where_no_child_can_be_started_all_is_verified_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hub.verifiers.sys.executable", "/nowhere/python")
    with Verifiers(2) as children:
        assert children.ask(signed(3))()
        assert not children.ask(signed(3, flawed=1))()


def test_a_request_that_is_cut_gets_no_answer() -> None:
    sink = io.BytesIO()
    serve(io.BytesIO((2).to_bytes(4, "big") + bytes(128)), sink)
    assert sink.getvalue() == b""
