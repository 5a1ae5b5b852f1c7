"""The SDK's replay believes nothing: every lie of a server is named [SDR0 3.4: I1 to I3]."""

from __future__ import annotations

import base64
import json
import threading
import tracemalloc
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pytest_django import Settings as DjangoSettings
from pytest_django.live_server_helper import LiveServer

from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.types import Label, LeafHash, ManifestId, PublicKey, StreamSeq, UnixSeconds
from hub.wire.receipt import Receipt
from recorder.codes import RecordCode, RecordError
from recorder.event import UnixMillis
from recorder.replay_client import Replaying, replay
from tests.support import hubs, web_bundle
from tests.support.web_bundle import LaunchedIngest, LiveLog, SlowIngest, WebBundle, token

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def reader(bundle: WebBundle, name: str) -> str:
    bundle.stream(name)
    bundle.record(name, 20)
    bundle.log.checkpoint()
    bundle.record(name, 5)
    bundle.ingest(name)
    return token("reader", streams=(name,))


def run(url: str, text: str, bundle: WebBundle, *names: str, **options: Any) -> Replaying:
    options = {"hub_pk": bundle.hub_pk, **options}
    return replay(url, text, streams=names, **options)


def test_a_replay_is_verified_by_default(
    live_server: LiveServer, bundle: WebBundle, name: str, reader: str
) -> None:
    found = run(live_server.url, reader, bundle, name)
    events = list(found)
    assert [one.hub_commit_seq for one in events] == list(range(1, 26))
    assert [one.is_proven for one in events] == [True] * 20 + [False] * 5
    assert events[3].payload == {"n": 3, "status": 203, "user": {"id": "3"}}
    assert found.end is not None
    assert (found.end.count, found.end.unproven) == (25, 5)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"from_seq": 7, "to_seq": 9}, [7, 8, 9]),
        ({"from_seq": 19}, list(range(19, 26))),  # across the checkpoint
        ({"from_seq": 22}, [22, 23, 24, 25]),  # above it: the receipts alone
        ({"from_seq": 30}, []),
        ({"start_ms": UnixMillis(0)}, list(range(1, 26))),
        ({"end_ms": UnixMillis(0)}, []),
    ],
)
def test_any_range_and_window_verifies(  # noqa: PLR0917
    live_server: LiveServer,
    bundle: WebBundle,
    name: str,
    reader: str,
    options: Any,
    expected: list[int],
) -> None:
    found = run(live_server.url, reader, bundle, name, **options)
    assert [one.hub_commit_seq for one in found] == expected


def test_with_the_streams_secrets_every_field_is_compared(
    live_server: LiveServer, bundle: WebBundle, name: str, reader: str
) -> None:
    secrets = {name: [secret for _, secret in bundle.streams[name].secrets]}
    assert len(list(run(live_server.url, reader, bundle, name, secrets=secrets))) == 25


def test_without_a_pinned_key_nothing_is_verified_and_nothing_is_pretended(
    live_server: LiveServer, bundle: WebBundle, name: str, reader: str
) -> None:
    with pytest.raises(VeenError) as refusal:
        run(live_server.url, reader, bundle, name, hub_pk=None)
    assert refusal.value.code is ErrorCode.TRUST
    found = list(run(live_server.url, reader, bundle, name, hub_pk=None, verify=False))
    assert [one.is_proven for one in found] == [False] * 25


def test_another_pinned_key_trusts_nothing_of_this_hub(
    live_server: LiveServer, bundle: WebBundle, name: str, reader: str
) -> None:
    other = PublicKey(SigningKey(hubs.seed("other hub")).public)
    with pytest.raises(VeenError) as refusal:
        list(run(live_server.url, reader, bundle, name, hub_pk=other))
    assert refusal.value.code is ErrorCode.TRUST


