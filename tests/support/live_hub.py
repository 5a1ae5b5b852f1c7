"""A real hub in processes of its own, always stopped; a client of raw answers; cheap authors."""

from __future__ import annotations

import contextlib
import http.client
import os
import pickle
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from hub import control
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.server.config import HubConfig
from hub.server.core import HubCore, Submission
from hub.storage.fsck import run_fsck
from hub.types import AuthRef, ClientSeq, Label, PublicKey
from hub.wire import cbor, ciphertext
from hub.wire.msg import Msg
from hub.wire.profile import PRODUCT, Profile
from hub.wire.receipt import Receipt

ROOT: Final = Path(__file__).resolve().parents[2]
START_S: Final = 30.0
STOP_S: Final = 20.0
CBOR: Final = {"Content-Type": "application/cbor"}
CBOR_SEQ: Final = {"Content-Type": "application/cbor-seq"}
ISSUER: Final = SigningKey(b"an issuer that these hubs trust.")
ROUTING_KEY: Final = bytes(range(32, 64))
_BOOT: Final = """
import pickle, sys
from hub.server.main import run
run(pickle.loads(bytes.fromhex(sys.argv[1])))
"""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of a hub."""

    status: int
    headers: dict[str, str]  # lower-case names
    body: bytes

    @property
    def error(self) -> dict[str, Any]:
        """The error map, which must be canonical CBOR {code, detail?}."""
        assert self.headers["content-type"] == "application/cbor", self.headers
        value = cbor.decode(self.body)
        assert isinstance(value, dict), value
        assert list(value) in (["code"], ["code", "detail"]), value
        return value

    @property
    def code(self) -> str:
        """The code of an answer that must be a refusal."""
        assert self.status >= 400, (self.status, self.body[:80])
        return str(self.error["code"])

    def ok(self, status: int = 200) -> bytes:
        """The body of an answer that must not be a refusal."""
        assert self.status == status, (self.status, self.body[:200])
        return self.body

    def items(self) -> list[bytes]:
        """The items of a CBOR sequence."""
        assert self.headers["content-type"] == "application/cbor-seq", self.headers
        return cbor.split_sequence(self.ok(), items_max=100_000)

    def map(self) -> dict[str, Any]:
        """A CBOR map with text keys."""
        value = cbor.decode(self.ok())
        assert isinstance(value, dict)
        return value

    def next_link(self) -> str | None:
        """The path of rel="next", when there is more."""
        link = self.headers.get("link")
        if link is None:
            return None
        target, _, rel = link.partition("; ")
        assert rel == 'rel="next"', link
        return target.strip("<>")


class HttpClient:
    """One keep-alive connection."""

    def __init__(self, url: str, timeout_s: float = 30) -> None:
        where = urlsplit(url)
        assert where.hostname is not None
        self._link = http.client.HTTPConnection(where.hostname, where.port, timeout=timeout_s)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        """One exchange; every answer of a hub carries a request id."""
        self._link.request(method, path, body, headers or {})
        answer = self._link.getresponse()
        data = answer.read()
        names = {name.lower(): value for name, value in answer.getheaders()}
        assert len(names["veen-request-id"]) == 16, names
        return Reply(answer.status, names, data)

    def get(self, path: str, token: str | None = None) -> Reply:
        """A read, with a bearer token where one is given."""
        return self.ask("GET", path, None, {"Authorization": f"Bearer {token}"} if token else {})

    def submit(self, msg: bytes) -> Reply:
        """POST /submit of one MSG."""
        return self.ask("POST", "/submit", msg, CBOR)

    def batch(self, *msgs: bytes) -> Reply:
        """POST /submit of a sequence."""
        return self.ask("POST", "/submit", b"".join(msgs), CBOR_SEQ)

    def close(self) -> None:
        """Hang up."""
        self._link.close()


@dataclass
class LiveHub:
    """A running hub and a connection to it."""

    config: HubConfig
    process: subprocess.Popen[bytes]
    url: str
    hub_pk: PublicKey
    hub_id: bytes
    log_path: Path
    clients: list[HttpClient] = field(default_factory=list)

    @property
    def data_dir(self) -> Path:
        return self.config.data_dir

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def client(self) -> HttpClient:
        """A connection of its own, closed with the hub."""
        client = HttpClient(self.url)
        self.clients.append(client)
        return client

    def control(self, verb: str, **arguments: object) -> dict[str, Any]:
        """One act over the control socket."""
        try:
            return control.call(self.data_dir, verb, **arguments)  # type: ignore[arg-type]
        except VeenError as raised:
            refusal = VeenError(raised.code, raised.detail)
        raise refusal  # without the frames that a test would keep alive, sockets and all

    def workers(self) -> list[int]:
        """Process ids of the HTTP workers."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        found = [int(pid) for listing in tasks for pid in listing.read_text("ascii").split()]
        return sorted(pid for pid in found if _is_alive(pid))

    def log_lines(self) -> list[str]:
        """What the hub has written to stderr so far."""
        return self.log_path.read_text("utf-8").splitlines()

    def kill(self) -> None:
        """Kill -9 of the writer; the workers end with it."""
        workers = self.workers()
        self.process.kill()
        self.process.wait(STOP_S)
        until(lambda: not any(_is_alive(pid) for pid in workers))

    def stop(self) -> int:
        """SIGTERM; what does not end is killed, and that is a failure."""
        for client in self.clients:
            client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(") ")[2][:1]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def start(config: HubConfig) -> LiveHub:
    """Start a hub and wait for its line; the caller stops it."""
    log_path = config.data_dir.with_name(config.data_dir.name + ".stderr")
    command = [sys.executable, "-c", _BOOT, pickle.dumps(config).hex()]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with log_path.open("ab") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, env=environment, cwd=ROOT
        )
    try:
        line = _first_line(process)
        words = dict(word.split("=", 1) for word in line.split()[2:])
        return LiveHub(
            config=config,
            process=process,
            url=words["url"],
            hub_pk=PublicKey(bytes.fromhex(words["hub_pk"])),
            hub_id=bytes.fromhex(words["hub_id"]),
            log_path=log_path,
        )
    except BaseException:
        process.kill()
        process.wait()
        raise


