"""The runbook of the recorder's keys on a running bundle: what comes after is sealed anew."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from config.up_state import StateDir
from hub import keystore
from hub.authoring import open_message
from hub.client import HubClient
from hub.crypto.hpke import DhSecret
from hub.types import Label, PublicKey
from hub.wire.profile import PRODUCT
from recorder.connection import Connection, StreamEntry
from recorder.sdk import Recorder
from tests.runbooks.bundle import Bundle
from tests.runbooks.test_runbooks import blocks
from tests.support.bundles import Up, free_port

ORDERS, SYSLOG = "record/app/orders", "record/infrastructure/syslog"
WAIT_S = 60.0


class Keys(Bundle):
    """What is sealed to which key."""

    def entry(self, path: Path, stream: str) -> StreamEntry:
        found = Connection.parse(path.read_bytes())
        return next(one for one in found.streams if one.name == stream)

    def opened_by(self, stream: str, label: Label) -> list[int]:
        """The key_id that opens each message of a stream."""
        kept = json.loads(keystore.read_private(self.up.state.secret("readers.keys")))
        keys: list[dict[str, Any]] = kept["streams"][stream]
        status = self.up.status()
        token = keystore.read_private(self.up.state.secret("worker.token")).decode().strip()
        pinned = PublicKey(bytes.fromhex(status["hub_pk"]))
        with HubClient(status["hub_url"], pinned, token=token) as client:
            items = list(client.follow(label))
        found = []
        for item in items:
            for key in keys:
                secret = bytes.fromhex(key["secret"])
                if _opens(item.msg, secret):
                    found.append(int(key["key_id"]))
        return found


def _opens(msg: Any, secret: bytes) -> bool:
    try:
        open_message(msg, profile=PRODUCT, secret=secret)
    except Exception:  # noqa: BLE001 - of whatever kind: this key does not open it
        return False
    return True


@pytest.fixture
def bundle(tmp_path: Path) -> Iterator[Keys]:
    state, work = StateDir.at(tmp_path / "s"), tmp_path / "work"
    work.mkdir()
    state.root.mkdir(mode=0o700)
    state.config_file.write_text("syslog = true\nsyslog_port = 0\n")
    up = Up(state, "--port", str(free_port()))
    try:
        yield Keys(up.ready(), work)
    finally:
        up.end()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_what_is_recorded_after_the_runbook_is_sealed_to_the_new_keys(bundle: Keys) -> None:
    partner = DhSecret.generate().public.hex()
    bundle.run(
        f"veen stream create {ORDERS} --event-type order.placed\n"
        f"veen recorder producer add shop --stream {ORDERS} --out shop.json\n"
        f"veen recorder reader add partner --dh-pk {partner} --stream {ORDERS} --out partner.json\n"
    )
    shop, new_shop = bundle.work / "shop.json", bundle.work / "new-shop.json"
    rotate, update, hand_over, producer, reader, tokens = blocks("recorder-keys")
    with Recorder(shop, bundle.work / "spool") as recorder:
        place = {"event_type": "order.placed", "timeout": WAIT_S}
        recorder.record_and_wait(subject_id="1", **place)  # type: ignore[arg-type]
        bundle.run(rotate)
        bundle.run(update)
        bundle.up.until(lambda: recorder.standing.connection.streams[0].reader_key.key_id == 2)
        bundle.run(f"veen recorder stream map {ORDERS} --event-type order.paid\n")
        bundle.run(hand_over)
        assert bundle.entry(shop, ORDERS).event_types == ("order.paid", "order.placed")
        bundle.up.until(lambda: recorder.standing.map.stream_of("order.paid"))
        recorder.record_and_wait(event_type="order.paid", subject_id="2", timeout=WAIT_S)
    bundle.run(producer)
    bundle.run(reader)
    assert bundle.entry(new_shop, ORDERS).reader_key.key_id == 3
    with Recorder(new_shop, bundle.work / "new-spool") as recorder:
        recorder.record_and_wait(subject_id="3", **place)  # type: ignore[arg-type]
    assert bundle.opened_by(ORDERS, bundle.entry(new_shop, ORDERS).label) == [1, 2, 3]
    assert "token" in bundle.run(tokens) or "state-directory" in bundle.run(tokens)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_adapters_of_a_bundle_follow_a_new_key_by_themselves(bundle: Keys) -> None:
    file = bundle.up.state.adapters / "syslog.json"
    shown = next(one for one in bundle.up.status()["processes"] if one["name"] == "syslog")
    port = int(shown["address"].rpartition(":")[2])
    label = bundle.entry(file, SYSLOG).label

    def send(text: bytes) -> None:
        with socket.create_connection(("127.0.0.1", port)) as sender:
            sender.sendall(b"<34>1 2026-03-01T09:00:00.250Z gw1 sshd 77 ID47 - " + text + b"\n")

    send(b"before")
    bundle.up.until(lambda: bundle.opened_by(SYSLOG, label) == [1])
    bundle.run(f"veen stream keys {SYSLOG} --rotate --reason yearly\n")
    bundle.up.until(lambda: bundle.entry(file, SYSLOG).reader_key.key_id == 2)

    def is_sealed_anew() -> bool:
        send(b"after")
        return bundle.opened_by(SYSLOG, label)[-1] == 2

    bundle.up.until(is_sealed_anew)
