from __future__ import annotations

from hub.errors import ERRORS
from recorder.codes import CODES, Detail, RecordCode, RecordError


def test_every_code_has_a_status_and_an_exit_code() -> None:
    assert CODES.keys() == set(RecordCode)
    for info in CODES.values():
        assert 400 <= info.status <= 503
        assert ERRORS[info.tool_code].exit_code > 0


def test_the_statuses_are_those_of_the_contract() -> None:
    expected = {
        "invalid_json": 400, "invalid_parameter": 400, "unauthorized": 401, "forbidden": 403,
        "not_found": 404, "method_not_allowed": 405, "unsupported_media_type": 415,
        "invalid_event": 400, "unknown_event_type": 400, "wrong_stream": 400,
        "forbidden_stream": 403, "event_too_large": 413, "idempotency_conflict": 409,
        "rate_limited": 429, "hub_unavailable": 503, "lake_behind": 503,
    }  # fmt: skip
    assert {str(code): info.status for code, info in CODES.items()} == expected


def test_a_refusal_carries_its_details_into_the_answer_and_the_message() -> None:
    details = [
        Detail(pointer="/events/0/event_type", reason="required"),
        Detail(pointer="", reason="x"),
    ]
    refusal = RecordError(RecordCode.INVALID_EVENT, "refused", details=details, retry_after_s=3)
    assert refusal.to_json() == {
        "error_code": "invalid_event",
        "message": "refused",
        "details": [
            {"pointer": "/events/0/event_type", "reason": "required"},
            {"pointer": "", "reason": "x"},
        ],
    }
    assert refusal.retry_after_s == 3
    assert "/events/0/event_type: required; /: x" in str(refusal)
    assert "details" not in RecordError(RecordCode.NOT_FOUND, "gone").to_json()
