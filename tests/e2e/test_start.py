"""How a hub starts: safe addresses only, TLS, ports, and log lines that are JSON."""

from __future__ import annotations

import datetime as dt
import http.client
import json
import logging
import os
import signal
import socket
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hub.errors import VeenError
from hub.server.config import HubConfig
from hub.server.loglines import JsonLines
from hub.server.main import check_config
from hub.types import Label
from tests.support import live_hub
from tests.support.live_hub import CBOR, Author


@pytest.fixture
def config(tmp_path: Path) -> HubConfig:
    return HubConfig(data_dir=tmp_path / "d", open_admission=True, open_reads=True, workers=1)


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate of localhost by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    cert_path, key_path = folder / "cert.pem", folder / "key.pem"
    cert_path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return cert_path, key_path


def test_tls_carries_submits_and_reads(config: HubConfig, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    with live_hub.running(replace(config, tls_cert=cert, tls_key=key)) as hub:
        assert hub.url.startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=str(cert))
        link = http.client.HTTPSConnection("localhost", hub.port, timeout=10, context=context)
        author = Author(Label(b"t" * 32))
        for _ in range(3):
            link.request("POST", "/submit", author.next(bytes(5000)), CBOR)
            answer = link.getresponse()
            assert answer.status == 200
            answer.read()
        link.request("GET", f"/stream?label={author.label.hex()}")
        answer = link.getresponse()
        assert answer.status == 200
        assert len(answer.read()) > 15_000
        link.close()
        with socket.create_connection(("127.0.0.1", hub.port), timeout=5) as plain:
            plain.sendall(b"GET /profile HTTP/1.1\r\nHost: h\r\n\r\n")
            assert b"200" not in plain.recv(100)


@pytest.mark.parametrize(
    "changes",
    [
        {"bind": "0.0.0.0"},  # noqa: S104 - to see it refused
        {"bind": "192.0.2.1"},
        {"bind": "::"},
        {"tls_cert": Path("c")},
        {"tls_key": Path("k")},
        {"take_over": True, "fork": True},
        {"workers": 0},
    ],
    ids=str,
)
def test_an_unsafe_start_is_refused_with_a_sentence(
    config: HubConfig, changes: dict[str, object]
) -> None:
    with pytest.raises(VeenError) as refused:
        check_config(replace(config, **changes))  # type: ignore[arg-type]
    assert refused.value.code == "C.CONFIG"
    assert refused.value.detail


def test_a_taken_port_is_refused_and_not_shared(config: HubConfig, tmp_path: Path) -> None:
    with live_hub.running(config) as hub:
        other = replace(config, data_dir=tmp_path / "other", port=hub.port)
        with pytest.raises(AssertionError):
            live_hub.start(other)
        log = other.data_dir.with_name("other.stderr").read_text()
        assert "cannot be bound" in log


def test_a_hub_restarts_on_its_port_at_once_after_kill_9(config: HubConfig) -> None:
    hub = live_hub.start(config)
    idle = socket.create_connection(("127.0.0.1", hub.port), timeout=5)
    idle.sendall(b"POST /submit HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhalf")
    hub.process.kill()  # its workers are left to notice by themselves
    hub.process.wait()
    with live_hub.running(replace(config, port=hub.port)) as again:
        assert again.client().get("/profile").status == 200
    idle.close()


def test_every_log_line_is_json_whatever_it_holds(config: HubConfig) -> None:
    formatter = JsonLines()
    try:
        _ = 1 // 0
    except ZeroDivisionError as flaw:
        record = logging.LogRecord(
            "hub", logging.ERROR, "", 0, 'a "quote" %s', ("\x1b[31m\r\n\x7f\u009b",), None
        )
        record.exc_info = (type(flaw), flaw, flaw.__traceback__)
    text = formatter.format(record)
    assert text.isascii()
    assert text.isprintable()
    line = json.loads(text)
    assert line["event"].startswith('a "quote"')
    assert "ZeroDivisionError" in line["exception"]
    with live_hub.running(config) as hub:
        Author(Label(b"l" * 32)).send(hub.client())
        for pid in hub.workers():
            os.kill(pid, signal.SIGKILL)
        live_hub.until(lambda: any("worker.ended" in text for text in hub.log_lines()))
        for text in hub.log_lines():
            assert {"ts", "level", "component", "event"} <= set(json.loads(text))


def test_the_clock_is_accepted_over_the_control_socket_and_recorded(config: HubConfig) -> None:
    with live_hub.running(config) as hub:
        before = hub.control("status")["messages"]
        assert hub.control("clock_accept")["now"] > 1_700_000_000
        assert hub.control("status")["messages"] == before + 1
