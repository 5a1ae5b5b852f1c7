"""Restoring a backup: laid out beside its place, checked by fsck, forked, then named [wire, Guard].

A restored log must never go on under the key that signed what it has lost. So it continues under
its own key only where the last signed heads are present and equal to it; in any other case it
becomes a fork with a new key, and a finding names the ranges that were signed and are not here.

Everything is done in `<target>.restoring`. The last steps are two renames, directory then heads; a
stop between them leaves a hub that serves reads and refuses to write, and a second call ends it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hub import canonical_json, keystore
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, StoreError, VeenError
from hub.server.config import HubConfig
from hub.server.core import HubCore, open_hub
from hub.storage import heads as heads_file
from hub.storage.disk import DIR_MODE, Disk
from hub.storage.fsck import run_fsck
from hub.storage.reader import LogReader
from hub.storage.rebuild import run_rebuild
from hub.types import HubId, Label, PublicKey
from recorder.backup import child
from recorder.backup.check import Progress, check_backup
from recorder.backup.create import ANCHORS, SECRETS
from recorder.backup.database import POSTGRESQL, SQLITE
from recorder.backup.layout import lay_out_hub, put_private
from recorder.backup.listing import Listing

HEADS: Final = "heads.restored"  # the fork's own, until they lie beside the directory
REPORT: Final = "restore.json"
_HUB_KEY: Final = "hub/keys/hub.key"
_ROUTING_KEY: Final = "secrets/routing.key"
_RANGES_TOLD_MAX: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRange:
    """Messages that were receipted and are not in the backup."""

    label: Label
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.label.hex()} {self.first}..{self.last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Whether the restored log is the one that signed last."""

    is_same: bool
    reason: str
    lost: tuple[LostRange, ...] = ()
    signed_by: HubId | None = None