def _first_line(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ)
        assert ready.select(START_S), "the hub did not get ready"
    line = process.stdout.readline().decode()
    process.stdout.close()
    assert line.startswith("hub ready "), (line, process.poll())
    return line


@contextlib.contextmanager
def running(config: HubConfig) -> Iterator[LiveHub]:
    """A hub for the length of a block."""
    hub = start(config)
    try:
        yield hub
    finally:
        hub.stop()


def restarted(hub: LiveHub, **changes: object) -> LiveHub:
    """Stop a hub and start it again on its directory, with other options where given."""
    hub.stop()
    return start(replace(hub.config, **changes))  # type: ignore[arg-type]


def until(is_true: Callable[[], bool], timeout_s: float = 15) -> None:
    """Wait for something another process does."""
    end = time.monotonic() + timeout_s
    while not is_true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


class Hands:
    """Both clocks of a machine, moved by the test."""

    def __init__(self, wall: float, boot: float = 1000.0) -> None:
        self._wall = wall
        self._boot = boot

    def wall(self) -> float:
        return self._wall

    def boot(self) -> float:
        return self._boot

    def passes(self, seconds: float) -> None:
        """Time passes: both clocks move."""
        self._wall += seconds
        self._boot += seconds

    def jumps(self, seconds: float) -> None:
        """Somebody sets the wall clock."""
        self._wall += seconds


def check_fsck(data_dir: Path) -> None:
    """Everything on disk follows from the bytes of the log."""
    report = run_fsck(data_dir)
    assert report.ok, report.findings


def framed(body: bytes, profile: Profile = PRODUCT) -> bytes:
    """A well-framed ciphertext that nobody can open: a hub does not read it anyway."""
    return ciphertext.join(bytes(range(32)), b"h" * 16, body, profile.pad_block)


class Author:
    """One client on one label: numbers its messages and remembers what was answered."""

    def __init__(
        self,
        label: Label,
        key: SigningKey | None = None,
        *,
        auth_ref: AuthRef | None = None,
        profile: Profile = PRODUCT,
    ) -> None:
        self.key = key or SigningKey.generate()
        self.label = label
        self.auth_ref = auth_ref
        self.profile = profile
        self.seq = 0

    def draft(self, body: bytes = b"", *, seq: int | None = None, prev_ack: int = 0) -> Msg:
        """A signed MSG with this client_seq, the next one by default; nothing is remembered."""
        return Msg.sign(
            self.key,
            profile_id=self.profile.id,
            label=self.label,
            client_seq=ClientSeq(self.seq + 1 if seq is None else seq),
            prev_ack=prev_ack,
            auth_ref=self.auth_ref,
            ciphertext=framed(body, self.profile),
        )

    def next(self, body: bytes = b"", *, prev_ack: int = 0) -> bytes:
        """The next MSG, to be sent in this order."""
        msg = self.draft(body, prev_ack=prev_ack)
        self.seq += 1
        return msg.encode()

    def send(self, client: HttpClient, body: bytes = b"") -> Receipt:
        """Submit the next MSG, which must be accepted."""
        return Receipt.decode(client.submit(self.next(body)).ok())


def commit(core: HubCore, *msgs: bytes) -> list[Receipt | ErrorCode]:
    """What a hub without sockets answers to a batch."""
    items = [Submission(data, Msg.decode(data).leaf_hash()) for data in msgs]
    outcomes = core.submit(items)
    return [
        Receipt.decode(outcome) if isinstance(outcome, bytes) else outcome.code
        for outcome in outcomes
    ]


def receipt_of(core: HubCore, msg: bytes) -> Receipt:
    """The RECEIPT of a MSG that must be taken."""
    [outcome] = commit(core, msg)
    assert isinstance(outcome, Receipt), outcome
    return outcome


def code_of(item: bytes) -> ErrorCode | None:
    """The code of one item of a batch's answer; None for a RECEIPT."""
    if item[0] == 0x87:
        Receipt.decode(item)
        return None
    value = cbor.decode(item)
    assert isinstance(value, dict)
    return ErrorCode(str(value["code"]))
