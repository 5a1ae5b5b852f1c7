"""The client library against the real data plane."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hub import control
from hub.authoring import open_message
from hub.client import HubClient
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.types import Hash, PublicKey
from hub.wire.profile import PRODUCT
from hub.wire.receipt import Receipt
from tests.hub.client.drafts import LABEL, READER, draft
from tests.hub.client.real_hub import running_hub

KEY = SigningKey(b"\x01" * 32)
OPEN = ("--open-admission", "--open-reads")


def bodies(client: HubClient) -> list[bytes]:
    return [
        open_message(item.msg, profile=PRODUCT, secret=READER).body for item in client.follow(LABEL)
    ]


def test_single_batch_and_pipelined_messages_are_followed_with_proofs(tmp_path: Path) -> None:
    with (
        running_hub(tmp_path, *OPEN) as hub,
        HubClient(hub.url, hub.hub_pk, state_dir=tmp_path / "state") as client,
        client.producer(KEY) as producer,
    ):
        producer.submit(draft(b"0"))
        producer.submit_batch([draft(b"%d" % number) for number in range(1, 300)])
        producer.submit_batch([draft(b"%d" % number) for number in range(300, 400)], pipelined=True)
        items = list(client.follow(LABEL, with_proof=True, page=77))
        assert [item.receipt.stream_seq for item in items] == list(range(1, 401))
        assert all(item.proof is not None for item in items)
        assert bodies(client) == [b"%d" % number for number in range(400)]
        proof = client.range_proof(LABEL, 10, 20, size=400)
        leaves = [item.receipt.leaf_hash for item in items[9:20]]
        proof.verify(leaves, items[-1].receipt.mmr_root, first=10, last=20, size=400)


def test_a_rotation_is_followed_and_the_past_still_counts(tmp_path: Path) -> None:
    with (
        running_hub(tmp_path, *OPEN) as hub,
        HubClient(hub.url, hub.hub_pk, state_dir=tmp_path / "state") as client,
        client.producer(KEY) as producer,
    ):
        producer.submit_batch([draft(b"%d" % number) for number in range(5)])
        new = control.call(hub.data_dir, "rotate")["new_pk"]
        producer.submit_batch([draft(b"%d" % number) for number in range(5, 9)])
        assert client.chain.current.hex() == new
        assert bodies(client) == [b"%d" % number for number in range(9)]
        fresh = PublicKey(bytes.fromhex(new))
        with HubClient(hub.url, fresh, state_dir=tmp_path / "late") as late:
            assert bodies(late) == [b"%d" % number for number in range(9)]
            assert late.receipt(LABEL, 2).stream_seq == 2


def test_a_killed_hub_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """The hub dies in the middle of a row of submits and comes back on the same port."""
    sent: list[Receipt] = []

    def pause(_: float) -> None:
        time.sleep(0.02)

    with running_hub(tmp_path, *OPEN) as hub:
        port = urlsplit(hub.url).port
        assert port is not None
        client = HubClient(hub.url, hub.hub_pk, state_dir=tmp_path / "state", timeout_s=5)

        def work() -> None:
            with client.producer(KEY, retries_max=500, sleep=pause) as producer:
                sent.extend(producer.submit(draft(b"%d" % number)) for number in range(60))

        thread = threading.Thread(target=work)
        thread.start()
        while len(sent) < 20 and thread.is_alive():
            thread.join(0.001)
        hub.kill()
    with running_hub(tmp_path, *OPEN, port=port):
        thread.join(60)
        assert not thread.is_alive()
        assert len(sent) == 60
        assert bodies(client) == [b"%d" % number for number in range(60)]
        client.close()


def test_a_fork_is_read_with_its_parents_key_up_to_the_heads_it_names(tmp_path: Path) -> None:
    (tmp_path / "parent").mkdir()
    with (
        running_hub(tmp_path / "parent", *OPEN) as parent,
        HubClient(parent.url, parent.hub_pk) as client,
        client.producer(KEY) as producer,
    ):
        producer.submit_batch([draft(b"%d" % number) for number in range(4)])
    shutil.copytree(tmp_path / "parent" / "data", tmp_path / "fork" / "data")
    with running_hub(tmp_path / "fork", *OPEN, "--fork") as fork:
        assert fork.hub_pk != parent.hub_pk
        with (
            HubClient(fork.url, fork.hub_pk, parent_keys=[parent.hub_pk]) as client,
            client.producer(KEY) as producer,
        ):
            producer.submit_batch([draft(b"%d" % number) for number in range(4, 6)])
            assert bodies(client) == [b"%d" % number for number in range(6)]
        for pinned in (fork.hub_pk, parent.hub_pk):
            with HubClient(fork.url, pinned) as stranger, pytest.raises(VeenError) as refused:
                bodies(stranger)
            assert refused.value.code is ErrorCode.TRUST


def test_attachments_come_back_whole(tmp_path: Path) -> None:
    with (
        running_hub(tmp_path, *OPEN) as hub,
        HubClient(hub.url, hub.hub_pk) as client,
        client.producer(KEY) as producer,
    ):
        producer.submit(draft(attachments=(b"one" * 1000, b"")))
        (item,) = client.follow(LABEL)
        opened = open_message(item.msg, profile=PRODUCT, secret=READER)
        assert opened.header.att_root is not None
        with pytest.raises(VeenError) as absent:
            client.attachment(Hash(b"\x00" * 32))
        assert absent.value.code is ErrorCode.NOTFOUND


def test_contradicting_receipts_are_taken_as_a_finding(tmp_path: Path) -> None:
    with (
        running_hub(tmp_path, *OPEN) as hub,
        HubClient(hub.url, hub.hub_pk) as client,
        client.producer(KEY) as producer,
    ):
        receipt = producer.submit(draft())
        key = SigningKey(bytes.fromhex((hub.data_dir / "keys" / "hub.key").read_text()))
        lie = Receipt.sign(
            key, receipt.label, receipt.stream_seq, receipt.leaf_hash, b"\x01" * 32, receipt.hub_ts  # type: ignore[arg-type]
        )  # fmt: skip
        client.report_equivocation(receipt, lie)
        with pytest.raises(VeenError):
            client.report_equivocation(receipt, receipt)
