"""Administration over HTTP: acts, and the lists that people choose from [SDR0 3.2.3].

An act is asked for, executed and recorded by the author process, and looked at here until it is
done. Nothing in this module writes a table of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from django.core.exceptions import ValidationError
from django.db.models import F, Model, Q, QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from hub.canonical_json import Value
from hub.errors import ErrorCode, VeenError
from hub.models import Finding
from recorder import api_docs, queries, services
from recorder.api_view import ApiView, b64, check_parameters
from recorder.auth import ADMINS, caller_of
from recorder.codes import Detail, RecordCode, RecordError
from recorder.hub_reads import hub_unavailable
from recorder.models import Act, ApiToken, Producer, Reader, Stream

if TYPE_CHECKING:
    _Rows = QuerySet[Any]
else:
    _Rows = QuerySet

WAIT_MAX_S: Final = 30
CHECKPOINT_WAIT_S: Final = 20.0
PAGE_DEFAULT: Final = 200
PAGE_MAX: Final = 1_000


class Acts(ApiView):
    """Ask for an act, or list those that were asked for."""

    roles = ADMINS
    operations = {"GET": api_docs.ACTS, "POST": api_docs.ASK_ACT}  # noqa: RUF012 - a ClassVar of the base

    def get(self, request: Request) -> Response:
        """The newest first."""
        return listed(request, "acts", Act.objects.all(), shown_act, is_newest_first=True)

    def post(self, request: Request) -> Response:
        """Taken is not done: the answer names the act to look at."""
        check_parameters(request)
        fields = body_of(request, "verb", "args", "reason")
        verb, args, reason = (fields.get(name) for name in ("verb", "args", "reason"))
        if args is None:
            args = {}
        flaws = []
        if not isinstance(verb, str):
            flaws.append(Detail(pointer="/verb", reason="required" if verb is None else "not text"))
        if not isinstance(args, dict):
            flaws.append(Detail(pointer="/args", reason="not an object"))
        flaws += _reason_flaws(reason)
        if flaws:
            message = "The act is refused."
            raise RecordError(RecordCode.INVALID_PARAMETER, message, details=flaws)
        assert isinstance(verb, str)
        assert isinstance(args, dict)
        taken = services.submit(
            verb, args, actor=caller_of(request).actor, reason=str(reason or "")
        )
        answer = {"act_id": str(taken.act.id), "state": taken.act.state}
        if taken.token is not None:
            answer["token"] = taken.token
        if taken.password is not None:
            answer["password"] = taken.password
        return Response(answer, status=202)


class OneAct(ApiView):
    """An act and how far it is; `wait` holds the answer back until it is over."""

    roles = ADMINS
    operations = {"GET": api_docs.ACT}  # noqa: RUF012 - a ClassVar of the base

    def get(self, request: Request, act_id: uuid.UUID) -> Response:
        """By id."""
        check_parameters(request, "wait")
        wait_s = _integer(request, "wait", default=0, low=0, high=WAIT_MAX_S)
        try:
            act = services.wait_for_act(act_id, wait_s)
        except Act.DoesNotExist as missing:
            raise RecordError(RecordCode.NOT_FOUND, "There is no such act.") from missing
        return Response(shown_act(act))


class Checkpoints(ApiView):
    """A signed manifest of everything, now."""

    roles = ADMINS
    operations = {"POST": api_docs.CHECKPOINT}  # noqa: RUF012 - a ClassVar of the base

    def post(self, request: Request) -> Response:
        """Made, recorded and shown."""
        check_parameters(request)
        fields = body_of(request, "reason")
        flaws = _reason_flaws(fields.get("reason"))
        if flaws:
            message = "The reason is refused."
            raise RecordError(RecordCode.INVALID_PARAMETER, message, details=flaws)
        taken = services.submit(
            "checkpoint.now",
            {},
            actor=caller_of(request).actor,
            reason=str(fields.get("reason") or ""),
        )
        act = services.wait_for_act(taken.act.id, CHECKPOINT_WAIT_S)
        result = finished(act)
        named = [
            {"name": one["name"], "upto_seq": one["upto_seq"], "mmr_root": one["mmr_root"]}
            for one in result["streams"]
            if one["name"] is not None
        ]
        made = {key: result[key] for key in ("manifest_id", "created_at")}
        return Response({**made, "streams": named}, status=201)


class Streams(ApiView):
    """All streams as they are set up; their heads are at /api/record/streams."""

    roles = ADMINS
    operations = {"GET": api_docs.ADMIN_STREAMS}  # noqa: RUF012 - a ClassVar of the base

    def get(self, request: Request) -> Response:
        """Oldest first."""
        return listed(request, "streams", queries.streams(), _stream)


class Producers(ApiView):
    """All keys of all producers, also those that have ended."""

    roles = ADMINS
    operations = {"GET": api_docs.PRODUCERS}  # noqa: RUF012 - a ClassVar of the base

    def get(self, request: Request) -> Response:
        """Oldest first."""
        return listed(request, "producers", queries.producers(), _producer)


class Tokens(ApiView):
    """All tokens by name; their text is nowhere."""

    roles = ADMINS
    operations = {"GET": api_docs.TOKENS}  # noqa: RUF012 - a ClassVar of the base

    def get(self, request: Request) -> Response:
        """Oldest first."""
        return listed(request, "tokens", queries.tokens(), _token)


class Readers(ApiView):
    """Those to whom stream secrets are wrapped, and which."""

    roles = ADMINS
    operations = {"GET": api_docs.READERS}  # noqa: RUF012 - a ClassVar of the base

    def get(self, request: Request) -> Response:
        """Oldest first."""
        return listed(request, "readers", queries.readers(), _reader)


class Findings(ApiView):
    """What must not be, and who has taken it over."""

    roles = ADMINS
    operations = {"GET": api_docs.FINDINGS}  # noqa: RUF012 - a ClassVar of the base

    def get(self, request: Request) -> Response:
        """The newest first."""
        rows = Finding.objects.annotate(created_at=F("first_seen"))
        return listed(request, "findings", rows, _finding, is_newest_first=True)


def finished(act: Act) -> dict[str, Any]:
    """The result of an act that must be done by now, or why it is not."""
    if act.state == Act.State.DONE:
        result: dict[str, Any] = act.result
        return result
    if act.state == Act.State.PENDING:
        raise hub_unavailable(f"The act {act.id} has not been executed yet; it will be.")
    if act.error_code in set(RecordCode):
        raise RecordError(RecordCode(act.error_code), act.message)
    if act.error_code in set(ErrorCode):
        raise VeenError(ErrorCode(act.error_code), act.message)
    raise VeenError(ErrorCode.INTERNAL, act.message)


def body_of(request: Request, *known: str) -> dict[str, Value]:
    """The body as an object with none but these keys; null counts as absent."""
    found: object = request.data
    if not isinstance(found, dict):
        flaws = [Detail(pointer="", reason="not an object")]
    else:
        flaws = [
            Detail(pointer=f"/{key}", reason="unknown key") for key in sorted(found.keys() - known)
        ]
    if flaws:
        message = "The body is refused."
        raise RecordError(RecordCode.INVALID_PARAMETER, message, details=flaws)
    assert isinstance(found, dict)
    return found


def shown_act(act: Act) -> dict[str, object]:
    """An act as the API shows it."""
    return {
        "act_id": str(act.id),
        "verb": act.verb,
        "args": queries.shown_args(act),
        "actor": act.actor,
        "reason": act.reason,
        "state": act.state,
        "result": act.result,
        "error_code": act.error_code or None,
        "message": act.message or None,
        "created_at": queries.shown_time(act.created_at),
        "finished_at": queries.shown_time(act.finished_at),
    }


def _reason_flaws(reason: object) -> list[Detail]:
    if reason is None or isinstance(reason, str):
        return []
    return [Detail(pointer="/reason", reason="not text")]


def _integer(request: Request, name: str, *, default: int, low: int, high: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and low <= int(text) <= high):
        message = f"{name} is a whole number from {low} to {high}."
        raise RecordError(RecordCode.INVALID_PARAMETER, message)
    return int(text)


def listed(
    request: Request,
    name: str,
    rows: _Rows,
    show: Callable[[Any], dict[str, object]],
    *,
    is_newest_first: bool = False,
) -> Response:
    """A page in the order in which rows were made; `after` is the id of the last one seen."""
    check_parameters(request, "after", "limit")
    limit = _integer(request, "limit", default=PAGE_DEFAULT, low=1, high=PAGE_MAX)
    after = request.query_params.get("after")
    if after is not None:
        last = _row(rows, after)
        way = "lt" if is_newest_first else "gt"
        rows = rows.filter(
            Q(**{f"created_at__{way}": last.created_at})
            | Q(created_at=last.created_at, **{f"pk__{way}": last.pk})
        )
    sign = "-" if is_newest_first else ""
    found: list[Model] = list(rows.order_by(f"{sign}created_at", f"{sign}pk")[: limit + 1])
    following = str(found[limit - 1].pk) if len(found) > limit else None
    return Response({name: [show(row) for row in found[:limit]], "next": following})


def _row(rows: _Rows, key: str) -> Any:  # noqa: ANN401 - a row of the list
    try:
        row = rows.filter(pk=key).first() if key.isprintable() else None
    except (ValueError, ValidationError):
        row = None
    if row is None:
        message = "after is not the id of a row of this list."
        raise RecordError(RecordCode.INVALID_PARAMETER, message)
    return row


def _stream(row: Stream) -> dict[str, object]:
    return {
        "name": row.name,
        "label": row.label,
        "class": row.label_class,
        "sensitivity": row.sensitivity,
        "retention_hint": queries.shown_retention(row.retention_hint),
        "event_bytes_max": row.event_bytes_max,
        "event_types": list(queries.event_types(row)),
        "key_id": max((one.key_id for one in row.reader_keys.all()), default=None),
        "keys": [
            {"key_id": one.key_id, "record": b64(bytes(one.record))}
            for one in sorted(row.reader_keys.all(), key=lambda one: -one.key_id)
        ],
        "readers": sorted({one.reader_id for one in row.grants.all()}),
        "created_at": queries.shown_time(row.created_at),
    }


def _producer(row: Producer) -> dict[str, object]:
    return {
        "id": row.pk,
        "name": row.name,
        "principal": row.principal,
        "held": row.held,
        "streams": sorted(one.name for one in row.streams.all()),
        "auth_ref": row.auth_ref,
        "created_at": queries.shown_time(row.created_at),
        "ended_at": queries.shown_time(row.ended_at),
        "ended_because": row.ended_because or None,
        "revoked_at": queries.shown_time(row.revoked_at),
    }


def _token(row: ApiToken) -> dict[str, object]:
    return {
        "token_id": str(row.pk),
        "name": row.name,
        "role": row.role,
        "producer": row.producer_name or None,
        "streams": sorted(one.name for one in row.streams.all()),
        "all": row.all_streams,
        "principal_id": row.principal_id or None,
        "created_at": queries.shown_time(row.created_at),
        "revoked_at": queries.shown_time(row.revoked_at),
        "last_used_at": queries.shown_time(row.last_used_at),
    }


def _finding(row: Finding) -> dict[str, object]:
    return {
        "finding_id": row.pk,
        "code": row.code,
        "severity": row.severity,
        "object": row.object,
        "detail": row.detail,
        "first_seen": queries.shown_time(row.first_seen),
        "last_seen": queries.shown_time(row.last_seen),
        "acknowledged_by": row.acknowledged_by or None,
        "reason": row.reason or None,
    }


def _reader(row: Reader) -> dict[str, object]:
    grants: dict[str, list[int]] = {}
    for one in row.grants.all():
        grants.setdefault(one.stream_id, []).append(one.key_id)
    return {
        "name": row.name,
        "dh_pk": row.dh_pk,
        "streams": [{"name": name, "key_ids": ids} for name, ids in sorted(grants.items())],
        "created_at": queries.shown_time(row.created_at),
        "revoked_at": queries.shown_time(row.revoked_at),
    }
