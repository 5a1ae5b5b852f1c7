"""A hub that lies, loses answers and changes keys on command; judged by the real client.

It speaks the data plane over a real socket and signs with real keys, but keeps everything in
memory and does as the script of a test tells it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar, Self
from urllib.parse import parse_qs, urlsplit

from hub import mmr
from hub.admission.order import check_order
from hub.crypto.hashing import h
from hub.crypto.signing import SigningKey
from hub.errors import ERRORS, ErrorCode, VeenError
from hub.types import Label, ManifestId, StreamSeq, UnixSeconds
from hub.wire import cbor
from hub.wire.captoken import CapToken
from hub.wire.checkpoint import Checkpoint
from hub.wire.manifest import Manifest
from hub.wire.msg import Msg
from hub.wire.profile import PRODUCT
from hub.wire.receipt import Receipt
from hub.wire.rotation import RotationRecord, hub_id_of
from tests.support.memory_log import MemoryLog

NOW = 1_700_000_000


@dataclass
class LabelLog:
    """One label: its tree, its entries and where each client stands."""

    tree: MemoryLog = field(default_factory=MemoryLog)
    entries: list[tuple[Receipt, bytes]] = field(default_factory=list)
    clients: dict[bytes, tuple[int, int]] = field(default_factory=dict)


class HangupError(Exception):
    """The connection is cut without an answer."""


class ScriptedHub:
    """Started on a free port of loopback; `script` sees every MSG before it is judged."""

    def __init__(self) -> None:
        self.key = SigningKey.generate()
        self.first_key = self.key
        self.logs: dict[bytes, LabelLog] = {}
        self.receipts: dict[bytes, Receipt] = {}
        self.attachments: dict[bytes, bytes] = {}
        self.rotations: list[bytes] = []
        self.manifests: dict[bytes, bytes] = {}
        self.admitted: set[bytes] | None = None  # None: open admission
        self.before: Callable[[Msg], None] | None = None
        self.after: Callable[[Msg, Receipt], Receipt | None] | None = None
        self.before_read: Callable[[], None] | None = None
        self.submitted: list[bytes] = []
        self.lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def log(self, label: bytes) -> LabelLog:
        return self.logs.setdefault(label, LabelLog())

    def leaves(self, label: bytes) -> list[bytes]:
        return self.log(label).tree.leaves

    def admit(self, data: bytes) -> Receipt:
        """Judge and commit one MSG."""
        msg = Msg.decode(data)
        self.submitted.append(data)
        if self.before is not None:
            self.before(msg)
        msg.check_ct_hash()
        msg.verify()
        if self.admitted is not None and msg.auth_ref not in self.admitted:
            raise VeenError(ErrorCode.AUTH, "not admitted")
        leaf = msg.leaf_hash()
        if leaf in self.receipts:
            raise VeenError(ErrorCode.DUP)
        log = self.log(msg.label)
        last_seq, last_ack = log.clients.get(msg.client_id, (0, 0))
        check_order(
            client_seq=msg.client_seq,
            prev_ack=msg.prev_ack,
            last_client_seq=last_seq,
            last_prev_ack=last_ack,
            head=len(log.entries),
        )
        receipt = self.commit(msg, data)
        log.clients[msg.client_id] = (msg.client_seq, msg.prev_ack)
        if self.after is not None:
            receipt = self.after(msg, receipt) or receipt
        return receipt

    def commit(self, msg: Msg, data: bytes) -> Receipt:
        log = self.log(msg.label)
        log.tree.append(msg.leaf_hash())
        receipt = Receipt.sign(
            self.key,
            msg.label,
            StreamSeq(len(log.tree.leaves)),
            msg.leaf_hash(),
            log.tree.roots[-1],
            UnixSeconds(NOW + len(log.entries)),
        )
        log.entries.append((receipt, data))
        self.receipts[msg.leaf_hash()] = receipt
        return receipt

    def forget(self, label: bytes, keep: int) -> None:
        """Cut a label back, as a restored backup would."""
        old = self.log(label)
        for receipt, _ in old.entries[keep:]:
            self.receipts.pop(receipt.leaf_hash, None)
        kept = old.entries[:keep]
        self.logs[label] = LabelLog(
            tree=MemoryLog(receipt.leaf_hash for receipt, _ in kept), entries=kept
        )
        for _, data in kept:
            msg = Msg.decode(data)
            self.logs[label].clients[msg.client_id] = (msg.client_seq, msg.prev_ack)

    def rotate(self) -> None:
        """Hand the log over to a new key."""
        checkpoints = [
            Checkpoint.sign(
                self.key,
                label_prev=Label(label),
                label_curr=Label(label),
                upto_seq=StreamSeq(len(log.entries)),
                mmr_root=log.tree.roots[-1],
            )
            for label, log in self.logs.items()
            if log.entries
        ]
        manifest = Manifest.sign(
            self.key,
            profile_id=PRODUCT.id,
            created_at=UnixSeconds(NOW),
            checkpoints=checkpoints,
        )
        self.manifests[manifest.id] = manifest.encode()
        new = SigningKey.generate()
        record = RotationRecord.sign(
            self.key,
            new,
            hub_id=hub_id_of(self.first_key.public),
            ts=UnixSeconds(NOW),
            manifest_id=ManifestId(manifest.id),
        )
        self.rotations.append(record.encode())
        self.key = new


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: ClassVar[ScriptedHub]

    def log_message(self, *_: object) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        self._serve(self.rfile.read(int(self.headers["Content-Length"])))

    def do_PUT(self) -> None:
        self.do_POST()

    def _serve(self, body: bytes) -> None:
        target = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(target.query).items()}
        try:
            with self.hub.lock:
                status, headers, answer = self._route(target.path, query, body)
        except HangupError:
            self.close_connection = True
            return
        except VeenError as refusal:
            status, headers, answer = ERRORS[refusal.code].status, {}, _error(refusal)
            if refusal.retry_after_s is not None:
                headers = {"Retry-After": str(refusal.retry_after_s)}
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _route(
        self, path: str, query: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        hub = self.hub
        if path == "/submit":
            return 200, {}, self._submit(body)
        if path == "/rotations":
            return 200, {}, b"".join(hub.rotations)
        if path == "/manifest":
            return 200, {}, hub.manifests[bytes.fromhex(query["id"])]
        if path == "/authorize":
            token = CapToken.decode(body)
            if hub.admitted is not None:
                hub.admitted.add(token.auth_ref())
            return 200, {}, cbor.encode({"auth_ref": token.auth_ref(), "expires_at": NOW * 2})
        if path.startswith("/attachment/"):
            return self._attachment(bytes.fromhex(path.rpartition("/")[2]), body)
        return self._read(path, query)

    def _attachment(self, coid: bytes, body: bytes) -> tuple[int, dict[str, str], bytes]:
        if self.command == "PUT":
            assert h(body) == coid
            self.hub.attachments[coid] = body
            return 201, {}, b""
        return 200, {}, self.hub.attachments[coid]

    def _submit(self, body: bytes) -> bytes:
        if self.headers["Content-Type"] == "application/cbor":
            return self.hub.admit(body).encode()
        answers = []
        for item in cbor.split_sequence(body, items_max=1024):
            try:
                answers.append(self.hub.admit(item).encode())
            except VeenError as refusal:
                answers.append(_error(refusal))
        return b"".join(answers)

    def _read(self, path: str, query: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        if "leaf_hash" in query:
            if self.hub.before_read is not None:
                self.hub.before_read()
            found = self.hub.receipts.get(bytes.fromhex(query["leaf_hash"]))
            if found is None:
                raise VeenError(ErrorCode.NOTFOUND)
            return 200, {}, found.encode()
        log = self.hub.logs.get(bytes.fromhex(query.get("label", "")))
        if log is None or not log.entries:
            raise VeenError(ErrorCode.NOTFOUND)
        head = len(log.entries)
        if path == "/head":
            return 200, {}, log.entries[-1][0].encode()
        if path == "/receipt":
            return 200, {}, _at(log.entries, int(query["seq"]))[0].encode()
        if path == "/consistency":
            sizes = int(query["from_size"]), int(query["to_size"])
            return 200, {}, mmr.prove_consistency(*sizes, log.tree.node).encode()
        size = int(query.get("size", query.get("upto", head)))
        headers = {"Veen-Mmr-Size": str(size), "Veen-Mmr-Root": log.tree.roots[size].hex()}
        if path == "/proof":
            return 200, headers, mmr.prove(int(query["seq"]), size, log.tree.node).encode()
        assert path == "/stream", path
        return self._stream(log, query, size, headers)

    def _stream(
        self, log: LabelLog, query: dict[str, str], size: int, headers: dict[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        first, limit = int(query.get("from", 1)), int(query.get("limit", 1000))
        last = min(size, first + limit - 1)
        items = []
        for seq in range(first, last + 1):
            receipt, data = log.entries[seq - 1]
            parts = [receipt.encode(), data]
            if query.get("with_proof") == "1":
                parts.append(mmr.prove(seq, size, log.tree.node).encode())
            items.append(cbor.head(cbor.ARRAY, len(parts)) + b"".join(parts))
        if last < size:
            again = "&".join(
                f"{name}={value}" for name, value in (query | {"from": last + 1}).items()
            )
            headers["Link"] = f'</stream?{again}&upto={size}>; rel="next"'
        return 200, headers, b"".join(items)


def _at(entries: list[tuple[Receipt, bytes]], seq: int) -> tuple[Receipt, bytes]:
    if not 1 <= seq <= len(entries):
        raise VeenError(ErrorCode.NOTFOUND)
    return entries[seq - 1]


def _error(refusal: VeenError) -> bytes:
    body: dict[str, cbor.Value] = {"code": refusal.code.value}
    if refusal.detail:
        body["detail"] = refusal.detail
    return cbor.encode(body)
