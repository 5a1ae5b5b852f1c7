"""`veen selftest fuzz`: mutated objects for every decoder, nothing but refusals may come out [C8].

A finding is an exception that is no VeenError, a second spelling that is accepted, an input that
takes too long, or memory that grows. Each is given with the input in hex and the seed of the run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Final

from hub.errors import VeenError
from hub.selftest.checks import Check, Checks, NotHeldError, require
from hub.selftest.fuzz_targets import canaries, targets
from hub.selftest.kinds import Kind
from hub.selftest.mutation import mutate

RSS_GROWTH_MAX: Final = 64 * 1024 * 1024
SLOW_S: Final = 2.0
_POOL_MAX: Final = 256
_CANARY_RUNS: Final = 200_000
_LOOK_EVERY: Final = 64  # inputs between two looks at clock and memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One input that shows a bug."""

    data: bytes
    reason: str


@dataclass(slots=True)
class Tally:
    """What became of the inputs."""

    runs: int = 0
    accepted: int = 0
    finding: Finding | None = None


def try_input(kind: Kind, data: bytes) -> bool:
    """Whether the decoder took it; raises whatever is no refusal."""
    try:
        value = kind.decode(data)
    except VeenError:
        return False
    if kind.encode is not None:
        again = kind.encode(value)
        require(again == data, f"accepted, but its only spelling is {again.hex()}")
    if kind.verify is not None:
        try:
            kind.verify(value)
        except VeenError:
            return True
    return True


def judge(kind: Kind, data: bytes) -> tuple[bool, Finding | None]:
    """Try one input and say what is wrong with what happened, if anything."""
    started = perf_counter()
    try:
        taken = try_input(kind, data)
    except NotHeldError as flaw:
        return True, Finding(data=data, reason=str(flaw))
    except (Exception, RecursionError, MemoryError) as escaped:  # noqa: BLE001 - the finding
        return False, Finding(data=data, reason=f"{type(escaped).__name__}: {escaped}")
    seconds = perf_counter() - started
    if seconds > SLOW_S:
        return taken, Finding(data=data, reason=f"took {seconds:.1f} s")
    return taken, None


def fuzz_kind(
    kind: Kind, seed: int, *, seconds: float | None = None, runs: int | None = None
) -> Tally:
    """Mutate until the time or the number of runs is over, or something is found."""
    rng = Random(f"{seed}/{kind.name}")  # noqa: S311 - to be repeated, not to be secret
    pool = list(kind.seeds)
    tally = Tally()
    ends = perf_counter() + (seconds if seconds is not None else 3600)
    before = reset_peak_rss()
    while runs is None or tally.runs < runs:
        fresh = tally.runs < len(kind.seeds)  # every seed once as it is
        data = kind.seeds[tally.runs] if fresh else mutate(rng.choice(pool), rng, pool)
        taken, tally.finding = judge(kind, data)
        tally.runs += 1
        tally.accepted += taken
        if tally.finding is None and tally.runs % _LOOK_EVERY == 0:
            tally.finding = _grown(before, data)
            if perf_counter() > ends:
                break
        if tally.finding is not None:
            break
        if taken and not fresh:  # what passed is a better start than what did not
            if len(pool) < _POOL_MAX:
                pool.append(data)
            else:
                pool[rng.randrange(len(kind.seeds), _POOL_MAX)] = data
    tally.finding = tally.finding or _grown(before, b"")
    return tally


def _grown(before: int, data: bytes) -> Finding | None:
    grown = peak_rss() - before
    if grown <= RSS_GROWTH_MAX:
        return None
    return Finding(data=data, reason=f"memory grew by {grown >> 20} MiB, by this input or before")


def peak_rss() -> int:
    """The most resident memory this process had since the last reset."""
    return _status_bytes("VmHWM:")


def reset_peak_rss() -> int:
    """Start counting anew where the system permits it; the memory in use now."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return peak_rss()  # An earlier peak then hides growth below it, never more.
    return _status_bytes("VmRSS:")


def _status_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise NotHeldError(f"the system does not tell {field}")


def run_fuzz(
    say: Callable[[Check], None],
    *,
    seed: int,
    seconds: float | None = None,
    runs: int | None = None,
) -> Checks:
    """All targets and all canaries, the time shared out evenly."""
    checks = Checks("fuzz", say)
    checks.facts["seed"] = seed
    kinds = targets()
    share = None if seconds is None else seconds / len(kinds)
    checks.group = "canary"
    for kind in canaries():
        checks.hold(f"{kind.name} is found", lambda kind=kind: _find_canary(kind, seed))  # type: ignore[misc]
    checks.group = "fuzz"
    total = accepted = 0
    for kind in kinds:
        tally = fuzz_kind(kind, seed, seconds=share, runs=runs)
        total += tally.runs
        accepted += tally.accepted
        name = f"{kind.name}: {tally.runs} inputs, {tally.accepted} well formed"
        checks.hold(name, lambda tally=tally: _no_finding(tally, seed))  # type: ignore[misc]
    checks.facts |= {"targets": len(kinds), "inputs": total, "well_formed": accepted}
    return checks


def _find_canary(kind: Kind, seed: int) -> None:
    tally = fuzz_kind(kind, seed, runs=_CANARY_RUNS)
    require(tally.finding is not None, f"not within {tally.runs} inputs: the fuzzer is blind")


def _no_finding(tally: Tally, seed: int) -> None:
    found = tally.finding
    if found is not None:
        raise NotHeldError(f"{found.reason}; seed {seed}, input {found.data.hex()}")
