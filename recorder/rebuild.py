"""The recorder's tables made again from the log, where the database was lost [ADR 0014].

Every administrative act is an event of `record/infrastructure/changes`. Applied again in their
order, with the keys that were made then, they give streams, mappings, producers, readers, tokens.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from django.db import transaction

from hub import canonical_json
from hub.canonical_json import Value
from hub.errors import ErrorCode, VeenError
from hub.models import Finding
from hub.services import note_finding
from hub.streamitem import StreamItem
from hub.types import ClientId
from recorder import records
from recorder.acts import key_files
from recorder.acts.authority import Authority
from recorder.acts.key_files import KeptKey
from recorder.acts.table import VERBS
from recorder.acts.verb import Verb
from recorder.findings import NOTED, note_again
from recorder.founding import ACTOR
from recorder.json_fields import Fields
from recorder.models import Act, Stream
from recorder.projection import Row, project
from recorder.scribe import RECORDER
from recorder.streams import CHANGES, MigrationKind

EVENT_TYPE: Final = "database.rebuilt"
FINDING: Final = "database_rebuilt"
_VERB_OF: Final[Mapping[str, Verb[Any]]] = {
    **{verb.event_type: verb for verb in VERBS.values()},
    **{kind.value: VERBS["stream.migrate"] for kind in MigrationKind},
}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """How much of the log was applied."""

    acts: int
    upto_seq: int


def rebuild_if_lost(authority: Authority) -> Rebuilt | None:
    """Make the tables again when they are empty and the log knows better; None when not.

    All or nothing: a stop in between leaves them empty, and the next start begins again.
    """
    if Stream.objects.exists():
        return None
    items = _own_items(authority)
    if not items:
        return None
    logger.warning("rebuild.begins", extra={"events": len(items)})
    with transaction.atomic():
        acts = sum(_apply(row, authority) for row in _rows(items, authority))
        done = Rebuilt(acts=acts, upto_seq=items[-1].receipt.stream_seq)
        _tell(done, items[-1].receipt.mmr_root.hex(), authority)
    logger.warning("rebuild.done", extra={"acts": done.acts, "upto_seq": done.upto_seq})
    return done


def _own_items(authority: Authority) -> list[StreamItem]:
    """What the recorder's service identity wrote; nobody else's word is an act."""
    ours = ClientId(authority.services[RECORDER])
    try:
        found = authority.client.follow(authority.label(CHANGES))
        return [item for item in found if item.msg.client_id == ours]
    except VeenError as refusal:
        if refusal.code is ErrorCode.NOTFOUND:
            return []
        raise


def _rows(items: list[StreamItem], authority: Authority) -> Iterator[Row]:
    kept = key_files.find(authority.files.stream_keys, CHANGES)
    secrets = [key.wrapped.unwrap(authority.admin_dh.secret) for key in kept]
    for item in items:
        row = project(
            item.msg_bytes,
            item.receipt_bytes,
            stream=CHANGES,
            hub_id=authority.facts.hub_id,
            secrets=secrets,
        )
        if row.error is not None:
            folder = authority.files.stream_keys
            detail = f"no key in {folder} opens event {row.hub_commit_seq} of {CHANGES}"
            raise VeenError(ErrorCode.KEYSTORE, f"{detail}; restore the state from a backup")
        yield row


def _apply(row: Row, authority: Authority) -> bool:
    """Whether the event was an act that changes rows; then they are changed."""
    assert row.event_type is not None
    assert row.payload_text is not None
    assert row.event_time is not None
    verb = _VERB_OF.get(row.event_type)
    found = canonical_json.parse(row.payload_text)
    at = datetime.fromtimestamp(row.event_time / 1000, tz=UTC)
    if row.event_type == NOTED:
        note_again(found, at)
    if verb is None or not isinstance(found, dict):
        return False
    args = verb.recorded(row.event_type, found)
    if args is None:
        return False
    then = replace(authority, now=lambda: at, made_then=_keys_of(found, authority))
    act = Act(
        id=uuid.UUID(str(found.get("act_id", uuid.UUID(int=0)))),
        verb=verb.name,
        actor=row.subject_id or "",
        reason=str(found.get("reason", "")),
        created_at=at,
    )
    act.result = verb.apply(args, act, then)
    verb.mark_revoked(args, act, then)
    return True


def _keys_of(found: dict[str, Value], authority: Authority) -> Callable[[str, int], KeptKey]:
    """The keys that one act made, known by what its event says of them."""
    rotated = found.get("rotated")
    told = [Fields.among(one) for one in [found, *(rotated if isinstance(rotated, list) else ())]]
    named = {
        (one.text("stream"), one.uint("key_id")): one.text("reader_pk")
        for one in told
        if one.value("reader_pk") is not None
    }

    def key_of(stream: str, key_id: int) -> KeptKey:
        folder = authority.files.stream_keys
        return key_files.find_one(folder, stream, key_id, named.get((stream, key_id)))

    return key_of


def _tell(done: Rebuilt, root: str, authority: Authority) -> None:
    now = authority.now()
    records.keep_event(
        key=f"rebuilt/{root}",
        identity=RECORDER,
        stream=CHANGES,
        event_type=EVENT_TYPE,
        subject_id=ACTOR,
        payload={"acts": done.acts, "upto_seq": done.upto_seq, "mmr_root": root},
        now=now,
    )
    note_finding(
        FINDING,
        f"{CHANGES} up to {done.upto_seq}",
        "The database was lost. Streams, producers, readers and tokens were made again from the "
        "log; people's accounts, jobs and the list of queries were not.",
        severity=Finding.Severity.WARNING,
        now=now,
    )
