"""Counters, gauges and histograms of several processes, in Prometheus text [spec-1 27, OBS0.1].

Every process owns one registry and never locks it. It hands out a snapshot of plain lists; whoever
answers /metrics merges the snapshots of all processes and renders the sum. No metric carries a
stream label: labels are pseudonyms, and a time series per pseudonym would link them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypedDict

Number = int | float

_SERIES_MAX: Final = 64  # of one metric: label values are a closed set, this bounds a mistake
_OTHER: Final = "other"


class Sample(TypedDict):
    """One metric as a process sees it: nothing but lists, strings and numbers."""

    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: list[str]
    series: list[tuple[list[str], Number]]  # counters and gauges
    bounds: list[Number]  # histograms, as are the two below
    counts: list[int]
    sum: Number


Snapshot = dict[str, Sample]


class _Series:
    """The values of a counter or gauge, one for each combination of label values."""

    __slots__ = ("_labels", "_values", "help", "name")

    kind: Literal["counter", "gauge"]

    def __init__(self, name: str, help: str, labels: Sequence[str] = ()) -> None:  # noqa: A002 - the format's own word
        self.name = name
        self.help = help
        self._labels = tuple(labels)
        self._values: dict[tuple[str, ...], Number] = {} if labels else {(): 0}

    def _key(self, values: tuple[str, ...]) -> tuple[str, ...]:
        if values in self._values:
            return values
        assert len(values) == len(self._labels)
        return values if len(self._values) < _SERIES_MAX else (_OTHER,) * len(values)

    def sample(self) -> Sample:
        return Sample(
            kind=self.kind,
            help=self.help,
            labels=list(self._labels),
            series=[(list(values), number) for values, number in self._values.items()],
            bounds=[],
            counts=[],
            sum=0,
        )


class Counter(_Series):
    """A number that only grows while its process lives."""

    __slots__ = ()

    kind = "counter"

    def inc(self, *values: str, by: Number = 1) -> None:
        assert by >= 0
        key = self._key(values)
        self._values[key] = self._values.get(key, 0) + by


class Gauge(_Series):
    """A number as it is now; equal series of several processes are added."""

    __slots__ = ()

    kind = "gauge"

    def set(self, number: Number, *values: str) -> None:
        self._values[self._key(values)] = number


class Histogram:
    """How many observations were at most each bound."""

    __slots__ = ("_bounds", "_counts", "_sum", "help", "name")

    def __init__(self, name: str, help: str, buckets: Sequence[Number]) -> None:  # noqa: A002 - the format's own word
        assert list(buckets) == sorted(set(buckets))
        self.name = name
        self.help = help
        self._bounds = list(buckets)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum: Number = 0

    def observe(self, number: Number, times: int = 1) -> None:
        self._counts[bisect_left(self._bounds, number)] += times
        self._sum += number * times

    def sample(self) -> Sample:
        return Sample(
            kind="histogram",
            help=self.help,
            labels=[],
            series=[],
            bounds=list(self._bounds),
            counts=list(self._counts),
            sum=self._sum,
        )


Metric = Counter | Gauge | Histogram


def snapshot(metrics: Iterable[Metric]) -> Snapshot:
    """The metrics as values that survive json, marshal and cbor."""
    return {metric.name: metric.sample() for metric in metrics}


def total(snapshot: Snapshot, name: str) -> Number:
    """All series of one counter or gauge together."""
    return sum([number for _, number in snapshot[name]["series"]]) if name in snapshot else 0


def merge(snapshots: Iterable[Snapshot]) -> Snapshot:
    """Add the snapshots of several processes; the order of the first one is kept."""
    merged: Snapshot = {}
    for each in snapshots:
        for name, sample in each.items():
            merged[name] = _added(merged[name], sample) if name in merged else sample
    return merged


def _added(one: Sample, other: Sample) -> Sample:
    same = all(one[key] == other[key] for key in ("kind", "labels", "bounds"))
    assert same, "two processes define one metric differently"
    series = {tuple(values): number for values, number in one["series"]}
    for values, number in other["series"]:
        series[tuple(values)] = series.get(tuple(values), 0) + number
    return Sample(
        kind=one["kind"],
        help=one["help"],
        labels=one["labels"],
        series=[(list(values), number) for values, number in series.items()],
        bounds=one["bounds"],
        counts=[a + b for a, b in zip(one["counts"], other["counts"], strict=True)],
        sum=one["sum"] + other["sum"],
    )


def render(snapshots: Iterable[Snapshot]) -> str:
    """The sum of the snapshots in the Prometheus text format, version 0.0.4."""
    lines: list[str] = []
    for name, sample in merge(snapshots).items():
        lines.append(f"# HELP {name} {_escaped(sample['help'])}")
        lines.append(f"# TYPE {name} {sample['kind']}")
        if sample["kind"] == "histogram":
            lines.extend(_histogram_lines(name, sample))
        for values, number in sample["series"]:
            lines.append(f"{name}{_label_set(sample['labels'], values)} {_text(number)}")
    return "\n".join(lines) + "\n" if lines else ""


def _histogram_lines(name: str, sample: Sample) -> list[str]:
    lines: list[str] = []
    total = 0
    for bound, count in zip([*sample["bounds"], math.inf], sample["counts"], strict=True):
        total += count
        lines.append(f'{name}_bucket{{le="{_text(bound)}"}} {total}')
    lines.append(f"{name}_sum {_text(sample['sum'])}")
    lines.append(f"{name}_count {total}")
    return lines


def _label_set(names: Sequence[str], values: Sequence[str]) -> str:
    pairs = (
        f'{name}="{_escaped(value, quote=True)}"' for name, value in zip(names, values, strict=True)
    )
    return "{" + ",".join(pairs) + "}" if names else ""


def _escaped(text: str, *, quote: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quote else text


def _text(number: Number) -> str:
    if isinstance(number, int):
        return str(number)
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    return "NaN" if math.isnan(number) else repr(number)


LATENCY_MS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000)
BATCH_MESSAGES: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
INTERVAL_S: Final = (1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 86400)


@dataclass(frozen=True, slots=True, kw_only=True)
class HubMetrics:
    """The metrics of the hub; those up to anchor_fail are named by OBS0.1."""

    submit_ok: Counter
    submit_err: Counter
    verify_latency: Histogram
    commit_latency: Histogram
    end_to_end_latency: Histogram
    queue_depth: Gauge
    queue_full: Gauge
    rate_limited: Counter
    checkpoint_interval: Histogram
    anchor_fail: Counter
    fsync_latency: Histogram
    fsync: Counter
    batch_messages: Histogram
    proof_latency: Histogram
    log_bytes: Gauge
    process_rss: Gauge
    http_connections: Gauge

    def snapshot(self) -> Snapshot:
        return snapshot(getattr(self, name) for name in self.__slots__)


def hub_metrics() -> HubMetrics:
    """One process's own set, everything at zero."""
    return HubMetrics(
        submit_ok=Counter("veen_submit_ok_total", "Messages committed and receipted."),
        submit_err=Counter("veen_submit_err_total", "Messages refused, by code.", ("code",)),
        verify_latency=Histogram(
            "veen_verify_latency_ms", "Form and signature checks of a message.", LATENCY_MS
        ),
        commit_latency=Histogram(
            "veen_commit_latency_ms", "From the writer's queue to the disk.", LATENCY_MS
        ),
        end_to_end_latency=Histogram(
            "veen_end_to_end_latency_ms", "From the request's head to its answer.", LATENCY_MS
        ),
        queue_depth=Gauge("veen_queue_depth", "Messages between the socket and the log."),
        queue_full=Gauge(
            "veen_queue_full", "HTTP processes that answered E.BUSY for a full queue just now."
        ),
        rate_limited=Counter("veen_rate_limited_total", "Messages refused by a token bucket."),
        checkpoint_interval=Histogram(
            "veen_checkpoint_interval", "Seconds between two checkpoints of a stream.", INTERVAL_S
        ),
        anchor_fail=Counter("veen_anchor_fail_total", "Anchors that could not be written."),
        fsync_latency=Histogram("veen_fsync_latency_ms", "One sync of the log.", LATENCY_MS),
        fsync=Counter("veen_fsync_total", "Syncs of the log."),
        batch_messages=Histogram(
            "veen_batch_messages", "Messages made durable by one sync.", BATCH_MESSAGES
        ),
        proof_latency=Histogram("veen_proof_latency_ms", "Making one proof.", LATENCY_MS),
        log_bytes=Gauge("veen_log_bytes", "Bytes of the log on disk."),
        process_rss=Gauge("veen_process_rss_bytes", "Resident memory, by process.", ("process",)),
        http_connections=Gauge("veen_http_connections", "Open connections of the data plane."),
    )
