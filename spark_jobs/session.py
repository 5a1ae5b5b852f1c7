"""One Spark session with nothing ambient in it: own Java, UTC, ANSI, loopback [spark, How].

What a session computes must not depend on who starts it: variables and files that Spark would pick
up are kept away, and every setting that changes a value is pinned here. A master that is not local
gets our secrets over the network, so it is refused unless the cluster authenticates and encrypts.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hub.errors import ErrorCode, VeenError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROJECT: Final = Path(__file__).resolve().parent.parent
LOOPBACK: Final = "127.0.0.1"
INGEST_POOL: Final = "ingest"
QUERY_POOL: Final = "query"
# A master elsewhere is refused unless all of these are on: jobs carry reader keys.
REQUIRED_REMOTE: Final = (
    "spark.authenticate",
    "spark.network.crypto.enabled",
    "spark.io.encryption.enabled",
)
_SCRUBBED: Final = (
    "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH", "SPARK_HOME",
    "SPARK_CONF_DIR", "SPARK_DIST_CLASSPATH", "SPARK_REMOTE", "SPARK_TESTING",
    "PYSPARK_SUBMIT_ARGS", "PYSPARK_DRIVER_PYTHON", "PYSPARK_GATEWAY_PORT",
    "PYSPARK_GATEWAY_SECRET", "HADOOP_HOME", "PYTHONSTARTUP", "PYTHONPATH",
)  # fmt: skip
_SOCKET_FOLDER_BYTES_MAX: Final = 50  # the kernel takes 108, and Spark's own names are long
_JVM_END_S: Final = 8
# The JVM deals out tasks and computes little: optimizing compiler and parallel collector would take
# more from the tasks' cores, for the first hundred queries, than they ever give back.
_JVM_OPTIONS: Final = (
    "-Duser.timezone=UTC -Dfile.encoding=UTF-8 -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
)
_CLUSTER_ONLY: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPlan:
    """What a session is made from; nothing else is looked at."""

    java_home: Path
    scratch: Path  # private; shuffle files, sockets
    master: str = "local[*]"
    properties_file: Path | None = None  # of a cluster: its secret, its addresses
    driver_memory: str = "1g"
    shuffle_partitions: int = 2
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether everything runs in this driver's JVM."""
        return self.master == "local" or self.master.startswith("local[")

    def _sockets(self) -> dict[str, str]:
        """Python workers on sockets in a private folder, where a socket's name fits there."""
        folder = str(self.scratch)
        name = "spark.python.unix.domain.socket"
        if not self.is_local:
            return {f"{name}.enabled": "true"}  # in each executor's own temporary folder
        if len(folder.encode()) > _SOCKET_FOLDER_BYTES_MAX:
            return {f"{name}.enabled": "false"}  # loopback with a secret, as Spark does it
        return {f"{name}.enabled": "true", f"{name}.dir": folder}

    def settings(self) -> dict[str, str]:
        """Every Spark setting of ours."""
        here = {
            "spark.driver.bindAddress": LOOPBACK,
            "spark.driver.host": LOOPBACK,
            "spark.local.dir": str(self.scratch),
        }
        return {
            **(here if self.is_local else {}),
            "spark.master": self.master,
            "spark.app.name": "veen",
            "spark.driver.memory": self.driver_memory,
            "spark.driver.extraJavaOptions": _JVM_OPTIONS,
            "spark.executor.extraJavaOptions": _JVM_OPTIONS,
            "spark.executorEnv.PYTHONPATH": str(PROJECT),
            "spark.executorEnv.PYTHONSAFEPATH": "1",
            "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",  # its own gives back too soon
            "spark.log.level": "ERROR",
            **self._sockets(),
            "spark.scheduler.mode": "FAIR",
            "spark.sql.adaptive.enabled": "true",
            "spark.sql.ansi.enabled": "true",
            "spark.sql.caseSensitive": "true",
            "spark.sql.execution.arrow.pyspark.enabled": "true",
            "spark.sql.execution.arrow.pyspark.fallback.enabled": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": str(self.shuffle_partitions),
            "spark.sql.warehouse.dir": str(self.scratch / "warehouse"),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            **self.more,
        }


class NotStartedError(VeenError):
    """The JVM did not come up: by how it is configured, or because somebody ended it."""

    def __init__(self, reason: object) -> None:
        super().__init__(ErrorCode.CONFIG, f"Spark does not start: {reason}")


