"""Who may write where, now: the fold of the stream hub/admission and its judgements [SSOT 6].

Rules, in the order in which a MSG meets them:
 1 known       its auth_ref has an admission record, else E.AUTH
 2 revoked     neither client_id nor any chain of the core is revoked at hub_ts, else E.CAP
 3 superseded  no longer chain of the same core has been seen, else E.CAP
 4 issuer      configuration trusts it, else E.CAP
 5 ttl         hub_ts <= issued_at + ttl, counted from its first admission, else E.TIME
 6 subject     it is client_id, else E.CAP
 7 scope       the label is one of an allowed stream, else E.CAP; in a wrong epoch, E.TIME
Time is always the hub_ts given by the caller, who holds the label's writer lock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final, Self

from hub import label as labels
from hub.admission.records import AdmissionRecord, Revocation, RevocationKind
from hub.errors import ErrorCode, ScopeError, VeenError
from hub.limits import DEFAULT, Limits
from hub.types import UINT64_MAX, AuthRef, ClientId, Hash, Label, PublicKey
from hub.wire.captoken import CapToken, Rate
from hub.wire.profile import Profile

# A label of an allowed stream so many epochs away is a clock problem and is told as one.
FAR_EPOCHS: Final = 64
# Telling them apart must stay cheap for tokens of many streams: it is work for a refused MSG.
FAR_DERIVATIONS_MAX: Final = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What an admitted capability allows; its rate is still to be spent, per (core_id, label)."""

    auth_ref: AuthRef
    core_id: Hash
    subject: PublicKey
    rate: Rate | None
    expires_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorization:
    """The judgement over a presented token; a new one is to be recorded before it is answered."""

    record: AdmissionRecord
    expires_at: int
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionSummary:
    """The fold of a range of the stream; summaries of adjoining ranges merge in stream order."""

    admissions: tuple[tuple[AdmissionRecord, int], ...] = ()  # with the hub_ts of each
    revocations: tuple[Revocation, ...] = ()

    def merge(self, later: Self) -> Self:
        """The summary of both ranges; the first record of an auth_ref stays the first."""
        known = {record.auth_ref for record, _ in self.admissions}
        added = [item for item in later.admissions if item[0].auth_ref not in known]
        revoked = [item for item in later.revocations if item not in self.revocations]
        return type(self)(
            admissions=(*self.admissions, *added), revocations=(*self.revocations, *revoked)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Admission:
    """One admitted chain."""

    record: AdmissionRecord
    token: CapToken
    core: _Core
    issued_at: int
    grant: Grant


_Name = tuple[RevocationKind, bytes]


@dataclass(slots=True)
class _Core:
    """What all chains of one core share."""

    links: int = 0  # of the longest chain seen
    revocations: list[Revocation] = field(default_factory=list)
    labels: dict[tuple[bytes, int], frozenset[Label]] = field(default_factory=dict)


class AdmissionState:
    """State of all capabilities, a function of the stream's records and of the configuration."""

    __slots__ = (
        "_admissions", "_clients", "_core_of", "_cores", "_limits", "_revocations", "_revoked",
        "_trusted_issuers",
    )  # fmt: skip

    def __init__(self, trusted_issuers: Collection[bytes], limits: Limits = DEFAULT) -> None:
        self._trusted_issuers = frozenset(trusted_issuers)
        self._limits = limits
        self._admissions: dict[AuthRef, _Admission] = {}
        self._cores: dict[Hash, _Core] = {}
        self._core_of: dict[_Name, _Core] = {}  # by every name a revocation may give a chain
        self._revocations: dict[Revocation, None] = {}  # in stream order, each once
        self._revoked: dict[_Name, list[Revocation]] = {}
        self._clients: dict[bytes, list[Revocation]] = {}

    @classmethod
    def from_summary(
        cls,
        summary: AdmissionSummary,
        trusted_issuers: Collection[bytes],
        limits: Limits = DEFAULT,
    ) -> Self:
        """The state at the end of the summarized range."""
        state = cls(trusted_issuers, limits)
        for record, hub_ts in summary.admissions:
            state.apply_admission(record, hub_ts)
        for revocation in summary.revocations:
            state.apply_revocation(revocation)
        return state

    def summary(self) -> AdmissionSummary:
        """Everything that was applied, as a value."""
        return AdmissionSummary(
            admissions=tuple([(item.record, item.issued_at) for item in self._admissions.values()]),
            revocations=tuple(self._revocations),
        )

    # -- the fold

    def apply_admission(self, record: AdmissionRecord, hub_ts: int) -> None:
        """Fold one admission record; its RECEIPT's hub_ts is issued_at, the first time only."""
        if record.auth_ref in self._admissions:
            return
        token = CapToken.decode(record.token, self._limits)
        core_id = token.core_id()
        core = self._cores.setdefault(core_id, _Core())
        core.links = max(core.links, len(token.sig_chain))
        for name in _names(token):
            if name not in self._core_of:
                self._core_of[name] = core
                core.revocations.extend(self._revoked.get(name, ()))
        self._admissions[record.auth_ref] = _Admission(
            record=record,
            token=token,
            core=core,
            issued_at=hub_ts,
            grant=Grant(
                auth_ref=record.auth_ref,
                core_id=core_id,
                subject=token.subject_pk,
                rate=token.rate,
                expires_at=_expires_at(hub_ts, token.ttl),
            ),
        )

    def apply_revocation(self, revocation: Revocation) -> None:
        """Fold one revocation; records are never taken back, only their ttl runs out."""
        if revocation in self._revocations:
            return
        self._revocations[revocation] = None
        if revocation.kind is RevocationKind.CLIENT_ID:
            self._clients.setdefault(revocation.target, []).append(revocation)
            return
        name = (revocation.kind, revocation.target)
        self._revoked.setdefault(name, []).append(revocation)
        core = self._core_of.get(name)
        if core is not None:
            core.revocations.append(revocation)

    def token_of(self, auth_ref: bytes | None) -> CapToken | None:
        """The admitted token, whatever is to be judged of it; replay needs no judgement."""
        admission = self._admissions.get(AuthRef(auth_ref)) if auth_ref is not None else None
        return None if admission is None else admission.token

    # -- judgements

    def check(  # noqa: PLR0917 - the arguments in the order in which the rules meet them
        self,
        auth_ref: AuthRef | None,
        client_id: ClientId,
        label: Label,
        hub_ts: int,
        profile: Profile,
        routing_key: bytes | None,
    ) -> Grant:
        """Raise unless this client may write to this label at hub_ts: rules 1 to 7."""
        admission = self._standing(auth_ref, client_id, hub_ts)
        if ClientId(admission.token.subject_pk) != client_id:
            raise VeenError(ErrorCode.CAP, "the capability's subject is not client_id")
        if routing_key is not None:  # without it stream scoping is off, and /profile says so
            self._check_scope(admission, label, hub_ts, profile.epoch_sec, routing_key)
        return admission.grant

    def check_subject(self, auth_ref: AuthRef | None, hub_ts: int) -> Grant:
        """Rules 1 to 5 for what is no MSG (attachments): the subject still has to sign for it."""
        admission = self._admissions.get(auth_ref) if auth_ref is not None else None
        client_id = ClientId(admission.token.subject_pk if admission is not None else b"")
        return self._standing(auth_ref, client_id, hub_ts).grant

    def check_client(self, client_id: bytes, hub_ts: int) -> None:
        """Raise E.CAP when the client itself is revoked, which holds in every mode."""
        if _in_force(self._clients.get(client_id, ()), hub_ts):
            raise VeenError(ErrorCode.CAP, "client_id is revoked")

    def authorize(self, token_bytes: bytes, hub_ts: int) -> Authorization:
        """Judge a presented token; the same chain again has its first expires_at, also expired."""
        token = CapToken.decode(token_bytes, self._limits)
        record = AdmissionRecord.of(token)
        if token.issuer_pk not in self._trusted_issuers:
            raise VeenError(ErrorCode.CAP, "the issuer is not trusted here")
        core = self._cores.get(token.core_id())
        known_revocations = core.revocations if core is not None else ()
        by_name = [item for name in _names(token) for item in self._revoked.get(name, ())]
        if _in_force([*known_revocations, *by_name], hub_ts):
            raise VeenError(ErrorCode.CAP, "the capability is revoked")
        if core is not None and len(token.sig_chain) < core.links:
            raise VeenError(ErrorCode.CAP, "a longer chain has superseded this one")
        known = self._admissions.get(record.auth_ref)
        if known is not None:
            return Authorization(record=record, expires_at=known.grant.expires_at, is_new=False)
        token.verify_chain()  # the costly step last
        expires_at = _expires_at(hub_ts, token.ttl)
        return Authorization(record=record, expires_at=expires_at, is_new=True)

    def _standing(self, auth_ref: AuthRef | None, client_id: ClientId, hub_ts: int) -> _Admission:
        """Rules 1 to 5."""
        if auth_ref is None:
            raise VeenError(ErrorCode.AUTH, "auth_ref is missing")
        admission = self._admissions.get(auth_ref)
        if admission is None:
            raise VeenError(ErrorCode.AUTH, "no admission record for auth_ref")
        if self._clients:
            self.check_client(client_id, hub_ts)
        core = admission.core
        if core.revocations and _in_force(core.revocations, hub_ts):
            raise VeenError(ErrorCode.CAP, "the capability is revoked")
        if len(admission.token.sig_chain) < core.links:
            raise VeenError(ErrorCode.CAP, "a longer chain has superseded this one")
        if admission.token.issuer_pk not in self._trusted_issuers:
            raise VeenError(ErrorCode.CAP, "the issuer is not trusted here")
        if hub_ts > admission.grant.expires_at:
            raise VeenError(ErrorCode.TIME, "the capability's ttl is over")
        return admission

    def _check_scope(
        self, admission: _Admission, label: Label, hub_ts: int, epoch_sec: int, routing_key: bytes
    ) -> None:
        now = labels.epoch_of(hub_ts, epoch_sec)
        skew = self._limits.clock_skew_epochs if epoch_sec else 0
        for epoch in _epochs_around(now, skew):
            if label in self._labels(admission, epoch, routing_key):
                return
        if epoch_sec:
            stream_ids = admission.token.stream_ids
            span = min(FAR_EPOCHS, FAR_DERIVATIONS_MAX // (2 * len(stream_ids)))
            for epoch in _epochs_around(now, span):
                if any(labels.derive(routing_key, item, epoch) == label for item in stream_ids):
                    raise VeenError(ErrorCode.TIME, f"the label is of epoch {epoch}, now {now}")
        raise ScopeError("the label is of no stream the capability allows")

    def _labels(self, admission: _Admission, epoch: int, routing_key: bytes) -> frozenset[Label]:
        """The labels of all allowed streams in one epoch, derived once while it lasts."""
        cache = admission.core.labels
        key = (routing_key, epoch)
        found = cache.get(key)
        if found is None:
            if len(cache) > 4 * self._limits.clock_skew_epochs + 4:
                cache.clear()  # epochs gone by
            derive = labels.derive
            found = frozenset(
                [derive(routing_key, item, epoch) for item in admission.token.stream_ids]
            )
            cache[key] = found
        return found


def is_service_message(
    *, label: bytes, client_id: bytes, admission_label: bytes, service_id: bytes
) -> bool:
    """Whether this is the service identity's own record, which skips the capability step.

    Anyone else on that label is refused in every mode, open admission included.
    """
    if label != admission_label:
        return False
    if client_id != service_id:
        raise VeenError(ErrorCode.CAP, "only the hub's service identity writes to this label")
    return True


def _names(token: CapToken) -> list[_Name]:
    """Every name by which a revocation could mean this chain or a prefix of it."""
    names: list[_Name] = []
    for prefix in token.prefixes():
        names.append((RevocationKind.AUTH_REF, prefix.auth_ref()))
        names.append((RevocationKind.CAP_TOKEN, prefix.revocation_target()))
    return names


def _in_force(revocations: Iterable[Revocation], hub_ts: int) -> bool:
    return any(item.is_in_force(hub_ts) for item in revocations)


def _expires_at(issued_at: int, ttl: int) -> int:
    return min(issued_at + ttl, UINT64_MAX)


def _epochs_around(now: int, span: int) -> list[int]:
    """The epochs at most `span` away, nearest first: clients with a right clock come first."""
    near = [now]
    for distance in range(1, span + 1):
        near.extend((now - distance, now + distance))
    return [epoch for epoch in near if 0 <= epoch <= UINT64_MAX]
