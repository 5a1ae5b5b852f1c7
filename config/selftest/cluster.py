"""A standalone Spark cluster on loopback: a master, two workers, encrypted [architecture]."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from config.selftest.bundle import free_port, until
from hub.errors import ErrorCode, VeenError
from spark_jobs.session import REQUIRED_REMOTE

WORKERS: Final = 2
START_S: Final = 90.0
PROPERTIES: Final = {
    **dict.fromkeys(REQUIRED_REMOTE, "true"),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": str(WORKERS),
    "spark.ui.enabled": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Where a driver finds it, and the file with its secret."""

    master: str
    properties_file: Path


@contextlib.contextmanager
def running_cluster(folder: Path, java_home: Path) -> Iterator[Cluster]:
    """Real processes of Spark's own, ended with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    properties = folder / "spark.properties"
    lines = {**PROPERTIES, "spark.authenticate.secret": secrets.token_hex(16)}
    properties.touch(mode=0o600)
    properties.write_text("".join(f"{name} {value}\n" for name, value in lines.items()))
    port = free_port()
    cluster = Cluster(master=f"spark://127.0.0.1:{port}", properties_file=properties)
    nodes = _Nodes(folder, java_home, properties)
    try:
        nodes.start("Master", "--port", str(port))
        nodes.wait("I have been elected leader", 1)
        for _ in range(WORKERS):
            nodes.start("Worker", "--cores", "1", "--memory", "1g", cluster.master)
        nodes.wait("Successfully registered with master", WORKERS)
        yield cluster
    finally:
        nodes.kill()


class _Nodes:
    """The processes of one cluster and what they say."""

    def __init__(self, folder: Path, java_home: Path, properties: Path) -> None:
        import pyspark  # noqa: PLC0415 - costs half a second

        self._launch = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
        self._log = folder / "cluster.log"
        self._properties = properties
        self._environment = {
            "PATH": os.environ["PATH"],
            "JAVA_HOME": str(java_home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(folder / "work"),
            "SPARK_LOCAL_DIRS": str(folder / "scratch"),
            "PYSPARK_PYTHON": sys.executable,
        }
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, role: str, *args: str) -> None:
        command = [self._launch, f"org.apache.spark.deploy.{role.lower()}.{role}"]
        command += ["--host", "127.0.0.1", "--webui-port", "0"]
        command += ["--properties-file", str(self._properties), *args]
        with self._log.open("ab") as output:
            self._started.append(
                subprocess.Popen(
                    command,
                    env=self._environment,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            )

    def wait(self, text: str, times: int) -> None:
        until(lambda: self._has_said(text, times), f"the cluster says {text!r}", START_S)

    def _has_said(self, text: str, times: int) -> bool:
        told = self._log.read_text()
        if any(one.poll() is not None for one in self._started):
            raise VeenError(ErrorCode.CONFIG, f"the cluster did not start: {told[-400:]}")
        return told.count(text) >= times

    def kill(self) -> None:
        for one in self._started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
            one.wait(30)
