"""Replay with full verification, beside the same checks in memory on all cores [interfaces].

The real client reads a prepared answer over HTTP, from a server that does nothing but send it.
"""

from __future__ import annotations

import multiprocessing
import time
from base64 import b64encode
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final

import msgspec

from hub import mmr
from hub.bench.cores import core_count, timed_on_all_cores
from hub.errors import ErrorCode, VeenError
from hub.storage.disk import Disk
from hub.types import LeafHash, MmrRoot, PublicKey, StreamSeq, UnixSeconds
from hub.wire.checkpoint import Checkpoint
from hub.wire.manifest import Manifest
from hub.wire.msg import Msg
from hub.wire.profile import PRODUCT
from hub.wire.proof_bytes import check_proof
from hub.wire.receipt import Receipt
from recorder.bench.ground import STREAM, event
from recorder.bench.parts import Parts
from recorder.event import format_time, from_json
from recorder.projection import receipt_id
from recorder.replay_client import PATH, Covered, End, replay
from recorder.replay_verify import EventLine

_START_S: Final = 60.0
_MANIFEST: Final = "/api/record/manifests/latest"

Say = Callable[[str], None]


def figures(folder: Path, events: int, *, rounds: int, say: Say) -> dict[str, Any]:
    """What `veen bench verify` says of replay."""
    say(f"an answer of {events} events with proofs")
    hub_pk = make_answer(folder, events)
    say("replay")
    rates, ceilings = [], [_ceiling_per_s(folder, events)]
    for _ in range(rounds):
        rates.append(events / _replayed_s(folder, hub_pk, events))
        ceilings.append(_ceiling_per_s(folder, events))
    per_s, ceiling = sum(rates) / rounds, sum(ceilings) / len(ceilings)
    return {
        "replay_events": events,
        "replay_per_s": round(per_s),
        "replay_ceiling_per_s": round(ceiling),
        "replay_ratio": round(per_s / ceiling, 3),
    }


def make_answer(folder: Path, count: int) -> PublicKey:
    """What the server of a replay would say of so many events, in files."""
    parts = Parts()
    now_ms = time.time_ns() // 1_000_000
    bodies = [
        from_json(event(number), now_ms=now_ms, default_origin="bench") for number in range(count)
    ]
    messages = [parts.author(number, one.encode()).msg_bytes for number, one in enumerate(bodies)]
    receipts = [Receipt.decode(data) for data in parts.commit(messages)]
    levels = _levels([one.leaf_hash for one in receipts])
    manifest = _manifest(parts, receipts[-1])
    disk = Disk()
    disk.mkdir(folder)
    encoder = msgspec.json.Encoder()
    answer = bytearray()
    for number, (body, data, receipt) in enumerate(zip(bodies, messages, receipts, strict=True)):
        line = EventLine(
            stream=STREAM,
            hub_commit_seq=receipt.stream_seq,
            hub_commit_time=format_time(receipt.hub_ts * 1000),
            subject_id=body.subject_id,
            principal_id=Msg.decode(data).client_id.hex(),
            event_type=body.event_type,
            event_time=format_time(body.event_time),
            origin=body.origin,
            payload=msgspec.Raw(body.payload.encode()),
            error=None,
            receipt_id=receipt_id(receipt.leaf_hash),
            receipt=receipt.encode(),
            msg=data,
            proof=mmr.prove(number + 1, count, lambda height, at: levels[height][at]).encode(),
        )
        encoder.encode_into(line, answer, -1)
        answer += b"\n"
    answer += encoder.encode({"end": _end(receipts[-1], manifest)}) + b"\n"
    statement = {"manifest": b64encode(manifest.encode()).decode(), "rotations": []}
    disk.write_atomic(folder / "answer", bytes(answer))
    disk.write_atomic(folder / "manifest", encoder.encode(statement))
    return manifest.hub_pk


