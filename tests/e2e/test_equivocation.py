"""POST /report_equivocation: two signed receipts of one place that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hub.crypto.signing import SigningKey
from hub.keystore import read_key_file
from hub.server.config import HubConfig
from hub.storage.framedfile import read_all
from hub.types import Label, LeafHash, MmrRoot, StreamSeq, UnixSeconds
from hub.wire.receipt import Receipt
from tests.support import live_hub
from tests.support.live_hub import CBOR, Author, LiveHub, Reply


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[LiveHub]:
    config = HubConfig(data_dir=tmp_path / "d", open_admission=True, open_reads=True, workers=1)
    with live_hub.running(config) as hub:
        yield hub


def second_story(hub: LiveHub, receipt: Receipt, key: SigningKey | None = None) -> Receipt:
    """What a hub that lies would have signed for the same place."""
    key = key or SigningKey(read_key_file(hub.data_dir / "keys" / "hub.key"))
    return Receipt.sign(
        key,
        receipt.label,
        receipt.stream_seq,
        LeafHash(b"\x01" * 32),
        MmrRoot(b"\x02" * 32),
        UnixSeconds(receipt.hub_ts),
    )


def report(hub: LiveHub, *receipts: Receipt) -> Reply:
    head = bytes([0x80 | len(receipts)])
    body = head + b"".join(receipt.encode() for receipt in receipts)
    return hub.client().ask("POST", "/report_equivocation", body, CBOR)


def test_a_contradiction_is_kept_as_evidence_and_recorded(hub: LiveHub) -> None:
    receipt = Author(Label(b"e" * 32)).send(hub.client())
    lie = second_story(hub, receipt)
    before = hub.control("status")["messages"]
    for _ in range(2):  # telling it twice keeps it once
        assert report(hub, receipt, lie).map() == {"ok": True}
    findings = read_all(hub.data_dir / "findings.log")
    assert findings == [b"\x82" + receipt.encode() + lie.encode()]
    assert hub.control("status")["messages"] == before + 1


def test_a_finding_survives_a_rotation_of_the_key(hub: LiveHub) -> None:
    receipt = Author(Label(b"e" * 32)).send(hub.client())
    lie = second_story(hub, receipt)
    hub.control("rotate")
    assert report(hub, receipt, lie).status == 200


@pytest.mark.parametrize("flaw", ["same", "places", "stranger", "one", "three", "garbage"])
def test_what_is_no_contradiction_is_refused(hub: LiveHub, flaw: str) -> None:
    author = Author(Label(b"e" * 32))
    receipt, later = author.send(hub.client()), author.send(hub.client())
    pairs = {
        "same": (receipt, receipt),
        "places": (receipt, later),
        "stranger": (receipt, second_story(hub, receipt, SigningKey.generate())),
        "one": (receipt,),
        "three": (receipt, second_story(hub, receipt), later),
    }
    if flaw == "garbage":
        reply = hub.client().ask("POST", "/report_equivocation", b"\x82\x01\x02", CBOR)
    else:
        reply = report(hub, *pairs[flaw])
    expected = {"stranger": (409, "E.SIG")}.get(flaw, (400, "E.FORMAT"))
    assert (reply.status, reply.code) == expected
    assert read_all(hub.data_dir / "findings.log") == []


def test_a_seq_of_zero_is_no_receipt(hub: LiveHub) -> None:
    receipt = Author(Label(b"e" * 32)).send(hub.client())
    wire = bytearray(receipt.encode())
    assert wire[36] == StreamSeq(1)
    wire[36] = 0
    body = b"\x82" + receipt.encode() + bytes(wire)
    reply = hub.client().ask("POST", "/report_equivocation", body, CBOR)
    assert (reply.status, reply.code) == (400, "E.FORMAT")
