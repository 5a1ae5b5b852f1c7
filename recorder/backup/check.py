"""Verifying a backup: signature, every file by size and hash, nothing missing, nothing more [wire].

`check_deeply` goes on to what only a restore shows: the log is laid out in a temporary directory,
its indexes are made from it, and fsck re-derives every leaf, root and signature.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hub.errors import ErrorCode, ProofError, StoreError, VeenError
from hub.storage.fsck import FsckReport, run_fsck
from hub.storage.rebuild import run_rebuild
from hub.types import PublicKey
from recorder.backup.copying import hash_file
from recorder.backup.database import SQLITE, check_sqlite
from recorder.backup.layout import lay_out_hub
from recorder.backup.listing import LISTING_BYTES_MAX, NAME, SIGNATURE, Listing

Progress = Callable[[dict[str, Any]], None]


def check_backup(folder: Path, trust_pk: PublicKey, *, progress: Progress | None = None) -> Listing:
    """The listing of a whole backup, or the first thing that is wrong with it, by name."""
    listing = read_listing(folder, trust_pk)
    expected = {entry.path: entry for entry in listing.files}
    found = set(_files(folder)) - {NAME, SIGNATURE}
    for path in sorted(found ^ set(expected)):
        word = "is missing" if path in expected else "does not belong to the backup"
        raise StoreError(f"{folder / path} {word}", ErrorCode.DAMAGE)
    done = 0
    for path, entry in expected.items():
        actual = hash_file(folder / path)
        if (actual.bytes, actual.sha256) != (entry.bytes, entry.sha256):
            raise StoreError(f"{folder / path} is not what was backed up", ErrorCode.DAMAGE)
        done += entry.bytes
        if progress is not None:
            progress({"file": path, "bytes": done})
    if listing.database == "sqlite":
        check_sqlite(folder / SQLITE)
    return listing


def read_listing(folder: Path, trust_pk: PublicKey) -> Listing:
    """The signed listing, or S.DAMAGE when the backup was never finished."""
    try:
        with (folder / NAME).open("rb") as file:
            data = file.read(LISTING_BYTES_MAX + 1)
        signature = (folder / SIGNATURE).read_bytes()
    except FileNotFoundError as missing:
        detail = f"{missing.filename} is missing: this backup was never finished"
        raise StoreError(detail, ErrorCode.DAMAGE) from missing
    listing = Listing.decode(data)
    try:
        listing.verify(signature, trust_pk)
    except VeenError as refusal:
        detail = f"{folder / NAME} is not signed by this realm's trust key"
        raise ProofError(detail, ErrorCode.TRUST) from refusal
    return listing


def _files(folder: Path) -> Iterator[str]:
    for root, folders, names in os.walk(folder):
        for name in (*names, *[one for one in folders if (Path(root) / one).is_symlink()]):
            path = Path(root) / name
            if path.is_symlink() or not path.is_file():
                raise StoreError(f"{path} is not a regular file", ErrorCode.DAMAGE)
            yield path.relative_to(folder).as_posix()


def check_deeply(
    folder: Path, trust_pk: PublicKey, *, progress: Progress | None = None
) -> tuple[Listing, FsckReport]:
    """A drill: restore the log aside and derive everything in it again."""
    listing = check_backup(folder, trust_pk, progress=progress)
    with tempfile.TemporaryDirectory(prefix="veen-drill-") as scratch:
        data_dir = Path(scratch) / "hub"
        lay_out_hub(folder, data_dir, listing)
        run_rebuild(data_dir, progress=progress)
        report = run_fsck(data_dir, progress=progress)
    return listing, report
