"""Who may do what: a producer is never an administrator, and no key has two roles [SDR0 3.2.3]."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from hub.errors import ErrorCode, VeenError
from hub.types import PublicKey
from recorder import streams


class Role(StrEnum):
    """The roles of SDR0 2.3, and the two that the product adds."""

    PRODUCER = "recorder_producer"  # appends to named streams, nothing else
    ADMIN = "recorder_admin"  # manages and reads, never appends
    READER = "recorder_reader"  # reads named streams
    SERVICE = "recorder_service"  # writes what the product itself records


ALL_STREAMS: Final = "record/*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """One key in one role; `append` and `read` are stream names, `read` may be ALL_STREAMS."""

    principal: PublicKey
    role: Role
    name: str  # of the service or person
    append: frozenset[str] = frozenset()
    read: frozenset[str] = frozenset()


class Rule(StrEnum):
    """What the linter finds."""

    ADMIN_IS_PRODUCER = "admin-is-producer"
    TWO_ROLES = "two-roles"
    TWO_NAMES = "two-names"
    SHARED_NAME = "shared-name"
    APPEND_NOT_NAMED = "append-not-named"
    APPEND_RESERVED = "append-reserved"
    APPEND_NOT_OWN = "append-not-own"
    APPENDS = "appends"
    READS = "reads"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One rule broken by the named bindings."""

    rule: Rule
    names: tuple[str, ...]
    principal: PublicKey
    detail: str

    def __str__(self) -> str:
        who = " and ".join(self.names)
        return f"{self.rule}: {who} ({self.principal.hex()[:16]}): {self.detail}"


_Found: TypeAlias = Iterator[tuple[Rule, str]]


def lint(bindings: Iterable[Binding]) -> tuple[Violation, ...]:
    """Every violation over all bindings; an empty answer is what a deployment must have."""
    everyone = sorted(bindings, key=lambda one: (one.principal, one.role, one.name))
    found = [*_lint_alone(everyone), *_lint_principals(everyone), *_lint_names(everyone)]
    return tuple(sorted(found, key=str))


def check(bindings: Iterable[Binding]) -> None:
    """Raise P.POLICY with every violation."""
    found = lint(bindings)
    if found:
        raise VeenError(ErrorCode.POLICY, "; ".join(map(str, found)))


def _lint_alone(everyone: Sequence[Binding]) -> Iterator[Violation]:
    for binding in everyone:
        for rule, detail in _RULES_OF[binding.role](binding):
            yield Violation(
                rule=rule, names=(binding.name,), principal=binding.principal, detail=detail
            )


def _producer(binding: Binding) -> _Found:
    if not binding.append:
        yield Rule.APPEND_NOT_NAMED, "a producer names the streams it appends to"
    for name in sorted(binding.append):
        try:
            streams.check_name(name)
        except VeenError as refusal:
            yield Rule.APPEND_NOT_NAMED, refusal.detail
            continue
        if streams.is_reserved(name):
            yield Rule.APPEND_RESERVED, f"{name} is written by the product's services only"
    yield from _reads_nothing(binding)


def _service(binding: Binding) -> _Found:
    if not binding.append:
        yield Rule.APPEND_NOT_NAMED, "a service names the streams it appends to"
    for name in sorted(binding.append):
        if not streams.is_reserved(name):
            yield Rule.APPEND_NOT_OWN, f"{name} belongs to producers"
    yield from _reads_nothing(binding)


def _admin(binding: Binding) -> _Found:
    # Its acts are written by the service, with the administrator as subject_id.
    yield from _appends_nothing(binding)


def _reader(binding: Binding) -> _Found:
    yield from _appends_nothing(binding)


def _reads_nothing(binding: Binding) -> _Found:
    if binding.read:
        yield Rule.READS, f"is append-only, but reads {', '.join(sorted(binding.read))}"


def _appends_nothing(binding: Binding) -> _Found:
    if binding.append:
        yield Rule.APPENDS, f"never appends, but may to {', '.join(sorted(binding.append))}"


_RULES_OF: Final[dict[Role, Callable[[Binding], _Found]]] = {
    Role.PRODUCER: _producer,
    Role.ADMIN: _admin,
    Role.READER: _reader,
    Role.SERVICE: _service,
}


def _lint_principals(everyone: Sequence[Binding]) -> Iterator[Violation]:
    """One key is one identity in one role (I3)."""
    held: dict[PublicKey, list[Binding]] = defaultdict(list)
    for binding in everyone:
        held[binding.principal].append(binding)
    for principal, bindings in held.items():
        roles = sorted({binding.role for binding in bindings})
        names = tuple(sorted({binding.name for binding in bindings}))
        if {Role.ADMIN, Role.PRODUCER} <= set(roles):
            detail = "an administrator's key is never a producer's"
            yield Violation(
                rule=Rule.ADMIN_IS_PRODUCER, names=names, principal=principal, detail=detail
            )
        if len(roles) > 1:
            detail = f"one key holds {' and '.join(roles)}"
            yield Violation(rule=Rule.TWO_ROLES, names=names, principal=principal, detail=detail)
        if len(names) > 1:
            detail = "one key stands for several identities"
            yield Violation(rule=Rule.TWO_NAMES, names=names, principal=principal, detail=detail)


def _lint_names(everyone: Sequence[Binding]) -> Iterator[Violation]:
    """A producer is one service with one key at a time; its old key is unbound on rotation."""
    first: dict[str, PublicKey] = {}
    for binding in everyone:
        if binding.role is not Role.PRODUCER:
            continue
        if first.setdefault(binding.name, binding.principal) != binding.principal:
            yield Violation(
                rule=Rule.SHARED_NAME,
                names=(binding.name,),
                principal=binding.principal,
                detail=f"the name is that of {first[binding.name].hex()[:16]} too",
            )