@dataclass(slots=True, kw_only=True)
class Restored:
    """What a restore did."""

    listing: Listing
    judgement: Judgement
    fsck: dict[str, Any] = field(default_factory=dict)
    hub_pk: PublicKey | None = None
    hub_id: HubId | None = None
    is_fork: bool = False
    finding: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The report, also kept in the directory."""
        return {
            "entries": self.listing.entries,
            "backup_created_at": self.listing.created_at,
            "manifest_id": self.listing.manifest_id and self.listing.manifest_id.hex(),
            "fsck": self.fsck,
            "fork": self.is_fork,
            "reason": self.judgement.reason,
            "lost": [str(one) for one in self.judgement.lost],
            "parent_hub_id": self.listing.hub_id.hex(),
            "hub_id": self.hub_id and self.hub_id.hex(),
            "hub_pk": self.hub_pk and self.hub_pk.hex(),
            "writable": self.hub_pk is not None,
            "finding": self.finding,
        }


def restore_backup(
    backup: Path,
    target: Path,
    *,
    trust_pk: PublicKey,
    secrets: Mapping[str, bytes],
    routing_key: bytes | None = None,
    progress: Progress | None = None,
) -> Restored:
    """Restore into `target`, which must not exist; secrets are named as `read_secrets` does."""
    if (target / HEADS).exists():
        _finish(target)
        raise VeenError(ErrorCode.CONFIG, f"{target} was restored before; that is finished now")
    if target.exists() and any(target.iterdir()):
        raise VeenError(ErrorCode.CONFIG, f"{target} exists; restore into a new directory")
    listing = check_backup(backup, trust_pk, progress=progress)
    work = target.with_name(target.name + ".restoring")
    if work.exists():
        shutil.rmtree(work)  # of an earlier try that was stopped
    work.mkdir(mode=DIR_MODE, parents=True)
    _lay_out(backup, work, listing, secrets)
    run_rebuild(work / "hub", progress=progress)
    judgement = judge_heads(work / "hub", heads_of(target), listing)
    done = Restored(listing=listing, judgement=judgement)
    if _HUB_KEY in secrets:
        _settle(work, done, secrets, routing_key)
    report = run_fsck(work / "hub", progress=progress, heads_file=work / HEADS)
    done.fsck = {"ok": report.ok, "findings": [str(one) for one in report.findings]}
    if not report.ok:
        detail = f"the restored log is damaged: {report.findings[0]}"
        raise StoreError(detail, ErrorCode.DAMAGE)
    if listing.database == "postgresql":
        child.call(work, "load", archive=str((backup / POSTGRESQL).resolve()))
    done.finding = _note(work, done)
    Disk().write_atomic(work / REPORT, canonical_json.encode(done.to_json()) + b"\n")
    os.sync()  # many small files, one wait
    _name(work, target)
    return done


def heads_of(target: Path) -> Path:
    """Where `veen up` keeps the heads of a state directory: beside it."""
    return target.with_name(target.name + ".heads")


def _lay_out(backup: Path, work: Path, listing: Listing, secrets: Mapping[str, bytes]) -> None:
    for entry in listing.of("config"):
        put_private(backup / entry.path, work / entry.path.removeprefix("config/"))
    if (backup / ANCHORS).exists():
        put_private(backup / ANCHORS, work / ANCHORS)
    if listing.database == "sqlite":
        put_private(backup / SQLITE, work / SQLITE)
    lay_out_hub(backup, work / "hub", listing)
    for path, secret in secrets.items():
        target = work / path
        target.parent.mkdir(mode=DIR_MODE, parents=True, exist_ok=True)
        Disk().write_atomic(target, secret)


def judge_heads(data_dir: Path, path: Path, listing: Listing) -> Judgement:
    """Compare the restored log with the last heads that anybody signed here."""
    mine = _own_heads(data_dir)
    told = {one.label: (int(one.seq), bytes(one.root)) for one in listing.heads}
    if mine != told:
        raise StoreError("the restored log has other heads than the backup says", ErrorCode.DAMAGE)
    found = heads_file.read(path)
    if found is None:
        reason = f"{path} is missing: what was signed after the backup is not known here"
        return Judgement(is_same=False, reason=reason)
    owner, signed, _ = found
    if owner != listing.hub_id:
        reason = f"{path} is of the log {owner.hex()[:16]}, not of this one"
        return Judgement(is_same=False, reason=reason, signed_by=owner)
    if signed == mine:
        return Judgement(is_same=True, reason="the heads that were signed last are those restored")
    lost = tuple([
        LostRange(label=label, first=mine.get(label, (0, b""))[0] + 1, last=seq)
        for label, (seq, _) in sorted(signed.items())
        if mine.get(label, (0, b""))[0] < seq
    ])  # fmt: skip
    reason = (
        f"{sum(one.last - one.first + 1 for one in lost)} messages were signed after the backup"
    )
    return Judgement(is_same=False, reason=reason, lost=lost, signed_by=owner)


def _own_heads(data_dir: Path) -> dict[Label, tuple[int, bytes]]:
    reader = LogReader(data_dir)
    try:
        sizes = {label: reader.count(label) for label in reader.labels()}
        return {
            label: (size, bytes(reader.root_at(label, size)))
            for label, size in sizes.items()
            if size
        }
    finally:
        reader.close()


def _settle(
    work: Path, done: Restored, secrets: Mapping[str, bytes], routing_key: bytes | None
) -> None:
    """Leave the log to its own key where that is right; else open it once, as a fork."""
    if done.judgement.is_same:
        hub_key = keystore.parse_key(secrets[_HUB_KEY], work / _HUB_KEY)
        done.hub_pk, done.hub_id = SigningKey(hub_key).public, done.listing.hub_id
        return
    if routing_key is None and _ROUTING_KEY in secrets:
        routing_key = keystore.parse_key(secrets[_ROUTING_KEY], work / _ROUTING_KEY)
    done.is_fork = True
    config = HubConfig(
        data_dir=work / "hub", heads_file=work / HEADS, routing_key=routing_key, fork=True
    )
    core = open_hub(config)
    try:
        _check_open(core)
        core.checkpoint()  # the fork's own word for everything it begins with
        done.hub_pk = core.identity.key.public
        done.hub_id = core.identity.hub_id
    finally:
        core.close()


def _check_open(core: HubCore) -> None:
    if core.read_only is not None:
        raise core.read_only


def _note(work: Path, done: Restored) -> int | None:
    """A finding in the restored database; every lost range by name, as far as they are known."""
    if done.judgement.is_same or done.listing.database == "none":
        return None
    lost = done.judgement.lost
    named = "; ".join(map(str, lost[:_RANGES_TOLD_MAX]))
    more = f"; and {len(lost) - _RANGES_TOLD_MAX} more" if len(lost) > _RANGES_TOLD_MAX else ""
    detail = f"restored from a backup at {done.listing.entries} messages; {done.judgement.reason}"
    answer = child.call(
        work,
        "finding",
        code=str(ErrorCode.BEHIND),
        object=f"restore of {done.listing.hub_id.hex()}",
        detail=f"{detail}. Lost: {named}{more}" if lost else detail,
    )
    return int(answer["finding"])


def _name(work: Path, target: Path) -> None:
    disk = Disk()
    if target.exists():
        target.rmdir()  # empty, as was checked
    disk.rename(work, target)
    disk.sync_dir(target.parent)
    _finish(target)


def _finish(target: Path) -> None:
    """The heads of the restored log take the place of those it was judged by."""
    if (target / HEADS).exists():
        disk = Disk()
        disk.rename(target / HEADS, heads_of(target))
        disk.sync_dir(target.parent)


def open_secrets(backup: Path, passphrase: bytes) -> dict[str, bytes]:
    """The secrets that the backup holds."""
    path = backup / SECRETS
    if not path.exists():
        raise VeenError(
            ErrorCode.KEYSTORE, f"{backup} holds no secrets; give them by --secrets-from"
        )
    return keystore.open_(path.read_bytes(), passphrase)