def test_a_refusal_of_the_server_keeps_its_code(
    live_server: LiveServer, bundle: WebBundle, name: str, reader: str
) -> None:
    with pytest.raises(RecordError) as refusal:
        list(run(live_server.url, reader, bundle, "record/app/closed"))
    assert refusal.value.error_code is RecordCode.FORBIDDEN_STREAM
    with pytest.raises(RecordError) as refusal:
        run(live_server.url, reader, bundle, name, manifest_id=ManifestId(bytes(32)))
    assert refusal.value.error_code is RecordCode.NOT_FOUND


def test_a_lake_that_is_behind_is_waited_for_when_asked_to(
    live_server: LiveServer, bundle: WebBundle, name: str, reader: str, settings: DjangoSettings
) -> None:
    bundle.record(name, 1)
    settings.VEEN_LAKE_LAUNCHER = "tests.support.web_bundle.SlowIngest"
    SlowIngest.refusals = 1
    with pytest.raises(RecordError) as refusal:
        list(run(live_server.url, reader, bundle, name))
    assert refusal.value.error_code is RecordCode.LAKE_BEHIND
    SlowIngest.refusals = 1
    assert len(list(run(live_server.url, reader, bundle, name, patience_s=30))) == 26


def test_before_the_first_checkpoint_receipts_and_roots_are_checked(
    live_server: LiveServer,
    tmp_path_factory: pytest.TempPathFactory,
    settings: DjangoSettings,
    name: str,
) -> None:
    with web_bundle.running(tmp_path_factory.mktemp("new")) as hub:
        bundle = _bundle(hub, tmp_path_factory, settings)
        bundle.stream(name)
        bundle.record(name, 3)
        found = run(live_server.url, token("admin"), bundle, name)
        assert [one.is_proven for one in found] == [False] * 3
        assert found.end is not None
        assert found.end.manifest_id is None


def test_after_a_rotation_old_receipts_count_up_to_the_end_of_their_key(
    live_server: LiveServer,
    tmp_path_factory: pytest.TempPathFactory,
    settings: DjangoSettings,
    name: str,
) -> None:
    with web_bundle.running(tmp_path_factory.mktemp("rotating")) as hub:
        bundle = _bundle(hub, tmp_path_factory, settings)
        text = token("admin")
        bundle.stream(name)
        bundle.record(name, 6)
        hub.control("rotate")
        bundle.record(name, 3)
        bundle.log.checkpoint()
        for pinned in (bundle.hub_pk, PublicKey(bytes.fromhex(hub.control("status")["hub_pk"]))):
            found = run(live_server.url, text, bundle, name, hub_pk=pinned)
            assert [one.is_proven for one in found] == [True] * 9
            assert len(list(run(live_server.url, text, bundle, name, from_seq=3, to_seq=4))) == 2


def _bundle(hub: Any, factory: pytest.TempPathFactory, settings: DjangoSettings) -> WebBundle:
    text = str(hub.control("token_add", name="web", all=True)["token"])
    bundle = WebBundle(root=factory.mktemp("web"), hub=hub, log=LiveLog(hub, text))
    bundle.point(settings)
    LaunchedIngest.bundle, LaunchedIngest.asked = bundle, []
    settings.VEEN_LAKE_LAUNCHER = "tests.support.web_bundle.LaunchedIngest"
    return bundle


# --- a server that lies ------------------------------------------------------------------------


