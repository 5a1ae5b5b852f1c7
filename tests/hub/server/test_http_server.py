from __future__ import annotations

import asyncio
import datetime as dt
import socket
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from hub.errors import VeenError
from hub.server.http import HttpLimits, Respond, Response, adopting_server, start_server
from tests.support.http_peer import Peer, Running, TestApp, get, post, run, serving


def test_connections_over_the_bound_get_a_503_and_the_others_go_on() -> None:
    async def scenario() -> None:
        async with serving(TestApp(), HttpLimits(connections_max=2)) as hub:
            peers = [await hub.connect() for _ in range(2)]
            for peer in peers:
                peer.send(get("/"))
                assert (await peer.answer()).status == 200
            third = await hub.connect()
            third.send(get("/"))
            refusal = await third.answer()
            assert (refusal.status, refusal.headers["retry-after"]) == (503, "1")
            assert await third.rest() == b""
            await third.close()
            peers[0].send(get("/"))
            assert (await peers[0].answer()).status == 200
            await peers[0].close()
            await hub.until(lambda: hub.server.connection_count < 2)
            assert (await hub.exchange(get("/"))).status == 200

    run(scenario())


def test_a_flood_of_connections_stays_bounded() -> None:
    async def scenario() -> None:
        async with serving(TestApp(), HttpLimits(connections_max=4)) as hub:
            for _ in range(100):
                try:
                    await hub.connect()
                except ConnectionError:
                    continue
                assert hub.server.connection_count <= 4 + 16 + 1
            await hub.until(lambda: hub.server.connection_count <= 4 + 16)

    run(scenario())


def test_closing_finishes_what_was_begun_and_closes_what_is_idle() -> None:
    waiting: list[Respond] = []

    async def scenario() -> None:
        async with serving(TestApp(lambda _, respond: waiting.append(respond))) as hub:
            idle, busy, sending = [await hub.connect() for _ in range(3)]
            busy.send(get("/one") + get("/two"))
            sending.send(post("/submit", b"body")[:-2])
            await hub.until(lambda: len(waiting) == 2)
            await hub.until(lambda: hub.server.connection_count == 3)
            closing = asyncio.ensure_future(hub.server.close(grace_s=10))
            assert await idle.rest() == b""
            busy.send(get("/three"))
            sending.send(b"dy")
            await hub.until(lambda: len(waiting) == 3)
            for number, respond in enumerate(waiting):
                respond(Response(200, b"%d" % number))
            first, second = await busy.answer(), await busy.answer()
            assert (first.body, second.body) == (b"0", b"1")
            assert "connection" not in first.headers
            assert second.headers["connection"] == "close"
            third = await sending.answer()
            assert (third.body, third.headers["connection"]) == (b"2", "close")
            assert await busy.rest() == b""
            await busy.close()
            assert await closing == 0
            with pytest.raises(ConnectionRefusedError):
                await hub.connect()

    run(scenario())


def test_closing_cuts_what_is_not_finished_in_time() -> None:
    waiting: list[Respond] = []

    async def scenario() -> None:
        async with serving(TestApp(lambda _, respond: waiting.append(respond))) as hub:
            peer = await hub.connect()
            peer.send(get("/"))
            await hub.until(lambda: bool(waiting))
            assert await hub.server.close(grace_s=0.05) == 1
            assert await peer.rest() == b""
            waiting[0](Response(200, b"too late"))

    run(scenario())


def test_a_unix_socket_is_served_like_any_other(tmp_path: Path) -> None:
    app = TestApp()

    async def scenario() -> None:
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(str(tmp_path / "s"))
        server = await start_server(app, sock, HttpLimits())
        peer = Peer(*await asyncio.open_unix_connection(str(tmp_path / "s")))
        peer.send(post("/submit", b"m"))
        assert (await peer.answer()).body == b"m"
        await peer.close()
        assert await server.close(grace_s=1) == 0

    run(scenario())
    assert app.requests[0].peer == "local"


def _tls_contexts(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    start = dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return server, ssl.create_default_context(cafile=str(folder / "cert.pem"))


def test_tls_carries_the_same_conversation(tmp_path: Path) -> None:
    server_tls, client_tls = _tls_contexts(tmp_path)
    limits = HttpLimits(linger_timeout_s=0.2, pipeline_max=4)

    async def scenario() -> None:
        async with serving(TestApp(body_bytes_max=1_000_000), limits, server_tls) as hub:
            peer = await hub.connect(client_tls)
            peer.send(post("/submit", b"m" * 900_000) + get("/x") * 3000)
            assert len((await peer.answer()).body) == 900_000
            for _ in range(3000):
                assert (await peer.answer()).body == b"/x"
            peer.send(b"garbage\r\n\r\n")
            assert (await peer.answer()).status == 400
            assert await peer.rest() == b""
            other = await hub.connect(client_tls)
            other.send(get("/", "Connection: close"))
            assert (await other.answer()).status == 200
            assert await other.rest() == b""

    run(scenario())


def test_a_tls_handshake_that_never_comes_is_cut(tmp_path: Path) -> None:
    server_tls, _ = _tls_contexts(tmp_path)

    async def scenario() -> None:
        async with serving(TestApp(), HttpLimits(head_timeout_s=0.2), server_tls) as hub:
            peer = await hub.connect()
            assert await peer.rest() == b""

    run(scenario())


@pytest.mark.parametrize("with_tls", [False, True])
def test_a_connection_accepted_elsewhere_is_adopted(tmp_path: Path, *, with_tls: bool) -> None:
    server_tls, client_tls = _tls_contexts(tmp_path) if with_tls else (None, None)

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        server = adopting_server(TestApp(), HttpLimits(head_timeout_s=0.2), server_tls)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = listener.getsockname()
            running = Running(server, address[1])
            connecting = asyncio.ensure_future(running.connect(client_tls))
            accepted, _ = await loop.run_in_executor(None, listener.accept)
            accepted.setblocking(False)  # noqa: FBT003 - the library's own spelling
            await server.adopt(accepted)
            peer = await connecting
            peer.send(post("/submit", b"m"))
            assert (await peer.answer()).body == b"m"
            assert server.connection_count == 1
            await peer.close()
            assert await server.close(grace_s=1) == 0
            connecting = asyncio.ensure_future(running.connect())
            late, _ = await loop.run_in_executor(None, listener.accept)
            late.setblocking(False)  # noqa: FBT003 - the library's own spelling
            await server.adopt(late)
            refused = await connecting
            assert await refused.rest() == b""
            await refused.close()

    run(scenario())


def test_a_limit_of_zero_is_refused() -> None:
    with pytest.raises(VeenError, match="pipeline_max"):
        HttpLimits(pipeline_max=0)
