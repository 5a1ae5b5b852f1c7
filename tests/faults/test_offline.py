"""C18: verification needs no network, shown where there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hub import mmr
from hub.selftest import offline
from hub.selftest.specimens import HUB, HUB_2, LABEL, T, message
from hub.types import StreamSeq
from hub.verify import Evidence
from hub.wire.checkpoint import Checkpoint
from hub.wire.manifest import Manifest
from hub.wire.profile import PRODUCT
from hub.wire.receipt import Receipt
from hub.wire.rotation import RotationRecord, hub_id_of
from tests.support.memory_log import MemoryLog

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = offline.namespace_command()
SEQ, SIZE = 5, 12
needs_namespace = pytest.mark.skipif(
    NAMESPACE is None, reason="this system does not permit an empty network namespace (unshare -n)"
)
both_ways = pytest.mark.parametrize(
    "use_namespace", [pytest.param(True, marks=needs_namespace), False], ids=["unshare", "blocked"]
)


def evidence() -> tuple[Evidence, bytes]:
    """Event 5 of 12 under the manifest that ended HUB's time, and the record that did."""
    messages = [message(number) for number in range(1, SIZE + 1)]
    log = MemoryLog(one.leaf_hash() for one in messages)
    msg = messages[SEQ - 1]
    receipt = Receipt.sign(HUB, LABEL, StreamSeq(SEQ), msg.leaf_hash(), log.roots[SEQ], T)
    checkpoint = Checkpoint.sign(
        HUB, label_prev=LABEL, label_curr=LABEL, upto_seq=StreamSeq(SIZE), mmr_root=log.roots[SIZE]
    )
    manifest = Manifest.sign(HUB, profile_id=PRODUCT.id, created_at=T, checkpoints=[checkpoint])
    record = RotationRecord.sign(
        HUB, HUB_2, hub_id=hub_id_of(HUB.public), ts=T, manifest_id=manifest.id
    )
    pieces = Evidence(
        receipt=receipt.encode(),
        msg=msg.encode(),
        proof=mmr.prove(SEQ, SIZE, log.node).encode(),
        manifest=manifest.encode(),
        consistency=mmr.prove_consistency(SEQ, SIZE, log.node).encode(),
    )
    return pieces, record.encode()


@both_ways
def test_evidence_verifies_without_a_network(tmp_path: Path, *, use_namespace: bool) -> None:
    pieces, record = evidence()
    offline.save(tmp_path / "e", HUB_2.public, [record], pieces)
    outcome = offline.verify_in_child(tmp_path / "e", use_namespace=use_namespace)
    assert outcome.report["valid"], outcome.report["checks"]
    assert outcome.report["network"]["routed_after"] is False
    if use_namespace:
        assert outcome.report["network"]["routed_before"] is False
    for verdict in ("integrity", "binding", "position", "consistency"):
        assert outcome.report["verdicts"][verdict] == "holds", verdict


@both_ways
def test_a_forgery_fails_there_as_well(tmp_path: Path, *, use_namespace: bool) -> None:
    pieces, _ = evidence()
    offline.save(tmp_path / "e", HUB_2.public, [], pieces)  # without the rotation record
    outcome = offline.verify_in_child(tmp_path / "e", use_namespace=use_namespace)
    assert not outcome.is_valid


def test_blocked_sockets_are_blocked() -> None:
    """The guard itself: after it, nothing connects and no name is asked for."""
    code = (
        "import socket; from hub.selftest import offline; offline.block_sockets()\n"
        "for act in (socket.socket, lambda: socket.create_connection(('127.0.0.1', 9)),\n"
        "            lambda: socket.getaddrinfo('localhost', 9), socket.socketpair):\n"
        "    try:\n        act()\n    except PermissionError:\n        continue\n"
        "    raise SystemExit('a socket was opened')\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_the_verifier_does_not_even_import_a_network() -> None:
    """A module that is not there cannot be called (cosign's offline mode made network calls)."""
    code = (
        "import sys, hub.verify, hub.verify_stream\n"
        "found = {'_socket', 'socket', 'ssl', 'http.client', 'urllib.request'} & set(sys.modules)\n"
        "print(*found)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""


@needs_namespace
def test_the_command_verifies_in_an_empty_namespace(tmp_path: Path) -> None:
    pieces, record = evidence()
    offline.save(tmp_path / "e", HUB_2.public, [record], pieces)
    folder = tmp_path / "e"
    assert NAMESPACE is not None
    command = [
        *NAMESPACE, sys.executable, "-m", "config.cli", "verify", "--json",
        "--hub-pk", HUB_2.public.hex(), "--rotations", str(folder / "rotations"),
        *[str(folder / name) for name in ("receipt", "msg", "proof", "manifest")],
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert '"valid": true' in done.stdout
