"""Who calls the API: a bearer token, its one role and the streams it opens [SDR0 3.2.3].

A token is a producer's, a reader's or an administrator's, never two at once. Only its SHA-256 is
stored, so a copy of the database opens nothing; it is never taken from a query string, because
those stand in logs and histories.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from django.db.models import Q, QuerySet
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from recorder.codes import RecordCode, RecordError
from recorder.models import NAME_MAX, ApiToken, Producer, Stream

if TYPE_CHECKING:  # its module loads this one
    from rest_framework.views import APIView

TOKEN_CHARACTERS_MAX: Final = 512
# A busy client would otherwise write to the database with every read.
LAST_USED_STEP: Final = timedelta(minutes=1)

PRODUCER: Final = ApiToken.Role.PRODUCER
READER: Final = ApiToken.Role.READER
ADMIN: Final = ApiToken.Role.ADMIN
READERS: Final = frozenset({READER, ADMIN})
ADMINS: Final = frozenset({ADMIN})
EVERY_ROLE: Final = frozenset({PRODUCER, READER, ADMIN})


@dataclass(frozen=True, slots=True)
class Caller:
    """The holder of a valid token; what `request.user` is."""

    token: ApiToken
    is_authenticated: bool = True

    @property
    def actor(self) -> str:
        """Who an act of this caller is recorded for; no person's name can look like it."""
        return f"token:{self.token.name}"

    def readable(self) -> QuerySet[Stream]:
        """The streams whose events this caller may read."""
        if self.token.role == ADMIN or (self.token.role == READER and self.token.all_streams):
            return Stream.objects.all()
        if self.token.role == READER:
            return Stream.objects.filter(reader_tokens=self.token)
        return Stream.objects.none()

    def own(self) -> QuerySet[Stream]:
        """The streams that a producer's token writes to."""
        if self.token.role != PRODUCER:
            return Stream.objects.none()
        active = Producer.objects.filter(name=self.token.producer_name, ended_at__isnull=True)
        return Stream.objects.filter(producers__in=active)


def sha256_of(token: str) -> str:
    """What is stored of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer T`; a request without it is nobody's, a wrong one is refused."""

    def authenticate(self, request: Request) -> tuple[Caller, ApiToken] | None:
        """The caller of a request, or None where it names none."""
        given = request.META.get("HTTP_AUTHORIZATION", "")
        if not given:
            return None
        scheme, _, text = given.partition(" ")
        text = text.strip()
        if scheme.lower() != "bearer" or not (text.isascii() and text.isprintable()):
            raise AuthenticationFailed
        if not 1 <= len(text) <= TOKEN_CHARACTERS_MAX:
            raise AuthenticationFailed
        # The hash is looked up, so the time it takes tells nothing about a token.
        found = ApiToken.objects.filter(sha256=sha256_of(text), revoked_at__isnull=True).first()
        if found is None:
            raise AuthenticationFailed
        _note_use(found, timezone.now())
        return Caller(found), found

    def authenticate_header(self, request: Request) -> str:  # noqa: ARG002 - the framework's
        """Makes a missing token 401 and not 403."""
        return 'Bearer realm="veen"'


def _note_use(token: ApiToken, now: datetime) -> None:
    if token.last_used_at is None or token.last_used_at <= now - LAST_USED_STEP:
        is_due = Q(last_used_at__isnull=True) | Q(last_used_at__lte=now - LAST_USED_STEP)
        ApiToken.objects.filter(is_due, pk=token.pk).update(last_used_at=now)


class HasRole(BasePermission):
    """Opens a view to the roles it names in `roles`, and to nobody where it names none."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Whether this caller's role is among the view's."""
        roles: frozenset[str] = getattr(view, "roles", frozenset())
        return isinstance(request.user, Caller) and request.user.token.role in roles


def caller_of(request: Request) -> Caller:
    """The caller of a request that was let in."""
    caller = request.user
    assert isinstance(caller, Caller), "HasRole lets nobody else in"
    return caller


def check_readable(caller: Caller, names: Iterable[str]) -> dict[str, Stream]:
    """These streams by name, or forbidden_stream; what is unknown and what is closed look alike."""
    wanted = set(names)
    found: dict[str, Stream] = {}
    if all(len(one) <= NAME_MAX and one.isprintable() for one in wanted):
        found = {one.name: one for one in caller.readable().filter(name__in=wanted)}
    if found.keys() != wanted:
        message = "No such stream, or this token does not open it."
        raise RecordError(RecordCode.FORBIDDEN_STREAM, message)
    return found
