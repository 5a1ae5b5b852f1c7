"""What holds for every route: methods, unknown paths, the hub's own pages, logs and metrics."""

from __future__ import annotations

import contextlib
import http.client
import json
import stat
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hub import control
from hub.errors import VeenError
from hub.limits import Limits
from hub.server.config import HubConfig
from hub.types import Label
from hub.wire import cbor
from hub.wire.profile import DEFAULT_PROFILES, PRODUCT
from hub.wire.receipt import Receipt
from hub.wire.rotation import hub_id_of
from tests.support import live_hub
from tests.support.live_hub import CBOR, CBOR_SEQ, Author, HttpClient, LiveHub

GETS = [
    "/stream", "/receipt", "/proof", "/consistency", "/range_proof", "/head",
    "/checkpoint_latest", "/checkpoint", "/checkpoint_range", "/manifest_latest", "/manifest",
    "/rotations", "/profile", "/healthz", "/readyz", "/metrics",
]  # fmt: skip
POSTS = ["/submit", "/authorize", "/report_equivocation"]


@pytest.mark.parametrize("path", GETS)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_a_read_route_takes_get_only(anyone: HttpClient, path: str, method: str) -> None:
    reply = anyone.ask(method, path, None, CBOR)
    assert (reply.status, reply.code) == (405, "E.FORMAT")
    assert reply.headers["allow"] == "GET"


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_an_act_takes_post_only(anyone: HttpClient, path: str, method: str) -> None:
    reply = anyone.ask(method, path)
    assert (reply.status, reply.code) == (405, "E.FORMAT")
    assert reply.headers["allow"] == "POST"


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
def test_a_body_does_not_hide_what_is_wrong_with_the_method(
    anyone: HttpClient, method: str
) -> None:
    for path, status, code in (
        ("/stream", 405, "E.FORMAT"),
        ("/submit", 405, "E.FORMAT"),
        ("/nothing", 404, "E.NOTFOUND"),
    ):
        reply = anyone.ask(method, path, b"\x00", CBOR)
        assert (reply.status, reply.code) == (status, code)


