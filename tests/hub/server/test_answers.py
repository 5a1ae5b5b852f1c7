"""What a refusal becomes as an answer of the data plane."""

from __future__ import annotations

from hub.errors import ErrorCode, VeenError
from hub.server.answers import error_map, error_response, naming
from hub.server.http import Response
from hub.wire import cbor

REQUEST_ID = "0123456789abcdef"


def test_a_failure_of_ours_names_its_request_and_nothing_else_does() -> None:
    answers: list[Response] = []
    respond = naming(answers.append, REQUEST_ID)
    refused = error_response(VeenError(ErrorCode.SEQ, "next=1 ack=0 head=0"))
    taken = Response(200, b"receipt")
    for response in (refused, taken, error_response(VeenError(ErrorCode.INTERNAL, "it failed"))):
        respond(response)
    assert answers[:2] == [refused, taken]
    assert isinstance(answers[2].body, bytes)
    said = {"code": "E.INTERNAL", "detail": f"it failed; request {REQUEST_ID}"}
    assert cbor.decode(answers[2].body) == said


def test_a_failure_without_detail_still_names_its_request() -> None:
    answers: list[Response] = []
    bare = Response(500, error_map(VeenError(ErrorCode.INTERNAL)))
    naming(answers.append, REQUEST_ID)(bare)
    assert isinstance(answers[0].body, bytes)
    assert REQUEST_ID.encode() in answers[0].body
