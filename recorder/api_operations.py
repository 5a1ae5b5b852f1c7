"""One route's method as OpenAPI describes it; written by hand, because it is contract [interfaces].

A framework that guesses a schema from code describes the code; this describes the promise, and
tests hold the code to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from recorder.codes import CODES, CodeInfo, RecordCode

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
RETRIED: Final = frozenset({429, 503})
Schema = Mapping[str, Any]

SENTENCES: Final[Mapping[str, str]] = {
    RecordCode.INVALID_JSON: "The body is not JSON, or breaks a rule of strict JSON.",
    RecordCode.INVALID_PARAMETER: "A parameter, or the body as a whole, makes no sense.",
    RecordCode.UNAUTHORIZED: "No token, or one that is not in force.",
    RecordCode.FORBIDDEN: "The token's role, or a policy, does not allow this.",
    RecordCode.NOT_FOUND: "There is no such thing.",
    RecordCode.METHOD_NOT_ALLOWED: "This route has other methods.",
    RecordCode.UNSUPPORTED_MEDIA_TYPE: "The body is not application/json.",
    RecordCode.INVALID_EVENT: "An event breaks a rule; details say where.",
    RecordCode.UNKNOWN_EVENT_TYPE: "No stream takes events of this type.",
    RecordCode.WRONG_STREAM: "The event type belongs to another stream than the one named.",
    RecordCode.FORBIDDEN_STREAM: "No such stream, or not for this token; which, is not said.",
    RecordCode.EVENT_TOO_LARGE: "An event, or the whole request, is over its bound.",
    RecordCode.IDEMPOTENCY_CONFLICT: "The idempotency_key was used for another event.",
    RecordCode.RATE_LIMITED: "The producer's rate is used up.",
    RecordCode.HUB_UNAVAILABLE: "Hub, gateway or author cannot be reached right now.",
    RecordCode.LAKE_BEHIND: "The lake does not hold all events yet.",
}


def ref(name: str) -> dict[str, str]:
    """A component by name."""
    return {"$ref": f"#/components/schemas/{name}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a method gives when it does not refuse."""

    status: int
    description: str
    schema: Schema
    example: object
    content_type: str = JSON  # empty for an answer without a body
    other_types: Mapping[str, object] = field(default_factory=dict)  # binary, with an example each
    headers: Mapping[str, str] = field(default_factory=dict)  # with a sentence each

    def render(self) -> dict[str, Any]:
        """A response object."""
        content: dict[str, Any] = {"schema": dict(self.schema)}
        if self.content_type == JSON:
            content["examples"] = {"answer": {"value": self.example}}
        else:
            content["example"] = self.example
        bodies = {self.content_type: content} if self.content_type else {}
        for name, example in self.other_types.items():
            bodies[name] = {"schema": {"type": "string", "format": "binary"}, "example": example}
        headers: dict[str, Any] = {"Veen-Request-Id": {"schema": {"type": "string"}}}
        for name, sentence in self.headers.items():
            headers[name] = {"schema": {"type": "string"}, "description": sentence}
        return {
            "description": self.description,
            **({"content": bodies} if bodies else {}),
            "headers": headers,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of the query, the path or the head."""

    name: str
    description: str
    schema: Schema
    where: str = "query"
    is_required: bool = False

    def render(self) -> dict[str, Any]:
        """A parameter object."""
        found: dict[str, Any] = {
            "name": self.name,
            "in": self.where,
            "description": self.description,
            "schema": dict(self.schema),
        }
        if self.is_required or self.where == "path":
            found["required"] = True
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A method of a route: what it takes, gives and refuses."""

    id: str
    tag: str
    summary: str
    description: str = ""
    parameters: Sequence[Parameter] = ()
    body: Schema | None = None
    body_examples: Mapping[str, object] = field(default_factory=dict)
    is_body_required: bool = True
    answers: Sequence[Answer]
    errors: Sequence[StrEnum] = ()
    codes: Mapping[Any, CodeInfo] = field(default_factory=lambda: CODES)
    sentences: Mapping[str, str] = field(default_factory=lambda: SENTENCES)
    roles: frozenset[str] = frozenset()  # where the view itself does not judge the token

    def render(self, roles: frozenset[str]) -> dict[str, Any]:
        """An operation object for a view open to these roles."""
        roles = roles or self.roles
        who = f"Roles: {', '.join(sorted(roles))}." if roles else ""
        found: dict[str, Any] = {
            "operationId": self.id,
            "tags": [self.tag],
            "summary": self.summary,
            "description": "\n\n".join(part for part in (self.description, who) if part),
            "security": [{"bearer": []}] if roles else [{}],
            "responses": {
                **{str(one.status): one.render() for one in self.answers},
                **self._refusals(is_judged=bool(roles)),
            },
        }
        if self.parameters:
            found["parameters"] = [one.render() for one in self.parameters]
        if self.body is not None:
            examples = {name: {"value": value} for name, value in self.body_examples.items()}
            found["requestBody"] = {
                "required": self.is_body_required,
                "content": {JSON: {"schema": dict(self.body), "examples": examples}},
            }
        return found

    def _refusals(self, *, is_judged: bool) -> dict[str, Any]:
        common: list[RecordCode] = [RecordCode.METHOD_NOT_ALLOWED, RecordCode.INVALID_PARAMETER]
        if is_judged:
            common += [RecordCode.UNAUTHORIZED, RecordCode.FORBIDDEN]
        if self.body is not None:
            common += [RecordCode.INVALID_JSON, RecordCode.UNSUPPORTED_MEDIA_TYPE]
        by_status: dict[int, dict[str, str]] = {}
        for code in sorted({*common, *self.errors}):
            status = self.codes[code].status if code in self.codes else CODES[code].status  # type: ignore[index]
            sentence = self.sentences.get(code, SENTENCES.get(code, ""))
            by_status.setdefault(status, {})[code.value] = sentence
        by_status[500] = {"internal_error": "An error of ours; it was logged with the request id."}
        return {str(status): _refusal(status, by_status[status]) for status in sorted(by_status)}


def _refusal(status: int, codes: Mapping[str, str]) -> dict[str, Any]:
    headers: dict[str, Any] = {"Veen-Request-Id": {"schema": {"type": "string"}}}
    if status in RETRIED:
        headers["Retry-After"] = {"schema": {"type": "integer"}, "description": "Seconds."}
    if status == 401:
        headers["WWW-Authenticate"] = {"schema": {"type": "string"}}
    examples = {
        code: {"value": {"error_code": code, "message": text, "request_id": "9f86d081884c7d65"}}
        for code, text in codes.items()
    }
    return {
        "description": "; ".join(f"`{code}`" for code in codes),
        "headers": headers,
        "content": {JSON: {"schema": ref("Error"), "examples": examples}},
    }
