"""PUT and GET /attachment: content addressed, signed for by the capability's subject."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from hub import label as labels
from hub.crypto.hashing import ATT_PUT
from hub.crypto.signing import SigningKey
from hub.limits import Limits
from hub.server.config import HubConfig
from hub.wire.captoken import CapToken
from tests.support import live_hub
from tests.support.live_hub import CBOR, ISSUER, ROUTING_KEY, HttpClient, LiveHub, Reply

QUOTA = 10_000


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    config = HubConfig(
        data_dir=tmp_path_factory.mktemp("attachments") / "d",
        trusted_issuers=frozenset({ISSUER.public}),
        routing_key=ROUTING_KEY,
        limits=Limits(core_attachment_quota_bytes=QUOTA),
        workers=2,
    )
    with live_hub.running(config) as hub:
        yield hub


@pytest.fixture
def client(hub: LiveHub) -> HttpClient:
    return hub.client()


class Uploader:
    """A capability and the key it names."""

    def __init__(self, client: HttpClient) -> None:
        self.key = SigningKey.generate()
        stream = labels.stream_id("test/attachments")
        self.token = CapToken.issue(
            ISSUER, subject_pk=self.key.public, stream_ids=[stream], ttl=3600
        )
        client.ask("POST", "/authorize", self.token.encode(), CBOR).ok()

    def headers(self, coid: bytes) -> dict[str, str]:
        auth_ref = self.token.auth_ref()
        signature = self.key.sign(ATT_PUT(auth_ref, coid))
        return {"Veen-Auth-Ref": auth_ref.hex(), "Veen-Sig": signature.hex()}


def put(client: HttpClient, body: bytes, headers: dict[str, str], coid: bytes = b"") -> Reply:
    name = (coid or sha256(body).digest()).hex()
    return client.ask("PUT", f"/attachment/{name}", body, headers)


def test_an_attachment_is_stored_once_and_read_back(hub: LiveHub, client: HttpClient) -> None:
    uploader = Uploader(client)
    body = b"sealed bytes"
    coid = sha256(body).digest()
    assert put(client, body, uploader.headers(coid)).status == 201
    assert put(client, body, uploader.headers(coid)).status == 200
    token = hub.control("token_add", name="all", all=True)["token"]
    reply = client.get(f"/attachment/{coid.hex()}", token)
    assert reply.ok() == body
    assert reply.headers["content-type"] == "application/octet-stream"


def test_a_wrong_hash_is_e_format(client: HttpClient) -> None:
    uploader = Uploader(client)
    coid = sha256(b"other").digest()
    reply = put(client, b"body", uploader.headers(coid), coid)
    assert (reply.status, reply.code) == (400, "E.FORMAT")


@pytest.mark.parametrize("flaw", ["missing", "wrong key", "other coid", "short", "upper case"])
def test_a_missing_or_wrong_signature_is_e_sig(client: HttpClient, flaw: str) -> None:
    uploader = Uploader(client)
    body = flaw.encode()
    headers = uploader.headers(sha256(body).digest())
    if flaw == "missing":
        del headers["Veen-Sig"]
    elif flaw == "wrong key":
        headers["Veen-Sig"] = Uploader(client).headers(sha256(body).digest())["Veen-Sig"]
    elif flaw == "other coid":
        headers["Veen-Sig"] = uploader.headers(bytes(32))["Veen-Sig"]
    elif flaw == "short":
        headers["Veen-Sig"] = headers["Veen-Sig"][:-2]
    else:
        headers["Veen-Sig"] = headers["Veen-Sig"].upper()
    reply = put(client, body, headers)
    assert (reply.status, reply.code) == (409, "E.SIG")


def test_an_unknown_or_missing_auth_ref_is_e_auth(client: HttpClient) -> None:
    headers = Uploader(client).headers(sha256(b"x").digest())
    assert put(client, b"x", {"Veen-Sig": headers["Veen-Sig"]}).code == "E.AUTH"
    reply = put(client, b"x", {**headers, "Veen-Auth-Ref": "00" * 32})
    assert (reply.status, reply.code) == (403, "E.AUTH")


def test_a_revoked_capability_is_e_cap(hub: LiveHub, client: HttpClient) -> None:
    uploader = Uploader(client)
    hub.control("revoke", kind="auth-ref", target=uploader.token.auth_ref().hex())
    reply = put(client, b"revoked", uploader.headers(sha256(b"revoked").digest()))
    assert (reply.status, reply.code) == (403, "E.CAP")


def test_the_quota_is_per_core_and_over_it_is_e_size(client: HttpClient) -> None:
    uploader, other = Uploader(client), Uploader(client)
    half = b"1" * (QUOTA // 2)
    second = b"2" * (QUOTA // 2)
    assert put(client, half, uploader.headers(sha256(half).digest())).status == 201
    assert put(client, half, uploader.headers(sha256(half).digest())).status == 200
    assert put(client, second, uploader.headers(sha256(second).digest())).status == 201
    reply = put(client, b"3", uploader.headers(sha256(b"3").digest()))
    assert (reply.status, reply.code) == (413, "E.SIZE")
    assert put(client, b"3", other.headers(sha256(b"3").digest())).status == 201


def test_nobody_else_can_use_up_a_quota(client: HttpClient) -> None:
    uploader, thief = Uploader(client), SigningKey.generate()
    auth_ref = uploader.token.auth_ref()
    for number in range(5):
        body = bytes([number]) * (QUOTA // 2)
        coid = sha256(body).digest()
        forged = thief.sign(ATT_PUT(auth_ref, coid)).hex()
        headers = {"Veen-Auth-Ref": auth_ref.hex(), "Veen-Sig": forged}
        assert put(client, body, headers).code == "E.SIG"
    body = b"mine" * (QUOTA // 4)
    assert put(client, body, uploader.headers(sha256(body).digest())).status == 201


def test_a_body_over_the_limit_is_e_size(client: HttpClient) -> None:
    body = bytes(1_048_321)
    reply = put(client, body, {})
    assert (reply.status, reply.code) == (413, "E.SIZE")


@pytest.mark.parametrize("name", ["", "00", "zz" * 32, "AB" * 32, "00" * 32 + "/x", ".." * 32])
def test_a_coid_is_64_lower_case_hex_digits(client: HttpClient, name: str) -> None:
    reply = client.ask("PUT", f"/attachment/{name}", b"x", {})
    assert (reply.status, reply.code) == (400, "E.FORMAT")


@pytest.mark.parametrize("media", ["application/cbor", "text/plain", ""])
def test_an_attachment_is_octets_and_nothing_else(client: HttpClient, media: str) -> None:
    reply = put(client, b"octets", {"Content-Type": media})
    assert (reply.status, reply.code) == (400, "E.FORMAT")


def test_another_method_is_405(client: HttpClient) -> None:
    reply = client.ask("DELETE", "/attachment/" + "00" * 32)
    assert (reply.status, reply.code) == (405, "E.FORMAT")
    assert reply.headers["allow"] == "GET, PUT"


def test_with_open_admission_no_header_is_needed(tmp_path: Path) -> None:
    config = HubConfig(data_dir=tmp_path / "d", open_admission=True, open_reads=True, workers=1)
    with live_hub.running(config) as hub:
        client = hub.client()
        assert put(client, b"open", {}).status == 201
        assert put(client, b"open", {}).status == 200
        assert put(client, b"x", {}, sha256(b"y").digest()).code == "E.FORMAT"
        name = sha256(b"open").hexdigest()
        assert client.get(f"/attachment/{name}").ok() == b"open"
        path = next((hub.data_dir / "attachments").rglob(name))
        path.write_bytes(b"changed")  # a bit flip on disk is never served
        assert client.get(f"/attachment/{name}").code == "E.STORE"
