"""Acts on people's accounts: make one, say what it may do, shut it, give a new password [SDR0 3.2].

An account is never deleted, for its name stands in the log. The text of a password is made where it
is shown: an act carries its hash until it is applied, and nothing of it is recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Final

from django.contrib.auth.hashers import identify_hasher
from django.contrib.auth.models import Permission, User

from hub.canonical_json import Value
from hub.errors import ErrorCode, VeenError
from recorder.acts.arguments import Arguments
from recorder.acts.authority import Authority
from recorder.acts.streams import find_stream
from recorder.acts.verb import Result, Verb
from recorder.codes import RecordCode, RecordError
from recorder.models import Act
from recorder.people import reading_of, set_reading
from recorder.tokens import PASSWORD_HASH as HASH

_RIGHTS: Final = ("role", "permissions", "streams", "all")
MAY_ACT: Final = "recorder.add_act"


class Role(StrEnum):
    """What an account is for."""

    ADMINISTRATOR = "administrator"  # everything
    STAFF = "staff"  # the admin pages, as far as its permissions go
    VIEWER = "viewer"  # the console alone


def role_of(user: User) -> Role:
    """The role of an account as its row has it."""
    if user.is_superuser:
        return Role.ADMINISTRATOR
    return Role.STAFF if user.is_staff else Role.VIEWER


def permissions_of(user: User) -> list[str]:
    """What it was given beside its role, sorted."""
    rows = user.user_permissions.values_list("content_type__app_label", "codename")
    return sorted(f"{app}.{codename}" for app, codename in rows)


def find_account(name: str) -> User:
    """An account by name, or not_found."""
    user = User.objects.filter(username=name).first()
    if user is None:
        raise RecordError(RecordCode.NOT_FOUND, f"there is no account {name}")
    return user


def _find_permissions(names: tuple[str, ...]) -> list[Permission]:
    rows = Permission.objects.select_related("content_type")
    known = {f"{one.content_type.app_label}.{one.codename}": one for one in rows}
    for name in names:
        # What else Django has permissions for is changed by acts, so they would be empty words.
        if name not in known or not (name == MAY_ACT or ".view_" in name):
            raise RecordError(RecordCode.NOT_FOUND, f"there is no permission {name}")
    return [known[name] for name in names]


def _check_not_last(user: User) -> None:
    others = User.objects.filter(is_superuser=True, is_active=True).exclude(pk=user.pk)
    if user.is_superuser and user.is_active and not others.exists():
        detail = f"{user.username} is the last administrator; make another one first"
        raise VeenError(ErrorCode.POLICY, detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """A role with what it is given beside: pages of the admin, and streams to ask about."""

    role: Role
    permissions: tuple[str, ...]
    streams: tuple[str, ...]
    all_streams: bool

    @classmethod
    def of(cls, given: Arguments) -> Rights:
        role = given.choice("role", tuple(Role))
        permissions = given.texts("permissions")
        if permissions and role != Role.STAFF:
            given.flaw("only staff has permissions of its own", "permissions")
        streams, everything = given.texts("streams"), given.flag("all")
        if streams and (everything or role == Role.ADMINISTRATOR):
            given.flaw("named for who does not read all anyway", "streams")
        return cls(
            role=Role(role) if role in set(Role) else Role.VIEWER,
            permissions=permissions,
            streams=streams,
            all_streams=everything,
        )

    def plan(self) -> None:
        """Raise where a permission or stream is not there."""
        _find_permissions(self.permissions)
        for name in self.streams:
            find_stream(name)

    def put_on(self, user: User, now: datetime) -> None:
        """All that an account may do; a group would be a second place to look at."""
        user.is_superuser = self.role is Role.ADMINISTRATOR
        user.is_staff = self.role is not Role.VIEWER
        user.save(update_fields=["is_superuser", "is_staff"])
        user.user_permissions.set(_find_permissions(self.permissions))
        user.groups.clear()
        set_reading(user.username, self.streams, everything=self.all_streams, now=now)

    def told(self) -> Result:
        return {
            "role": self.role.value,
            "permissions": list(self.permissions),
            "streams": list(self.streams),
            "all": self.all_streams,
        }


def _check_hash(given: Arguments) -> str:
    """A hash that this product's hashers know; empty once the act was applied."""
    found = given.text(HASH, "")
    if found:
        try:
            identify_hasher(found)
        except ValueError:
            given.flaw("not a password hash", HASH)
    return found


def _require_hash(found: str) -> None:
    if not found:
        raise RecordError(RecordCode.INVALID_PARAMETER, f"the act needs {HASH}")


def _forget_hash(act: Act) -> None:
    """The row of the account has it now, and no page of acts should show it."""
    if HASH in act.args:
        act.args = {key: value for key, value in act.args.items() if key != HASH}
        act.save(update_fields=["args"])


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateArgs:
    name: str
    rights: Rights
    password_hash: str


