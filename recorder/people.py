"""A signed-in person as a caller of the API: the same rights, the same policy [Query 7.1].

An administrator reads what an administrator's token reads. What another account reads stands on one
row of the tokens, whose text nobody has: it can be looked at, and revoked, like any other.
"""

from __future__ import annotations

import hashlib
import secrets
import uuid
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from django.contrib.auth.models import User

from recorder.auth import Caller
from recorder.models import ApiToken, Stream
from recorder.tokens import hash_of

PREFIX: Final = "account:"  # no token that was asked for can be named so


def principal_of_account(username: str) -> str:
    """Who an account is, where a query says who asked."""
    return hashlib.sha256(b"veen/account\0" + username.encode()).hexdigest()


def _row(username: str) -> ApiToken | None:
    return ApiToken.objects.filter(name=PREFIX + username, role=ApiToken.Role.READER).first()


def set_reading(username: str, streams: Iterable[str], *, everything: bool, now: datetime) -> None:
    """Say what an account reads; nothing at all revokes its row."""
    names = list(streams)
    row = _row(username)
    if row is None and (names or everything):
        row = ApiToken.objects.create(
            id=uuid.uuid4(),
            name=PREFIX + username,
            role=ApiToken.Role.READER,
            sha256=hash_of(secrets.token_hex(32)),  # of a text that is gone with this line
            principal_id=principal_of_account(username),
            created_at=now,
        )
    if row is not None:
        row.all_streams = everything
        row.revoked_at = None if names or everything else (row.revoked_at or now)
        row.save(update_fields=["all_streams", "revoked_at"])
        row.streams.set(Stream.objects.filter(name__in=names))


def reading_of(username: str) -> tuple[list[str], bool]:
    """The streams that an account was given, and whether it was given all."""
    row = _row(username)
    if row is None or row.revoked_at is not None:
        return [], False
    return sorted(row.streams.values_list("name", flat=True)), row.all_streams


def caller_of_person(user: User) -> Caller | None:
    """The caller that this person is; None for an account that reads nothing."""
    if user.is_superuser:
        token = ApiToken(
            name=PREFIX + user.username,
            role=ApiToken.Role.ADMIN,
            principal_id=principal_of_account(user.username),
        )
        return Caller(token)
    row = _row(user.username)
    return None if row is None or row.revoked_at is not None else Caller(row)


def name_of_principal(principal_id: str) -> str | None:
    """Whose principal_id this is: an account, or the name of a token."""
    for username in User.objects.values_list("username", flat=True):
        if principal_of_account(username) == principal_id:
            return str(username)
    found = ApiToken.objects.filter(principal_id=principal_id).values_list("name", flat=True)
    return found.first()
