"""Reads a descriptor strictly and normalizes it; the one judge of API, Spark and zones [Query 4.4].

A submitted descriptor may leave out what has a default; a recorded one must be in its only spelling
already, coverage included, or it is no descriptor that any zone recorded.
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import Final

from hub import canonical_json
from hub.canonical_json import JsonError, Value
from queryapi.contract.codes import QueryCode, QueryError
from queryapi.contract.coverage import HEX32, read_coverage
from queryapi.contract.descriptor import (
    DESCRIPTOR_BYTES_MAX,
    SERVER_KEYS,
    VERSION,
    Aggregate,
    Descriptor,
    EvidencePolicy,
    Filter,
    Metric,
    Mode,
    check_size,
    default_projection,
    parse_metric,
    too_large,
)
from queryapi.contract.fields import Field, parse_field
from queryapi.contract.predicates import Op, Predicate, check_operand
from queryapi.contract.reading import Flaws
from recorder.codes import Detail
from recorder.event import UnixMillis, parse_time

STREAMS_MAX: Final = 64
EVENT_TYPES_MAX: Final = 1000
PREDICATES_MAX: Final = 32
FIELDS_MAX: Final = 64
METRICS_MAX: Final = 16
# A recorded descriptor also carries its coverage: 64 entries of some 400 bytes.
RECORDED_BYTES_MAX: Final = 2 * DESCRIPTOR_BYTES_MAX
_FRACTION_DIGITS_MAX: Final = 3
_QUERY_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)
_KEYS: Final = (
    "query_id", "version", "scope", "filter", "projection", "aggregate", "evidence", "meta",
)  # fmt: skip
_FILTER_KEYS: Final = ("event_type", "subject_id", "time", "principal_id", "origin", "payload")
_PREDICATE_KEYS: Final = ("path", "op", "value")


def is_query_id(text: str) -> bool:
    """Whether a query may be called so."""
    return _QUERY_ID.fullmatch(text) is not None


def read_submitted(source: bytes, *, query_id: str) -> Descriptor:
    """What a client sent, normalized; `query_id` is used where it gave none.

    Raises invalid_json, unsupported_version or invalid_query_descriptor with every flaw.
    """
    if len(source) > DESCRIPTOR_BYTES_MAX:
        raise too_large("as received")
    flaws = Flaws()
    found = _object(_parse(source), flaws)
    meta = _meta(found.get("meta"), flaws)
    for key in SERVER_KEYS:
        if key in meta:
            flaws.add("only the server writes this", "meta", key)
    descriptor = _descriptor(found, flaws, query_id, meta)
    flaws.raise_if_any()
    check_size(descriptor)
    return descriptor


def read_recorded(source: bytes) -> Descriptor:
    """A descriptor as some zone recorded it, or invalid_query_descriptor."""
    if len(source) > RECORDED_BYTES_MAX:
        raise too_large("as received")
    return recorded_from(_parse(source))


def recorded_from(value: Value) -> Descriptor:
    """Like `read_recorded`, from a value that was read strictly."""
    flaws = Flaws()
    found = _object(value, flaws)
    meta = _meta(found.get("meta"), flaws)
    coverage = read_coverage(meta.pop("coverage", None), flaws, "meta", "coverage")
    principal_id = meta.get("principal_id")
    if not isinstance(principal_id, str) or not HEX32.fullmatch(principal_id):
        flaws.add("not 64 lower-case hex digits", "meta", "principal_id")
    if found.get("query_id") is None:
        flaws.add("required", "query_id")
    descriptor = replace(_descriptor(found, flaws, "", meta), coverage=coverage)
    if not flaws and tuple(entry.stream for entry in coverage) != descriptor.scope:
        flaws.add("its streams are not those of scope", "meta", "coverage")
    flaws.raise_if_any()
    check_size(descriptor)
    _check_normalized(value, descriptor)
    return descriptor


def _check_normalized(value: Value, descriptor: Descriptor) -> None:
    normalized = descriptor.to_json()
    if canonical_json.encode(value) == canonical_json.encode(normalized):
        return
    assert isinstance(value, dict)
    keys = sorted(value.keys() | normalized.keys())
    flaws = Flaws()
    for key in keys:
        if canonical_json.encode(value.get(key)) != canonical_json.encode(normalized.get(key)):
            flaws.add("not in normalized form", key)
    if not flaws:
        flaws.add("not in normalized form")  # null where nothing should stand
    flaws.raise_if_any()


def _parse(source: bytes) -> Value:
    try:
        return canonical_json.parse(source)
    except JsonError as refusal:
        if refusal.is_syntax:
            raise QueryError(QueryCode.INVALID_JSON, refusal.reason) from refusal
        flaw = Detail(pointer=refusal.pointer, reason=refusal.reason)
        message = "the query descriptor is refused"
        raise QueryError(QueryCode.INVALID_QUERY_DESCRIPTOR, message, details=[flaw]) from refusal


def _object(value: Value, flaws: Flaws) -> dict[str, object]:
    """The top level; another version is said before anything else is judged by this one's rules."""
    version = value.get("version") if isinstance(value, dict) else None
    is_number = isinstance(version, int | Decimal) and not isinstance(version, bool)
    if is_number and version != VERSION:
        flaw = Detail(pointer="/version", reason=f"this is version {VERSION}")
        message = f"only version {VERSION} is supported"
        raise QueryError(QueryCode.UNSUPPORTED_VERSION, message, details=[flaw])
    found = flaws.members(value, _KEYS)
    flaws.raise_if_any()
    if version is not None and not is_number:
        flaws.add("not a number", "version")
    return found


