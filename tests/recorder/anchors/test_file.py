"""The anchor file: what was referred to stands, and every edit and cut is named."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hub.crypto.hashing import h
from hub.errors import ErrorCode, ProofError, StoreError, VeenError
from hub.types import ManifestId, UnixSeconds
from recorder.anchors.anchor import AnchorRef
from recorder.anchors.file import AnchorFile
from tests.support.disks import CountingDisk, Fault, FaultyDisk, Stopped
from tests.support.live_hub import ROOT

T = UnixSeconds(1_700_000_000)


def manifest(number: int) -> ManifestId:
    return ManifestId(h(b"manifest %d" % number))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "elsewhere" / "veen.anchor"


def filled(path: Path, count: int = 4) -> list[AnchorRef]:
    return [AnchorFile(path).publish(manifest(n), UnixSeconds(T + n)) for n in range(count)]


def test_what_was_published_verifies_and_nothing_else(path: Path) -> None:
    refs = filled(path)
    for number, ref in enumerate(refs):
        again = AnchorRef.decode(ref.encode())
        anchored = AnchorFile(path).verify(again, manifest(number))
        assert anchored.at == T + number
        with pytest.raises(ProofError):
            AnchorFile(path).verify(ref, manifest(number + 1))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_same_manifest_again_keeps_its_line(path: Path) -> None:
    refs = filled(path)
    before = path.read_bytes()
    assert AnchorFile(path).publish(manifest(1), UnixSeconds(T + 99)) == refs[1]
    assert path.read_bytes() == before


def test_every_edited_byte_is_named(path: Path) -> None:
    refs = filled(path, 3)
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes((whole[at] ^ 1,)) + whole[at + 1 :])
        with pytest.raises(VeenError) as refusal:
            AnchorFile(path).verify(refs[2], manifest(2))
        assert refusal.value.code is ErrorCode.PROOF
        assert str(path) in refusal.value.detail


def test_every_cut_loses_a_line_that_was_given_out(path: Path) -> None:
    refs = filled(path, 3)
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        with pytest.raises(ProofError):
            AnchorFile(path).verify(refs[2], manifest(2))
    path.unlink()
    with pytest.raises(ProofError, match="is gone"):
        AnchorFile(path).verify(refs[0], manifest(0))


def test_a_rewritten_history_does_not_fit_what_was_given_out(path: Path) -> None:
    """Whoever owns the file can make a new chain; the references are elsewhere."""
    refs = filled(path, 3)
    header = path.read_bytes().splitlines(keepends=True)[0]
    path.write_bytes(header)
    for number in (0, 7, 2):
        AnchorFile(path).publish(manifest(number), UnixSeconds(T + number))
    with pytest.raises(ProofError, match="rewritten"):
        AnchorFile(path).verify(refs[2], manifest(2))
    path.unlink()
    filled(path, 3)
    with pytest.raises(ProofError, match="another anchor file"):
        AnchorFile(path).verify(refs[2], manifest(2))


def test_an_edited_file_takes_no_more_anchors(path: Path) -> None:
    filled(path, 3)
    path.write_bytes(path.read_bytes().replace(b"\n2 ", b"\n3 "))
    with pytest.raises(ProofError, match="edited"):
        AnchorFile(path).publish(manifest(9), T)


def test_a_file_of_somebody_else_is_left_alone(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"notes of mine\nand more\n")
    with pytest.raises(ProofError):
        AnchorFile(path).publish(manifest(1), T)
    assert path.read_bytes() == b"notes of mine\nand more\n"
    path.unlink()
    path.symlink_to(path.parent / "target")
    with pytest.raises(StoreError):
        AnchorFile(path).publish(manifest(1), T)
    assert not (path.parent / "target").exists()


@pytest.mark.parametrize("fault", list(Fault))
def test_whatever_stops_a_publish_the_next_one_goes_on(tmp_path: Path, fault: Fault) -> None:
    """After every call of the disk: no reference is lost, and the chain stays whole."""
    counting = CountingDisk()
    AnchorFile(tmp_path / "count" / "a", counting).publish(manifest(0), T)
    AnchorFile(tmp_path / "count" / "a", counting).publish(manifest(1), T)
    for at in range(1, counting.calls + 1):
        path = tmp_path / fault.name / str(at) / "a"
        disk = FaultyDisk(at, fault)
        refs: dict[int, AnchorRef] = {}
        for number in (0, 1):
            try:
                refs[number] = AnchorFile(path, disk).publish(manifest(number), T)
            except (StoreError, Stopped):
                continue
        disk.end()
        for number in (0, 1, 2):
            ref = AnchorFile(path).publish(manifest(number), T)
            AnchorFile(path).verify(ref, manifest(number))
        for number, ref in refs.items():
            AnchorFile(path).verify(ref, manifest(number))


def test_a_line_cut_by_a_full_disk_is_ended_and_passed_over(path: Path) -> None:
    refs = filled(path, 2)
    whole = path.read_bytes()
    for length in range(1, 140):
        path.write_bytes(whole + b"3 1700000009 " + b"a" * length)
        ref = AnchorFile(path).publish(manifest(5), UnixSeconds(T + 5))
        AnchorFile(path).verify(ref, manifest(5))
        AnchorFile(path).verify(refs[1], manifest(1))


def test_an_ended_line_hides_no_anchor(path: Path) -> None:
    """Marking a good line as unfinished breaks the chain behind it."""
    refs = filled(path, 3)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].rstrip() + b"~\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(ProofError, match="edited"):
        AnchorFile(path).verify(refs[0], manifest(0))


def test_processes_that_publish_at_once_share_one_chain(path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom recorder.anchors.file import AnchorFile\n"
        "from hub.crypto.hashing import h\n"
        "for n in range(20):\n"
        "    AnchorFile(Path(sys.argv[1])).publish(h(b'%s %d' % (sys.argv[2].encode(), n)), 1)\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(path), name], cwd=ROOT)
        for name in ("a", "b", "c")
    ]
    assert [one.wait(60) for one in running] == [0, 0, 0]
    assert len(AnchorFile(path).read().lines) == 60


def test_a_reference_of_another_kind_is_refused(path: Path) -> None:
    refs = filled(path, 1)
    for body in (b"", b"\x80", refs[0].body + b"\x00", refs[0].body[:-1]):
        with pytest.raises(VeenError):
            AnchorFile(path).verify(AnchorRef(backend="file", body=body), manifest(0))
    with pytest.raises(VeenError, match="not of a file"):
        AnchorFile(path).verify(AnchorRef(backend="rfc3161", body=refs[0].body), manifest(0))
    for data in (b"", b"\x83", refs[0].encode() + b"\x00", b"\x83\x02" + refs[0].encode()[2:]):
        with pytest.raises(VeenError):
            AnchorRef.decode(data)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_refuses_says_so(path: Path) -> None:
    path.parent.mkdir(mode=0o500)
    with pytest.raises(StoreError):
        AnchorFile(path).publish(manifest(1), T)
