"""Form and signature of what arrives, before the writer sees it; what it said, counted [OP0.4]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic, perf_counter

from hub.admission.form import check_form
from hub.crypto import signing
from hub.crypto.signing import Signed
from hub.errors import ErrorCode, VeenError
from hub.limits import Limits
from hub.server import ipc
from hub.server.metrics import HubMetrics
from hub.server.refusals import RefusalBudget
from hub.server.submitlog import SubmitLog
from hub.types import LeafHash, ProfileId
from hub.wire.msg import Msg
from hub.wire.profile import Profile


@dataclass(slots=True)
class Verified:
    """A MSG on its way to the writer."""

    data: bytes
    msg: Msg
    leaf: LeafHash
    peer: str  # the address it came from
    verify_ms: float


class Checks:
    """The checks of one worker, and how many MSGs that passed them are with the writer."""

    def __init__(  # noqa: PLR0917 - what a worker has of each
        self,
        profiles: Mapping[ProfileId, Profile],
        limits: Limits,
        queue_max: int,
        refusals: RefusalBudget,
        metrics: HubMetrics,
        log: SubmitLog,
    ) -> None:
        self._profiles = profiles
        self._limits = limits
        self._queue_max = queue_max
        self._refusals = refusals
        self._metrics = metrics
        self._log = log
        self.queued = 0
        self.was_full = False  # since somebody looked

    def verified(self, items: Sequence[bytes | Msg], peer: str) -> list[Verified | VeenError]:
        """MSGs of good form and signature, or their refusals; the former count as queued now.

        Signatures are verified in a row: next to nothing but libsodium runs between two of them.
        """
        started = perf_counter()
        found: list[Msg | VeenError] = []
        room = self._queue_max - self.queued
        self.was_full |= room < len(items)
        for place, item in enumerate(items):
            found.append(self._formed(item) if place < room else _full())
        good = [one for one in found if isinstance(one, Msg)]
        refused = self._refused_signatures(good, peer)
        verify_ms = (perf_counter() - started) * 1000 / len(items)
        outcomes: list[Verified | VeenError] = []
        for item, one in zip(items, found, strict=True):
            msg = refused.get(id(one), one)
            if isinstance(msg, VeenError):
                self._metrics.submit_err.inc(str(msg.code))
                data = item if isinstance(item, bytes) else item.encode()
                self._log.refused(data, msg, verify_ms)
                outcomes.append(msg)
            else:
                outcomes.append(Verified(msg.encode(), msg, msg.leaf_hash(), peer, verify_ms))
        taken = len(good) - len(refused)
        self._metrics.verify_latency.observe(verify_ms, taken)
        self.queued += taken
        return outcomes

    def _formed(self, item: bytes | Msg) -> Msg | VeenError:
        """A MSG of good form, or why it is none."""
        data, read = (item, None) if isinstance(item, bytes) else (item.encode(), item)
        try:
            return check_form(data, self._profiles, self._limits, read)
        except VeenError as refusal:
            return refusal

    def _refused_signatures(self, messages: Sequence[Msg], peer: str) -> dict[int, VeenError]:
        """The refusals among MSGs of good form, by their identity.

        A signature that was checked in vain is paid for before the next one is looked at.
        """
        refused: dict[int, VeenError] = {}
        signed: list[Signed] = [(one.client_id, one.sig, one.signing_hash()) for one in messages]
        place = 0
        while place < len(signed):
            try:
                self._refusals.check(peer)
                place += signing.count_valid(signed[place:])
                if place < len(signed):
                    raise signing.does_not_verify()
            except VeenError as refusal:
                self._refusals.spend(peer, refusal.code)
                refused[id(messages[place])] = refusal
                place += 1
        return refused

    def settled(
        self,
        items: list[Verified],
        answers: list[tuple[int, bytes]],
        handed_at: float,
        received_at: float,
    ) -> list[bytes | VeenError]:
        """RECEIPTs and refusals of what was handed to the writer at once, counted and logged."""
        self.queued -= len(items)
        commit_ms = (perf_counter() - handed_at) * 1000
        outcomes: list[bytes | VeenError] = []
        committed = 0
        for item, (kind, payload) in zip(items, answers, strict=True):
            if kind == ipc.OK:
                committed += 1
                self._log.committed(
                    item.msg, item.leaf, len(item.data), payload, item.verify_ms, commit_ms
                )
                outcomes.append(payload)
            else:
                outcomes.append(self._refused(item, payload, commit_ms))
        metrics = self._metrics
        if committed:
            metrics.submit_ok.inc(by=committed)
            metrics.commit_latency.observe(commit_ms, committed)
            metrics.end_to_end_latency.observe((monotonic() - received_at) * 1000, committed)
        return outcomes

    def _refused(self, item: Verified, payload: bytes, commit_ms: float) -> VeenError:
        refusal = ipc.as_error(payload)
        self._refusals.spend(item.peer, refusal.code)
        self._metrics.submit_err.inc(str(refusal.code))
        if refusal.code is ErrorCode.RATE:
            self._metrics.rate_limited.inc()
        self._log.refused(item.data, refusal, item.verify_ms, commit_ms, item.msg, item.leaf)
        return refusal


def _full() -> VeenError:
    return VeenError(ErrorCode.BUSY, "the queue is full", retry_after_s=1)
