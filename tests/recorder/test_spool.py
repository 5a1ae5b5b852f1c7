from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hub.errors import ErrorCode, VeenError
from hub.storage import frames
from hub.storage.disk import Disk
from recorder import spool_files
from recorder.spool import SpoolWriter
from recorder.spool_files import SpoolEntry, SpoolFullError
from tests.support.live_hub import ROOT

SMALL = SpoolEntry(stream="record/app/x", body=b"body")


def everything(folder: Path) -> list[bytes]:
    """The bodies of all files, oldest file first."""
    found: list[bytes] = []
    for name in spool_files.names(folder):
        start = spool_files.FIRST
        while True:
            piece = spool_files.read_piece(folder / name, start, items_max=7)
            if not piece.entries:
                break
            found += [entry.body for _, entry in piece.entries]
            start = piece.end
    return found


@pytest.mark.parametrize(
    "entry",
    [
        SMALL,
        SpoolEntry(stream="record/app/é", body=b"", wants_receipt=True),
        SpoolEntry(stream="s", body=b"x" * 70_000, key="k\r\n\x1b", content=b"\x01" * 32),
    ],
)
def test_an_entry_reads_back_as_it_was_written(entry: SpoolEntry) -> None:
    assert SpoolEntry.decode(entry.encode()) == entry


def test_the_fast_reader_of_an_entry_accepts_nothing_that_the_strict_one_refuses() -> None:
    for stream, size in (("record/app/x", 5), ("record/app/" + "y" * 30, 40), ("record/a", 300)):
        for wants_receipt in (False, True):
            entry = SpoolEntry(stream=stream, body=bytes(size), wants_receipt=wants_receipt)
            encoded = entry.encode()
            assert SpoolEntry._decode_by_position(encoded) == entry
            heads = 8 + len(stream)  # all that is not body
            edits = [
                encoded[:at] + bytes((value,)) + encoded[at + 1 :]
                for at in range(heads)
                for value in range(256)
            ]
            for changed in (*edits, *(encoded[:end] for end in range(len(encoded)))):
                found = SpoolEntry._decode_by_position(changed)
                if found is not None:
                    assert found == SpoolEntry._decode_by_field(changed)


def test_entries_come_back_in_order_and_large_ones_whole(tmp_path: Path) -> None:
    spool = SpoolWriter(tmp_path / "s")
    bodies = [b"%d" % number for number in range(50)] + [b"y" * 900_000, b"last"]
    for body in bodies:
        spool.append(SpoolEntry(stream="s", body=body))
    assert everything(tmp_path / "s") == bodies
    spool.close()
    assert everything(tmp_path / "s") == bodies


def test_a_place_names_the_file_and_the_offset_behind_the_entry(tmp_path: Path) -> None:
    spool = SpoolWriter(tmp_path)
    places = [spool.append(SMALL) for _ in range(3)]
    (name,) = spool_files.names(tmp_path)
    piece = spool_files.read_piece(tmp_path / name, spool_files.FIRST, items_max=10)
    assert places == [(name, end) for end, _ in piece.entries]
    assert not piece.has_more
    spool.close()


def test_a_full_file_is_followed_by_another_and_only_the_last_is_held(tmp_path: Path) -> None:
    spool = SpoolWriter(tmp_path, bytes_max=64_000)
    for number in range(400):
        spool.append(SpoolEntry(stream="s", body=b"%04d" % number + bytes(96)))
    spool.sync()
    names = spool_files.names(tmp_path)
    assert len(names) > 3
    assert [spool_files.is_let_go(tmp_path / name) for name in names[:-1]] == [True] * (
        len(names) - 1
    )
    assert not spool_files.is_let_go(tmp_path / names[-1])
    spool.close()
    assert spool_files.is_let_go(tmp_path / names[-1])
    assert [body[:4] for body in everything(tmp_path)] == [b"%04d" % one for one in range(400)]


def test_a_full_spool_refuses_and_takes_again_when_there_is_room(tmp_path: Path) -> None:
    spool = SpoolWriter(tmp_path, bytes_max=40_000)
    taken = 0
    with pytest.raises(SpoolFullError) as refused:
        while True:
            spool.append(SpoolEntry(stream="s", body=bytes(1000)))
            taken += 1
    assert refused.value.code is ErrorCode.STORE
    assert "not recorded" in refused.value.detail
    assert 30 <= taken <= 40
    assert len(everything(tmp_path)) == taken
    assert spool_files.total_bytes(tmp_path) <= 40_000
    spool.sync()
    (tmp_path / spool_files.names(tmp_path)[0]).unlink()
    spool.append(SMALL)
    spool.close()


