"""What one execution of a query is given and gives back [Query 8; architecture, Queries]."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from queryapi.contract.descriptor import Descriptor
from spark_jobs.evidence_trust import Means

ROWS_MAX: Final = 5_000_000
BYTES_MAX: Final = 4 * 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLimits:
    """A result beyond these fails; it is never cut."""

    rows_max: int = ROWS_MAX
    bytes_max: int = BYTES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryJob:
    """A pinned question, the lake that answers it, and an empty folder that every task can reach.

    `lake` and `folder` must be paths that the executors share with the driver.
    """

    descriptor: Descriptor
    lake: Path
    folder: Path
    limits: QueryLimits = QueryLimits()
    means: Means | None = None  # needed by every mode of evidence but none
    tasks: int | None = None  # how many to cut the work into; by its size when None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOutcome:
    """What the digest is made from; rows, index and evidence lie in the job's folder."""

    row_count: int
    rows_bytes: int
    rows_hash: str
    evidence_hash: str
    unreadable_count: int
