"""Timestamps by a real authority, verified offline; and the way out that reaches only it."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rfc3161_client import HashAlgorithm, TimestampRequestBuilder

from hub.crypto.hashing import h
from hub.errors import ErrorCode, VeenError
from hub.selftest.offline import namespace_command
from hub.types import ManifestId, UnixSeconds
from recorder.anchors.anchor import AnchorRef
from recorder.anchors.connect import timestamps
from recorder.anchors.outbound import post
from recorder.anchors.timestamp import PinnedCertificates, Timestamps
from tests.recorder.anchors.authority import OPENSSL, Authority, make, serving
from tests.support.live_hub import ROOT

pytestmark = pytest.mark.skipif(OPENSSL is None, reason="no openssl on this machine")
ONE, TWO = ManifestId(h(b"manifest one")), ManifestId(h(b"manifest two"))
NOW = UnixSeconds(0)  # the authority's clock counts


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authority]:
    with serving(make(tmp_path_factory.mktemp("tsa") / "a")) as found:
        yield found


@pytest.fixture(autouse=True)
def _answers_as_it_should(authority: Authority) -> Iterator[None]:
    yield
    authority.answer = None


@pytest.fixture
def backend(authority: Authority) -> Timestamps:
    return timestamps(authority.url, authority.certificate)


@pytest.fixture(scope="module")
def ref(authority: Authority) -> AnchorRef:
    return timestamps(authority.url, authority.certificate).publish(ONE, NOW)


def test_a_timestamp_verifies_offline_for_its_manifest_only(
    authority: Authority, ref: AnchorRef
) -> None:
    offline = Timestamps(PinnedCertificates.read(authority.certificate))
    anchored = offline.verify(AnchorRef.decode(ref.encode()), ONE)
    assert abs(anchored.at - time.time()) < 300
    with pytest.raises(VeenError) as refusal:
        offline.verify(ref, TWO)
    assert refusal.value.code is ErrorCode.TRUST
    with pytest.raises(VeenError, match="no time-stamping authority"):
        offline.publish(ONE, NOW)


def test_openssl_itself_agrees(authority: Authority, ref: AnchorRef, tmp_path: Path) -> None:
    (tmp_path / "one.tsr").write_bytes(ref.body)
    assert OPENSSL is not None
    command = [OPENSSL, "ts", "-verify", "-digest", h(ONE).hex(), "-in", str(tmp_path / "one.tsr")]
    command += ["-CAfile", str(authority.certificate)]
    subprocess.run(command, check=True, capture_output=True)


@pytest.mark.filterwarnings("ignore:Parsed a serial number")
def test_a_changed_byte_is_refused_or_changes_nothing(authority: Authority, ref: AnchorRef) -> None:
    """Certificates that the answer brings are not believed anyway, so changing those is idle."""
    offline = Timestamps(PinnedCertificates.read(authority.certificate))
    taken = []
    for at in range(len(ref.body)):
        body = ref.body[:at] + bytes((ref.body[at] ^ 1 << at % 8,)) + ref.body[at + 1 :]
        try:
            offline.verify(replace(ref, body=body), ONE)
        except VeenError:
            continue
        taken.append(at)
    told = offline.verify(ref, ONE)
    for at in taken:
        body = ref.body[:at] + bytes((ref.body[at] ^ 1 << at % 8,)) + ref.body[at + 1 :]
        assert offline.verify(replace(ref, body=body), ONE) == told
    imprint = ref.body.index(h(ONE))
    signed = {*range(imprint - 20, imprint + 70), *range(len(ref.body) - 60, len(ref.body))}
    assert not signed & set(taken)


def test_another_authority_is_not_trusted(ref: AnchorRef, tmp_path: Path) -> None:
    other = make(tmp_path / "other")
    with pytest.raises(VeenError) as refusal:
        Timestamps(PinnedCertificates.read(other.certificate)).verify(ref, ONE)
    assert refusal.value.code is ErrorCode.TRUST


def test_a_pinned_signer_must_be_the_one(
    authority: Authority, ref: AnchorRef, tmp_path: Path
) -> None:
    own = (authority.root / "root.pem").read_bytes() + (authority.root / "signer.pem").read_bytes()
    (tmp_path / "own.pem").write_bytes(own)
    Timestamps(PinnedCertificates.read(tmp_path / "own.pem")).verify(ref, ONE)
    other = make(tmp_path / "other")
    mixed = (authority.root / "root.pem").read_bytes() + (other.root / "signer.pem").read_bytes()
    (tmp_path / "mixed.pem").write_bytes(mixed)
    with pytest.raises(VeenError):
        Timestamps(PinnedCertificates.read(tmp_path / "mixed.pem")).verify(ref, ONE)


def test_an_answer_without_certificates_needs_the_pinned_signer(
    authority: Authority, tmp_path: Path
) -> None:
    request = TimestampRequestBuilder().data(ONE).hash_algorithm(HashAlgorithm.SHA256)
    bare = AnchorRef(
        backend="rfc3161",
        body=authority.stamp(request.cert_request(cert_request=False).build().as_bytes()),
    )
    with pytest.raises(VeenError):
        Timestamps(PinnedCertificates.read(authority.certificate)).verify(bare, ONE)
    own = (authority.root / "root.pem").read_bytes() + (authority.root / "signer.pem").read_bytes()
    (tmp_path / "own.pem").write_bytes(own)
    Timestamps(PinnedCertificates.read(tmp_path / "own.pem")).verify(bare, ONE)


def test_a_stamp_over_another_hash_function_is_refused(authority: Authority) -> None:
    request = TimestampRequestBuilder().data(ONE).hash_algorithm(HashAlgorithm.SHA512).build()
    ref = AnchorRef(backend="rfc3161", body=authority.stamp(request.as_bytes()))
    with pytest.raises(VeenError):
        Timestamps(PinnedCertificates.read(authority.certificate)).verify(ref, ONE)


@pytest.mark.parametrize("text", [b"", b"not pem", b"signer only"])
def test_certificates_that_pin_nothing_are_refused(
    authority: Authority, tmp_path: Path, text: bytes
) -> None:
    path = tmp_path / "c.pem"
    if text == b"signer only":
        text = (authority.root / "signer.pem").read_bytes()
    path.write_bytes(text)
    with pytest.raises(VeenError) as refusal:
        PinnedCertificates.read(path)
    assert refusal.value.code is ErrorCode.CONFIG


def test_an_answer_to_another_question_is_refused(
    authority: Authority, backend: Timestamps, ref: AnchorRef
) -> None:
    """A replayed timestamp is genuine, but its nonce is of another request."""
    authority.answer = lambda _query: (200, {}, ref.body)
    with pytest.raises(VeenError) as refusal:
        backend.publish(ONE, NOW)
    assert refusal.value.code is ErrorCode.TRUST


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [(302, {"Location": "http://127.0.0.1:9/"}, b""), (500, {}, b""), (204, {}, b""),
     (200, {"Content-Type": "text/html"}, b"<html>"), (200, {}, b"\x30\x00"),
     (200, {}, bytes(70_000))],
    ids=["redirect", "error", "empty", "html", "garbage", "large"],
)  # fmt: skip
def test_other_answers_are_refused(
    authority: Authority, backend: Timestamps, status: int, headers: dict[str, str], body: bytes
) -> None:
    before = authority.requests
    authority.answer = lambda _query: (status, headers, body)
    with pytest.raises(VeenError):
        backend.publish(ONE, NOW)
    assert authority.requests == before + 1  # followed nowhere, tried once


def test_only_listed_addresses_are_reached(authority: Authority) -> None:
    port = authority.address.rpartition(":")[2]
    certificates = PinnedCertificates.read(authority.certificate)
    for url, allowed in (
        (authority.url, ()),
        (authority.url, ("tsa.example:443", "127.0.0.1:1")),
        (f"http://localhost:{port}/", (f"localhost:{port}",)),  # a name that leads inside
    ):
        backend = Timestamps(certificates, url, allowed=allowed)
        with pytest.raises(VeenError) as refusal:
            backend.publish(ONE, NOW)
        assert refusal.value.code is ErrorCode.POLICY
    both = (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}")
    Timestamps(certificates, authority.url, allowed=both).publish(ONE, NOW)


@pytest.mark.parametrize(
    "url", ["ftp://127.0.0.1/", "http://", "http://user:pw@127.0.0.1/", "file:///etc/passwd", "x"]
)
def test_urls_of_other_kinds_are_refused(authority: Authority, url: str) -> None:
    with pytest.raises(VeenError) as refusal:
        timestamps(url, authority.certificate).publish(ONE, NOW)
    assert refusal.value.code in {ErrorCode.CONFIG, ErrorCode.POLICY}


def test_a_peer_that_only_drips_ends_with_the_time() -> None:
    """One byte at a time keeps a socket's own timeout quiet for ever."""
    stop = threading.Event()

    def drip(server: socket.socket) -> None:
        link, _ = server.accept()
        with link:
            while not stop.wait(0.05):
                try:
                    link.sendall(b"H")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=[server])
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        started = time.monotonic()
        with pytest.raises(VeenError) as refusal:
            post(
                f"http://{address}/", b"x", allowed=[address], content_type="a/b", accept="a/b",
                timeout_s=0.5,
            )  # fmt: skip
        stop.set()
        thread.join()
    assert refusal.value.code is ErrorCode.UNREACHABLE
    assert time.monotonic() - started < 10


@pytest.mark.skipif(namespace_command() is None, reason="no empty network namespace here")
def test_a_timestamp_is_verified_without_any_network(
    authority: Authority, ref: AnchorRef, tmp_path: Path
) -> None:
    """C18."""
    (tmp_path / "one.anchor").write_bytes(ref.encode())
    command = [*(namespace_command() or []), sys.executable, "-m", "config.cli", "hub", "anchor",
               "verify", "--manifest", ONE.hex(), "--ref", str(tmp_path / "one.anchor"),
               "--tsa-cert", str(authority.certificate), "--json"]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert '"valid": true' in done.stdout
