"""The recipes of the manual, run as they stand on a whole bundle, and a cold start [SDR0 3.1]."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from config.java import choose_java, launch_home
from config.selftest.bundle import TemporaryBundle, free_port
from hub.types import Label
from recorder.lake.folder import LakeFolder
from recorder.replay_client import ReplayedEvent, replay
from recorder.web_client import WebClient
from tests.support.live_hub import ROOT, until

RECIPES = ROOT / "docs" / "manual" / "recipes.md"
BLOCK = re.compile(
    r"^(?:`(\w+\.py)`[^\n]*\n\n)?```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
PORTS = ("8500", "5514", "4318")
WEB, SYSLOG, CHECKOUT = "record/app/web", "record/infrastructure/syslog", "record/app/checkout"
# `curl` where there is none: the same question from Python.
TOOLS = f"""
veen() {{ "{sys.executable}" -m config.cli "$@"; }}
python3() {{ "{sys.executable}" "$@"; }}
command -v curl > /dev/null || curl() {{ "{sys.executable}" "$WORK/curl.py" "$@"; }}
set -eu
cd "$WORK"
"""
CURL = """
import sys, urllib.error, urllib.request
words, headers, data, url = iter(sys.argv[1:]), {}, None, None
for word in words:
    if word == "-H":
        name, _, value = next(words).partition(": ")
        headers[name] = value
    elif word == "--data":
        data = next(words).encode()
    elif word == "-o":
        next(words)
    elif not word.startswith("-"):
        url = word
try:
    answer = urllib.request.urlopen(urllib.request.Request(url, data, headers))
    sys.stdout.write(answer.read().decode())
except urllib.error.HTTPError:
    pass
except OSError:
    sys.exit(7)