def _descriptor(
    found: dict[str, object], flaws: Flaws, query_id: str, meta: dict[str, Value]
) -> Descriptor:
    given = flaws.text(found.get("query_id"), "query_id")
    if given is not None and not is_query_id(given):
        flaws.add(f"not {_QUERY_ID.pattern}", "query_id")
    aggregate = _aggregate(found.get("aggregate"), flaws)
    return Descriptor(
        query_id=query_id if given is None else given,
        scope=_scope(found.get("scope"), flaws),
        filter=_filter(found.get("filter"), flaws),
        projection=_projection(found.get("projection"), aggregate, flaws),
        aggregate=aggregate,
        evidence=_evidence(found.get("evidence"), flaws),
        meta=meta,
    )


def _scope(found: object, flaws: Flaws) -> tuple[str, ...]:
    if found is None or found == []:
        flaws.add("at least one stream is required", "scope")
        return ()
    return flaws.texts(found, STREAMS_MAX, "scope")


def _filter(found: object, flaws: Flaws) -> Filter:
    if found is None:
        return Filter()
    members = flaws.members(found, _FILTER_KEYS, "filter")
    event_type = members.get("event_type")
    time_from, time_to = _window(members.get("time"), flaws)
    return Filter(
        event_type=None
        if event_type is None
        else flaws.texts(event_type, EVENT_TYPES_MAX, "filter", "event_type"),
        subject_id=flaws.text(members.get("subject_id"), "filter", "subject_id"),
        time_from=time_from,
        time_to=time_to,
        principal_id=flaws.text(members.get("principal_id"), "filter", "principal_id"),
        origin=flaws.text(members.get("origin"), "filter", "origin"),
        payload=_predicates(members.get("payload"), flaws),
    )


def _window(found: object, flaws: Flaws) -> tuple[UnixMillis | None, UnixMillis | None]:
    if found is None:
        return None, None
    members = flaws.members(found, ("from", "to"), "filter", "time")
    return _time(members, "from", flaws), _time(members, "to", flaws)


def _time(members: dict[str, object], key: str, flaws: Flaws) -> UnixMillis | None:
    text = flaws.text(members.get(key), "filter", "time", key)
    if text is None:
        return None
    try:
        return parse_time(text, fraction_digits_max=_FRACTION_DIGITS_MAX)
    except ValueError as flaw:
        flaws.add(str(flaw), "filter", "time", key)
        return None


def _predicates(found: object, flaws: Flaws) -> tuple[Predicate, ...]:
    if found is None:
        return ()
    if not isinstance(found, list) or not found:
        flaws.add("not a list of predicates", "filter", "payload")
        return ()
    if len(found) > PREDICATES_MAX:
        flaws.add(f"more than {PREDICATES_MAX}", "filter", "payload")
        return ()
    read = [_predicate(one, index, flaws) for index, one in enumerate(found)]
    return tuple(one for one in read if one is not None)


def _predicate(found: object, index: int, flaws: Flaws) -> Predicate | None:
    place = ("filter", "payload", index)
    members = flaws.members(found, _PREDICATE_KEYS, *place)
    if not isinstance(found, dict):
        return None
    field = _field(members.get("path"), flaws, *place, "path")
    if field is not None and not field.is_payload:
        flaws.add("not a path into the payload", *place, "path")
    op = members.get("op")
    if not isinstance(op, str) or op not in set(Op):
        flaws.add(f"not one of {' '.join(Op)}", *place, "op")
        return None
    if "value" not in members:
        flaws.add("required", *place, "value")
        return None
    value = found["value"]
    try:
        check_operand(Op(op), value)
    except ValueError as flaw:
        flaws.add(str(flaw), *place, "value")
    return None if field is None else Predicate(field=field, op=Op(op), value=value)


