"""C1 and C2: every system call of a hub's life fails once, or is its last [assurance 1]."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hub.crypto.hashing import h
from hub.errors import ErrorCode, VeenError
from hub.server import tokens
from hub.server.core import HubCore, Submission
from hub.server.tokens import TokenFile
from hub.storage import attachments, manifests
from hub.storage.disk import Disk
from hub.storage.fsck import run_fsck
from hub.storage.prune import prune_label
from hub.types import Hash, LeafHash, MmrRoot
from hub.wire.manifest import Manifest
from hub.wire.receipt import Receipt
from tests.support.disks import CountingDisk, Fault, FaultyDisk, Stopped
from tests.support.hubs import Producer, abandon, label, open_core, overlapped, seed

SEGMENT_BYTES = 3_000  # a roll after a few batches
SEALED = seed("attachment") * 40
KEPT_FROM = 4


@dataclass
class Life:
    """What a hub was asked and what it answered, while something went wrong."""

    root: Path
    disk: Disk
    producers: list[Producer] = field(
        default_factory=lambda: [Producer("a", label("A")), Producer("b", label("B"))]
    )
    sent: list[Submission] = field(default_factory=list)
    answered: dict[LeafHash, bytes] = field(default_factory=dict)  # leaf to RECEIPT
    manifests: list[Manifest] = field(default_factory=list)
    is_attached: bool = False
    bearer: str | None = None  # of a token that was given out and not taken back
    is_revoking: bool = False
    findings: list[bytes] = field(default_factory=list)
    core: HubCore | None = None

    def live(self) -> None:
        """Appends, a roll, checkpoints, retention, an attachment, a token, a new key, a finding."""
        core = self.core = open_core(self.root, self.disk, segment_bytes=SEGMENT_BYTES)
        self.submit(core, 2)
        self.submit(core, 2)
        self._try(core, self._checkpoint)
        self.submit(core, 2)
        self._try(core, self._prune)
        self.submit(core, 1)
        self._try(core, self._attach)
        self._try(core, self._add_token)
        self._try(core, self._rotate)
        self.submit(core, 1)
        self._try(core, self._report)
        self._try(core, self._revoke_token)
        self._try(core, self._checkpoint)
        core.close()

    def _try(self, core: HubCore, step: Callable[[HubCore], None]) -> None:
        try:
            step(core)
        except (VeenError, OSError):
            # Whatever the disk refuses to take, what is committed is read.
            for leaf, receipt in self.answered.items():
                assert core.find_leaf(leaf) == receipt

    def submit(self, core: HubCore, count: int) -> None:
        """Send new messages behind those without an answer, as an outbox does."""
        self.sent += [
            producer.message(body_bytes=150) for producer in self.producers for _ in range(count)
        ]
        batch = [item for item in self.sent if item.leaf not in self.answered]
        for item, outcome in zip(batch, overlapped(core, batch), strict=True):
            if isinstance(outcome, bytes):
                self.answered[item.leaf] = outcome
            elif outcome.code is ErrorCode.DUP:
                self.answered[item.leaf] = core.find_leaf(item.leaf)
            else:
                # What stood behind a refused batch comes too early.
                assert outcome.code in (ErrorCode.STORE, ErrorCode.SEQ), outcome

    def _checkpoint(self, core: HubCore) -> None:
        self.manifests.append(Manifest.decode(core.checkpoint()))

    @staticmethod
    def _prune(core: HubCore) -> None:
        asyncio.run(prune_label(core.store, label("A"), KEPT_FROM))

    def _attach(self, core: HubCore) -> None:
        attachments.write(core.store.layout, core.store.disk, Hash(h(SEALED)), SEALED)
        self.is_attached = True

    def _add_token(self, core: HubCore) -> None:
        self.bearer = tokens.add(core.store.layout.tokens, core.store.disk, "one", None, [])

    def _revoke_token(self, core: HubCore) -> None:
        if self.bearer is not None:
            self.is_revoking = True
            tokens.revoke(core.store.layout.tokens, core.store.disk, "one")
            self.bearer = None

    def _report(self, core: HubCore) -> None:
        """What a hub that lies would have signed for a place of the log."""
        if not self.answered:
            return  # there is nothing to contradict
        told = Receipt.decode(next(iter(self.answered.values())))
        key = core.identity.key
        lie = Receipt.sign(
            key, told.label, told.stream_seq, told.leaf_hash, MmrRoot(bytes(32)), told.hub_ts
        )
        pair = b"\x82" + told.encode() + lie.encode()
        core.report_equivocation(pair)
        self.findings.append(pair)

    @staticmethod
    def _rotate(core: HubCore) -> None:
        core.rotate()


def live_with(root: Path, disk: Disk) -> Life:
    """One life, however it ends."""
    life = Life(root, disk)
    try:
        life.live()
    except (Stopped, VeenError, OSError):
        if life.core is not None:
            abandon(life.core)
    return life


def check_afterwards(life: Life) -> None:
    """A start with a sound disk: nothing lost, nothing doubled, nothing invented."""
    core = open_core(life.root)
    try:
        assert core.read_only is None
        report = run_fsck(life.root)
        assert report.findings == ()
        for leaf, receipt in life.answered.items():
            assert core.find_leaf(leaf) == receipt
        for manifest in life.manifests:
            assert manifests.read(core.store.layout, manifest.id) == manifest.encode()
        if life.is_attached:
            assert attachments.read(core.store.layout, Hash(h(SEALED))) == SEALED
        assert set(life.findings) <= set(core.findings.records)
        check_token(life, core)
        check_retries(life, core)
    finally:
        core.close()
    assert run_fsck(life.root).findings == ()


def check_token(life: Life, core: HubCore) -> None:
    """One that was given out opens; when its end was asked for it may, else it must."""
    known = {row["name"] for row in tokens.listing(core.store.layout.tokens)}
    if life.bearer is not None and not life.is_revoking:
        assert known == {"one"}
        TokenFile(core.store.layout.tokens).find(life.bearer)
    elif life.bearer is None and life.is_revoking:
        assert known == set()
    assert known <= {"one"}


def check_retries(life: Life, core: HubCore) -> None:
    sent = {item.leaf for item in life.sent}
    life.submit(core, 1)
    assert {item.leaf for item in life.sent} == set(life.answered)
    places = [
        Receipt.decode(core.reader.receipt(where, seq)).leaf_hash
        for where in (producer.label for producer in life.producers)
        for seq in range(1, core.reader.count(where) + 1)
    ]
    assert sorted(places) == sorted(life.answered)  # each once
    assert sent <= set(places)
    for producer in life.producers:
        [refused] = core.submit([producer.forge(producer.client_seq, salt="other content")])
        assert isinstance(refused, VeenError)
        assert refused.code is ErrorCode.SEQ


def calls_of_a_life(root: Path) -> list[str]:
    disk = CountingDisk()
    life = live_with(root, disk)
    assert len(life.answered) == len(life.sent) == 16
    assert len(life.manifests) == 2
    check_afterwards(life)
    return disk.names


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The system calls of a life in which nothing goes wrong."""
    return calls_of_a_life(tmp_path_factory.mktemp("sound") / "d")


def test_a_life_makes_every_kind_of_call_that_can_fail(calls: list[str]) -> None:
    kinds = {"open", "close", "pwrite", "pread", "fdatasync", "ftruncate", "rename", "unlink"}
    assert kinds | {"mkdir", "sync_dir"} == set(calls)


@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name)
def test_nothing_is_lost_or_doubled_whichever_call_goes_wrong(
    fault: Fault, calls: list[str], tmp_path: Path, *, is_full: bool
) -> None:
    # ENOSPC differs from EIO only in its number: a fifth of the calls will do for it.
    step = 1 if is_full else {Fault.ENOSPC: 5, Fault.ENOSPC_DONE: 5}.get(fault, 1)
    for at in range(1, len(calls) + 1, step):
        life = live_with(tmp_path / f"{at}" / "d", FaultyDisk(at, fault))
        try:
            check_afterwards(life)
        except BaseException as flaw:
            flaw.add_note(f"call {at} ({calls[at - 1]}): {fault.value[0]}")
            raise
