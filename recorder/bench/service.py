"""A service that records as fast as it can: the measured process of `bench record` [interfaces].

`python -m recorder.bench.service CONNECTION EVENTS` prints one JSON object.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from recorder.bench.ground import EVENT_TYPE, event
from recorder.sdk import Recorder


def measure(connection: Path, count: int) -> dict[str, Any]:
    """Record so many events and wait for all their receipts."""
    events = [event(number) for number in range(count)]
    with Recorder(connection, connection.with_suffix(".spool")) as recorder:
        recorder.record_and_wait(event_type=EVENT_TYPE, subject_id="first", timeout=30)
        cpu, started = time.process_time(), time.perf_counter()
        for one in events:
            recorder.record(**one)  # type: ignore[arg-type]
        enqueued = time.perf_counter()
        if not recorder.flush(600):
            raise TimeoutError("events without receipt")
        ended = time.perf_counter()
        return {
            "enqueue_per_s": count / (enqueued - started),
            "per_s": count / (ended - started),
            "cpu_s": time.process_time() - cpu,
        }


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), int(sys.argv[2]))))  # noqa: T201 - for the benchmark
