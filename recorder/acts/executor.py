"""Executes acts: each finishes, whatever stops it in between, and is recorded once [SDR0 3.2.3]."""

from __future__ import annotations

import logging
from typing import Any, Final

from django.db import DatabaseError, transaction

from hub.client.outcome import AUTHORITY, TRANSIENT
from hub.errors import ErrorCode, VeenError
from recorder import records
from recorder.acts.authority import Authority
from recorder.acts.table import VERBS
from recorder.acts.verb import Verb, keep
from recorder.codes import RecordError
from recorder.models import Act, AuthoredEvent
from recorder.scribe import RECORDER
from recorder.streams import CHANGES

logger = logging.getLogger(__name__)
INTERNAL: Final = "internal"
# The hub is not ready for it, or has not admitted our own capability: the act stays pending.
_LATER: Final = TRANSIENT | AUTHORITY | {ErrorCode.LOCKED}


def event_key(act: Act) -> str:
    """The key under which an act is recorded."""
    return f"act/{act.id}"


def run_pending(authority: Authority) -> int:
    """Execute what waits, oldest first; returns how many acts found their end.

    One that has to wait does not hold up the others: rows are changed in one step, and all that
    comes after it is derived from them.
    """
    waiting = Act.objects.filter(state=Act.State.PENDING).order_by("created_at", "id")
    return sum(_run(act, authority) for act in list(waiting))


def _run(act: Act, authority: Authority) -> bool:
    """Whether the act is over; a refusal is its end, a hub or disk out of reach is not."""
    try:
        execute(act, authority)
    except VeenError as refusal:
        if refusal.code in _LATER or _has_begun(act):
            _note(act, str(refusal))
            return False
        _fail(act, _code(refusal), refusal.detail)
    except DatabaseError:
        raise
    except OSError as failure:
        _note(act, f"{failure.filename}: {failure.strerror}")
        return False
    except Exception as flaw:
        # One act that trips over an error of ours must not stop every other for ever.
        logger.exception("act.tripped", extra={"act": str(act.id), "verb": act.verb})
        reason = f"an error of ours: {type(flaw).__name__}"
        if _has_begun(act):
            _note(act, reason)
            return False
        _fail(act, INTERNAL, reason)
    return True


def _has_begun(act: Act) -> bool:
    """Whether rows are changed: then the only way is on, or something were done unseen."""
    verb = VERBS.get(act.verb)
    return bool(act.result) and verb is not None and not verb.may_be_refused


def execute(act: Act, authority: Authority) -> None:
    """All steps that are not done yet; raises where one cannot be done now."""
    verb = VERBS[act.verb]
    args = verb.check(act.args)
    if not act.result:
        _apply(verb, args, act, authority)
    keep(act, verb.settle(args, act, authority))
    event = _record(verb, args, act, authority)
    verb.finish(args, act, authority)
    place = {"stream": event.stream, "hub_commit_seq": event.hub_commit_seq}
    keep(act, {"event": {**place, "receipt_id": event.receipt_id}})
    act.state = Act.State.DONE
    act.message = ""
    act.finished_at = authority.now()
    act.save(update_fields=["state", "message", "finished_at"])
    logger.info("act.done", extra={"act": str(act.id), "verb": act.verb})


def _apply(verb: Verb[Any], args: object, act: Act, authority: Authority) -> None:
    with transaction.atomic():
        verb.plan(args)
        result = verb.apply(args, act, authority)
        assert result, f"{verb.name} leaves no mark that it was applied"
        Act.objects.filter(pk=act.pk).update(result=result)
    act.result = result  # only now: a transaction that is rolled back leaves no mark either


def _record(verb: Verb[Any], args: object, act: Act, authority: Authority) -> AuthoredEvent:
    row = AuthoredEvent.objects.filter(key=event_key(act)).first()
    if row is None:  # what was once written down is said so, whatever was found since
        event_type, payload = verb.event(args, act)
        row = records.keep_event(
            key=event_key(act),
            identity=RECORDER,
            stream=CHANGES,
            event_type=event_type,
            subject_id=act.actor,
            payload=payload,
            event_time_ms=int(act.created_at.timestamp() * 1000),
            now=authority.now(),
        )
    if row.state == AuthoredEvent.State.PENDING:
        authority.scribe.record_pending()
        row.refresh_from_db()
    if row.state != AuthoredEvent.State.RECORDED:
        # Nothing is done unseen: the act stays open until it is in the log.
        raise VeenError(ErrorCode.BUSY, f"the event is not recorded: {row.state} {row.error}")
    return row


def _code(refusal: VeenError) -> str:
    return refusal.error_code if isinstance(refusal, RecordError) else str(refusal.code)


def _note(act: Act, message: str) -> None:
    """Say on the row why it waits, once for each reason."""
    if act.message != message:
        logger.warning("act.waits", extra={"act": str(act.id), "reason": message})
        act.message = message
        act.save(update_fields=["message"])


def _fail(act: Act, code: str, message: str) -> None:
    act.state = Act.State.FAILED
    act.error_code = code
    act.message = message
    act.save(update_fields=["state", "error_code", "message"])
    logger.warning("act.refused", extra={"act": str(act.id), "verb": act.verb, "code": code})
