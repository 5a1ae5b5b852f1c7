"""Whether this zone's log holds what a coverage names, before anything is ingested [query].

A descriptor may be another zone's: then its log, or the end of its coverage, is not here, and no
waiting brings it. A lake that is only behind its log is another matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from config.lake_plans import Surroundings
from hub.errors import ErrorCode, VeenError
from hub.wire.receipt import Receipt
from queryapi.contract.codes import QueryCode, QueryError
from queryapi.contract.coverage import Coverage
from queryapi.contract.descriptor import Mode
from recorder.models import Stream
from spark_jobs.query_damage import code_of
from spark_jobs.sources import OpenLog


def check_reach(
    around: Surroundings, coverage: Sequence[Coverage], found: Mapping[str, Stream], mode: Mode
) -> None:
    """Raise coverage_incomplete with every missing range, or coverage_mismatch."""
    log = around.source.open()
    try:
        _check_ends(around, log, coverage, found)
        for part in coverage:
            _check_root(log, part)
    except QueryError:
        raise
    except VeenError as refusal:
        if refusal.code is not ErrorCode.DAMAGE:
            raise
        raise QueryError(code_of(mode), "The log of this zone is damaged.") from refusal
    finally:
        log.close()


def _check_ends(
    around: Surroundings, log: OpenLog, coverage: Sequence[Coverage], found: Mapping[str, Stream]
) -> None:
    missing = [
        f"{part.stream}: {_range(first, part.to_seq)}"
        for part in coverage
        if (first := _first_missing(around, log, part, found.get(part.stream))) is not None
    ]
    if missing:
        raise QueryError(QueryCode.COVERAGE_INCOMPLETE, "; ".join(missing))


def _first_missing(
    around: Surroundings, log: OpenLog, part: Coverage, stream: Stream | None
) -> int | None:
    is_ours = part.hub_id == around.pin.hub_id
    if not is_ours or stream is None or stream.label != part.label.hex():
        return part.from_seq
    head = log.head(part.label)
    held = 0 if head is None else Receipt.decode(head).stream_seq
    return None if part.to_seq <= held else max(part.from_seq, held + 1)


def _range(first: int, last: int) -> str:
    return f"{first} to {last} are not held here" if first <= last else "this log is not held here"


def _check_root(log: OpenLog, part: Coverage) -> None:
    if part.to_seq == 0:
        return
    if Receipt.decode(log.receipt(part.label, part.to_seq)).mmr_root != part.mmr_root:
        other = f"{part.stream}: the root at {part.to_seq} is another one here"
        raise QueryError(QueryCode.COVERAGE_MISMATCH, other)
