"""The writer: the one process with the keys and the lock; it group-commits [OP0.4, OP0.5].

Whatever has arrived when the last batch is durable joins the next one, at most 100 entries: under
load batches fill by themselves, and a lone message never waits for company. While one batch syncs
in a thread, the next is signed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import resource
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import cast

from hub import mmr
from hub.crypto.hashing import ATT_PUT
from hub.crypto.signing import verify
from hub.errors import ErrorCode, StoreError, VeenError
from hub.server import ipc, metrics
from hub.server.core import HubCore
from hub.server.line import FAILED, Outcome, Submission, sync_at_once
from hub.types import AuthRef, Hash, LeafHash
from hub.wire import cbor
from hub.wire.profile import PRODUCT

TICK_S = 0.5  # heads are synced at least once a second
log = logging.getLogger("hub")
_TOGETHER = 16  # messages that wait for a sync anyway are taken so many at a time
_HANDED_OVER = 64  # so many are synced in a thread: more will follow them


@dataclass(slots=True)
class _Group:
    """What one frame of a worker submits; answered by one frame."""

    peer: ipc.Peer
    ident: int
    kind: int
    items: list[Submission]

    def answer(self, outcomes: list[Outcome]) -> None:
        """RECEIPTs and refusals, in the order of the items."""
        if self.kind == ipc.SUBMIT:
            kind, payload = _outcome(outcomes[0])
            self.peer.send(kind, self.ident, payload)
            return
        pairs = [_outcome(outcome) for outcome in outcomes]
        packed = ipc.pack([bytes((kind,)) + payload for kind, payload in pairs])
        self.peer.send(ipc.OK, self.ident, packed)


def _outcome(outcome: Outcome) -> tuple[int, bytes]:
    if isinstance(outcome, bytes):
        return ipc.OK, outcome
    return ipc.REFUSED, ipc.refusal(outcome)


def _answer(groups: list[_Group], outcomes: list[Outcome]) -> None:
    start = 0
    for group in groups:
        group.answer(outcomes[start : start + len(group.items)])
        start += len(group.items)


class Writer:
    """Turns frames of the workers into batches of the core."""

    def __init__(self, core: HubCore) -> None:
        self.core = core
        self._line = core.line
        self._line.run_sync = self._run_sync
        self._line.on_durable = self._count
        self._syncs = ThreadPoolExecutor(1, "sync")
        self._syncs_before = core.store.disk.syncs
        self.peers: list[ipc.Peer] = []
        self.metrics = metrics.hub_metrics()
        self._samples: dict[int, metrics.Snapshot] = {}
        self._pending: deque[_Group] = deque()
        self._pending_items = 0
        self._scheduled = False
        self._loop = asyncio.get_running_loop()
        self._attached_bytes: dict[Hash, int] = {}
        self._checkpoint_flaw: str | None = None
        self._disk_flaw: str | None = None
        self.on_worker_ready = asyncio.Event()

    # -- frames

    def frame(self, peer: ipc.Peer, kind: int, ident: int, payload: bytes) -> None:
        """One question of a worker."""
        if kind in (ipc.SUBMIT, ipc.SUBMIT_MANY):
            parts = [payload] if kind == ipc.SUBMIT else ipc.unpack(payload)
            items = [Submission(part[32:], LeafHash(part[:32])) for part in parts]
            self._pending.append(_Group(peer, ident, kind, items))
            self._pending_items += len(items)
            self._schedule()
        elif kind == ipc.SAMPLE:
            self._samples[id(peer)] = json.loads(payload)
        elif kind == ipc.OK:
            self.on_worker_ready.set()
        else:
            self._answer(peer, kind, ident, payload)

    def lost(self, peer: ipc.Peer) -> None:
        """A worker is gone; what it had submitted may still be committed, unanswered."""
        if peer in self.peers:
            self.peers.remove(peer)
        self._samples.pop(id(peer), None)

    def _answer(self, peer: ipc.Peer, kind: int, ident: int, payload: bytes) -> None:
        try:
            peer.send(ipc.OK, ident, self._ask(kind, payload))
        except VeenError as refusal:
            peer.send(ipc.REFUSED, ident, ipc.refusal(refusal))
        except OSError as failure:
            flaw = StoreError(f"disk refuses: {failure.strerror or failure}")
            peer.send(ipc.REFUSED, ident, ipc.refusal(flaw))
        except Exception:  # one bad question must not cost the others their worker
            log.exception("writer.ask_failed kind=%d", kind)
            peer.send(ipc.REFUSED, ident, ipc.refusal(FAILED))

    def _ask(self, kind: int, payload: bytes) -> bytes:
        match kind:
            case ipc.AUTHORIZE:
                answer = cbor.encode(self.core.authorize(payload))
            case ipc.FIND_LEAF:
                answer = self.core.find_leaf(LeafHash(payload))
            case ipc.EQUIVOCATION:
                self.core.report_equivocation(payload)
                answer = cbor.encode({"ok": True})
            case ipc.METRICS:
                answer = metrics.render([self._own_sample(), *self._samples.values()]).encode()
            case ipc.HEALTH:
                self._line.drain()  # what it says is on the disk
                answer = cbor.encode(self._health())
            case ipc.READY:
                reasons = self.reasons_not_ready()
                answer = cbor.encode({"ready": not reasons, "reasons": reasons})
            case _:
                assert kind == ipc.ATTACH, kind
                answer = self._attach(payload)
        return answer

    # -- the commit stage

    def _schedule(self) -> None:
        """Commit in the next turn, after the sockets were read again."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._commit)

    def _commit(self) -> None:
        """Sign what has arrived, up to a batch, and send it to the disk when that is free."""
        self._scheduled = False
        line = self._line
        if line.is_syncing and self._pending_items < _TOGETHER:
            return  # `_landed` takes them along
        is_taken = self._sign()
        line.launch()
        line.land_what_is_done()
        if self._pending and (is_taken or not line.is_syncing):
            self._schedule()

    def _sign(self) -> bool:
        """Whole groups into the open batch: at most 100 entries, at least one group."""
        room, entries_max = self._line.room, self.core.config.limits.commit_entries_max
        taken: list[_Group] = []
        items: list[Submission] = []
        while self._pending:
            group = self._pending[0]
            is_first = room == entries_max and not taken
            if len(items) + len(group.items) > room and not is_first:
                break
            taken.append(self._pending.popleft())
            items += group.items
        self._pending_items -= len(items)
        if taken:
            self._line.add(items, lambda outcomes: _answer(taken, outcomes))
        return bool(taken)

    def _run_sync(self, messages: int, sync: Callable[[], None]) -> Future[None]:
        """Sync a large batch in a thread while the next one is signed, a small one here and now.

        Handing over costs lone messages more time than they wait for the disk.
        """
        if messages < _HANDED_OVER and not self._pending:
            return sync_at_once(messages, sync)
        future = self._syncs.submit(sync)
        future.add_done_callback(self._synced)
        return future

    def _synced(self, future: Future[None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is over, and so is the line
            self._loop.call_soon_threadsafe(self._landed, future)

    def _landed(self, future: Future[None]) -> None:
        """A batch is durable: the next one leaves, with the few that came meanwhile."""
        if self._pending_items < _TOGETHER:
            self._sign()
        self._line.land(future)
        self._line.land_what_is_done()
        if self._pending:
            self._schedule()

    def _count(self, messages: int) -> None:
        """A batch became durable."""
        disk = self.core.store.disk
        self.metrics.batch_messages.observe(messages)
        self.metrics.fsync.inc(by=disk.syncs - self._syncs_before)
        self.metrics.fsync_latency.observe(self.core.store.fsync_s * 1000)
        self._syncs_before = disk.syncs

    # -- time

    async def tick(self) -> None:
        """Sync heads, make the checkpoints that are due, try a disk that refused."""
        while True:
            await asyncio.sleep(TICK_S)
            if self.core.read_only is not None:
                continue
            try:
                self._sync_heads()
                before = self.core.checkpoints.created_at
                now = self.core.now()
                if self._late_s(now) is not None:
                    self.core.checkpoint()
                    if before:
                        self.metrics.checkpoint_interval.observe(now - before)
                self._checkpoint_flaw = None
            except (VeenError, OSError) as flaw:
                self._checkpoint_flaw = str(flaw)
            except Exception:  # the clockwork must not stop, whatever it met
                log.exception("writer.tick_failed")
                self._checkpoint_flaw = "the hub failed; see its log"

    def _sync_heads(self) -> None:
        store = self.core.store
        try:
            store.check_writable()
            if store.heads is not None:
                store.heads.sync()
            self.core.probe_disk(self._loop.time())
            self._disk_flaw = None
        except StoreError as flaw:
            self._disk_flaw = str(flaw)
        except OSError as flaw:
            self._disk_flaw = f"disk refuses: {flaw.strerror or flaw}"

    # -- state

    def reasons_not_ready(self) -> list[str]:
        """Ready means: writable, a checkpoint was signed and verified when due, room in line."""
        reasons: list[str] = []
        core = self.core
        if core.read_only is not None:
            reasons.append(str(core.read_only))
        if core.store.segments.failed:
            reasons.append(core.store.segments.failed)
        elif flaw := self._disk_flaw or core.disk_flaw:
            reasons.append(flaw)
        if self._checkpoint_flaw:
            reasons.append(f"checkpoint: {self._checkpoint_flaw}")
        with contextlib.suppress(VeenError):
            late_s = self._late_s(core.now())
            if late_s is not None and late_s > core.config.checkpoint_interval_s:
                reasons.append(f"a checkpoint is {late_s} s late")
        if any(metrics.total(sample, "veen_queue_full") for sample in self._samples.values()):
            reasons.append("queue is full")
        return reasons

    def _late_s(self, now: int) -> int | None:
        config = self.core.config
        return self.core.checkpoints.late_s(
            now, config.checkpoint_interval_s, config.checkpoint_messages
        )

    def _health(self) -> dict[str, cbor.Value]:
        state = self.core.store.state
        newest = max(state.labels.values(), key=lambda label: label.last_ts, default=None)
        return {
            "ok": True,
            "profile_id": PRODUCT.id,
            "peaks_count": len(newest.peaks) if newest else 0,
            "last_stream_seq": newest.size if newest else 0,
            "last_mmr_root": mmr.root(newest.peaks) if newest and newest.peaks else bytes(32),
        }

    def _own_sample(self) -> metrics.Snapshot:
        own = self.metrics
        own.queue_depth.set(0)  # the workers count what waits, here and with them
        usage = resource.getrusage(resource.RUSAGE_SELF)
        own.process_rss.set(usage.ru_maxrss * 1024, "writer")
        own.log_bytes.set(self.log_bytes())
        return own.snapshot()

    def log_bytes(self) -> int:
        """Bytes of all segments."""
        layout = self.core.store.layout
        return sum(layout.segment(number).stat().st_size for number in layout.segment_numbers())

    def _attach(self, payload: bytes) -> bytes:
        """May this be stored? Only what the capability's subject signed counts against it.

        The quota bounds one run of the hub: what a core stored before a start is not counted.
        """
        auth_ref, coid, size, sig = cast("tuple[bytes, bytes, int, bytes]", cbor.decode(payload))
        grant = self.core.gate.state.check_subject(AuthRef(auth_ref), self.core.now())
        verify(grant.subject, sig, ATT_PUT(auth_ref, coid))
        used = self._attached_bytes.get(grant.core_id, 0) + size
        if used > self.core.config.limits.core_attachment_quota_bytes:
            raise VeenError(ErrorCode.SIZE, "the capability's attachment quota is used up")
        self._attached_bytes[grant.core_id] = used
        return b""

    def refresh_workers(self) -> None:
        """Tell every worker that identity or files changed."""
        identity = self.core.identity
        said = {"hub_pk": identity.key.public.hex(), "hub_id": identity.hub_id.hex()}
        for peer in self.peers:
            peer.send(ipc.REFRESH, 0, json.dumps(said).encode())
