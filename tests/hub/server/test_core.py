"""A hub without sockets: its records, its acts, what a failing disk leaves behind."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from hub.admission import records
from hub.admission.records import ControlRecord, Revocation, RevocationKind
from hub.errors import ErrorCode, StoreError, VeenError
from hub.server.config import HubConfig
from hub.server.core import PROBE_S, HubCore, open_hub
from hub.storage.disk import Disk
from hub.types import Hash, Label, UnixSeconds
from hub.wire.receipt import Receipt
from tests.support.live_hub import Author, Hands, commit, receipt_of

T0 = 1_700_000_000
LABEL = Label(b"c" * 32)


class Refusing(Disk):
    """A disk that refuses a call of some name when told to."""

    __slots__ = ("refuse",)

    def __init__(self) -> None:
        super().__init__()
        self.refuse = ""

    def _check(self, name: str) -> None:
        if self.refuse == name:
            raise OSError(errno.EIO, "input/output error")

    def pwrite(self, fd: int, data: bytes, offset: int) -> None:
        self._check("pwrite")
        super().pwrite(fd, data, offset)

    def fdatasync(self, fd: int) -> None:
        self._check("fdatasync")
        super().fdatasync(fd)

    def rename(self, source: Path, target: Path) -> None:
        self._check("rename")
        super().rename(source, target)


@pytest.fixture
def disk() -> Refusing:
    return Refusing()


@pytest.fixture
def config(tmp_path: Path) -> HubConfig:
    return HubConfig(data_dir=tmp_path / "d", open_admission=True)


@pytest.fixture
def core(config: HubConfig, disk: Refusing) -> Iterator[HubCore]:
    hands = Hands(T0)
    core = open_hub(config, disk, wall=hands.wall, boot=hands.boot)
    yield core
    disk.refuse = ""
    core.close()


def test_answers_come_in_the_order_of_the_questions(core: HubCore) -> None:
    one, two = Author(LABEL), Author(LABEL)
    outcomes = commit(core, one.next(), two.draft(seq=3).encode(), two.next(), one.next())
    seqs = [out.stream_seq if isinstance(out, Receipt) else out for out in outcomes]
    assert seqs == [1, ErrorCode.SEQ, 2, 3]


def test_prev_ack_is_judged_by_the_log_before_the_entry_not_by_where_a_batch_begins(
    core: HubCore,
) -> None:
    author = Author(LABEL)
    together = [author.next(), author.next(prev_ack=1), author.draft(prev_ack=3).encode()]
    outcomes = commit(core, *together)
    assert [isinstance(outcome, Receipt) for outcome in outcomes] == [True, True, False]
    assert outcomes[2] is ErrorCode.SEQ


def test_a_leaf_is_found_however_long_ago_it_was_committed(core: HubCore) -> None:
    author = Author(LABEL)
    first = author.next()
    receipt = receipt_of(core, first)
    core.store.leaves.flush(core.store.state.entries)  # no longer in memory
    assert core.find_leaf(receipt.leaf_hash) == receipt.encode()
    assert commit(core, first) == [ErrorCode.DUP]


def test_a_leaf_index_that_does_not_answer_is_damage_not_a_crash(core: HubCore) -> None:
    author = Author(LABEL)
    first = author.next()
    receipt_of(core, first)
    core.store.snapshot()
    core.store.leaves.close()
    with pytest.raises(VeenError) as refused:
        core.find_leaf(Hash(bytes(32)))  # type: ignore[arg-type]
    assert refused.value.code is ErrorCode.DAMAGE
    assert commit(core, first) == [ErrorCode.DAMAGE]
    # so that closing the fixture works
    core.store.leaves._open(core.store.layout.leaves)


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        (
            records.REVOCATION,
            Revocation(
                kind=RevocationKind.CLIENT_ID,
                target=Hash(bytes(32)),
                ts=UnixSeconds(1),
                reason="x" * 1025,
            ).encode(),
        ),
        (records.CONTROL, ControlRecord(verb="v" * 65, detail={}, ts=UnixSeconds(1)).encode()),
        (records.ADMISSION, b"\xa0"),
    ],
    ids=["reason", "verb", "admission"],
)
def test_a_record_that_the_fold_would_refuse_is_never_logged(
    core: HubCore, schema: bytes, body: bytes
) -> None:
    with pytest.raises(VeenError) as refused:
        core.record(schema, body)
    assert refused.value.code is ErrorCode.FORMAT
    assert core.store.state.entries == 0


@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_a_disk_that_refuses_gives_e_store_and_loses_nothing(
    disk: Refusing, config: HubConfig, call: str
) -> None:
    core = open_hub(config, disk, wall=lambda: T0)
    author = Author(LABEL)
    receipt_of(core, author.next())
    disk.refuse = call
    data = author.next()
    assert commit(core, data) == [ErrorCode.STORE]
    disk.refuse = ""
    [outcome] = commit(core, data)
    if call == "pwrite":
        assert isinstance(outcome, Receipt)  # the disk came back, and so did the hub
    else:
        assert outcome is ErrorCode.STORE  # after a failed sync only a start may go on
    core.close()
    again = open_hub(config, wall=lambda: T0)
    try:
        [outcome] = commit(again, data)
        assert outcome is ErrorCode.DUP or isinstance(outcome, Receipt)
        assert Receipt.decode(again.reader.receipt(LABEL, 2)).stream_seq == 2
    finally:
        again.close()


def test_a_flaw_in_the_middle_of_a_batch_stops_the_writer(
    core: HubCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    author = Author(LABEL)
    data = author.next()
    with monkeypatch.context() as patch:

        def fail(*_: object) -> None:
            raise ZeroDivisionError

        patch.setattr(type(core.store), "_install", fail)
        assert commit(core, data) == [ErrorCode.INTERNAL]
    assert commit(core, data) == [ErrorCode.STORE]


def test_evidence_is_kept_even_when_the_log_cannot_be_written(config: HubConfig) -> None:
    hands = Hands(T0)
    core = open_hub(config, wall=hands.wall, boot=hands.boot)
    receipt = receipt_of(core, Author(LABEL).next())
    lie = Receipt.sign(
        core.identity.key,
        receipt.label,
        receipt.stream_seq,
        receipt.leaf_hash,
        Hash(bytes(32)),  # type: ignore[arg-type]
        receipt.hub_ts,
    )
    core.read_only = StoreError("test", ErrorCode.COPY)
    pair = b"\x82" + receipt.encode() + lie.encode()
    with pytest.raises(VeenError):
        core.report_equivocation(pair)
    assert core.findings.records == [pair]
    core.read_only = None
    before = core.store.state.entries
    for _ in range(2):  # told again it is recorded, once
        core.report_equivocation(pair)
        assert core.store.state.entries == before + 1
    core.close()
    again = open_hub(config, wall=hands.wall, boot=hands.boot)
    again.report_equivocation(pair)
    assert (again.store.state.entries, again.findings.records) == (before + 1, [pair])
    again.close()


def test_a_fork_and_its_parent_may_differ_behind_the_fork(core: HubCore) -> None:
    author = Author(LABEL)
    receipt_of(core, author.next())
    parent_key = core.identity.key
    core.fork()
    mine = receipt_of(core, author.next())
    theirs = Receipt.sign(
        parent_key,
        mine.label,
        mine.stream_seq,
        mine.leaf_hash,
        Hash(b"\x01" * 32),  # type: ignore[arg-type]
        mine.hub_ts,
    )
    with pytest.raises(VeenError, match="fork"):
        core.report_equivocation(b"\x82" + mine.encode() + theirs.encode())


def test_two_cores_on_one_directory_are_refused(core: HubCore, config: HubConfig) -> None:
    with pytest.raises(VeenError) as refused:
        open_hub(config)
    assert refused.value.code is ErrorCode.LOCKED


def test_an_idle_disk_is_asked_now_and_then(core: HubCore, disk: Refusing) -> None:
    receipt_of(core, Author(LABEL).next())
    core.probe_disk(100.0)
    disk.refuse = "pwrite"
    core.probe_disk(100.0 + PROBE_S / 2)  # too early to ask again
    assert not is_flawed(core)
    with pytest.raises(OSError, match="input/output"):
        core.probe_disk(100.0 + PROBE_S)
    assert is_flawed(core)
    with pytest.raises(OSError, match="input/output"):
        core.probe_disk(100.5 + PROBE_S)  # one that refused is asked every time
    disk.refuse = ""
    core.probe_disk(101.0 + PROBE_S)
    assert not is_flawed(core)


def is_flawed(core: HubCore) -> bool:
    return core.disk_flaw is not None


def test_a_disk_that_is_written_to_needs_no_probe(core: HubCore, disk: Refusing) -> None:
    author = Author(LABEL)
    for second in range(3):
        receipt_of(core, author.next())
        disk.refuse = "pwrite"
        core.probe_disk(100.0 + 2 * second * PROBE_S)
        disk.refuse = ""