"""

HAS_LOGGER = shutil.which("logger") is not None


class Kitchen:
    """A bundle, a folder to work in, and whatever recipes left running."""

    def __init__(self, bundle: TemporaryBundle, work: Path) -> None:
        self.bundle = bundle
        self.work = work
        self.ports = {port: str(free_port()) for port in PORTS}
        self._sessions: list[int] = []
        (work / "curl.py").write_text(CURL)

    def cook(self, heading: str) -> str:
        """Do what stands under a heading; everything its commands said."""
        text = RECIPES.read_text("utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
        for port, free in self.ports.items():
            text = text.replace(port, free)
        said = []
        for name, kind, body in BLOCK.findall(text):
            if kind == "python":
                (self.work / name).write_text(body)
            else:
                said.append(self.run(body))
        assert said, heading
        return "\n".join(said)

    def run(self, script: str) -> str:
        out, err = self.work / "out", self.work / "err"
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("VEEN_", "DJANGO_"))}
        state = self.bundle.state.root
        environment = {
            **kept, "PYTHONPATH": str(ROOT), "WORK": str(self.work), "VEEN_DATA_DIR": str(state),
            "JAVA_HOME": str(launch_home(choose_java(None, os.environ), self.work)),
            "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
        }  # fmt: skip
        # Files, not pipes: what a recipe leaves running would hold a pipe open.
        with out.open("wb") as told, err.open("wb") as log:
            process = subprocess.Popen(
                ["bash", "-c", TOOLS + script],
                env=environment, stdout=told, stderr=log, start_new_session=True,
            )  # fmt: skip
            self._sessions.append(process.pid)
            code = process.wait(240)
        assert code == 0, f"{script}\n{out.read_text()}\n{err.read_text()}"
        return out.read_text()

    def close(self) -> None:
        for session in self._sessions:
            for one in Path("/proc").iterdir():
                if one.name.isdigit() and _session_of(one) == session:
                    os.kill(int(one.name), signal.SIGTERM)

    def events(self, stream: str, count: int) -> list[ReplayedEvent]:
        """Once so many are recorded, all of them, each verified."""
        web = WebClient(self.bundle.web_url, token=self.bundle.admin_token)

        def head() -> int:
            rows = web.get("/api/record/streams")["streams"]
            return next(int(one["head_seq"]) for one in rows if one["name"] == stream)

        until(lambda: head() >= count, timeout_s=60)
        return list(
            replay(
                self.bundle.web_url, self.bundle.admin_token, streams=[stream],
                hub_pk=self.bundle.hub_pk, patience_s=90,
            )
        )  # fmt: skip


def _session_of(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[3])
    except OSError:
        return 0  # It has just ended.


@pytest.fixture
def kitchen() -> Iterator[Kitchen]:
    # A short path: sockets of broker and Spark lie below it.
    folder = Path(tempfile.mkdtemp(prefix="vk-"))
    (folder / "work").mkdir()
    with TemporaryBundle(folder, VEEN_SPARK_MASTER="local[2]") as bundle:
        bundle.start()
        made = Kitchen(bundle, folder / "work")
        try:
            yield made
        finally:
            made.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(580)
def test_the_recipes_of_the_manual_work_as_they_are_written(kitchen: Kitchen) -> None:
    """One bundle for all of them, in order: the last ones look at what the first ones recorded."""
    the_first_replay_after_up_is_answered_though_spark_is_cold(kitchen)
    a_django_application_logs_through_the_handler(kitchen)
    if HAS_LOGGER:
        a_file_that_is_followed_is_recorded_through_syslog(kitchen)
    an_exporter_of_the_opentelemetry_sdk_is_recorded_in_both_encodings(kitchen)
    a_plain_pyspark_session_sees_them_in_the_lake(kitchen)
    the_schedule_fills_the_lake_without_being_asked(kitchen)
    seal_and_audit_say_how_far_they_are(kitchen)
    a_replay_right_after_the_worker_was_killed_is_answered(kitchen)


def payloads(events: list[ReplayedEvent]) -> list[Any]:
    return [one.payload for one in events]


def the_first_replay_after_up_is_answered_though_spark_is_cold(kitchen: Kitchen) -> None:
    changes = "record/infrastructure/changes"
    web = WebClient(kitchen.bundle.web_url, token=kitchen.bundle.admin_token, timeout_s=90)
    answer = web.read("/api/record/replay", {"stream": changes})
    *events, end = [json.loads(line) for line in answer.splitlines()]
    assert [one["event_type"] for one in events] == ["stream.created"] * 6
    assert end["end"]["count"] == 6


def a_django_application_logs_through_the_handler(kitchen: Kitchen) -> None:
    told = kitchen.cook("A web application that logs")
    assert told.count("thank you") == 2
    orders = [one for one in kitchen.events(WEB, 3) if one.event_type == "order.placed"]
    assert [(one.subject_id, one.origin) for one in orders] == [("alice", "shop"), ("bob", "shop")]
    assert payloads(orders)[1]["message"] == "ordered cup\r\nforged\x1b[31m"  # as data, as sent
    shown = kitchen.run(f"veen recorder replay {WEB}")
    assert "order.placed alice" in shown
    assert "\x1b" not in shown  # nothing of an event steers the terminal that shows it
    assert len(shown.splitlines()) == len(kitchen.events(WEB, 3))
    others = [one for one in kitchen.events(WEB, 3) if one.event_type == "log.line"]
    assert {one.origin for one in others} == {"django.request"}


def a_file_that_is_followed_is_recorded_through_syslog(kitchen: Kitchen) -> None:
    kitchen.cook("A log file, through syslog")
    events = kitchen.events(SYSLOG, 3)
    found = {(one.origin.rpartition("/")[2], payload["message"])
             for one, payload in zip(events, payloads(events), strict=True)}  # fmt: skip
    assert found == {("app", "the first line"), ("app", "the second line"), ("cron", "over UDP")}
    assert {one.event_type for one in events} == {"syslog.message"}


def an_exporter_of_the_opentelemetry_sdk_is_recorded_in_both_encodings(
    kitchen: Kitchen,
) -> None:
    kitchen.cook("A service with OpenTelemetry")
    events = kitchen.events(CHECKOUT, 3)
    assert {one.subject_id for one in events} == {"alice"}
    assert [one.origin for one in events] == ["checkout", "checkout", "127.0.0.1"]
    bodies = [(one["body"], one["attributes"].get("amount")) for one in payloads(events)]
    assert bodies == [("paid", 12), ("paid", 250), ("refunded", None)]


def a_plain_pyspark_session_sees_them_in_the_lake(kitchen: Kitchen) -> None:
    lines = kitchen.cook("The lake, in a plain PySpark session").splitlines()
    assert f"{WEB} order.placed alice 1" in lines
    assert f"{WEB} order.placed bob 1" in lines
    assert f"{CHECKOUT} otlp.log alice 3" in lines
    if HAS_LOGGER:
        seen = [line for line in lines if line.startswith(f"{SYSLOG} syslog.message")]
        assert sum(int(line.rpartition(" ")[2]) for line in seen) == 3


def the_schedule_fills_the_lake_without_being_asked(kitchen: Kitchen) -> None:
    made = kitchen.bundle.act("checkpoint.now")["event"]
    web = WebClient(kitchen.bundle.web_url, token=kitchen.bundle.admin_token)
    rows = web.get("/api/record/streams")["streams"]
    [label] = [one["label"] for one in rows if one["name"] == made["stream"]]
    folder = LakeFolder.of(kitchen.bundle.lake, Label(bytes.fromhex(label)))

    def held() -> int:
        found = folder.read()
        return 0 if found is None else found.upto_seq

    until(lambda: held() >= made["hub_commit_seq"], timeout_s=60)


def seal_and_audit_say_how_far_they_are(kitchen: Kitchen) -> None:
    for words in (["seal", WEB], ["audit", WEB], ["audit", WEB, "--from-hub"]):
        out, shown = on_a_terminal(kitchen, "recorder", *words, "--json")
        found = json.loads(out)
        assert words[0] in shown  # on the terminal, and nowhere in the document
        if words[0] == "seal":
            assert found["sealed"][WEB]
        else:
            [verdict] = found["verdicts"]
            assert (verdict["stream"], verdict["verdict"]) == (WEB, "equal")
    told = [one for one in kitchen.events("record/infrastructure/lake", 3)
            if one.event_type in {"lake.sealed", "lake.audited"}]  # fmt: skip
    assert {one.event_type for one in told} == {"lake.sealed", "lake.audited"}


def on_a_terminal(kitchen: Kitchen, *words: str) -> tuple[str, str]:
    """What a command says on stdout, and on a terminal as stderr."""
    ours, theirs = pty.openpty()
    shown: list[bytes] = []

    def read() -> None:
        with contextlib.suppress(OSError):  # how a terminal says that nobody holds it any more
            while data := os.read(ours, 4096):
                shown.append(data)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "config.cli", *words, "--state-dir",
             str(kitchen.bundle.state.root)],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=theirs, text=True, check=False, timeout=240,
        )  # fmt: skip
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)
    text = b"".join(shown).decode(errors="replace")
    assert done.returncode == 0, (words, done.stdout, text)
    return done.stdout, text


def a_replay_right_after_the_worker_was_killed_is_answered(kitchen: Kitchen) -> None:
    """Broker and Spark are gone with it; who asks meanwhile waits, and is told nothing of it."""
    kitchen.bundle.kill_worker()
    kitchen.bundle.act("checkpoint.now")
    changes = "record/infrastructure/changes"
    web = WebClient(kitchen.bundle.web_url, token=kitchen.bundle.admin_token, timeout_s=90)
    answer = web.read("/api/record/replay", {"stream": changes})
    *events, end = [json.loads(line) for line in answer.splitlines()]
    assert "checkpoint.made" in {one["event_type"] for one in events}
    assert end["end"]["count"] == len(events)