class Liar:
    """Serves captured answers, changed."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes] = {}
        liar = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = liar.answers[self.path.partition("?")[0]]
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def liar() -> Iterator[Liar]:
    made = Liar()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


Lines = list[dict[str, Any]]


def _swap(lines: Lines) -> None:
    lines[4]["msg"], lines[5]["msg"] = lines[5]["msg"], lines[4]["msg"]


def _swap_whole(lines: Lines) -> None:
    lines[4], lines[5] = lines[5], lines[4]


def _drop(lines: Lines) -> None:
    del lines[10]
    lines[-1]["end"]["count"] -= 1


def _drop_first(lines: Lines) -> None:
    del lines[0]
    lines[-1]["end"]["count"] -= 1


def _drop_tail(lines: Lines) -> None:
    del lines[-6:-1]
    lines[-1]["end"] |= {"count": 20, "unproven": 0}


def _drop_below_checkpoint(lines: Lines) -> None:
    root = Receipt.decode(base64.b64decode(lines[9]["receipt"])).mmr_root.hex()
    del lines[10:-1]
    lines[-1]["end"] |= {"count": 10, "unproven": 0}
    lines[-1]["end"]["coverage"][0] |= {"to_seq": 10, "mmr_root": root}


def _repeat(lines: Lines) -> None:
    lines.insert(5, lines[4])
    lines[-1]["end"]["count"] += 1


def _forge_receipt(lines: Lines) -> None:
    """A receipt that names what it should, signed by another key."""
    old = Receipt.decode(base64.b64decode(lines[3]["receipt"]))
    forged = Receipt.sign(
        SigningKey(hubs.seed("thief")),
        Label(old.label),
        StreamSeq(old.stream_seq),
        LeafHash(old.leaf_hash),
        old.mmr_root,
        UnixSeconds(old.hub_ts),
    )
    lines[3]["receipt"] = base64.b64encode(forged.encode()).decode()


def _flip(field: str, index: int) -> Callable[[Lines], None]:
    def change(lines: Lines) -> None:
        data = bytearray(base64.b64decode(lines[index][field]))
        data[-1] ^= 1
        lines[index][field] = base64.b64encode(data).decode()

    return change


def _set(index: int, **fields: Any) -> Callable[[Lines], None]:
    def change(lines: Lines) -> None:
        lines[index] |= fields

    return change


def _other_proof(lines: Lines) -> None:
    lines[3]["proof"] = lines[2]["proof"]


def _end(**fields: Any) -> Callable[[Lines], None]:
    def change(lines: Lines) -> None:
        lines[-1]["end"] |= fields

    return change


LIES: dict[str, Callable[[Lines], None]] = {
    "messages of two receipts are swapped (I2)": _swap,
    "two events are swapped": _swap_whole,
    "an event is left out": _drop,
    "the first event is left out": _drop_first,
    "the last events are left out": _drop_tail,
    "the log ends before its own checkpoint": _drop_below_checkpoint,
    "an event comes twice": _repeat,
    "a receipt is signed by a stranger": _forge_receipt,
    "a bit of a message (I1)": _flip("msg", 6),
    "a bit of a receipt": _flip("receipt", 6),
    "a bit of a proof (I3)": _flip("proof", 6),
    "a bit above the checkpoint": _flip("msg", 22),
    "the proof of another event": _other_proof,
    "a proof is missing below the manifest": _set(3, proof=None),
    "the message is missing": _set(3, msg=None),
    "another sequence in the line": _set(3, hub_commit_seq=40),
    "another time in the line": _set(3, hub_commit_time="2020-01-01T00:00:00.000Z"),
    "another principal in the line": _set(3, principal_id="ab" * 32),
    "another receipt_id in the line": _set(3, receipt_id="rcpt-" + "ab" * 32),
    "another stream in the line": _set(3, stream="record/app/other"),
    "another count": _end(count=24),
    "another number of unproven events": _end(unproven=0),
    "another manifest": _end(manifest_id="ab" * 32),
    "no coverage": _end(coverage=[]),
}


@pytest.fixture
def captured(
    live_server: LiveServer, bundle: WebBundle, name: str, reader: str
) -> tuple[dict[str, bytes], Lines]:
    found: dict[str, bytes] = {}
    paths = ("/api/record/manifests/latest", f"/api/record/replay?stream={name}&with_proofs=1")
    for path in paths:
        request = urllib.request.Request(  # noqa: S310 - our own server
            live_server.url + path, headers={"Authorization": f"Bearer {reader}"}
        )
        with urllib.request.urlopen(request) as answer:  # noqa: S310
            found[path.partition("?")[0]] = answer.read()
    return found, [json.loads(line) for line in found["/api/record/replay"].splitlines()]


def _serve(liar: Liar, captured: tuple[dict[str, bytes], Lines]) -> None:
    answers, lines = captured
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    liar.answers = {**answers, "/api/record/replay": text.encode()}


@pytest.mark.parametrize("first_blocks", [4, 0], ids=["verified here", "verified by children"])
def test_every_lie_is_noticed(  # noqa: PLR0917 - fixtures
    liar: Liar,
    bundle: WebBundle,
    name: str,
    captured: tuple[dict[str, bytes], Lines],
    monkeypatch: pytest.MonkeyPatch,
    first_blocks: int,
) -> None:
    monkeypatch.setattr("recorder.replay_client.FIRST_BLOCKS", first_blocks)
    monkeypatch.setattr("recorder.replay_client.BLOCK_BYTES", 4096)
    answers, lines = captured
    _serve(liar, captured)
    assert len(list(run(liar.url, "t", bundle, name))) == 25  # unchanged, it verifies
    codes: dict[str, ErrorCode | None] = {}
    for lie, change in LIES.items():
        changed: Lines = json.loads(json.dumps(lines))
        change(changed)
        _serve(liar, (answers, changed))
        codes[lie] = None
        try:
            list(run(liar.url, "t", bundle, name))
        except VeenError as refusal:
            codes[lie] = refusal.code
    honest = {ErrorCode.PROOF, ErrorCode.SIG, ErrorCode.TRUST, ErrorCode.FORMAT}
    assert {lie: code for lie, code in codes.items() if code not in honest} == {}


def test_a_changed_payload_is_seen_by_who_holds_the_secrets(
    liar: Liar, bundle: WebBundle, name: str, captured: tuple[dict[str, bytes], Lines]
) -> None:
    secrets = {name: [secret for _, secret in bundle.streams[name].secrets]}
    for change in ({"payload": {"n": 1}}, {"subject_id": "eve"}, {"error": "sealed"}):
        changed: Lines = json.loads(json.dumps(captured[1]))
        changed[3] |= change
        _serve(liar, (captured[0], changed))
        with pytest.raises(VeenError, match="opened message says other"):
            list(run(liar.url, "t", bundle, name, secrets=secrets))


def test_a_stream_under_the_label_of_another_is_seen_by_who_knows_the_label(
    liar: Liar, bundle: WebBundle, name: str, captured: tuple[dict[str, bytes], Lines]
) -> None:
    _serve(liar, captured)
    own = {name: bundle.streams[name].label}
    assert len(list(run(liar.url, "t", bundle, name, labels=own))) == 25
    with pytest.raises(VeenError, match="not the label"):
        list(run(liar.url, "t", bundle, name, labels={name: hubs.label("other")}))


@pytest.mark.parametrize("cut", [1, 200, 5000])
def test_an_answer_without_its_end_is_never_taken_for_whole(
    liar: Liar, bundle: WebBundle, name: str, captured: tuple[dict[str, bytes], Lines], cut: int
) -> None:
    whole = captured[0]["/api/record/replay"]
    for body in (whole[:-cut], b"\n".join(whole.splitlines()[:-1]) + b"\n", b""):
        liar.answers = {**captured[0], "/api/record/replay": body}
        for verify in (True, False):
            with pytest.raises(VeenError) as refusal:
                list(run(liar.url, "t", bundle, name, verify=verify))
            assert refusal.value.code is ErrorCode.UNREACHABLE


def test_memory_does_not_grow_with_the_answer(
    live_server: LiveServer, bundle: WebBundle, name: str
) -> None:
    bundle.stream(name)
    page = 1000  # both answers are longer than what is read at a time
    bundle.record(name, page)
    bundle.log.checkpoint()
    bundle.ingest(name)
    text = token("admin")
    list(run(live_server.url, text, bundle, name, to_seq=10))
    peaks = []
    for rounds in (1, 4):
        if rounds > 1:
            bundle.record(name, page * (rounds - 1))
            bundle.log.checkpoint()
            bundle.ingest(name)
        tracemalloc.start()
        for _ in run(live_server.url, text, bundle, name):
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # Client and server share this process; four times the events, and not twice the memory.
    assert peaks[1] < 2 * peaks[0] + 2_000_000
