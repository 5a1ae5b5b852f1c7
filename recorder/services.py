"""The recorder's writes, one function per verb; acts are executed by the author [architecture].

The web process holds no key: it writes down what is asked for, wakes the author and waits.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.db import transaction
from django.utils import timezone

from hub.canonical_json import Value
from hub.errors import ErrorCode, VeenError
from recorder import records, wake
from recorder.acts.accounts import MADE_WITH_PASSWORD
from recorder.acts.table import VERBS, find_verb
from recorder.acts.tokens import CreateToken, principal_of
from recorder.codes import RecordCode, RecordError
from recorder.event import TEXT_BYTES_MAX
from recorder.models import Act, ApiToken, AuthoredEvent, LakeJob
from recorder.tokens import PASSWORD_HASH, hash_of, new_password, new_token

REASON_CHARACTERS_MAX: Final = 1000
LOOK_S: Final = 0.03
ADMIN_TOKEN_NAME: Final = "state-directory"  # noqa: S105 - the name of a row


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """An act that was taken, and the text of a token or password that exists nowhere else."""

    act: Act
    token: str | None = None
    password: str | None = None


def submit_act(verb: str, args: Mapping[str, Value], *, actor: str, reason: str = "") -> Act:
    """Store what an administrator asks for, and wake the author; refuses what cannot be done."""
    found = find_verb(verb)
    _check_words(actor, reason, needs_reason=found.needs_reason)
    try:
        found.plan(found.check(args))
    except RecordError:
        raise
    except VeenError as flaw:
        if flaw.code not in (ErrorCode.FORMAT, ErrorCode.SIZE):
            raise
        raise RecordError(RecordCode.INVALID_PARAMETER, flaw.detail) from flaw
    return _store(verb, args, actor=actor, reason=reason)


def submit(verb: str, args: Mapping[str, Value], *, actor: str, reason: str = "") -> Submission:
    """As `submit_act`; a token or password is made here where no hash of the caller's own came."""
    if verb == CreateToken.name and args.get("sha256") is None:
        token = new_token()
        named = {**args, "sha256": hash_of(token)}
        act = submit_act(verb, named, actor=actor, reason=reason)
        return Submission(act=act, token=token)
    if verb in MADE_WITH_PASSWORD and args.get(PASSWORD_HASH) is None:
        password = new_password()
        hashed = {**args, PASSWORD_HASH: make_password(password)}
        act = submit_act(verb, hashed, actor=actor, reason=reason)
        return Submission(act=act, password=password)
    return Submission(act=submit_act(verb, args, actor=actor, reason=reason))


def submit_own_act(verb: str, args: Mapping[str, Value], *, actor: str) -> Act:
    """An act that the product itself asks for."""
    VERBS[verb].check(args)
    return _store(verb, args, actor=actor, reason="")


def _store(verb: str, args: Mapping[str, Value], *, actor: str, reason: str) -> Act:
    with transaction.atomic():
        act = Act.objects.create(
            verb=verb, args=dict(args), actor=actor, reason=reason, created_at=timezone.now()
        )
        transaction.on_commit(_wake)
    return act


def _check_words(actor: str, reason: str, *, needs_reason: bool) -> None:
    if not actor or len(actor.encode()) > TEXT_BYTES_MAX or "\0" in actor:
        raise VeenError(ErrorCode.POLICY, "an act names who asks for it")
    if len(reason) > REASON_CHARACTERS_MAX:
        message = f"a reason has at most {REASON_CHARACTERS_MAX} characters"
        raise RecordError(RecordCode.INVALID_PARAMETER, message)
    if needs_reason and not reason.strip():
        raise RecordError(RecordCode.INVALID_PARAMETER, "this act needs a reason")


def wait_for_act(act_id: uuid.UUID | str, timeout_s: float) -> Act:
    """The act once it is over, or as it is when the time is."""
    deadline = time.monotonic() + timeout_s
    while True:
        act = Act.objects.get(pk=act_id)
        if act.state != Act.State.PENDING or time.monotonic() >= deadline:
            return act
        time.sleep(LOOK_S)


def record_event(
    *,
    key: str,
    identity: str,
    stream: str,
    event_type: str,
    subject_id: str,
    payload: Value,
    event_time_ms: int | None = None,
) -> AuthoredEvent:
    """Have a service identity record an event, once for each key; durable when this returns."""
    with transaction.atomic():
        row = records.keep_event(
            key=key,
            identity=identity,
            stream=stream,
            event_type=event_type,
            subject_id=subject_id,
            payload=payload,
            event_time_ms=event_time_ms,
            now=timezone.now(),
        )
        transaction.on_commit(_wake)
    return row


def wait_for_event(key: str, timeout_s: float) -> AuthoredEvent:
    """The row once it is recorded or refused, or as it is when the time is over."""
    deadline = time.monotonic() + timeout_s
    while True:
        row = AuthoredEvent.objects.get(pk=key)
        if row.state != AuthoredEvent.State.PENDING or time.monotonic() >= deadline:
            return row
        time.sleep(LOOK_S)


def cancel_job(job_id: uuid.UUID | str) -> LakeJob:
    """Stop a job of the lake that waits or runs; one that is over stays as it is."""
    running = (LakeJob.State.PENDING, LakeJob.State.RUNNING)
    LakeJob.objects.filter(pk=job_id, state__in=running).update(
        state=LakeJob.State.CANCELLED, finished_at=timezone.now()
    )
    return LakeJob.objects.get(pk=job_id)


def ensure_admin_token(text: str) -> ApiToken:
    """The row of the administrator's token of the state directory; one it replaces is revoked."""
    sha256 = hash_of(text)
    with transaction.atomic():
        old = ApiToken.objects.filter(
            name=ADMIN_TOKEN_NAME, role=ApiToken.Role.ADMIN, revoked_at__isnull=True
        )
        old.exclude(sha256=sha256).update(revoked_at=timezone.now())
        token_id = uuid.uuid4()
        token, _ = ApiToken.objects.get_or_create(
            sha256=sha256,
            defaults={
                "id": token_id,
                "name": ADMIN_TOKEN_NAME,
                "role": ApiToken.Role.ADMIN,
                "principal_id": principal_of(token_id),
                "created_at": timezone.now(),
            },
        )
    return token


def _wake() -> None:
    wake.send(settings.VEEN_AUTHOR_SOCKET)
