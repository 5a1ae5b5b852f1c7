"""Who may ask about what, and who sees an answer [Query 7.1; assurance 2.4].

A stream that does not exist and one that is closed to the caller look alike, always. An answer is
seen by its asker and by administrators, as long as they may read every stream it is about.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from queryapi.contract.codes import QueryCode, QueryError
from queryapi.contract.coverage import Coverage
from queryapi.contract.descriptor import Descriptor
from queryapi.contract.descriptor_reader import read_recorded
from queryapi.models import Execution, Replay
from recorder.auth import ADMIN, Caller, check_readable
from recorder.codes import RecordError
from recorder.models import Stream

_FORBIDDEN: Final = "No such stream, or it is not open to you."


def forbidden_scope() -> QueryError:
    """403, the same for what is unknown and what is closed."""
    return QueryError(QueryCode.FORBIDDEN_SCOPE, _FORBIDDEN)


def not_found() -> QueryError:
    """404, the same for what is unknown and what belongs to others."""
    return QueryError(QueryCode.QUERY_NOT_FOUND, "There is no such query.")


def readable_streams(caller: Caller, names: Iterable[str]) -> dict[str, Stream]:
    """These streams by name, or forbidden_scope."""
    try:
        return check_readable(caller, names)
    except RecordError as refusal:
        raise forbidden_scope() from refusal


def check_scope(caller: Caller, descriptor: Descriptor, hub_id: str) -> dict[str, Stream]:
    """The streams a submitted descriptor means: local ones, of the hub it asks for."""
    streams = readable_streams(caller, descriptor.scope)
    if descriptor.origin_hub not in {None, hub_id}:
        raise forbidden_scope()  # Nothing was imported from that hub.
    return streams


def check_coverage(caller: Caller, coverage: Iterable[Coverage], hub_id: str) -> dict[str, Stream]:
    """The streams that a recorded coverage names, whatever it says of its first asker.

    Another hub's log of that name is not read here: the replay will fail with what is missing. A
    label of this hub under another name is refused whether or not there is such a label, so that
    nobody learns which there are.
    """
    parts = list(coverage)
    streams = readable_streams(caller, [part.stream for part in parts])
    for part in parts:
        if part.hub_id.hex() == hub_id and part.label.hex() != streams[part.stream].label:
            raise forbidden_scope()
    return streams


_Row = TypeVar("_Row", Execution, Replay)


def visible(caller: Caller, row: _Row | None) -> _Row:
    """The execution or replay, or query_not_found where this caller may not see it."""
    if row is None:
        raise not_found()
    is_owner = caller.token.principal_id == row.principal_id
    if not is_owner and caller.token.role != ADMIN:
        raise not_found()
    try:
        readable_streams(caller, scope_of(row))
    except QueryError as refusal:
        raise not_found() from refusal
    return row


def scope_of(row: Execution | Replay) -> tuple[str, ...]:
    """The streams that it is about."""
    return tuple(read_recorded(row.descriptor.encode()).scope)