def _levels(leaves: list[LeafHash]) -> list[list[bytes]]:
    """Every node of the tree, by height."""
    levels: list[list[bytes]] = [[] for _ in range(len(leaves).bit_length())]
    peaks: list[bytes] = []
    for size, leaf in enumerate(leaves):
        for height, node in enumerate(mmr.append(peaks, size, leaf)):
            levels[height].append(node)
    return levels


def _manifest(parts: Parts, last: Receipt) -> Manifest:
    checkpoint = Checkpoint.sign(
        parts.hub,
        label_prev=last.label,
        label_curr=last.label,
        upto_seq=last.stream_seq,
        mmr_root=last.mmr_root,
    )
    return Manifest.sign(
        parts.hub,
        profile_id=PRODUCT.id,
        created_at=UnixSeconds(last.hub_ts),
        checkpoints=[checkpoint],
    )


def _end(last: Receipt, manifest: Manifest) -> End:
    covered = Covered(
        stream=STREAM,
        label=last.label.hex(),
        hub_id="",
        from_seq=1,
        to_seq=last.stream_seq,
        mmr_root=last.mmr_root.hex(),
    )
    count = int(last.stream_seq)
    return End(count=count, coverage=(covered,), manifest_id=manifest.id.hex(), unproven=0)


def _replayed_s(folder: Path, hub_pk: PublicKey, count: int) -> float:
    """Seconds until the last event is verified."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=_serve, args=(folder, theirs), daemon=True)
    server.start()
    try:
        if not ours.poll(_START_S):
            raise VeenError(ErrorCode.UNREACHABLE, "the server of the answer did not start")
        url = f"http://127.0.0.1:{ours.recv()}"
        started = time.perf_counter()
        found = sum(one.is_proven for one in replay(url, "", streams=[STREAM], hub_pk=hub_pk))
        took_s = time.perf_counter() - started
    finally:
        server.terminate()
        server.join()
    assert found == count
    return took_s


def _serve(folder: Path, pipe: Any) -> None:  # noqa: ANN401 - a Connection, of whatever system
    answers = {PATH: folder / "answer", _MANIFEST: folder / "manifest"}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with answers[self.path.partition("?")[0]].open("rb") as answer:
                self.send_response(200)
                self.send_header("Content-Length", str(Path(answer.name).stat().st_size))
                self.end_headers()
                self.wfile.flush()
                self.connection.sendfile(answer)

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    pipe.send(server.server_port)
    server.serve_forever()


def _ceiling_per_s(folder: Path, count: int) -> float:
    """The checks alone on objects in memory, on all cores."""
    share = count // core_count()
    return share * core_count() / timed_on_all_cores(_ceiling, folder, share)


def _ceiling(folder: Path, count: int) -> Callable[[], None]:
    with (folder / "answer").open("rb") as answer:
        lines = [msgspec.json.decode(next(answer), type=EventLine) for _ in range(count)]
    statement = msgspec.json.decode((folder / "manifest").read_bytes(), type=dict[str, Any])
    manifest = Manifest.decode(msgspec.convert(statement["manifest"], bytes))
    (checkpoint,) = manifest.checkpoints
    objects = [
        (Receipt.decode(line.receipt), Msg.decode(line.msg or b""), line.proof or b"")
        for line in lines
    ]

    def check() -> None:
        peaks: list[bytes] = []
        for receipt, msg, proof in objects:
            msg.check_ct_hash()
            msg.verify()
            receipt.verify(manifest.hub_pk)
            leaf = msg.leaf_hash()
            _check_place(proof, leaf, receipt.stream_seq, checkpoint)
            mmr.append(peaks, receipt.stream_seq - 1, leaf)
            assert MmrRoot(mmr.root(peaks)) == receipt.mmr_root

    return check


def _check_place(proof: bytes, leaf: LeafHash, seq: StreamSeq, checkpoint: Checkpoint) -> None:
    check_proof(
        proof,
        leaf_hash=leaf,
        stream_seq=seq,
        mmr_size=checkpoint.upto_seq,
        root=checkpoint.mmr_root,
    )
