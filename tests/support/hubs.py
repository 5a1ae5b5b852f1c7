"""Hubs without sockets for storage and fault tests: producers, messages, and ways to stop."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from hub.crypto.hashing import h
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.server import tokens
from hub.server.config import HubConfig
from hub.server.core import HubCore, Outcome, Submission, open_hub
from hub.server.line import sync_at_once
from hub.storage import attachments
from hub.storage.disk import Disk
from hub.storage.prune import prune_label
from hub.storage.reader import LogReader
from hub.types import ClientSeq, Hash, Label
from hub.wire import ciphertext
from hub.wire.msg import Msg
from hub.wire.profile import PRODUCT
from tests.support.disks import CountingDisk

START_TS = 1_700_000_000


def seed(name: str) -> bytes:
    """32 bytes that are the same in every run."""
    return sha256(f"tests/{name}".encode()).digest()


def label(name: str) -> Label:
    return Label(seed(f"label/{name}"))


@dataclass
class Producer:
    """One client on one label; each call of `message` is its next one."""

    name: str
    label: Label
    key: SigningKey = field(init=False)
    client_seq: int = 0

    def __post_init__(self) -> None:
        self.key = SigningKey(seed(f"client/{self.name}"))

    def message(self, body_bytes: int = 40, prev_ack: int = 0) -> Submission:
        self.client_seq += 1
        return self.forge(self.client_seq, body_bytes, prev_ack)

    def forge(
        self, client_seq: int, body_bytes: int = 40, prev_ack: int = 0, salt: str = ""
    ) -> Submission:
        """Any message of this client, in order or not; `salt` makes another of the same number."""
        pattern = sha256(f"{self.name} {client_seq} {salt}".encode()).digest()
        body = (pattern * (body_bytes // 32 + 1))[:body_bytes]
        msg = Msg.sign(
            self.key,
            profile_id=PRODUCT.id,
            label=self.label,
            client_seq=ClientSeq(client_seq),
            prev_ack=prev_ack,
            auth_ref=None,
            ciphertext=ciphertext.join(pattern, pattern, body, PRODUCT.pad_block),
        )
        return Submission(msg.encode(), msg.leaf_hash())

    def messages(self, count: int, body_bytes: int = 40) -> list[Submission]:
        return [self.message(body_bytes) for _ in range(count)]


class Ticker:
    """A wall clock that the test turns; it does not move by itself."""

    def __init__(self, at: float = START_TS) -> None:
        self.at = at

    def __call__(self) -> float:
        return self.at


def config(root: Path, **options: Any) -> HubConfig:
    return HubConfig(data_dir=root, open_admission=True, **options)


def open_core(
    root: Path, disk: Disk | None = None, clock: Ticker | None = None, **options: Any
) -> HubCore:
    """A hub on a directory; time stands still unless a clock is given."""
    wall = clock or Ticker()
    return open_hub(config(root, **options), disk, wall=wall, boot=wall)


@contextlib.contextmanager
def opened(root: Path, **options: Any) -> Iterator[HubCore]:
    core = open_core(root, **options)
    try:
        yield core
    finally:
        core.close()


def abandon(core: HubCore) -> None:
    """What a kill leaves: nothing more is written, the lock is gone."""
    store = core.store
    core._lock.release()
    if isinstance(store.disk, CountingDisk):
        store.disk.end()
    for fds in (store.files._open, core.reader._files._open, core.reader._segments):
        while fds:
            store.disk.close(fds.popitem()[1])
    for owner in (store.segments, store.heads):
        if owner is not None:
            fd, owner._fd = owner._fd, -1
            if fd >= 0:
                store.disk.close(fd)
    store.leaves.close()


class LateSync(Future[None]):
    """Runs a sync when its result is asked for: after the next batch was written behind it."""

    def __init__(self, messages: int, sync: Callable[[], None]) -> None:
        del messages
        super().__init__()
        self._sync: Callable[[], None] | None = sync

    def result(self, timeout: float | None = None) -> None:
        sync, self._sync = self._sync, None
        if sync is not None:
            try:
                sync()
            except Exception as failure:  # noqa: BLE001 - raised by super().result()
                self.set_exception(failure)
            else:
                self.set_result(None)
        return super().result(timeout)


def overlapped(core: HubCore, items: list[Submission], parts: int = 3) -> list[Outcome]:
    """The outcomes of several batches, each written and signed while the one before it syncs."""
    line = core.line
    line.drain()
    line.run_sync = LateSync
    outcomes: dict[int, list[Outcome]] = {}
    size = -(-len(items) // parts) or 1
    for start in range(0, len(items), size):
        line.add(items[start : start + size], partial(outcomes.__setitem__, start))
        assert start not in outcomes or not line.is_syncing or _is_refused(outcomes[start])
        line.land()
        line.launch()
    line.drain()
    line.run_sync = sync_at_once
    return [outcome for start in sorted(outcomes) for outcome in outcomes[start]]


def _is_refused(outcomes: list[Outcome]) -> bool:
    return all(isinstance(outcome, VeenError) for outcome in outcomes)


def receipts_of(outcomes: list[Any]) -> list[bytes]:
    """The answers, all of which must be RECEIPTs."""
    assert all(isinstance(outcome, bytes) for outcome in outcomes), outcomes
    return outcomes


def fill(core: HubCore, producers: list[Producer], count: int, per_batch: int = 4) -> list[bytes]:
    """So many messages of the producers in turn, in batches; returns their RECEIPTs."""
    queue = [producer.message() for producer in itertools.islice(itertools.cycle(producers), count)]
    found: list[bytes] = []
    for start in range(0, count, per_batch):
        found += receipts_of(core.submit(queue[start : start + per_batch]))
    return found


def contents(core: HubCore) -> dict[tuple[Label, int], tuple[bytes, bytes]]:
    """Every entry as a reader sees it."""
    return {
        (found, seq): core.reader.entry(found, seq)
        for found in core.reader.labels()
        for seq in range(1, core.reader.count(found) + 1)
    }


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What a directory holds, remembered beside it."""

    root: Path
    entries: dict[tuple[Label, int], tuple[bytes, bytes | None]]  # RECEIPT, MSG unless pruned
    segments: dict[tuple[Label, int], str]  # file name of each entry's segment
    hub_id: bytes
    sealed: bytes