class FullDisk(Disk):
    """Takes so many bytes and no more; the write that does not fit is cut short."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    def pwrite(self, fd: int, data: bytes, offset: int) -> None:
        part = data[: self.left]
        super().pwrite(fd, part, offset)
        self.left -= len(part)
        if len(part) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def refusal_of(spool: SpoolWriter, body: bytes) -> ErrorCode | None:
    try:
        spool.append(SpoolEntry(stream="s", body=body))
    except VeenError as refused:
        return refused.code
    return None


def test_a_full_disk_refuses_the_event_and_keeps_the_others(tmp_path: Path) -> None:
    for left in range(1, 400, 13):
        folder = tmp_path / str(left)
        disk = FullDisk(left)
        spool = SpoolWriter(folder, disk=disk)
        taken: list[bytes] = []
        for number in range(30):
            body = b"%d" % number
            if (code := refusal_of(spool, body)) is None:
                taken.append(body)
            else:
                assert code is ErrorCode.STORE
                disk.left = 0 if number < 15 else 10_000
        spool.close()
        assert taken[-1] == b"29"
        assert everything(folder) == taken


class NoSync(Disk):
    """A disk whose syncs fail."""

    __slots__ = ()

    def fdatasync(self, fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_failed_sync_is_said_and_a_new_file_begun(tmp_path: Path) -> None:
    spool = SpoolWriter(tmp_path, disk=NoSync())
    first, _ = spool.append(SMALL)
    with pytest.raises(VeenError) as refused:
        spool.sync()
    assert refused.value.code is ErrorCode.STORE
    second, _ = spool.append(SMALL)
    assert second != first
    assert len(everything(tmp_path)) == 2
    spool.abandon()


def test_one_sync_makes_many_appends_durable(tmp_path: Path) -> None:
    disk = Disk()
    spool = SpoolWriter(tmp_path, disk=disk)
    for _ in range(100):
        spool.append(SMALL)
    assert disk.syncs == 0
    spool.sync()
    assert disk.syncs == 2  # the file, and its name in the directory
    spool.sync()
    assert disk.syncs == 2
    spool.append(SMALL)
    spool.sync()
    assert disk.syncs == 3
    spool.close()


def test_threads_share_a_writer(tmp_path: Path) -> None:
    spool = SpoolWriter(tmp_path)

    def write(letter: bytes) -> None:
        for number in range(200):
            spool.append(SpoolEntry(stream="s", body=letter + b"%03d" % number))

    threads = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spool.close()
    found = everything(tmp_path)
    for letter in (b"a", b"b", b"c"):
        mine = [body for body in found if body.startswith(letter)]
        assert mine == [letter + b"%03d" % number for number in range(200)]


def test_what_was_appended_outlives_kill_9(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path\n"
        "from recorder.spool import SpoolWriter; from recorder.spool_files import SpoolEntry\n"
        "spool = SpoolWriter(Path(sys.argv[1]))\n"
        "for number in range(500): spool.append(SpoolEntry(stream='s', body=b'%d' % number))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False, cwd=ROOT)
    assert ended.returncode == -9
    (name,) = spool_files.names(tmp_path)
    assert spool_files.is_let_go(tmp_path / name)
    assert everything(tmp_path) == [b"%d" % number for number in range(500)]


def test_a_torn_tail_is_told_from_damage(tmp_path: Path) -> None:
    spool = SpoolWriter(tmp_path)
    for number in range(3):
        name, end = spool.append(SpoolEntry(stream="s", body=b"%d" % number * 10))
    spool.close()
    path = tmp_path / name
    data = path.read_bytes()
    block = frames.frame(frames.RECORD, SMALL.encode())
    for cut in range(1, len(block)):
        path.write_bytes(data + block[:cut])
        piece = spool_files.read_piece(path, end, items_max=9)
        assert piece.entries == ()
        assert piece.has_more
        assert spool_files.is_torn(path, piece.end)
    path.write_bytes(data + bytes(600))
    assert spool_files.is_torn(path, end)
    broken = bytearray(data)
    broken[-1] ^= 1
    path.write_bytes(broken)
    piece = spool_files.read_piece(path, spool_files.FIRST, items_max=9)
    assert len(piece.entries) == 2
    assert not spool_files.is_torn(path, piece.end)


def test_files_of_one_writer_keep_their_order(tmp_path: Path) -> None:
    writers = [SpoolWriter(tmp_path, bytes_max=32_768) for _ in range(2)]
    for number in range(60):
        for writer in writers:
            writer.append(SpoolEntry(stream="s", body=b"%02d" % number + bytes(200)))
    for writer in writers:
        writer.close()
    groups = spool_files.by_writer(tmp_path)
    assert len(groups) == 2
    assert [name for names in groups.values() for name in names] == spool_files.names(tmp_path)
    for names in groups.values():
        assert len(names) > 2
        assert names == sorted(names)


def test_files_of_others_are_not_taken_for_spools(tmp_path: Path) -> None:
    for name in ("x.spool", "new-0000000000000000-1-00000000-00000000.spool", "drain.lock", "../x"):
        (tmp_path / name.replace("/", "_")).touch()
    assert spool_files.names(tmp_path) == []
