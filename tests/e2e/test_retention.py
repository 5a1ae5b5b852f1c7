"""Pruned payloads: 410 with the first held sequence; receipts and proofs go on."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hub.errors import VeenError
from hub.server.config import HubConfig
from hub.types import Label, MmrRoot
from hub.wire.proof import MmrProof
from tests.support import live_hub
from tests.support.live_hub import Author, LiveHub

LABEL = Label(b"p" * 32)
QUERY = f"label={LABEL.hex()}"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    config = HubConfig(
        data_dir=tmp_path_factory.mktemp("retention") / "d",
        open_admission=True,
        open_reads=True,
        workers=2,
    )
    with live_hub.running(config) as hub:
        author = Author(LABEL)
        hub.client().batch(*[author.next(bytes(2000)) for _ in range(30)]).items()
        assert hub.client().get(f"/stream?{QUERY}").status == 200  # the files are open
        said = hub.control("prune", label=LABEL.hex(), before_seq=21, reason="test")
        assert said["first_held"] == 21
        assert said["freed_bytes"] > 20 * 1900
        yield hub


def test_pruned_messages_are_410_and_name_the_first_held(hub: LiveHub) -> None:
    client = hub.client()
    for path in (f"/stream?{QUERY}", f"/stream?{QUERY}&from=20&to=20"):
        reply = client.get(path)
        assert (reply.status, reply.code) == (410, "E.PRUNED")
        assert "21" in reply.error["detail"]
    assert len(client.get(f"/stream?{QUERY}&from=21").items()) == 10
    live_hub.check_fsck(hub.data_dir)  # while the hub runs


def test_receipts_and_proofs_of_pruned_messages_are_still_served(hub: LiveHub) -> None:
    client = hub.client()
    for seq in (1, 20, 21):
        client.get(f"/receipt?{QUERY}&seq={seq}").ok()
        reply = client.get(f"/proof?{QUERY}&seq={seq}")
        root = MmrRoot(bytes.fromhex(reply.headers["veen-mmr-root"]))
        MmrProof.decode(reply.ok()).verify(stream_seq=seq, mmr_size=30, root=root)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"label": "00" * 32, "before_seq": 2, "reason": "x"}, "E.NOTFOUND"),
        ({"label": LABEL.hex(), "before_seq": 0, "reason": "x"}, "E.FORMAT"),
        ({"label": LABEL.hex(), "before_seq": -5, "reason": "x"}, "E.FORMAT"),
        ({"label": LABEL.hex(), "before_seq": "x", "reason": "x"}, "E.FORMAT"),
        ({"label": LABEL.hex(), "before_seq": 2}, "E.FORMAT"),
        ({"label": LABEL.hex(), "older_than_s": -1, "reason": "x"}, "E.FORMAT"),
        ({"label": LABEL.hex(), "reason": "x"}, "E.FORMAT"),
    ],
)
def test_a_prune_that_makes_no_sense_is_refused_and_not_logged(
    hub: LiveHub, arguments: dict[str, object], code: str
) -> None:
    before = hub.control("status")["messages"]
    with pytest.raises(VeenError) as refused:
        hub.control("prune", **arguments)
    assert refused.value.code == code
    assert hub.control("status")["messages"] == before


def test_a_stream_is_not_pruned_below_its_hint(hub: LiveHub) -> None:
    label = Label(b"k" * 32)
    Author(label).send(hub.client())
    hub.control("label_class", label=label.hex(), retention_hint=315360000, **{"class": "record"})
    with pytest.raises(VeenError) as refused:
        hub.control("prune", label=label.hex(), before_seq=2, reason="x")
    assert refused.value.code == "P.POLICY"


def test_a_policy_by_age_takes_what_is_older_and_nothing_else(hub: LiveHub) -> None:
    label = Label(b"o" * 32)
    Author(label).send(hub.client())

    def first_held(age_s: int) -> int:
        said = hub.control("prune", label=label.hex(), older_than_s=age_s, reason="policy")
        return int(said["first_held"])

    assert first_held(3600) == 1
    assert hub.client().get(f"/stream?label={label.hex()}").status == 200
    live_hub.until(lambda: first_held(0) == 2)  # when the second in which it was sent is over
    assert hub.client().get(f"/stream?label={label.hex()}").code == "E.PRUNED"


def test_a_running_hub_prunes_by_policy_while_it_commits(tmp_path: Path) -> None:
    config = HubConfig(
        data_dir=tmp_path / "d", open_admission=True, open_reads=True, retention_interval_s=1
    )
    with live_hub.running(config) as hub:
        author = Author(LABEL)
        client = hub.client()
        client.batch(*[author.next(bytes(2000)) for _ in range(30)]).items()
        said = hub.control("retention_set", label=LABEL.hex(), keep_messages=10)
        assert said["policies"] == [{"label": LABEL.hex(), "keep_messages": 10}]
        until = time.monotonic() + 60
        while client.get(f"/stream?{QUERY}&to=1").status != 410:
            assert time.monotonic() < until
            client.batch(author.next(bytes(2000))).items()
        held = client.get(f"/stream?{QUERY}&from=1&to=1").error["detail"]
        assert int(re.findall(r"[0-9]+", held)[-1]) > 20
        client.get(f"/receipt?{QUERY}&seq=1").ok()
    live_hub.check_fsck(tmp_path / "d")
