"""What an fsck writes down: every flaw with its place, every check with its count [SSOT 12]."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hub.crypto import signing
from hub.errors import ErrorCode, VeenError
from hub.storage.frames import Damage

Progress = Callable[[dict[str, Any]], None]

_CHUNK: Final = 128
_WAITING_MAX: Final = 32  # chunks in flight: memory stays constant however long the log is
_REPORT_EACH_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Finding:
    """One flaw. `file` is relative to the data directory."""

    file: str
    offset: int
    code: str
    reason: str


@dataclass(slots=True)
class Notes:
    """Collects findings and counts; says how far the work is."""

    root: Path
    progress: Progress | None = None
    total_bytes: int = 0
    findings: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    _done_bytes: int = 0
    _reported: int = -1

    def did(self, check: str, times: int = 1) -> None:
        """Count a check; one that found nothing to look at is counted with 0."""
        self.counts[check] += times

    def flaw(
        self, path: Path, offset: int, reason: str, code: ErrorCode = ErrorCode.DAMAGE
    ) -> None:
        """Write a flaw down."""
        name = os.path.relpath(path, self.root)
        self.findings.append(Finding(file=name, offset=offset, code=str(code), reason=reason))

    def refusal(self, path: Path, refusal: VeenError, offset: int = 0) -> None:
        """Write down what a check raised."""
        if isinstance(refusal, Damage):
            self.flaw(Path(refusal.where), refusal.offset, refusal.reason)
        else:
            self.flaw(path, offset, refusal.detail, refusal.code)

    def advance(self, done_bytes: int, entries: int) -> None:
        """Tell whoever watches, now and then."""
        self._done_bytes += done_bytes
        step = self._done_bytes // _REPORT_EACH_BYTES
        if self.progress is not None and step != self._reported:
            self._reported = step
            self.progress(
                {"bytes": self._done_bytes, "total": self.total_bytes, "entries": entries}
            )


@dataclass(frozen=True, slots=True)
class Claim:
    """A signature to check: any one of the keys may have made it."""

    path: Path
    offset: int
    what: str
    keys: Sequence[bytes]
    sig: bytes
    digest: bytes


class Signatures:
    """Checks signatures on all cores; libsodium works outside the interpreter's lock."""

    def __init__(self, notes: Notes, *, is_on: bool) -> None:
        self._notes = notes
        self._is_on = is_on
        self._chunk: list[Claim] = []
        self._waiting: deque[Future[list[Claim]]] = deque()
        self._pool = ThreadPoolExecutor(max_workers=os.cpu_count() or 1)

    def add(self, claim: Claim) -> None:
        """Check a signature, soon."""
        if not self._is_on:
            return
        self._notes.did(f"{claim.what} signature")
        self._chunk.append(claim)
        if len(self._chunk) >= _CHUNK:
            self._send()

    def _send(self) -> None:
        self._waiting.append(self._pool.submit(_refused, self._chunk))
        self._chunk = []
        if len(self._waiting) > _WAITING_MAX:
            self._take()

    def _take(self) -> None:
        for claim in self._waiting.popleft().result():
            reason = f"{claim.what} is not signed by the key it should be"
            self._notes.flaw(claim.path, claim.offset, reason, ErrorCode.SIG)

    def finish(self) -> None:
        """Wait for the last."""
        self._send()
        while self._waiting:
            self._take()
        self._pool.shutdown()


def _refused(claims: Sequence[Claim]) -> list[Claim]:
    return [claim for claim in claims if not _holds(claim)]


def _holds(claim: Claim) -> bool:
    for key in claim.keys:
        try:
            signing.verify(key, claim.sig, claim.digest)
        except VeenError:
            continue
        return True
    return False
