"""The guard against forking one's own log: copies and restored backups do not sign."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hub.errors import VeenError
from hub.server.config import HubConfig
from hub.types import HubId, Label, PublicKey
from hub.wire import cbor
from hub.wire.receipt import Receipt
from hub.wire.rotation import ForkRecord, decode_record, hub_id_of
from tests.support import live_hub
from tests.support.live_hub import Author

LABEL = Label(b"g" * 32)


@pytest.fixture
def config(tmp_path: Path) -> HubConfig:
    return HubConfig(data_dir=tmp_path / "d", open_admission=True, open_reads=True, workers=1)


def write(config: HubConfig, author: Author, count: int) -> list[Receipt]:
    with live_hub.running(config) as hub:
        client = hub.client()
        return [author.send(client) for _ in range(count)]


def restore(config: HubConfig, backup: Path) -> None:
    shutil.rmtree(config.data_dir)
    shutil.copytree(backup, config.data_dir)


def test_a_restored_backup_reads_but_does_not_sign_not_even_with_take_over(
    config: HubConfig, tmp_path: Path
) -> None:
    author = Author(LABEL)
    write(config, author, 3)
    backup = tmp_path / "backup"
    shutil.copytree(config.data_dir, backup)
    write(config, author, 2)
    restore(config, backup)
    for take_over in (False, True):
        with live_hub.running(replace(config, take_over=take_over)) as hub:
            client = hub.client()
            reply = client.submit(author.draft(seq=4).encode())
            assert (reply.status, reply.code) == (503, "E.STORE")
            assert "S.BEHIND" in reply.error["detail"]
            head = Receipt.decode(client.get(f"/head?label={LABEL.hex()}").ok())
            assert head.stream_seq == 3
            said = cbor.decode(client.get("/readyz").body)
            assert isinstance(said, dict)
            assert "S.BEHIND" in str(said["reasons"])
            status = hub.control("status")
            assert status["writable"] is False
            assert "S.BEHIND" in status["reason"]
            for verb in ("checkpoint", "rotate"):
                with pytest.raises(VeenError):
                    hub.control(verb)


def test_a_fork_goes_on_under_a_key_and_a_name_of_its_own(
    config: HubConfig, tmp_path: Path
) -> None:
    author = Author(LABEL)
    receipts = write(config, author, 3)
    with live_hub.running(config) as hub:
        parent_pk, parent_id = hub.hub_pk, hub.hub_id
    copy = tmp_path / "copy"
    shutil.copytree(config.data_dir, copy)
    forked = replace(config, data_dir=copy, fork=True)
    with live_hub.running(forked) as hub:
        assert hub.hub_pk != parent_pk
        assert hub.hub_id == hub_id_of(hub.hub_pk) != parent_id
        client = hub.client()
        [item] = client.get("/rotations").items()
        record = decode_record(item)
        assert isinstance(record, ForkRecord)
        record.verify()
        assert record.parent_hub_id == HubId(parent_id)
        assert record.new_pk == hub.hub_pk
        heads = {head.label: (head.stream_seq, head.root) for head in record.heads}
        assert heads[LABEL] == (3, receipts[-1].mmr_root)
        # Receipts up to the heads it names verify under the parent, later ones under the fork.
        wire = client.get(f"/receipt?label={LABEL.hex()}&seq=3").ok()
        Receipt.decode(wire).verify(parent_pk)
        fresh = author.send(client)
        fresh.verify(PublicKey(hub.hub_pk))
        assert fresh.stream_seq == 4
    with live_hub.running(replace(forked, fork=False)) as again:
        assert again.hub_id == hub.hub_id
        author.send(again.client())
    live_hub.check_fsck(copy)


def test_a_move_with_its_heads_file_is_no_copy(config: HubConfig, tmp_path: Path) -> None:
    heads = tmp_path / "somewhere" / "heads"
    heads.parent.mkdir()
    config = replace(config, heads_file=heads)
    author = Author(LABEL)
    write(config, author, 2)
    moved = tmp_path / "moved"
    config.data_dir.rename(moved)
    write(replace(config, data_dir=moved), author, 1)


def test_take_over_is_recorded(config: HubConfig, tmp_path: Path) -> None:
    author = Author(LABEL)
    write(config, author, 1)
    copy = tmp_path / "copy"
    shutil.copytree(config.data_dir, copy)
    with live_hub.running(replace(config, data_dir=copy, take_over=True)) as hub:
        assert hub.control("status")["messages"] == 2
        author.send(hub.client())
    with live_hub.running(replace(config, data_dir=copy)) as hub:
        author.send(hub.client())
