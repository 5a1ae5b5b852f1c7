"""Every key and token of the recorder in its role, for the linter [SDR0 3.2.3]."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hub.models import Finding
from hub.services import note_finding
from hub.types import PublicKey
from recorder.acts.authority import ADMIN_READER, Authority
from recorder.models import ApiToken, Producer, Stream
from recorder.roles import ALL_STREAMS, Binding, Role, lint
from recorder.scribe import may_write
from recorder.streams import is_reserved

ISSUER: Final = "issuer"
ROLE_VIOLATION: Final = "role_violation"


def all_bindings(authority: Authority) -> list[Binding]:
    """What a deployment consists of; `roles.check` must find nothing in it."""
    return [*_own(authority), *_producers(), *_tokens()]


def note_violations(authority: Authority) -> int:
    """A finding for each rule that the tables break, however that came about; how many."""
    found = lint(all_bindings(authority))
    for violation in found:
        note_finding(
            ROLE_VIOLATION,
            f"{violation.rule} {' and '.join(violation.names)}",
            str(violation),
            severity=Finding.Severity.WARNING,
            now=authority.now(),
        )
    return len(found)


def _own(authority: Authority) -> Iterator[Binding]:
    for name, key in ((ADMIN_READER, authority.recorder_admin), (ISSUER, authority.issuer)):
        yield Binding(
            principal=key.public, role=Role.ADMIN, name=name, read=frozenset({ALL_STREAMS})
        )
    reserved = [one for one in Stream.objects.values_list("name", flat=True) if is_reserved(one)]
    for name, principal in authority.services.items():
        append = frozenset(one for one in reserved if may_write(name, one))
        if append:  # none before the first start has made them
            yield Binding(principal=principal, role=Role.SERVICE, name=name, append=append)


def _producers() -> Iterator[Binding]:
    active = Producer.objects.filter(ended_at__isnull=True).prefetch_related("streams")
    for producer in active:
        yield Binding(
            principal=PublicKey(bytes.fromhex(producer.principal)),
            role=Role.PRODUCER,
            name=producer.name,
            append=frozenset(stream.name for stream in producer.streams.all()),
        )


def _tokens() -> Iterator[Binding]:
    """A producer's token stands for its producer, which is bound already."""
    active = ApiToken.objects.filter(revoked_at__isnull=True).exclude(role=ApiToken.Role.PRODUCER)
    for token in active.prefetch_related("streams"):
        is_admin = token.role == ApiToken.Role.ADMIN
        named = frozenset(stream.name for stream in token.streams.all())
        everything = is_admin or token.all_streams
        yield Binding(
            principal=PublicKey(bytes.fromhex(token.principal_id)),
            role=Role.ADMIN if is_admin else Role.READER,
            name=token.name,
            read=frozenset({ALL_STREAMS}) if everything else named,
        )
