"""Which roots and keys a query's evidence rests on: those a pinned key vouches for [KEX0.1]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hub.errors import ErrorCode, VeenError
from hub.types import PublicKey
from queryapi.contract.codes import QueryCode, QueryError, failed_at
from queryapi.contract.coverage import Coverage
from spark_jobs.chunk import StreamPlace
from spark_jobs.evidence_events import Witness
from spark_jobs.trust import check_head, claimed_peaks, open_chain

# Says nothing of what the log holds.
_AWAY: Final = frozenset({ErrorCode.UNREACHABLE, ErrorCode.BUSY})


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """How a query verifies: the pinned key, and a place with log and reader keys per stream."""

    hub_pk: PublicKey
    places: Mapping[str, StreamPlace]
    records: StreamPlace | None = None  # record/infrastructure/lake, which fixes sealed files
    parent_keys: tuple[PublicKey, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """One stream's coverage, checked to end in a root that counts."""

    witness: Witness
    before: tuple[bytes, ...]  # peaks of what was pruned before the coverage, as claimed


def check_ground(means: Means, coverage: Sequence[Coverage]) -> dict[str, Ground]:
    """Every stream with events, or evidence_failed at the end of one whose root nobody signed."""
    found = {}
    for part in coverage:
        if part.to_seq == 0:
            continue
        place = means.places.get(part.stream)
        if place is None or place.label != part.label or place.hub_id != part.hub_id:
            message = f"{part.stream}: this zone has no log to verify it with"
            raise QueryError(QueryCode.EXECUTION_FAILED, message)
        found[part.stream] = _check_end(means, place, part)
    return found


def _check_end(means: Means, place: StreamPlace, part: Coverage) -> Ground:
    log = place.source.open()
    try:
        chain = open_chain(log, means.hub_pk, means.parent_keys)
        receipt = check_head(log, chain, part.label, part.to_seq)
        before = claimed_peaks(log, part.label, part.from_seq - 1)
    except (VeenError, OSError) as refusal:
        if isinstance(refusal, VeenError) and refusal.code in _AWAY:
            message = f"{part.stream}: the log cannot be asked now"
            raise QueryError(QueryCode.LAKE_BEHIND, message) from refusal
        told = refusal.detail if isinstance(refusal, VeenError) else refusal.strerror
        reason = f"the root is not vouched for: {told}"
        raise failed_at(QueryCode.EVIDENCE_FAILED, part.stream, part.to_seq, reason) from refusal
    finally:
        log.close()
    if chain.hub_id != part.hub_id:
        reason = "the pinned key is not of the coverage's hub"
        raise failed_at(QueryCode.EVIDENCE_FAILED, part.stream, part.to_seq, reason)
    if receipt.mmr_root != part.mmr_root:
        reason = "the log's own root is not that of the coverage"
        raise failed_at(QueryCode.EVIDENCE_FAILED, part.stream, part.to_seq, reason)
    witness = Witness(
        stream=part.stream,
        label=part.label,
        hub_id=part.hub_id,
        hub_keys=tuple(reversed(chain.keys)),
        secrets=place.secrets,
    )
    return Ground(witness=witness, before=tuple(before))
