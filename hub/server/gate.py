"""The part of admission that needs state: capability, rate, duplicate, order [SSOT 8.1].

All of it is decided in the writer with the RECEIPT's own hub_ts, and all of it is a function of
the log and the configuration: `committed` is called for each entry of a replay and leads to the
same cursors as the live path did (I13).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from hub import authoring
from hub import label as labels
from hub.admission import rate as rates
from hub.admission import records
from hub.admission.authority import AdmissionState, Grant, is_service_message
from hub.admission.order import check_order
from hub.admission.records import (
    AdmissionRecord,
    ControlRecord,
    LabelClass,
    RetentionPolicy,
    Revocation,
)
from hub.errors import ErrorCode, VeenError
from hub.server.clock import Clock
from hub.server.config import HubConfig
from hub.server.identity import Identity
from hub.storage.reader import LogReader
from hub.storage.replay import LoggedEntry
from hub.storage.state import Entry, LabelState, LogState, Tentative
from hub.storage.store import Batch
from hub.types import ZERO32, ClientId, ClientSeq, Label, LeafHash, ProfileId, StreamId
from hub.wire.captoken import CapToken
from hub.wire.msg import Msg
from hub.wire.payload import PayloadHeader
from hub.wire.profile import PRODUCT, Profile

ADMISSION_STREAM = "hub/admission"
CLOCK_ACCEPT = "clock_accept"
EQUIVOCATION = "equivocation"
EPOCHS_BACK_MAX = 65_536  # how far a stream's label before is looked for
HOUSEKEEPING = "housekeeping"  # the class
HOUSEKEEPING_STREAMS = (
    ADMISSION_STREAM,
    "record/infrastructure/checkpoints",
    "record/infrastructure/lake",
)


@dataclass(slots=True)
class Gate:
    """Admission state of one hub."""

    config: HubConfig
    identity: Identity
    state: AdmissionState
    profiles: Mapping[ProfileId, Profile]
    admission_label: Label
    is_committed: Callable[[LeafHash, Label], bool]
    clock: Clock | None = None  # set once the log's last hub_ts is known
    classes: dict[Label, str] = field(default_factory=dict)  # LCLASS0, folded from the log
    sensitivity: dict[Label, str] = field(default_factory=dict)
    retention: dict[Label, int] = field(default_factory=dict)  # retention_hint in seconds
    policies: dict[Label | str, RetentionPolicy] = field(default_factory=dict)  # by label or class
    reported: set[bytes] = field(default_factory=set)  # hashes of findings that are recorded
    log: LogState = field(default_factory=LogState)  # the cursors of the store, live and on replay
    _accepted: tuple[int, int] | None = None  # a time an operator accepted, the newest hub_ts then

    @classmethod
    def create(
        cls, config: HubConfig, identity: Identity, is_committed: Callable[[LeafHash, Label], bool]
    ) -> Gate:
        """A gate that has seen nothing yet; a hub without routing key uses 32 zero bytes here."""
        key = config.routing_key or ZERO32
        gate = cls(
            config=config,
            identity=identity,
            state=AdmissionState(config.trusted_issuers, config.limits),
            profiles=config.profile_map(),
            admission_label=labels.derive(key, labels.stream_id(ADMISSION_STREAM)),
            is_committed=is_committed,
        )
        for name in HOUSEKEEPING_STREAMS:
            gate.classes[labels.derive(key, labels.stream_id(name))] = HOUSEKEEPING
        return gate

    # -- live

    def admit(self, batch: Batch, entry: Entry) -> None:
        """Take a MSG of good form and signature into the batch, or raise its refusal."""
        assert self.clock is not None
        tentative = batch.label(entry.label)
        hub_ts = entry.hub_ts = self.clock.hub_ts(tentative.last_ts)
        grant = self._authority(entry, hub_ts)
        bucket = None
        if grant is not None and grant.rate is not None:
            bucket = rates.spend(tentative.bucket(grant.core_id), grant.rate, hub_ts)
        last_seq, last_ack = tentative.client(entry.client_id)
        if entry.client_seq <= last_seq and (
            any(other.leaf == entry.leaf for other in tentative.entries)
            or self.is_committed(entry.leaf, entry.label)
        ):
            raise VeenError(ErrorCode.DUP, "this message is already committed")
        check_order(
            client_seq=entry.client_seq,
            prev_ack=entry.prev_ack,
            last_client_seq=last_seq,
            last_prev_ack=last_ack,
            head=tentative.size,  # not where the batch began: I13 knows no batches
        )
        if grant is not None and bucket is not None:
            tentative.buckets[grant.core_id] = bucket
        if tentative.size == 0:
            token = self.state.token_of(entry.auth_ref)
            beside = {other.base.label for other, _ in batch.order}
            self._trace_epoch(tentative, entry.profile_id, token, hub_ts, beside)
        batch.add(tentative, entry)

    def _authority(self, entry: Entry, hub_ts: int) -> Grant | None:
        if is_service_message(
            label=entry.label,
            client_id=entry.client_id,
            admission_label=self.admission_label,
            service_id=self.identity.service.public,
        ):
            return None
        if entry.auth_ref is None and self.config.open_admission:
            self.state.check_client(entry.client_id, hub_ts)
            return None
        profile = self.profiles[entry.profile_id]
        return self.state.check(
            entry.auth_ref, entry.client_id, entry.label, hub_ts, profile, self.config.routing_key
        )

    def record(self, batch: Batch, schema: bytes, body: bytes) -> None:
        """Append a record of the hub itself to hub/admission, through the same door."""
        assert self.clock is not None
        service = self.identity.service
        tentative = batch.label(self.admission_label)
        last_seq, _ = tentative.client(ClientId(service.public))
        authored = authoring.author(
            key=service,
            profile=PRODUCT,
            label=self.admission_label,
            client_seq=ClientSeq(last_seq + 1),
            prev_ack=tentative.base.size,
            auth_ref=None,
            reader_pk=self.identity.reader.public,
            header=PayloadHeader(schema=schema),  # type: ignore[arg-type]
            body=body,
        )
        self.admit(batch, Entry.of(authored.msg_bytes, authored.leaf_hash))

    # -- replay

    def fold_stream(self, reader: LogReader, size: int) -> None:
        """Admission state from the first `size` entries of hub/admission."""
        for seq in range(1, size + 1):
            _, data = reader.entry(self.admission_label, seq)
            self._fold(Msg.decode(data), reader.hub_ts(self.admission_label, seq))

    def committed(self, state: LabelState, entry: LoggedEntry) -> None:
        """Account for a replayed entry as the live path did."""
        message, hub_ts = entry.message, int(entry.receipt.hub_ts)
        if state.label == self.admission_label:
            if isinstance(message, Msg):
                self._fold(message, hub_ts)
            return
        token = self.state.token_of(message.auth_ref)
        if token is not None and token.rate is not None:
            core = token.core_id()
            state.buckets[core] = rates.spend(state.buckets.get(core), token.rate, hub_ts)
        self._trace_epoch(state, ProfileId(message.profile_id), token, hub_ts)

    def _fold(self, msg: Msg, hub_ts: int) -> None:
        """One record of hub/admission; only the service identity's count."""
        if bytes(msg.client_id) != self.identity.service.public:
            return
        opened = authoring.open_message(msg, profile=PRODUCT, secret=self.identity.reader.secret)
        self.apply(opened.header.schema, opened.body, hub_ts)

    def apply(self, schema: bytes, body: bytes, hub_ts: int) -> None:
        """Fold a record whose RECEIPT has this hub_ts."""
        if schema == records.ADMISSION:
            self.state.apply_admission(AdmissionRecord.decode(body, self.config.limits), hub_ts)
        elif schema == records.REVOCATION:
            self.state.apply_revocation(Revocation.decode(body))
        elif schema == records.LABEL_CLASS:
            self._classify(LabelClass.decode(body))
        elif schema == records.CONTROL:
            control = ControlRecord.decode(body)
            if control.verb == CLOCK_ACCEPT:
                now, until = control.detail["now"], control.detail["until"]
                assert isinstance(now, int)
                assert isinstance(until, int)
                self._accepted = (now, until)
            elif control.verb == EQUIVOCATION:
                finding = control.detail.get("finding")
                if isinstance(finding, bytes):
                    self.reported.add(finding)
            elif control.verb == records.RETENTION_POLICY:
                policy = RetentionPolicy.of(control.detail)
                self.policies.pop(policy.target, None)
                if policy.keep_s is not None or policy.keep_messages is not None:
                    self.policies[policy.target] = policy

    def check_record(self, schema: bytes, body: bytes) -> None:
        """Raise E.FORMAT for a body that the fold would not take: once logged it stays."""
        if schema == records.ADMISSION:
            AdmissionRecord.decode(body, self.config.limits)
        elif schema == records.REVOCATION:
            Revocation.decode(body)
        elif schema == records.LABEL_CLASS:
            LabelClass.decode(body)
        else:
            control = ControlRecord.decode(body)
            if control.verb == records.RETENTION_POLICY:
                RetentionPolicy.of(control.detail)

    def trusted_ts(self, last_ts: int) -> int:
        """The hub_ts that a start may not be behind.

        The newest one, unless a step back from it was accepted and nothing newer came since.
        """
        if self._accepted is not None and last_ts <= self._accepted[1]:
            return self._accepted[0]
        return last_ts

    def _classify(self, given: LabelClass) -> None:
        self.classes[given.label] = given.name
        if given.sensitivity is not None:
            self.sensitivity[given.label] = given.sensitivity
        if given.retention_hint is not None:
            self.retention[given.label] = given.retention_hint

    def is_housekeeping(self, label: Label) -> bool:
        """Whether a label's messages never cause a manifest by time."""
        return self.classes.get(label) == HOUSEKEEPING

    # -- epochs

    def _trace_epoch(
        self,
        cursor: Tentative | LabelState,
        profile_id: ProfileId,
        token: CapToken | None,
        ts: int,
        beside: Collection[Label] = (),
    ) -> None:
        """Chain the first label of an epoch to the same stream's label before it.

        `beside` are the labels of the same batch: they are in the log when this one is.
        """
        profile = self.profiles.get(profile_id)
        size = cursor.size
        if profile is None or profile.epoch_sec == 0 or size > 0:
            return
        now = labels.epoch_of(ts, profile.epoch_sec)
        cursor.epoch = now
        routing_key = self.config.routing_key
        if token is None or routing_key is None:
            return
        label = cursor.base.label if isinstance(cursor, Tentative) else cursor.label
        skew = self.config.limits.clock_skew_epochs
        for stream in token.stream_ids:
            for epoch in range(max(0, now - skew), now + skew + 1):
                if labels.derive(routing_key, stream, epoch) == label:
                    cursor.epoch = epoch
                    cursor.label_prev = self._label_before(routing_key, stream, epoch, beside)
                    return

    def _label_before(
        self, routing_key: bytes, stream: StreamId, epoch: int, beside: Collection[Label]
    ) -> Label | None:
        """The stream's newest label of an earlier epoch, a function of the log alone."""
        for earlier in range(epoch - 1, max(0, epoch - EPOCHS_BACK_MAX), -1):
            before = labels.derive(routing_key, stream, earlier)
            if before in self.log.labels or before in beside:
                return before
        return None
