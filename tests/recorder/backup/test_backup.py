"""Backups: made while the hub runs, checked to the last bit, restored as a fork that says so."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from hub.client import HubClient
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.storage import heads as heads_file
from hub.storage import manifests
from hub.storage.disk import DirectoryLock
from hub.storage.fsck import run_fsck
from hub.storage.layout import Layout
from hub.types import UnixSeconds
from recorder.backup.check import check_backup, check_deeply
from recorder.backup.create import create_backup, read_secrets
from recorder.backup.listing import Listing
from recorder.backup.restore import HEADS, heads_of, open_secrets, restore_backup
from tests.recorder.backup.conftest import (
    PASSPHRASE,
    TRUST,
    Bundle,
    make_bundle,
    make_database,
)
from tests.recorder.evidence import logs
from tests.recorder.evidence.logs import LABEL
from tests.support.live_hub import ROOT, until
from tests.support.postgresql import find_binaries, running_server

NOW = UnixSeconds(1_700_000_000)


def create(bundle: Bundle, out: Path, *, secrets: bool = True) -> Listing:
    return create_backup(
        bundle.root,
        out,
        trust_key=TRUST,
        now=NOW,
        secrets_passphrase=PASSPHRASE if secrets else None,
    )


def secrets_of(backup: Path) -> Mapping[str, bytes]:
    return open_secrets(backup, PASSPHRASE)


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Path:
    """A backup of twelve messages after a key rotation; three more were signed since."""
    home = tmp_path_factory.mktemp("home")
    bundle = make_bundle(home, template)
    with bundle.running() as hub:
        bundle.record(hub, 1, 6)
        hub.control("checkpoint")
        hub.control("rotate")
        bundle.record(hub, 7, 12)
        create(bundle, home / "backup")
        bundle.record(hub, 13, 15)
    return home


@pytest.fixture
def made(home: Path, tmp_path: Path) -> tuple[Bundle, Path]:
    """A copy of both, with the heads, for one test to break."""
    for name in ("state", "backup"):
        shutil.copytree(home / name, tmp_path / name)
    shutil.copy(home / "state.heads", tmp_path / "state.heads")
    return Bundle(tmp_path / "state"), tmp_path / "backup"


def test_a_backup_of_a_running_hub_is_whole_at_its_checkpoint(made: tuple[Bundle, Path]) -> None:
    _, backup = made
    listing, report = check_deeply(backup, TRUST.public)
    assert report.ok, report.findings
    assert report.entries == listing.entries
    (head,) = [one for one in listing.heads if one.label == LABEL]
    assert head.seq == 12
    assert listing.manifest_id is not None
    assert {one.path for one in listing.of("hub")} >= {"hub/FORMAT", "hub/log/00000001.seg"}


def test_no_secret_is_in_it_in_the_open(made: tuple[Bundle, Path]) -> None:
    bundle, backup = made
    secrets = read_secrets(bundle.root)
    assert {"hub/keys/hub.key", "secrets/trust.key"} <= set(secrets)
    everything = b"".join(path.read_bytes() for path in backup.rglob("*") if path.is_file())
    for secret in secrets.values():
        assert secret.strip() not in everything
        assert bytes.fromhex(secret.decode()) not in everything
    assert secrets_of(backup) == secrets
    with pytest.raises(VeenError) as refusal:
        open_secrets(backup, b"another passphrase")
    assert refusal.value.code is ErrorCode.KEYSTORE


def test_every_flipped_bit_is_found(made: tuple[Bundle, Path], rng: random.Random) -> None:
    _, backup = made
    check_backup(backup, TRUST.public)
    for path in sorted(path for path in backup.rglob("*") if path.is_file()):
        data = path.read_bytes()
        for _ in range(4):
            at = rng.randrange(len(data))
            path.write_bytes(
                data[:at] + bytes((data[at] ^ 1 << rng.randrange(8),)) + data[at + 1 :]
            )
            with pytest.raises(VeenError) as refusal:
                check_backup(backup, TRUST.public)
            assert refusal.value.code in {ErrorCode.DAMAGE, ErrorCode.TRUST, ErrorCode.FORMAT}
        path.write_bytes(data[:-1])
        with pytest.raises(VeenError):
            check_backup(backup, TRUST.public)
        path.write_bytes(data)
    check_backup(backup, TRUST.public)


def test_a_missing_an_added_and_a_linked_file_are_named(made: tuple[Bundle, Path]) -> None:
    _, backup = made
    segment = backup / "hub" / "log" / "00000001.seg"
    kept = segment.read_bytes()
    segment.unlink()
    with pytest.raises(VeenError, match=r"00000001.seg is missing"):
        check_backup(backup, TRUST.public)
    segment.symlink_to("/etc/hostname")
    with pytest.raises(VeenError, match="not a regular file"):
        check_backup(backup, TRUST.public)
    segment.unlink()
    segment.write_bytes(kept)
    (backup / "hub" / "extra").write_bytes(b"")
    with pytest.raises(VeenError, match="does not belong"):
        check_backup(backup, TRUST.public)


def test_only_the_realms_own_listing_is_believed(made: tuple[Bundle, Path]) -> None:
    _, backup = made
    with pytest.raises(VeenError) as refusal:
        check_backup(backup, SigningKey.generate().public)
    assert refusal.value.code is ErrorCode.TRUST
    listing = Listing.decode((backup / "BACKUP.json").read_bytes())
    forged = SigningKey.generate()
    (backup / "BACKUP.json.sig").write_bytes(listing.sign(forged))
    with pytest.raises(VeenError):
        check_backup(backup, TRUST.public)


def test_a_restore_forks_and_names_what_was_lost(made: tuple[Bundle, Path], tmp_path: Path) -> None:
    bundle, backup = made
    shutil.rmtree(bundle.root)  # the machine is gone, its heads are not
    done = restore_backup(backup, bundle.root, trust_pk=TRUST.public, secrets=secrets_of(backup))
    assert done.is_fork
    assert [str(one) for one in done.judgement.lost] == [f"{LABEL.hex()} 13..15"]
    assert done.hub_id != done.listing.hub_id
    with closing(sqlite3.connect(bundle.root / "web" / "db.sqlite3")) as db:
        ((code, what, detail),) = db.execute("SELECT code, object, detail FROM hub_finding")
    assert (code, what) == ("S.BEHIND", f"restore of {done.listing.hub_id.hex()}")
    assert f"{LABEL.hex()} 13..15" in detail
    assert run_fsck(bundle.root / "hub", heads_file=bundle.config.heads_file).ok
    with bundle.running() as hub:  # it takes writes at once, under its own new key
        assert hub.hub_pk == done.hub_pk
        bundle.record(hub, 13, 14)
        with HubClient(hub.url, hub.hub_pk) as client:
            assert client.head(LABEL).stream_seq == 14
    assert not (tmp_path / "state.restoring").exists()


def test_a_restore_without_heads_forks_because_nobody_knows(
    made: tuple[Bundle, Path], tmp_path: Path
) -> None:
    _, backup = made
    done = restore_backup(
        backup, tmp_path / "elsewhere", trust_pk=TRUST.public, secrets=secrets_of(backup)
    )
    assert done.is_fork
    assert "missing" in done.judgement.reason
    assert done.finding is not None
    assert heads_of(tmp_path / "elsewhere").exists()


def test_heads_that_are_equal_let_the_log_go_on_under_its_key(
    bundle: Bundle, tmp_path: Path
) -> None:
    with bundle.running() as hub:
        bundle.record(hub, 1, 5)
        create(bundle, tmp_path / "backup")
    shutil.rmtree(bundle.root)
    done = restore_backup(
        tmp_path / "backup",
        bundle.root,
        trust_pk=TRUST.public,
        secrets=secrets_of(tmp_path / "backup"),
    )
    assert not done.is_fork
    assert done.finding is None
    with bundle.running() as again:
        assert again.hub_pk == hub.hub_pk == done.hub_pk
        bundle.record(again, 6, 6)


def test_heads_of_another_log_force_a_fork(made: tuple[Bundle, Path], tmp_path: Path) -> None:
    _, backup = made
    other = Bundle(tmp_path / "other")
    (tmp_path / "other").mkdir()
    with other.running() as hub:
        other.record(hub, 1, 2)
    target = tmp_path / "target"
    shutil.copy(tmp_path / "other.heads", heads_of(target))
    done = restore_backup(backup, target, trust_pk=TRUST.public, secrets=secrets_of(backup))
    assert done.is_fork
    assert "not of this one" in done.judgement.reason


def test_without_keys_the_log_can_be_read_and_never_signed(
    made: tuple[Bundle, Path], tmp_path: Path
) -> None:
    _, backup = made
    target = tmp_path / "reading"
    done = restore_backup(backup, target, trust_pk=TRUST.public, secrets={})
    assert done.to_json()["writable"] is False
    assert not (target / "hub" / "keys").exists()
    assert run_fsck(target / "hub").ok


def test_a_restore_touches_nothing_that_is_there(made: tuple[Bundle, Path]) -> None:
    bundle, backup = made
    before = sorted(bundle.root.rglob("*"))
    with pytest.raises(VeenError):
        restore_backup(backup, bundle.root, trust_pk=TRUST.public, secrets={})
    assert sorted(bundle.root.rglob("*")) == before
    with pytest.raises(VeenError):
        create(bundle, backup)


def test_a_damaged_backup_is_not_restored(made: tuple[Bundle, Path], tmp_path: Path) -> None:
    _, backup = made
    path = backup / "hub" / "log" / "00000001.seg"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 8
    path.write_bytes(data)
    with pytest.raises(VeenError):
        restore_backup(
            backup, tmp_path / "target", trust_pk=TRUST.public, secrets=secrets_of(backup)
        )
    assert not (tmp_path / "target").exists()


def test_a_damaged_log_makes_no_backup(bundle: Bundle, tmp_path: Path) -> None:
    with bundle.running() as hub:
        bundle.record(hub, 1, 6)
        hub.control("checkpoint")
    segment = bundle.root / "hub" / "log" / "00000001.seg"
    data = bytearray(segment.read_bytes())
    data[200] ^= 1
    segment.write_bytes(data)
    with pytest.raises(VeenError) as refusal:  # and never taken for a log that ends early
        create(bundle, tmp_path / "backup")
    assert refusal.value.code is ErrorCode.DAMAGE
    assert "00000001.seg" in refusal.value.detail
    with bundle.running():  # damaged, so it serves reads only, and is asked all the same
        with pytest.raises(VeenError) as refusal:
            create(bundle, tmp_path / "backup")
        assert refusal.value.code is ErrorCode.DAMAGE


def test_a_stopped_hub_gives_everything_it_committed(bundle: Bundle, tmp_path: Path) -> None:
    with bundle.running() as hub:
        bundle.record(hub, 1, 4)
        hub.control("checkpoint")
        bundle.record(hub, 5, 9)  # no manifest covers these yet
        hub.kill()
        listing = create(bundle, tmp_path / "backup")
    (head,) = [one for one in listing.heads if one.label == LABEL]
    assert head.seq == 9
    assert check_deeply(tmp_path / "backup", TRUST.public)[1].ok


def test_what_was_never_committed_is_left_out(bundle: Bundle, tmp_path: Path) -> None:
    with bundle.running() as hub:
        bundle.record(hub, 1, 4)
    segment = bundle.root / "hub" / "log" / "00000001.seg"
    with segment.open("ab") as file:
        file.write(bytes(300))  # a batch that a power cut took
    listing = create(bundle, tmp_path / "backup")
    assert max(one.seq for one in listing.heads) == 4
    assert check_deeply(tmp_path / "backup", TRUST.public)[1].ok


def test_nobody_starts_the_hub_while_a_stopped_one_is_copied(
    bundle: Bundle, tmp_path: Path
) -> None:
    with bundle.running() as hub:
        bundle.record(hub, 1, 4)
    lock = DirectoryLock(Layout(bundle.root / "hub").lock)
    try:
        with pytest.raises(VeenError) as refusal:
            create(bundle, tmp_path / "backup")
        assert refusal.value.code is ErrorCode.LOCKED
    finally:
        lock.release()
    assert not (tmp_path / "backup").exists()


@pytest.mark.slow
def test_backups_under_load_are_each_whole(bundle: Bundle, tmp_path: Path) -> None:
    """Messages, segments, rotations and pruning go on while backups are made."""
    with bundle.running(segment_bytes=20_000) as hub:
        bundle.record(hub, 1, 40)
        stop = threading.Event()

        def write() -> None:
            with HubClient(hub.url, hub.hub_pk) as client:
                number = 41
                while not stop.is_set():
                    logs.record(client, number, number + 4)
                    number += 5

        def tidy() -> None:
            before = 2
            while not stop.wait(0.05):
                hub.control("prune", label=LABEL.hex(), before_seq=before, reason="test")
                before += 3

        threads = [threading.Thread(target=work) for work in (write, tidy)]
        for thread in threads:
            thread.start()
        try:
            for number in range(3):
                create(bundle, tmp_path / str(number), secrets=False)
                if number == 1:
                    hub.control("rotate")
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    sizes = []
    for number in range(3):
        listing, report = check_deeply(tmp_path / str(number), TRUST.public)
        assert report.ok, report.findings
        sizes.append(listing.entries)
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


CREATE = """
import sys
from pathlib import Path
from hub.crypto.signing import SigningKey
from recorder.backup.create import create_backup
state, out, seed = sys.argv[1:]
create_backup(Path(state), Path(out), trust_key=SigningKey(bytes.fromhex(seed)), now=1)
"""


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_no_backup_or_a_whole_one(
    bundle: Bundle,
    tmp_path: Path,
    rng: random.Random,
    scaled: Callable[[int, int], int],
) -> None:
    with bundle.running() as hub:
        bundle.record(hub, 1, 30)
        for number in range(scaled(4, 40)):
            out = tmp_path / f"b{number}"
            child = subprocess.Popen(
                [sys.executable, "-c", CREATE, str(bundle.root), str(out), TRUST.seed.hex()],
                cwd=ROOT,
            )
            partial = out.with_name(out.name + ".partial")
            seen = rng.randrange(1, 12)

            def is_time(child: subprocess.Popen[bytes] = child, partial: Path = partial,
                        seen: int = seen) -> bool:  # fmt: skip
                return child.poll() is not None or len(list(partial.rglob("*"))) >= seen

            until(is_time, timeout_s=60)
            child.kill()
            child.wait()
            if out.exists():
                check_backup(out, TRUST.public)
                continue
            try:
                check_backup(partial, TRUST.public)
            except VeenError:
                pass
            else:  # killed when nothing was missing but the name
                partial.rename(out)
                check_backup(out, TRUST.public)
                continue
            if number == 0:
                create(bundle, out)  # what the kill left is in nobody's way
                check_backup(out, TRUST.public)


@pytest.mark.parametrize("moment", ["before naming", "before the heads"])
def test_a_restore_that_was_stopped_is_done_again_or_ended(
    made: tuple[Bundle, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    _, backup = made
    target = tmp_path / "target"
    name = {"before naming": "_name", "before the heads": "_finish"}[moment]

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(f"recorder.backup.restore.{name}", stop)
        with pytest.raises(KeyboardInterrupt):
            restore_backup(backup, target, trust_pk=TRUST.public, secrets=secrets_of(backup))
    if moment == "before the heads":
        # Until it is ended the hub serves reads only: no heads lie beside it.
        assert (target / HEADS).exists()
        with pytest.raises(VeenError, match="finished now"):
            restore_backup(backup, target, trust_pk=TRUST.public, secrets=secrets_of(backup))
    else:
        restore_backup(backup, target, trust_pk=TRUST.public, secrets=secrets_of(backup))
    assert not (target / HEADS).exists()
    found = heads_file.read(heads_of(target))
    assert found is not None
    restored = Bundle(target)
    with restored.running() as hub:
        restored.record(hub, 13, 13)


def test_the_fork_begins_with_a_manifest_of_its_own(
    made: tuple[Bundle, Path], tmp_path: Path
) -> None:
    _, backup = made
    target = tmp_path / "target"
    done = restore_backup(backup, target, trust_pk=TRUST.public, secrets=secrets_of(backup))
    layout = Layout(target / "hub")
    newest = manifests.latest_id(layout)
    assert newest is not None
    assert manifests.load(layout, newest).hub_pk == done.hub_pk


@pytest.mark.skipif(find_binaries() is None, reason="no PostgreSQL on this machine")
def test_a_postgresql_database_travels_too(bundle: Bundle, tmp_path: Path) -> None:
    with running_server() as url, bundle.running() as hub:
        (bundle.root / "veen.toml").write_text(f'database_url = "{url}"\n')
        make_database(bundle.root)
        bundle.record(hub, 1, 3)
        _sql(url, "INSERT INTO auth_group (name) VALUES ('auditors')")
        listing = create(bundle, tmp_path / "backup")
        assert listing.database == "postgresql"
        _sql(url, "DELETE FROM auth_group")
        done = restore_backup(
            tmp_path / "backup", tmp_path / "target", trust_pk=TRUST.public,
            secrets=secrets_of(tmp_path / "backup"),
        )  # fmt: skip
        assert _sql(url, "SELECT name FROM auth_group") == "auditors"
        assert done.finding is not None
        assert "restore of" in _sql(url, "SELECT object FROM hub_finding")


def _sql(url: str, statement: str) -> str:
    done = subprocess.run(
        ["psql", url, "-t", "-A", "-c", statement], capture_output=True, text=True, check=True,
        env=os.environ,
    )  # fmt: skip
    return done.stdout.strip()
