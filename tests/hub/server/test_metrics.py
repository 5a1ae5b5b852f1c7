from __future__ import annotations

import json
import marshal
import math
import random
import re

import pytest

from hub.server.metrics import (
    Counter,
    Gauge,
    Histogram,
    hub_metrics,
    merge,
    render,
    snapshot,
    total,
)

OBS0_NAMES = {
    "veen_submit_ok_total": "counter",
    "veen_submit_err_total": "counter",
    "veen_verify_latency_ms": "histogram",
    "veen_commit_latency_ms": "histogram",
    "veen_end_to_end_latency_ms": "histogram",
    "veen_queue_depth": "gauge",
    "veen_rate_limited_total": "counter",
    "veen_checkpoint_interval": "histogram",
    "veen_anchor_fail_total": "counter",
}


def test_every_name_of_obs0_is_there_with_its_type() -> None:
    text = render([hub_metrics().snapshot()])
    for name, kind in OBS0_NAMES.items():
        assert f"# TYPE {name} {kind}\n" in text
        assert f"# HELP {name} " in text


def test_the_text_is_prometheus_0_0_4() -> None:
    metrics = hub_metrics()
    metrics.submit_err.inc("E.SIG")
    metrics.process_rss.set(12_345_678, "writer")
    metrics.verify_latency.observe(0.3)
    line = re.compile(
        r"# (HELP|TYPE) [a-z_]+ .+"
        r'|[a-z_]+(\{[a-z]+="[^"\n]*"\})? (\+Inf|-?[0-9.e+-]+)'
    )
    text = render([metrics.snapshot()])
    assert text.endswith("\n")
    for each in text.splitlines():
        assert line.fullmatch(each), each
    assert 'veen_submit_err_total{code="E.SIG"} 1\n' in text
    assert 'veen_process_rss_bytes{process="writer"} 12345678\n' in text


def test_no_metric_carries_a_stream_label() -> None:
    """Labels are pseudonyms of streams; a time series for each would link them."""
    samples = hub_metrics().snapshot()
    assert {label for sample in samples.values() for label in sample["labels"]} == {
        "code",
        "process",
    }


def test_a_histogram_counts_what_is_at_most_each_bound() -> None:
    histogram = Histogram("h", "Help.", (1, 2.5, 5))
    for value in (0, 1, 1.1, 2.5, 2.6, 5, 5.1, 1000):
        histogram.observe(value)
    assert render([snapshot([histogram])]) == (
        "# HELP h Help.\n"
        "# TYPE h histogram\n"
        'h_bucket{le="1"} 2\n'
        'h_bucket{le="2.5"} 4\n'
        'h_bucket{le="5"} 6\n'
        'h_bucket{le="+Inf"} 8\n'
        "h_sum 1017.3\n"
        "h_count 8\n"
    )


def test_merging_processes_equals_counting_in_one(rng: random.Random) -> None:
    processes = [hub_metrics() for _ in range(3)]
    one = hub_metrics()
    for _ in range(1000):
        each = rng.choice(processes)
        code = rng.choice(["E.SIG", "E.SEQ", "E.DUP"])
        value = rng.randrange(20_000)
        for metrics in (each, one):
            metrics.submit_ok.inc(by=3)
            metrics.submit_err.inc(code)
            metrics.commit_latency.observe(value)
    merged = render(metrics.snapshot() for metrics in processes)
    assert sorted(merged.splitlines()) == sorted(render([one.snapshot()]).splitlines())


def test_gauges_of_several_processes_are_added() -> None:
    processes = [hub_metrics() for _ in range(3)]
    for number, metrics in enumerate(processes):
        metrics.http_connections.set(10 + number)
        metrics.process_rss.set(100, f"http-{number}")
    text = render(metrics.snapshot() for metrics in processes)
    assert "veen_http_connections 33\n" in text
    assert 'veen_process_rss_bytes{process="http-2"} 100\n' in text


def test_a_snapshot_survives_json_and_marshal() -> None:
    metrics = hub_metrics()
    metrics.submit_err.inc("E.SIG")
    metrics.fsync_latency.observe(1.5)
    here = metrics.snapshot()
    for there in (json.loads(json.dumps(here)), marshal.loads(marshal.dumps(here))):  # noqa: S302 - own bytes
        assert render([there]) == render([here])
        assert render([here, there]) == render([there, here])


def test_merging_leaves_the_snapshots_as_they_were() -> None:
    metrics = hub_metrics()
    metrics.submit_err.inc("E.SIG")
    before = metrics.snapshot()
    text = render([before])
    merge([before, before])
    assert render([before]) == text


def test_label_values_and_help_are_escaped() -> None:
    counter = Counter("c_total", 'Say "hi" \\ twice\nor not.', ("code",))
    counter.inc('a"b\\c\nd')
    assert render([snapshot([counter])]) == (
        '# HELP c_total Say "hi" \\\\ twice\\nor not.\n'
        "# TYPE c_total counter\n"
        'c_total{code="a\\"b\\\\c\\nd"} 1\n'
    )


def test_label_values_beyond_the_bound_are_counted_together() -> None:
    counter = Counter("c_total", "Help.", ("code",))
    for number in range(1000):
        counter.inc(f"v{number}")
    text = render([snapshot([counter])])
    assert text.count("c_total{") == 65
    assert 'c_total{code="other"} 936\n' in text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (2**60, str(2**60)), (0.1, "0.1"), (math.inf, "+Inf"), (-math.inf, "-Inf"),
     (math.nan, "NaN")],
)  # fmt: skip
def test_numbers_are_written_as_prometheus_reads_them(number: float, text: str) -> None:
    gauge = Gauge("g", "Help.")
    gauge.set(number)
    assert render([snapshot([gauge])]).splitlines()[-1] == f"g {text}"


def test_a_counter_never_falls() -> None:
    with pytest.raises(AssertionError):
        Counter("c_total", "Help.").inc(by=-1)


def test_no_snapshots_render_to_nothing() -> None:
    assert render([]) == ""


def test_the_total_of_a_metric_adds_its_series() -> None:
    gauge = Gauge("g", "Help.", ("process",))
    gauge.set(2, "a")
    gauge.set(3, "b")
    assert total(snapshot([gauge]), "g") == 5
    assert total(snapshot([]), "g") == 0
