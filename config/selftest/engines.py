"""One Spark engine over a bundle's lake, in its own process: descriptors in, digests out [query].

A master is a setting and a session cannot be changed, so each is tried by a child process. It reads
one JSON document from stdin and prints a line for each descriptor of each pass.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from config.selftest.bundle import clean_environment
from hub.errors import ErrorCode, VeenError

if TYPE_CHECKING:
    from config.selftest.cluster import Cluster

Tasks = Sequence[int | None]  # how many parts to cut the work into, descriptor after descriptor
_LAST_WORDS: Final = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePlan:
    """Which master, and the passes over all descriptors, each with its own cut."""

    state: Path
    master: str
    passes: Sequence[Tasks]
    cluster: Cluster | None = None

    def settings(self) -> dict[str, str]:
        """As the worker would be told."""
        found = {"VEEN_DATA_DIR": str(self.state), "VEEN_SPARK_MASTER": self.master}
        if self.cluster is not None:
            found["VEEN_SPARK_PROPERTIES_FILE"] = str(self.cluster.properties_file)
        return found


def answers(plan: EnginePlan, descriptors: Sequence[bytes]) -> Iterator[dict[str, Any]]:
    """What the engine says to each descriptor, pass after pass."""
    job = {"passes": plan.passes, "descriptors": [one.decode() for one in descriptors]}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "config.selftest.engines"],
            env=clean_environment(**plan.settings()),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with process.stdin as pipe:
                pipe.write(json.dumps(job).encode())
            for line in process.stdout:
                yield json.loads(line)
            if process.wait(60):
                log.seek(0)
                last = log.read()[-_LAST_WORDS:].decode(errors="replace")
                raise VeenError(ErrorCode.PROTOCOL, f"the engine on {plan.master} ended: {last}")
        finally:
            process.stdout.close()
            if process.poll() is None:
                process.kill()
                process.wait()


def main() -> None:
    """The child."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django  # noqa: PLC0415 - nothing of the worker can be imported before its setup

    django.setup()
    from django.conf import settings  # noqa: PLC0415

    from config.spark_driver import SparkDriver  # noqa: PLC0415

    job = json.load(sys.stdin)
    scratch = Path(tempfile.mkdtemp(prefix="ve-"))
    driver = SparkDriver(settings.VEEN, scratch)
    try:
        ask = _asker(driver, scratch)
        for tasks in job["passes"]:
            for number, source in enumerate(job["descriptors"]):
                found = ask(source.encode(), tasks[number % len(tasks)])
                sys.stdout.write(json.dumps(found) + "\n")
                sys.stdout.flush()
    finally:
        driver.close()
        shutil.rmtree(scratch, ignore_errors=True)


def _asker(driver: Any, scratch: Path) -> Callable[[bytes, int | None], dict[str, Any]]:  # noqa: ANN401 - its module needs settings
    from django.conf import settings  # noqa: PLC0415

    from config.lake_work import LakeWork  # noqa: PLC0415
    from config.query_run import means_of, streams_of  # noqa: PLC0415
    from queryapi.contract.codes import QueryError  # noqa: PLC0415
    from queryapi.contract.descriptor_reader import read_recorded  # noqa: PLC0415
    from spark_jobs.query import run_query  # noqa: PLC0415
    from spark_jobs.query_job import QueryJob  # noqa: PLC0415

    around = LakeWork(settings.STATE, settings.VEEN, driver).surroundings()

    def ask(source: bytes, tasks: int | None) -> dict[str, Any]:
        descriptor = read_recorded(source)
        means = means_of(around, streams_of(descriptor))
        folder = Path(tempfile.mkdtemp(dir=scratch))
        job = QueryJob(
            descriptor=descriptor, lake=around.lake, folder=folder, means=means, tasks=tasks
        )
        try:
            found = run_query(driver.session(), job)
        except QueryError as failure:
            return {"error_code": failure.error_code.value, "message": failure.message}
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return {
            "rows_hash": found.rows_hash,
            "evidence_hash": found.evidence_hash,
            "row_count": found.row_count,
            "unreadable_count": found.unreadable_count,
        }

    return ask


if __name__ == "__main__":
    main()