@pytest.mark.parametrize(
    "path", ["/", "/nothing", "/submit/", "/stream/x", "/Profile", "/%2e%2e/x"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_an_unknown_route_is_404(anyone: HttpClient, path: str, method: str) -> None:
    reply = anyone.ask(method, path)
    assert (reply.status, reply.code) == (404, "E.NOTFOUND")


@pytest.mark.parametrize("path", ["/authorize", "/report_equivocation"])
def test_acts_take_cbor_only(anyone: HttpClient, path: str) -> None:
    reply = anyone.ask("POST", path, b"\xa0", {"Content-Type": "application/json"})
    assert (reply.status, reply.code) == (400, "E.FORMAT")


def test_request_ids_differ(anyone: HttpClient) -> None:
    ids = {anyone.get("/profile").headers["veen-request-id"] for _ in range(20)}
    assert len(ids) == 20


def test_the_profile_page_says_who_and_what(open_hub: LiveHub, anyone: HttpClient) -> None:
    said = anyone.get("/profile").map()
    assert list(said) == [
        "ver", "hub_pk", "hub_id", "profile_ids", "limits", "stream_scoping", "open_admission",
        "open_reads",
    ]  # fmt: skip
    assert said["ver"] == 1
    assert said["hub_pk"] == open_hub.hub_pk
    assert said["hub_id"] == open_hub.hub_id == hub_id_of(open_hub.hub_pk)
    assert sorted(said["profile_ids"]) == sorted(profile.id for profile in DEFAULT_PROFILES)
    assert said["limits"] == Limits().published()
    assert said["stream_scoping"] is False
    assert said["open_admission"] is said["open_reads"] is True


def test_a_closed_hub_says_so(closed_hub: LiveHub, producer: HttpClient) -> None:
    said = producer.get("/profile").map()
    assert said["stream_scoping"] is True
    assert said["open_admission"] is said["open_reads"] is False


def test_healthz_has_the_fields_of_obs0(anyone: HttpClient) -> None:
    receipt = Author(Label(b"h" * 32)).send(anyone)
    said = anyone.get("/healthz").map()
    assert list(said) == ["ok", "profile_id", "peaks_count", "last_stream_seq", "last_mmr_root"]
    assert said["ok"] is True
    assert said["profile_id"] == PRODUCT.id
    assert said["last_stream_seq"] >= receipt.stream_seq
    assert len(said["last_mmr_root"]) == 32


def test_a_fresh_hub_is_ready(anyone: HttpClient) -> None:
    assert anyone.get("/readyz").map() == {"ready": True, "reasons": []}


def test_rotations_of_a_hub_that_never_rotated_are_empty(anyone: HttpClient) -> None:
    assert anyone.get("/rotations").items() == []


def test_metrics_have_the_names_of_obs0(anyone: HttpClient) -> None:
    author = Author(Label(b"m" * 32))
    author.send(anyone)
    assert anyone.submit(author.draft(seq=9).encode()).code == "E.SEQ"

    def text() -> str:
        reply = anyone.get("/metrics")
        assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
        return reply.ok().decode()

    live_hub.until(lambda: 'veen_submit_err_total{code="E.SEQ"}' in text())
    page = text()
    for name, kind in {
        "veen_submit_ok_total": "counter",
        "veen_submit_err_total": "counter",
        "veen_verify_latency_ms": "histogram",
        "veen_commit_latency_ms": "histogram",
        "veen_end_to_end_latency_ms": "histogram",
        "veen_queue_depth": "gauge",
        "veen_rate_limited_total": "counter",
        "veen_checkpoint_interval": "histogram",
        "veen_anchor_fail_total": "counter",
    }.items():
        assert f"# TYPE {name} {kind}" in page
    values = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    assert float(values["veen_submit_ok_total"]) >= 1
    assert float(values["veen_fsync_total"]) >= 1
    assert float(values["veen_log_bytes"]) > 0
    assert Label(b"m" * 32).hex() not in page


def test_every_submit_leaves_one_json_line_with_the_fields_of_obs0(
    open_hub: LiveHub, anyone: HttpClient
) -> None:
    author = Author(Label(b"l" * 32))
    msg = author.draft()
    receipt = Receipt.decode(anyone.submit(author.next()).ok())
    refused = author.draft(b"secret payload", seq=7)
    assert anyone.submit(refused.encode()).code == "E.SEQ"
    assert anyone.submit(b"\x00").code == "E.FORMAT"

    def submits() -> list[dict[str, object]]:
        lines = [json.loads(line) for line in open_hub.log_lines()]
        return [line for line in lines if line["event"] == "submit"]

    live_hub.until(lambda: any(line.get("code") == "E.FORMAT" for line in submits()))
    names = {
        "ts", "level", "component", "event", "label", "client_id_prefix", "stream_seq",
        "leaf_hash_prefix", "bytes_in", "bytes_out", "verify_ms", "commit_ms",
    }  # fmt: skip
    ok = next(line for line in submits() if line["label"] == author.label.hex())
    assert set(ok) == names
    assert ok["client_id_prefix"] == author.key.public.hex()[:8]
    assert ok["stream_seq"] == receipt.stream_seq
    assert ok["leaf_hash_prefix"] == msg.leaf_hash().hex()[:8]
    assert ok["bytes_in"] == len(msg.encode())
    assert ok["bytes_out"] == len(receipt.encode())
    bad = next(line for line in submits() if line.get("code") == "E.SEQ"
               and line["label"] == author.label.hex())  # fmt: skip
    assert set(bad) == names | {"code"}
    assert bad["leaf_hash_prefix"] == refused.leaf_hash().hex()[:8]
    shapeless = next(line for line in submits() if line.get("code") == "E.FORMAT")
    assert set(shapeless) == names | {"code"}
    assert shapeless["label"] is None
    assert "secret" not in "".join(open_hub.log_lines())


def test_a_full_queue_is_503_with_retry_after(tmp_path: Path) -> None:
    config = HubConfig(
        data_dir=tmp_path / "d",
        open_admission=True,
        open_reads=True,
        workers=1,
        limits=Limits(queue_max=4, batch_items_max=8),
    )
    with live_hub.running(config) as hub:
        client = hub.client()
        authors = [Author(Label(bytes([number]) * 32)) for number in range(16)]
        batches = [b"".join(author.next() for _ in range(8)) for author in authors]
        with contextlib.ExitStack() as opened:
            links = [opened.enter_context(socket_of(hub)) for _ in batches]
            for link, batch in zip(links, batches, strict=True):
                link.request("POST", "/submit", batch, CBOR_SEQ)
            bodies = [link.getresponse().read() for link in links]
        codes = [
            [live_hub.code_of(item) for item in cbor.split_sequence(body, items_max=8)]
            for body in bodies
        ]
        assert [None] * 8 in codes  # one whole batch has room in every worker
        assert any("E.BUSY" in each for each in codes)
        assert {code for each in codes for code in each} <= {None, "E.BUSY", "E.SEQ"}
        live_hub.until(lambda: b"queue is full" in client.get("/readyz").body)
        live_hub.until(lambda: client.get("/readyz").status == 200)  # it drained


def socket_of(hub: LiveHub) -> contextlib.closing[http.client.HTTPConnection]:
    """A connection of its own, closed at the end of a block."""
    where = urlsplit(hub.url)
    assert where.hostname is not None
    link = http.client.HTTPConnection(where.hostname, where.port, timeout=30)
    return contextlib.closing(link)


def test_control_is_a_private_socket_and_not_on_tcp(open_hub: LiveHub, anyone: HttpClient) -> None:
    mode = (open_hub.data_dir / "control.sock").stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600
    for verb in ("rotate", "revoke", "control", "token_add"):
        assert anyone.ask("POST", f"/{verb}", b"{}", CBOR).status == 404


@pytest.mark.parametrize(
    "line", [b"", b"{}", b"[]", b"no json", b'{"verb": 1}', b'{"verb": "explode"}', b'{"verb": []}']
)
def test_nonsense_on_the_control_socket_is_answered(open_hub: LiveHub, line: bytes) -> None:
    with control._connect(open_hub.data_dir, 5) as link:
        link.sendall(line + b"\n")
        with link.makefile("rb") as stream:
            answer = json.loads(stream.readline())
    assert answer == {"ok": False, "code": "E.FORMAT", "detail": "no such verb"}


def test_status_says_what_runs(open_hub: LiveHub) -> None:
    said = open_hub.control("status")
    assert said["hub_pk"] == open_hub.hub_pk.hex()
    assert said["hub_id"] == open_hub.hub_id.hex()
    assert said["url"] == open_hub.url
    assert said["writable"] is True
    assert said["reason"] is None
    assert said["log_bytes"] >= 0
    assert said["pid"] == open_hub.process.pid


def test_hub_json_names_the_running_hub_and_goes_with_it(tmp_path: Path) -> None:
    config = HubConfig(data_dir=tmp_path / "d", open_admission=True, workers=1)
    with live_hub.running(config) as hub:
        said = json.loads((hub.data_dir / "hub.json").read_text())
        assert said["pid"] == hub.process.pid
        assert said["url"] == hub.url
        assert hub.stop() == 0
        assert not (hub.data_dir / "hub.json").exists()
        assert not (hub.data_dir / "control.sock").exists()
    with pytest.raises(VeenError) as refused:
        control.call(config.data_dir, "status")
    assert refused.value.code == "N.UNREACHABLE"


def test_the_control_verb_stop_ends_the_hub(tmp_path: Path) -> None:
    with live_hub.running(HubConfig(data_dir=tmp_path / "d", workers=1)) as hub:
        assert hub.control("stop") == {"stopping": True}
        assert hub.process.wait(10) == 0


def test_a_second_hub_on_one_directory_is_refused(open_hub: LiveHub) -> None:
    with pytest.raises(AssertionError):
        live_hub.start(HubConfig(data_dir=open_hub.data_dir, workers=1))
    assert "S.LOCKED" in "".join(open_hub.log_lines()[-40:])


def test_a_restart_serves_the_same_bytes(tmp_path: Path) -> None:
    hub = live_hub.start(
        HubConfig(data_dir=tmp_path / "d", open_admission=True, open_reads=True, workers=1)
    )
    author = Author(Label(b"s" * 32))
    client = hub.client()
    for _ in range(10):
        author.send(client)
    path = f"/stream?label={author.label.hex()}&with_proof=1"
    before = client.get(path).ok()
    again = live_hub.restarted(hub)
    try:
        client = again.client()
        assert client.get(path).ok() == before
        assert author.send(client).stream_seq == 11
    finally:
        again.stop()
