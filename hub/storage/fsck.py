"""fsck: everything in a data directory derived again from bytes, offline and read-only [SSOT 12].

Nothing is believed because a checksum fits: hashes, order, roots and signatures are recomputed. A
directory in use may be checked too; what is not yet committed is not looked at.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hub.errors import ErrorCode, StoreError, VeenError
from hub.storage import fsck_files
from hub.storage.fsck_indexes import Indexes
from hub.storage.fsck_log import LogWalk
from hub.storage.fsck_manifests import ManifestWalk
from hub.storage.fsck_notes import Finding, Notes, Progress, Signatures
from hub.storage.history import History, read_history
from hub.storage.layout import Layout
from hub.types import PublicKey

__all__ = ["Finding", "FsckReport", "run_fsck"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FsckReport:
    """What was looked at and what was found, the first damage first."""

    ok: bool
    hub_id: str | None
    hub_pk: str | None
    entries: int
    labels: int
    segments: int
    manifests: int
    bytes: int
    findings: tuple[Finding, ...]
    checks: tuple[dict[str, Any], ...]

    def as_json(self) -> dict[str, Any]:
        """Plain values, as `--json` prints them."""
        return {
            **asdict(self),
            "findings": [asdict(finding) for finding in self.findings],
            "checks": list(self.checks),
        }


def run_fsck(
    data_dir: Path,
    *,
    progress: Progress | None = None,
    verify_signatures: bool = True,
    hub_pk: PublicKey | None = None,
    heads_file: Path | None = None,
) -> FsckReport:
    """Check a data directory. With `hub_pk` its history must lead through that pinned key."""
    layout = Layout(data_dir)
    if not layout.format.exists():
        raise StoreError(f"{data_dir} is no data directory of a hub", ErrorCode.DAMAGE)
    while True:
        records = _length(layout.rotations)
        report = _run_once(
            layout,
            progress,
            heads_file or layout.default_heads(),
            hub_pk,
            verify_signatures=verify_signatures,
        )
        if _length(layout.rotations) == records:  # else the key changed while we looked
            return report


def _run_once(
    layout: Layout,
    progress: Progress | None,
    heads_path: Path,
    hub_pk: PublicKey | None,
    *,
    verify_signatures: bool,
) -> FsckReport:
    notes = Notes(layout.root, progress, _bytes(layout))
    try:
        history = read_history(layout)
    except VeenError as flaw:
        notes.refusal(layout.rotations, flaw)
        return _report(layout, notes, None, None)
    if hub_pk is not None and hub_pk not in history.keys:
        notes.flaw(layout.format, 0, "the pinned key is none of this log", ErrorCode.TRUST)
    walk = _check(layout, notes, history, heads_path, verify_signatures=verify_signatures)
    return _report(layout, notes, history, walk)


def _check(
    layout: Layout, notes: Notes, history: History, heads_path: Path, *, verify_signatures: bool
) -> LogWalk:
    indexes = Indexes(layout, notes, heads_path)
    indexes.reader_secret = fsck_files.read_reader_secret(layout, notes)
    signatures = Signatures(notes, is_on=verify_signatures)
    try:
        indexes.read_claims(history.hub_id)
        walk = LogWalk(layout, notes, history, indexes, signatures)
        walk.run()
        labels = {label: cursor.state for label, cursor in walk.labels.items()}
        indexes.finish(labels, is_whole=not notes.findings)
        ManifestWalk(layout, notes, history, indexes, signatures, labels).run()
        clients = {label: cursor.first_client for label, cursor in walk.labels.items()}
        fsck_files.check_keys(layout, notes, history, indexes, clients)
        fsck_files.check_rotations(layout, notes, history)
        fsck_files.check_findings(layout, notes, history)
        fsck_files.check_tokens(layout, notes)
        fsck_files.check_attachments(layout, notes, walk.state.entries)
    finally:
        indexes.close()
        signatures.finish()
    return walk


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _bytes(layout: Layout) -> int:
    paths = [layout.segment(number) for number in layout.segment_numbers()]
    paths += layout.attachments.glob("??/*")
    return sum(path.stat().st_size for path in paths)


def _report(
    layout: Layout, notes: Notes, history: History | None, walk: LogWalk | None
) -> FsckReport:
    log = f"{layout.log.name}/"
    findings = sorted(set(notes.findings), key=lambda found: (log not in found.file, found))
    return FsckReport(
        ok=not findings,
        hub_id=history.hub_id.hex() if history else None,
        hub_pk=history.keys[-1].hex() if history else None,
        entries=walk.state.entries if walk else 0,
        labels=len(walk.labels) if walk else 0,
        segments=walk.segments if walk else 0,
        manifests=notes.counts["manifest"],
        bytes=notes.total_bytes,
        findings=tuple(findings),
        checks=tuple({"check": name, "count": count} for name, count in notes.counts.items()),
    )
