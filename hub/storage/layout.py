"""Where each file of a data directory lies; everything else asks here [SSOT 12]."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hub.types import Label

FORMAT_VERSION: Final = 1
_HEX64: Final = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths below one data directory. Labels are hex, so no name ever climbs a path."""

    root: Path

    @property
    def format(self) -> Path:
        """Format version and first hub key; written once."""
        return self.root / "FORMAT"

    @property
    def lock(self) -> Path:
        """Held by the one process that writes."""
        return self.root / "lock"

    @property
    def keys(self) -> Path:
        """Hub key, service key, the hub's own reader key."""
        return self.root / "keys"

    @property
    def log(self) -> Path:
        """Segments: the truth."""
        return self.root / "log"

    def segment(self, number: int) -> Path:
        """One segment file."""
        return self.log / f"{number:08d}.seg"

    @property
    def labels(self) -> Path:
        """Per-label indexes; derived."""
        return self.root / "labels"

    def label(self, label: Label) -> Path:
        """The directory of one label."""
        return self.labels / label.hex()

    def label_names(self) -> list[Label]:
        """Labels that have a directory, sorted; anything else that lies there is not ours."""
        if not self.labels.is_dir():
            return []
        names = (path.name for path in self.labels.iterdir() if path.is_dir())
        return sorted(Label(bytes.fromhex(name)) for name in names if _HEX64.fullmatch(name))

    @property
    def leaves(self) -> Path:
        """leaf_hash to position; derived."""
        return self.root / "leaves.sqlite"

    @property
    def snapshot(self) -> Path:
        """Cursors at a known position of the log, so that a start replays only the tail."""
        return self.root / "snapshot"

    @property
    def prune_intent(self) -> Path:
        """Names the segment whose index is being rewritten."""
        return self.root / "prune.intent"

    @property
    def rebuild_intent(self) -> Path:
        """There while every index is being made anew; a start finishes it."""
        return self.root / "rebuild.intent"

    @property
    def manifests(self) -> Path:
        """Signed checkpoint manifests, one file each, named by manifest_id."""
        return self.root / "manifests"

    @property
    def rotations(self) -> Path:
        """Rotation and fork records, framed."""
        return self.root / "rotations.log"

    @property
    def findings(self) -> Path:
        """Evidence of equivocation and damage, framed."""
        return self.root / "findings.log"

    @property
    def attachments(self) -> Path:
        """Sealed attachments by coid."""
        return self.root / "attachments"

    @property
    def tokens(self) -> Path:
        """Read tokens: hashes only."""
        return self.root / "tokens.json"

    @property
    def control(self) -> Path:
        """Control socket."""
        return self.root / "control.sock"

    @property
    def runtime(self) -> Path:
        """Address and pid of the running hub."""
        return self.root / "hub.json"

    def default_heads(self) -> Path:
        """The guard against forking one's own log lies outside the directory it guards."""
        return self.root.with_name(self.root.name + ".heads")

    def segment_numbers(self) -> list[int]:
        """Numbers of the segments on disk, ascending."""
        if not self.log.is_dir():
            return []
        return sorted(
            int(path.stem)
            for path in self.log.glob("*.seg")
            if path.stem.isdigit() and len(path.stem) == 8
        )