class CreateAccount(Verb[CreateArgs]):
    name = "account.create"
    event_type = "account.created"

    def check(self, found: object) -> CreateArgs:
        given = Arguments(found)
        args = CreateArgs(
            name=given.name("name"), rights=Rights.of(given), password_hash=_check_hash(given)
        )
        given.close()
        return args

    def plan(self, args: CreateArgs) -> None:
        _require_hash(args.password_hash)
        args.rights.plan()
        if User.objects.filter(username__iexact=args.name).exists():
            raise VeenError(ErrorCode.POLICY, f"there is an account {args.name}")

    def apply(self, args: CreateArgs, act: Act, authority: Authority) -> Result:
        del act
        user = User.objects.create(
            username=args.name, password=args.password_hash, date_joined=authority.now()
        )
        args.rights.put_on(user, authority.now())
        return {"account": user.username, **args.rights.told()}

    def settle(self, args: CreateArgs, act: Act, authority: Authority) -> Result:
        del args, authority
        _forget_hash(act)
        return {}

    def payload(self, args: CreateArgs, act: Act) -> Result:
        del args
        return {key: act.result[key] for key in ("account", *_RIGHTS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleArgs:
    name: str
    rights: Rights


class ChangeRole(Verb[RoleArgs]):
    """A new role, or other permissions; the event says what both were before."""

    name = "account.role"
    event_type = "account.role_changed"

    def check(self, found: object) -> RoleArgs:
        given = Arguments(found)
        args = RoleArgs(name=given.text("name"), rights=Rights.of(given))
        given.close()
        return args

    def plan(self, args: RoleArgs) -> None:
        user = find_account(args.name)
        args.rights.plan()
        if args.rights.role is not Role.ADMINISTRATOR:
            _check_not_last(user)

    def apply(self, args: RoleArgs, act: Act, authority: Authority) -> Result:
        del act
        user = find_account(args.name)
        streams, everything = reading_of(user.username)
        before: dict[str, Value] = {
            "role": role_of(user).value,
            "permissions": list(permissions_of(user)),
            "streams": list(streams),
            "all": everything,
        }
        args.rights.put_on(user, authority.now())
        return {"account": user.username, "before": before, **args.rights.told()}

    def payload(self, args: RoleArgs, act: Act) -> Result:
        del args
        return {key: act.result[key] for key in ("account", *_RIGHTS, "before")}


@dataclass(frozen=True, slots=True, kw_only=True)
class NameArgs:
    name: str


class _SwitchAccount(Verb[NameArgs]):
    """Whether an account may log in; its sessions end with the next page."""

    is_active: ClassVar[bool]

    def check(self, found: object) -> NameArgs:
        given = Arguments(found)
        args = NameArgs(name=given.text("name"))
        given.close()
        return args

    def plan(self, args: NameArgs) -> None:
        user = find_account(args.name)
        if user.is_active == self.is_active:
            word = "active" if self.is_active else "shut"
            raise VeenError(ErrorCode.POLICY, f"the account {args.name} is {word} already")
        if not self.is_active:
            _check_not_last(user)

    def apply(self, args: NameArgs, act: Act, authority: Authority) -> Result:
        del act, authority
        user = find_account(args.name)
        user.is_active = self.is_active
        user.save(update_fields=["is_active"])
        return {"account": user.username}

    def payload(self, args: NameArgs, act: Act) -> Result:
        del args
        return {"account": act.result["account"]}


class DeactivateAccount(_SwitchAccount):
    name = "account.deactivate"
    event_type = "account.deactivated"
    is_active = False


class ActivateAccount(_SwitchAccount):
    name = "account.activate"
    event_type = "account.activated"
    is_active = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordArgs:
    name: str
    password_hash: str


class ResetPassword(Verb[PasswordArgs]):
    """A new password for an account, by an administrator or by the person; sessions end."""

    name = "account.reset_password"
    event_type = "account.password_reset"

    def check(self, found: object) -> PasswordArgs:
        given = Arguments(found)
        args = PasswordArgs(name=given.text("name"), password_hash=_check_hash(given))
        given.close()
        return args

    def plan(self, args: PasswordArgs) -> None:
        _require_hash(args.password_hash)
        find_account(args.name)

    def apply(self, args: PasswordArgs, act: Act, authority: Authority) -> Result:
        del authority
        user = find_account(args.name)
        user.password = args.password_hash
        user.save(update_fields=["password"])
        return {"account": user.username, "by_owner": act.actor == user.username}

    def settle(self, args: PasswordArgs, act: Act, authority: Authority) -> Result:
        del args, authority
        _forget_hash(act)
        return {}

    def payload(self, args: PasswordArgs, act: Act) -> Result:
        del args
        return {key: act.result[key] for key in ("account", "by_owner")}


MADE_WITH_PASSWORD: Final = frozenset({CreateAccount.name, ResetPassword.name})
