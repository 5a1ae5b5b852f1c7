"""A standalone Spark cluster on loopback: a master and two workers, authenticated and encrypted."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark

from spark_jobs.session import REQUIRED_REMOTE
from tests.support.live_hub import until

WORKERS = 2
PROPERTIES = {
    **dict.fromkeys(REQUIRED_REMOTE, "true"),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": str(WORKERS),
    "spark.ui.enabled": "false",
}


@dataclass(frozen=True, kw_only=True)
class Cluster:
    master: str
    properties_file: Path


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running_cluster(folder: Path, java_home: Path) -> Iterator[Cluster]:
    """Real processes of Spark's own, ended with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    properties = folder / "spark.properties"
    lines = {**PROPERTIES, "spark.authenticate.secret": secrets.token_hex(16)}
    properties.touch(mode=0o600)
    properties.write_text("".join(f"{name} {value}\n" for name, value in lines.items()))
    port = _free_port()
    master = f"spark://127.0.0.1:{port}"
    started: list[subprocess.Popen[bytes]] = []
    log = folder / "cluster.log"
    launch = [str(Path(pyspark.__file__).parent / "bin" / "spark-class")]
    environment = {
        "PATH": os.environ["PATH"],
        "JAVA_HOME": str(java_home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        "PYSPARK_PYTHON": sys.executable,
    }

    def start(role: str, *args: str) -> None:
        with log.open("ab") as output:
            command = [*launch, f"org.apache.spark.deploy.{role.lower()}.{role}"]
            command += ["--host", "127.0.0.1", "--webui-port", "0"]
            command += ["--properties-file", str(properties), *args]
            started.append(
                subprocess.Popen(
                    command,
                    env=environment,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            )

    def has_said(text: str, times: int) -> bool:
        assert all(one.poll() is None for one in started), log.read_text()
        return log.read_text().count(text) >= times

    try:
        start("Master", "--port", str(port))
        until(lambda: has_said("I have been elected leader", 1), timeout_s=60)
        for _ in range(WORKERS):
            start("Worker", "--cores", "1", "--memory", "1g", master)
        until(lambda: has_said("Successfully registered with master", WORKERS), timeout_s=60)
        yield Cluster(master=master, properties_file=properties)
    finally:
        for one in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
            one.wait(30)
