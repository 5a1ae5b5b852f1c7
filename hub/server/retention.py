"""Retention: payloads go by an operator's act or by policy, never before their hint [COMP0.1].

A policy keeps the payloads of a stream, or of every stream of a class, for so long or so many. It
is a record of hub/admission like every act, and so is each pruning, written before the first byte
goes: a stop at any moment leaves a pruning that the next run repeats.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

from hub.admission.records import RETENTION_POLICY, RetentionPolicy
from hub.errors import ErrorCode, VeenError
from hub.server.core import HubCore
from hub.storage.prune import prune_label
from hub.types import Label
from hub.wire.receipt import Receipt

log = logging.getLogger("hub")
FIRST_RUN_S: Final = 60  # after a start, so that a hub that is often restarted prunes too
Progress = Callable[[dict[str, Any]], Awaitable[None]]


class Retention:
    """Prunes in the writer's loop; between two segments messages are committed."""

    def __init__(self, core: HubCore, refresh_workers: Callable[[], None]) -> None:
        self._core = core
        self._refresh_workers = refresh_workers
        self._one_at_a_time = asyncio.Lock()

    async def prune(
        self, label: Label, before_seq: int, reason: str, progress: Progress
    ) -> dict[str, Any]:
        """Drop the payloads of a label before `before_seq`, or refuse it."""
        core = self._core
        if label == core.gate.admission_label:
            raise VeenError(ErrorCode.POLICY, "hub/admission is never pruned")
        if label not in core.store.state.labels:
            raise VeenError(ErrorCode.NOTFOUND, "no such label")
        if before_seq < 1:
            raise VeenError(ErrorCode.FORMAT, "before_seq starts at 1")
        if core.gate.retention.get(label, 0) and not self._hint_is_over(label, before_seq):
            raise VeenError(ErrorCode.POLICY, "the stream's retention_hint is not over yet")
        async with self._one_at_a_time:  # one intent file, one segment being written anew
            act: dict[str, Any] = {"label": label, "before_seq": before_seq, "reason": reason}
            receipt = core.record_act("prune", act)
            result = await prune_label(core.store, label, before_seq, progress)
        self._refresh_workers()
        return {**result, "receipt": receipt.encode().hex()}

    def _hint_is_over(self, label: Label, before_seq: int) -> bool:
        """Whether every entry before `before_seq` is older than the label's retention_hint."""
        reader = self._core.reader
        newest = min(before_seq - 1, reader.count(label))
        if newest < 1:
            return True
        hint_s = self._core.gate.retention[label]
        return reader.hub_ts(label, newest) + hint_s < self._core.now()

    # -- by policy

    def set_policy(self, policy: RetentionPolicy) -> Receipt:
        """Record a policy; in force from now on, also after a start."""
        if policy.target == self._core.gate.admission_label:
            raise VeenError(ErrorCode.POLICY, "hub/admission is never pruned")
        return self._core.record_act(RETENTION_POLICY, policy.detail())

    def policy_of(self, label: Label) -> RetentionPolicy | None:
        """The label's own policy, else that of its class."""
        gate = self._core.gate
        return gate.policies.get(label) or gate.policies.get(gate.classes.get(label, ""))

    def first_kept(self, label: Label, policy: RetentionPolicy) -> int:
        """The first sequence that a bound of the policy or the retention_hint keeps."""
        core = self._core
        reader, now, count = core.reader, core.now(), core.reader.count(label)
        kept = [count + 1]
        if policy.keep_s is not None:
            kept.append(reader.first_at_or_after(label, max(0, now - policy.keep_s)))
        if policy.keep_messages is not None:
            kept.append(max(1, count + 1 - policy.keep_messages))
        hint_s = core.gate.retention.get(label, 0)
        if hint_s:
            kept.append(reader.first_at_or_after(label, max(0, now - hint_s)))
        return min(kept)

    def due(self) -> Iterator[tuple[Label, int]]:
        """The labels with payloads that no bound keeps, and the first sequence each keeps."""
        core = self._core
        for label in list(core.store.state.labels):
            policy = self.policy_of(label)
            if policy is not None and label != core.gate.admission_label:
                first_kept = self.first_kept(label, policy)
                if first_kept > core.reader.first_held(label):
                    yield label, first_kept

    async def apply(self) -> None:
        """One round over all labels."""
        self._core.line.drain()
        for label, first_kept in list(self.due()):
            done = await self.prune(label, first_kept, "policy", _let_others)
            log.info("retention.pruned label=%s before=%d", label.hex()[:8], first_kept)
            log.info("retention.freed bytes=%d", done["freed_bytes"])

    async def run(self) -> None:
        """For as long as the hub runs."""
        interval_s = self._core.config.retention_interval_s
        pause_s = min(FIRST_RUN_S, interval_s)
        while True:
            await asyncio.sleep(pause_s)
            pause_s = interval_s
            if self._core.read_only is not None:
                continue
            try:
                await self.apply()
            except (VeenError, OSError) as flaw:  # tried again in the next round
                log.warning("retention.failed reason=%s", flaw)
            except Exception:  # the clockwork must not stop, whatever it met
                log.exception("retention.failed")


async def _let_others(_figures: dict[str, Any]) -> None:
    await asyncio.sleep(0)