def rich_directory(root: Path) -> Truth:
    """Every kind of file a hub makes: segments, retention, manifests, two keys, a token ..."""
    producers = [Producer(f"r{number}", label(f"R{number}")) for number in range(3)]
    sealed = seed("sealed") * 20
    with opened(root, segment_bytes=9_000) as core:
        store = core.store
        fill(core, producers, 24)
        core.checkpoint()
        fill(core, producers, 15)
        asyncio.run(prune_label(store, producers[0].label, 5))
        core.rotate()
        attachments.write(store.layout, store.disk, Hash(h(sealed)), sealed)
        tokens.add(store.layout.tokens, store.disk, "web", None, [])
        tokens.add(store.layout.tokens, store.disk, "one", [producers[1].label], ["a/b"])
        fill(core, producers, 9)
        core.checkpoint()
        fill(core, producers, 6)
        entries = {
            (found, seq): (
                core.reader.receipt(found, seq),
                message_or_none(core.reader, found, seq),
            )
            for found in core.reader.labels()
            for seq in range(1, core.reader.count(found) + 1)
        }
        segments = {
            place: store.layout.segment(store.files.position(*place).segment).name
            for place in entries
        }
        hub_id = core.identity.hub_id
    return Truth(root=root, entries=entries, segments=segments, hub_id=hub_id, sealed=sealed)


def message_or_none(reader: LogReader, where: Label, seq: int) -> bytes | None:
    """The MSG, None when retention took it."""
    try:
        return reader.entry(where, seq)[1]
    except VeenError as refusal:
        if refusal.code is not ErrorCode.PRUNED:
            raise
        return None
