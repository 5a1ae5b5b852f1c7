"""Bodies of hub/admission: admissions, revocations, label classes, acts [spec-2 4.3, 6.1].

Text keys in the order listed with each class; an absent field is omitted, never null.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self, cast

from hub.crypto.hashing import CAP, h
from hub.errors import WireError
from hub.limits import DEFAULT, Limits
from hub.types import UINT64_MAX, ZERO32, AuthRef, Hash, Label, UnixSeconds
from hub.wire import cbor
from hub.wire.captoken import CapToken

ADMISSION_STREAM: Final = "hub/admission"
NO_ROUTING_KEY: Final = ZERO32  # a hub without routing key derives this one label with it

ADMISSION: Final = Hash(h(b"veen.admission.v1"))
REVOCATION: Final = Hash(h(b"veen.revocation.v1"))
LABEL_CLASS: Final = Hash(h(b"veen.label.class.v1"))
CONTROL: Final = Hash(h(b"veen.control.v1"))

RETENTION_POLICY: Final = "retention_policy"  # a verb of CONTROL

REASON_BYTES_MAX: Final = 1024
VERB_BYTES_MAX: Final = 64
CLASS_BYTES_MAX: Final = 64
NAME_BYTES_MAX: Final = 16  # the longest field name here is shorter


class RevocationKind(StrEnum):
    """What the target of a revocation names."""

    CLIENT_ID = "client-id"
    AUTH_REF = "auth-ref"
    CAP_TOKEN = "cap-token"  # noqa: S105 - a kind, no secret


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRecord:
    """{token, auth_ref}: a token the hub accepted; the record's hub_ts is its issued_at."""

    token: bytes
    auth_ref: AuthRef

    @classmethod
    def of(cls, token: CapToken) -> Self:
        """The record of a judged token."""
        return cls(token=token.encode(), auth_ref=token.auth_ref())

    def encode(self) -> bytes:
        """Canonical bytes."""
        return cbor.encode({"token": self.token, "auth_ref": self.auth_ref})

    @classmethod
    def decode(cls, data: bytes, limits: Limits = DEFAULT) -> Self:
        """Parse a body or raise E.FORMAT, also when auth_ref is not the token's."""
        reader = cbor.Reader(data)
        reader.map_length(minimum=2, maximum=2)
        token = reader.name("token").bstr(maximum=limits.cap_bytes_max)
        auth_ref = AuthRef(reader.name("auth_ref").bstr(32))
        reader.end()
        if CAP(token) != auth_ref:
            raise WireError("auth_ref does not name the token beside it")
        return cls(token=token, auth_ref=auth_ref)


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    """{kind, target, reason?, ts, ttl?}: in force from ts on, for ttl seconds where given."""

    kind: RevocationKind
    target: Hash
    ts: UnixSeconds
    reason: str | None = None
    ttl: int | None = None

    @property
    def until(self) -> int | None:
        """The first second at which it is over; None means never."""
        return None if self.ttl is None else min(self.ts + self.ttl, UINT64_MAX)

    def is_in_force(self, hub_ts: int) -> bool:
        """Whether hub_ts lies in [ts, ts + ttl)."""
        return self.ts <= hub_ts and (self.until is None or hub_ts < self.until)

    def encode(self) -> bytes:
        """Canonical bytes."""
        body: dict[str, cbor.Value] = {"kind": self.kind.value, "target": self.target}
        if self.reason is not None:
            body["reason"] = self.reason
        body["ts"] = self.ts
        if self.ttl is not None:
            body["ttl"] = self.ttl
        return cbor.encode(body)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a body or raise E.FORMAT."""
        reader = cbor.Reader(data)
        optional = reader.map_length(minimum=3, maximum=5) - 3
        kind = _kind(reader.name("kind").tstr(maximum=NAME_BYTES_MAX))
        target = Hash(reader.name("target").bstr(32))
        reason: str | None = None
        name = reader.tstr(maximum=NAME_BYTES_MAX)
        if optional and name == "reason":
            reason = reader.tstr(maximum=REASON_BYTES_MAX)
            name = reader.tstr(maximum=NAME_BYTES_MAX)
            optional -= 1
        if name != "ts" or optional > 1:
            raise WireError("a revocation has kind, target, reason?, ts, ttl? in this order")
        ts = UnixSeconds(reader.uint())
        ttl = reader.name("ttl").uint() if optional else None
        reader.end()
        return cls(kind=kind, target=target, ts=ts, reason=reason, ttl=ttl)


def _kind(text: str) -> RevocationKind:
    try:
        return RevocationKind(text)
    except ValueError as flaw:
        raise WireError(f"unknown kind of revocation {text!r}") from flaw


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelClass:
    """{label, class, sensitivity?, retention_hint?}: what kind of stream a label is [LCLASS0]."""

    label: Label
    name: str
    sensitivity: str | None = None
    retention_hint: int | None = None  # seconds

    def encode(self) -> bytes:
        """Canonical bytes."""
        body: dict[str, cbor.Value] = {"label": self.label, "class": self.name}
        if self.sensitivity is not None:
            body["sensitivity"] = self.sensitivity
        if self.retention_hint is not None:
            body["retention_hint"] = self.retention_hint
        return cbor.encode(body)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a body or raise E.FORMAT."""
        reader = cbor.Reader(data)
        optional = reader.map_length(minimum=2, maximum=4) - 2
        label = Label(reader.name("label").bstr(32))
        name = reader.name("class").tstr(maximum=CLASS_BYTES_MAX)
        sensitivity: str | None = None
        hint: int | None = None
        key = reader.tstr(maximum=NAME_BYTES_MAX) if optional else ""
        if key == "sensitivity":
            sensitivity = reader.tstr(maximum=CLASS_BYTES_MAX)
            optional -= 1
            key = reader.tstr(maximum=NAME_BYTES_MAX) if optional else ""
        if key == "retention_hint":
            hint = reader.uint()
            optional -= 1
        if optional:
            raise WireError("a label class has label, class, sensitivity?, retention_hint?")
        reader.end()
        return cls(label=label, name=name, sensitivity=sensitivity, retention_hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRecord:
    """{verb, detail, ts}: a changing act of the control socket."""

    verb: str
    detail: Mapping[str, cbor.Value]
    ts: UnixSeconds

    def encode(self) -> bytes:
        """Canonical bytes; detail keeps the order its verb gives it."""
        return cbor.encode({"verb": self.verb, "detail": self.detail, "ts": self.ts})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a body or raise E.FORMAT."""
        reader = cbor.Reader(data)
        reader.map_length(minimum=3, maximum=3)
        verb = reader.name("verb").tstr(maximum=VERB_BYTES_MAX)
        detail = reader.name("detail").any()
        ts = UnixSeconds(reader.name("ts").uint())
        reader.end()
        if not isinstance(detail, Mapping) or not all(isinstance(key, str) for key in detail):
            raise WireError("detail is not a map with text keys")
        return cls(verb=verb, detail=cast("Mapping[str, cbor.Value]", detail), ts=ts)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """What a control record of the verb `retention_policy` says [COMP0.1].

    A payload stays while it is younger than keep_s or among the newest keep_messages. With
    neither there is no policy any more, and everything stays.
    """

    target: Label | str  # one label, or every label of a class
    keep_s: int | None = None
    keep_messages: int | None = None

    def detail(self) -> dict[str, cbor.Value]:
        """As it stands in the record."""
        said: dict[str, cbor.Value] = {
            "class" if isinstance(self.target, str) else "label": self.target
        }
        if self.keep_s is not None:
            said["keep_s"] = self.keep_s
        if self.keep_messages is not None:
            said["keep_messages"] = self.keep_messages
        return said

    @classmethod
    def of(cls, detail: Mapping[str, cbor.Value]) -> Self:
        """From a record, or E.FORMAT."""
        name, label = detail.get("class"), detail.get("label")
        keep_s, keep_messages = detail.get("keep_s"), detail.get("keep_messages")
        bounds_fit = all(
            bound is None or isinstance(bound, int) for bound in (keep_s, keep_messages)
        )
        if isinstance(label, bytes) and len(label) == len(ZERO32) and name is None and bounds_fit:
            target: Label | str = Label(label)
        elif isinstance(name, str) and label is None and bounds_fit:
            target = name
        else:
            raise WireError("a retention policy has label or class, keep_s?, keep_messages?")
        return cls(
            target=target,
            keep_s=cast("int | None", keep_s),
            keep_messages=cast("int | None", keep_messages),
        )
