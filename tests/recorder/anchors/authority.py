"""A time-stamping authority: the openssl command behind a local HTTP socket."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

OPENSSL = shutil.which("openssl")
CONFIG = """
[ tsa ]
default_tsa = main
[ main ]
dir = {root}
serial = {root}/serial
crypto_device = builtin
signer_cert = {root}/signer.pem
certs = {root}/root.pem
signer_key = {root}/signer.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256, sha512
accuracy = secs:1
ordering = yes
tsa_name = no
ess_cert_id_chain = no
"""
Key = ec.EllipticCurvePrivateKey
_STAMPING = ExtendedKeyUsageOID.TIME_STAMPING


@dataclass
class Authority:
    """Its certificates, and how it answers; a test may bend the answer."""

    root: Path
    url: str = ""
    requests: int = 0
    answer: Callable[[bytes], tuple[int, dict[str, str], bytes]] | None = None

    @property
    def certificate(self) -> Path:
        """What an operator pins."""
        return self.root / "root.pem"

    @property
    def address(self) -> str:
        return self.url.removeprefix("http://").partition("/")[0]

    def stamp(self, query: bytes) -> bytes:
        """A TimeStampResp by the real command."""
        assert OPENSSL is not None
        (self.root / "query.tsq").write_bytes(query)
        command = [OPENSSL, "ts", "-reply", "-queryfile", str(self.root / "query.tsq")]
        command += ["-config", str(self.root / "tsa.cnf"), "-out", str(self.root / "reply.tsr")]
        subprocess.run(command, check=True, capture_output=True)
        return (self.root / "reply.tsr").read_bytes()


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(
    subject: str, issuer: str, public: Key, signer: Key, *, usage: x509.ObjectIdentifier | None
) -> x509.Certificate:
    now = datetime.now(UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(public.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=usage is None, path_length=None), critical=True)
    )
    if usage is not None:
        built = built.add_extension(x509.ExtendedKeyUsage([usage]), critical=True)
    return built.sign(signer, hashes.SHA256())


def make(root: Path) -> Authority:
    """A new authority with a root of its own."""
    root.mkdir(parents=True)
    root_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    pem = serialization.Encoding.PEM
    top = _certificate("time root", "time root", root_key, root_key, usage=None)
    leaf = _certificate("time signer", "time root", key, root_key, usage=_STAMPING)
    (root / "root.pem").write_bytes(top.public_bytes(pem))
    (root / "signer.pem").write_bytes(leaf.public_bytes(pem))
    (root / "signer.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    (root / "serial").write_text("01\n")
    (root / "tsa.cnf").write_text(CONFIG.format(root=root))
    return Authority(root)


@contextmanager
def serving(authority: Authority) -> Iterator[Authority]:
    """The authority on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            authority.requests += 1
            query = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.headers["Content-Type"] == "application/timestamp-query"
            if authority.answer is not None:
                status, headers, body = authority.answer(query)
            else:
                status, headers, body = 200, {}, authority.stamp(query)
            self.send_response(status)
            for name, value in {"Content-Type": "application/timestamp-reply", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    authority.url = f"http://127.0.0.1:{server.server_address[1]}/stamp"
    try:
        yield authority
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