def start_session(plan: SessionPlan) -> SparkSession:
    """The one session of this process; C.CONFIG when it would not be safe or does not start."""
    check_master(plan)
    from py4j.protocol import Py4JError  # noqa: PLC0415
    from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415 - costs half a second
    from pyspark.sql import SparkSession  # noqa: PLC0415

    logging.getLogger("py4j").setLevel(logging.WARNING)  # it tells of each connection
    builder = SparkSession.builder
    for name, value in plan.settings().items():
        builder = builder.config(name, value)
    with _environment(plan):
        try:
            return builder.getOrCreate()
        except (PySparkRuntimeError, Py4JError, ConnectionError) as failure:
            forget_session()
            raise NotStartedError(failure) from failure


def check_master(plan: SessionPlan) -> None:
    """Raise C.CONFIG for a master elsewhere without authentication and encryption."""
    if plan.is_local:
        return
    given = {**_read_properties(plan.properties_file), **plan.more}
    missing = [name for name in REQUIRED_REMOTE if given.get(name) != "true"]
    if missing:
        raise VeenError(
            ErrorCode.CONFIG,
            f"the Spark master {plan.master} is not local, and jobs carry reader keys: set "
            f"{', '.join(missing)} to true in the file that VEEN_SPARK_PROPERTIES_FILE names",
        )


def _read_properties(path: Path | None) -> dict[str, str]:
    """A file of Spark's own kind; it holds the cluster's secret, so it must be private."""
    if path is None:
        return {}
    if path.stat().st_mode & 0o077:
        detail = f"{path} can be read by others and holds the cluster's secret; chmod 600"
        raise VeenError(ErrorCode.CONFIG, detail)
    found = {}
    for line in path.read_text("utf-8").splitlines():
        words = line.strip().replace("=", " ", 1).split(None, 1)
        if len(words) == 2 and not line.lstrip().startswith("#"):
            found[words[0]] = words[1].strip()
    return found


@contextlib.contextmanager
def _environment(plan: SessionPlan) -> Iterator[None]:
    """The variables a JVM is started with; Spark takes them from this process."""
    before = dict(os.environ)
    for name in (*_SCRUBBED, *(_CLUSTER_ONLY if plan.is_local else ())):
        os.environ.pop(name, None)
    for name in [name for name in os.environ if name.startswith(("VEEN_", "SPARK_"))]:
        del os.environ[name]
    os.environ["JAVA_HOME"] = str(plan.java_home)
    os.environ["PYSPARK_PYTHON"] = sys.executable  # another minor version fails obscurely
    os.environ["PYSPARK_PIN_THREAD"] = "true"
    os.environ["PYTHONPATH"] = str(PROJECT)
    os.environ["PYTHONSAFEPATH"] = "1"  # a folder named hub beside the caller is not ours
    if plan.is_local:
        os.environ["SPARK_LOCAL_IP"] = LOOPBACK
    if plan.properties_file is not None:
        # Not --conf: what stands on a command line can be read by everyone on the machine.
        quoted = shlex.quote(str(plan.properties_file))
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--properties-file {quoted} pyspark-shell"
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def is_alive(spark: SparkSession) -> bool:
    """Whether the JVM behind a session still answers."""
    from py4j.protocol import Py4JError, Py4JNetworkError  # noqa: PLC0415

    try:
        return not spark.sparkContext._jsc.sc().isStopped()  # noqa: SLF001
    except (Py4JError, Py4JNetworkError, AttributeError, ConnectionError):
        return False


def stop_session(spark: SparkSession) -> None:
    """End a session and its JVM, so that the next one starts from nothing."""
    from py4j.protocol import Py4JError  # noqa: PLC0415
    from pyspark import SparkContext  # noqa: PLC0415

    gateway = SparkContext._gateway  # noqa: SLF001 - pyspark has no other way to its JVM
    with contextlib.suppress(Py4JError, ConnectionError, AttributeError):
        spark.stop()
    forget_session()
    if gateway is not None:
        with contextlib.suppress(Py4JError, OSError):
            gateway.shutdown()
        process = getattr(gateway, "proc", None)
        if process is not None:
            process.stdin.close()  # its JVM ends with this pipe
            try:
                process.wait(_JVM_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def forget_session() -> None:
    """Drop what pyspark remembers of a JVM that is gone."""
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    SparkContext._active_spark_context = None  # noqa: SLF001
    SparkContext._gateway = None  # noqa: SLF001
    SparkContext._jvm = None  # noqa: SLF001
    SparkSession._instantiatedSession = None  # noqa: SLF001