def _field(found: object, flaws: Flaws, *steps: str | int) -> Field | None:
    if not isinstance(found, str):
        flaws.add("not a field", *steps)
        return None
    try:
        return parse_field(found)
    except ValueError as flaw:
        flaws.add(str(flaw), *steps)
        return None


def _fields(found: object, flaws: Flaws, *steps: str | int) -> tuple[Field, ...]:
    if not isinstance(found, list):
        flaws.add("not a list of fields", *steps)
        return ()
    if len(found) > FIELDS_MAX:
        flaws.add(f"more than {FIELDS_MAX}", *steps)
        return ()
    fields: list[Field] = []
    for index, one in enumerate(found):
        field = _field(one, flaws, *steps, index)
        if field in fields:
            flaws.add("given twice", *steps, index)
        elif field is not None:
            fields.append(field)
    return tuple(fields)


def _projection(found: object, aggregate: Aggregate | None, flaws: Flaws) -> tuple[Field, ...]:
    if found is None and aggregate is None:
        flaws.add("required", "projection")
    if found == []:
        flaws.add("at least one field is required", "projection")
    if found == ["*"]:
        return () if aggregate is not None else default_projection()
    if not found:
        if not isinstance(found, list) and found is not None:
            flaws.add("not a list of fields", "projection")
        return ()
    fields = _fields(found, flaws, "projection")
    if aggregate is None:
        return fields
    if not flaws and set(fields) != set(aggregate.group_by):
        flaws.add("beside an aggregate it can only be the group_by fields", "projection")
    return ()


def _aggregate(found: object, flaws: Flaws) -> Aggregate | None:
    if found is None:
        return None
    members = flaws.members(found, ("group_by", "metrics"), "aggregate")
    if not isinstance(found, dict):
        return Aggregate(group_by=(), metrics=())
    group_by = members.get("group_by")
    fields = () if group_by is None else _fields(group_by, flaws, "aggregate", "group_by")
    return Aggregate(group_by=fields, metrics=_metrics(members.get("metrics"), flaws))


def _metrics(found: object, flaws: Flaws) -> tuple[Metric, ...]:
    place = ("aggregate", "metrics")
    if not isinstance(found, list) or not found:
        flaws.add("at least one metric is required", *place)
        return ()
    if len(found) > METRICS_MAX:
        flaws.add(f"more than {METRICS_MAX}", *place)
        return ()
    metrics: list[Metric] = []
    for index, one in enumerate(found):
        try:
            metric = parse_metric(one if isinstance(one, str) else "")
        except ValueError as flaw:
            flaws.add(str(flaw), *place, index)
            continue
        if metric in metrics:
            flaws.add("given twice", *place, index)
        metrics.append(metric)
    return tuple(metrics)


def _evidence(found: object, flaws: Flaws) -> EvidencePolicy:
    members = flaws.members(found, ("mode", "sample_rate"), "evidence")
    mode = members.get("mode")
    if not isinstance(found, dict) or not isinstance(mode, str) or mode not in set(Mode):
        if isinstance(found, dict):
            flaws.add(f"not one of {' '.join(Mode)}", "evidence", "mode")
        return EvidencePolicy(mode=Mode.NONE)
    rate = members.get("sample_rate")
    if mode != Mode.SPOT:
        if rate is not None:
            flaws.add("stands with spot only", "evidence", "sample_rate")
        return EvidencePolicy(mode=Mode(mode))
    if isinstance(rate, int | Decimal) and not isinstance(rate, bool) and 0 < rate <= 1:
        return EvidencePolicy(mode=Mode.SPOT, sample_rate=rate)
    flaws.add("not a number above 0 and up to 1", "evidence", "sample_rate")
    return EvidencePolicy(mode=Mode.SPOT)


def _meta(found: object, flaws: Flaws) -> dict[str, Value]:
    if found is None:
        return {}
    if not isinstance(found, dict):
        flaws.add("not an object", "meta")
        return {}
    origin_hub = found.get("origin_hub")
    if origin_hub is not None:
        text = flaws.text(origin_hub, "meta", "origin_hub")
        if text is not None and not HEX32.fullmatch(text):
            flaws.add("not 64 lower-case hex digits", "meta", "origin_hub")
    return dict(found)
