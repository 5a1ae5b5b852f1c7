"""kill -9 under load with verifying readers (C5): no receipt lost, none doubled, head never back.

Rounds share one directory and one port. In each, several producers write, readers verify what
they are served, and at a random moment everything is killed. Then producers resend exactly the
bytes that were never answered.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from hub.server.config import HubConfig
from hub.types import Label, MmrRoot, PublicKey
from hub.wire import cbor
from hub.wire.msg import Msg
from hub.wire.proof import ConsistencyProof, MmrProof
from hub.wire.receipt import Receipt
from tests.support import live_hub
from tests.support.live_hub import Author, HttpClient, LiveHub, check_fsck, code_of

BROKEN = (OSError, http.client.HTTPException)


@dataclass
class Producer:
    """Sends one message or a batch at a time, resends after doubt, keeps every receipt."""

    author: Author
    receipts: dict[int, bytes] = field(default_factory=dict)  # by client_seq
    pending: list[bytes] = field(default_factory=list)
    rng: random.Random = field(default_factory=random.Random)

    def run(self, url: str, stop: threading.Event) -> None:
        """Until the hub is gone or the test has seen enough."""
        client = HttpClient(url, timeout_s=10)
        with contextlib.suppress(*BROKEN), contextlib.closing(client):
            while not stop.is_set():
                self.step(client)

    def step(self, client: HttpClient) -> None:
        if not self.pending:
            count = self.rng.choice([1, 1, 1, 7, 40])
            self.pending = [self.author.next(self.rng.randbytes(60)) for _ in range(count)]
        if len(self.pending) == 1:
            reply = client.submit(self.pending[0])
            if reply.status == 503:
                return
            answers = [reply.body]
        else:
            answers = client.batch(*self.pending).items()
        for data, answer in zip(list(self.pending), answers, strict=True):
            if not self._settle(client, data, answer):
                return

    def _settle(self, client: HttpClient, data: bytes, answer: bytes) -> bool:
        msg = Msg.decode(data)
        code = code_of(answer)
        if code == "E.DUP":
            path = f"/receipt?leaf_hash={msg.leaf_hash().hex()}"
            reply = client.get(path)
            if reply.status == 503:  # the hub is stopping
                return False
            answer = reply.ok()
        elif code is not None:
            assert code in {"E.BUSY", "E.STORE"}, answer
            return False
        assert Receipt.decode(answer).leaf_hash == msg.leaf_hash()
        known = self.receipts.setdefault(msg.client_seq, answer)
        assert known == answer, "one message has two receipts"
        self.pending.remove(data)
        return True


@dataclass
class Reader:
    """Follows one label: its head only grows, and every later root contains the earlier one."""

    label: Label
    hub_pk: PublicKey
    size: int = 0
    root: MmrRoot | None = None
    checked: int = 0

    def run(self, url: str, stop: threading.Event) -> None:
        client = HttpClient(url, timeout_s=10)
        with contextlib.suppress(*BROKEN), contextlib.closing(client):
            while not stop.is_set():
                self.step(client)

    def step(self, client: HttpClient) -> None:
        reply = client.get(f"/head?label={self.label.hex()}")
        if reply.status == 404:
            assert self.size == 0, "the label is gone"
            return
        if reply.status == 503:
            return
        head = Receipt.decode(reply.ok())
        head.verify(self.hub_pk)
        assert head.stream_seq >= self.size, "the head went back"
        if self.root is not None:
            path = f"from_size={self.size}&to_size={head.stream_seq}"
            proof = client.get(f"/consistency?label={self.label.hex()}&{path}").ok()
            ConsistencyProof.decode(proof).verify(self.root, head.mmr_root)
        first = max(1, head.stream_seq - 20)
        query = f"label={self.label.hex()}&from={first}&upto={head.stream_seq}&with_proof=1"
        for seq, item in enumerate(client.get(f"/stream?{query}").items(), start=first):
            self._check_entry(item, seq, head)
        self.size, self.root = head.stream_seq, head.mmr_root
        self.checked += 1

    def _check_entry(self, item: bytes, seq: int, head: Receipt) -> None:
        parts, pos = [], 1
        for _ in range(3):
            end = cbor.skip(item, pos, depth=8)
            parts.append(item[pos:end])
            pos = end
        receipt, msg, proof = Receipt.decode(parts[0]), Msg.decode(parts[1]), parts[2]
        receipt.verify(self.hub_pk)
        msg.verify()
        msg.check_ct_hash()
        assert receipt.leaf_hash == msg.leaf_hash()
        MmrProof.decode(proof).verify(stream_seq=seq, mmr_size=head.stream_seq, root=head.mmr_root)


@dataclass
class Crowd:
    """Everyone who talks to the hub, and what went wrong for any of them."""

    producers: list[Producer]
    readers: list[Reader]
    failures: list[BaseException] = field(default_factory=list)

    def receipts(self) -> int:
        return sum(len(producer.receipts) for producer in self.producers)

    @contextlib.contextmanager
    def talking(self, url: str) -> Iterator[None]:
        stop = threading.Event()
        everyone: list[Producer | Reader] = [*self.producers, *self.readers]
        threads = [
            threading.Thread(target=self._guard, args=(each.run, url, stop)) for each in everyone
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join(30)
                assert not thread.is_alive()
        if self.failures:
            raise self.failures[0]

    def _guard(
        self, work: Callable[[str, threading.Event], None], url: str, stop: threading.Event
    ) -> None:
        try:
            work(url, stop)
        except BaseException as failure:  # noqa: BLE001 - a thread's verdict goes to the test
            self.failures.append(failure)


def crowd_of(seed: int, hub_pk: PublicKey) -> Crowd:
    rng = random.Random(seed)
    labels = [Label(rng.randbytes(32)) for _ in range(3)]
    producers = [
        Producer(Author(labels[number % 3]), rng=random.Random(rng.random())) for number in range(5)
    ]
    return Crowd(producers, [Reader(label, hub_pk) for label in labels[:2]])


def kill_everything(hub: LiveHub) -> None:
    """No process of the hub gets a chance to tidy up."""
    workers = hub.workers()
    hub.process.kill()
    for pid in workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    hub.process.wait()


def check_all(hub: LiveHub, crowd: Crowd) -> None:
    """Every message is in the log exactly once, with the receipt that was given for it."""
    client = HttpClient(hub.url)
    with contextlib.closing(client):
        for producer in crowd.producers:
            while producer.pending:
                producer.step(client)
        labels = {producer.author.label for producer in crowd.producers}
        for label in labels:
            writers = [each for each in crowd.producers if each.author.label == label]
            expected = sum(each.author.seq for each in writers)
            head = Receipt.decode(client.get(f"/head?label={label.hex()}").ok())
            assert head.stream_seq == expected
            seqs = []
            for producer in writers:
                assert len(producer.receipts) == producer.author.seq
                for wire in producer.receipts.values():
                    receipt = Receipt.decode(wire)
                    receipt.verify(hub.hub_pk)
                    seqs.append(int(receipt.stream_seq))
            assert sorted(seqs) == list(range(1, expected + 1))
            _check_stored(client, label, writers, expected)


def _check_stored(client: HttpClient, label: Label, writers: list[Producer], expected: int) -> None:
    stored: list[bytes] = []
    path: str | None = f"/stream?label={label.hex()}&limit=5000"
    while path is not None:
        reply = client.get(path)
        stored += [item[1 : cbor.skip(item, 1)] for item in reply.items()]
        path = reply.next_link()
    given = {wire for producer in writers for wire in producer.receipts.values()}
    assert len(stored) == expected
    assert set(stored) == given


KILLS_OF_A_LIFE = 20  # of one directory; then it is checked as a whole and a new one begins


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
def test_kill_9_at_random_moments_loses_and_doubles_nothing(
    tmp_path: Path, seed: int, scaled: Callable[[int, int], int]
) -> None:
    """20 kills within a quarter of a second each; in full 200, each within half a minute."""
    for life in range(scaled(1, 10)):
        lose_nothing(tmp_path / f"{life}", seed + life, scaled(250, 30_000) / 1000)


def lose_nothing(folder: Path, seed: int, round_s: float) -> None:
    """The life of one directory, ended by a kill in every round."""
    rng = random.Random(seed)
    folder.mkdir()
    config = HubConfig(
        data_dir=folder / "d",
        open_admission=True,
        open_reads=True,
        workers=2,
        log_submits=False,
        checkpoint_interval_s=1,
        segment_bytes=300_000,  # so that segments roll in the middle of it
    )
    hub = live_hub.start(config)
    crowd = crowd_of(seed, hub.hub_pk)
    config = replace(config, port=hub.port)
    for number in range(KILLS_OF_A_LIFE):
        before = crowd.receipts()
        with crowd.talking(hub.url):
            live_hub.until(lambda before=before: crowd.receipts() > before)  # type: ignore[misc]
            time.sleep(rng.random() * round_s)
            if number % 2:
                kill_everything(hub)
            else:
                hub.kill()
        if number % 10 == 9:
            check_fsck(config.data_dir)
        hub = live_hub.start(config)
    try:
        check_all(hub, crowd)
        assert all(reader.checked for reader in crowd.readers)
    finally:
        assert hub.stop() == 0
    check_fsck(config.data_dir)


def test_a_killed_worker_is_replaced_and_the_hub_goes_on(tmp_path: Path, seed: int) -> None:
    config = HubConfig(
        data_dir=tmp_path / "d", open_admission=True, open_reads=True, workers=2, log_submits=False
    )
    with live_hub.running(config) as hub:
        crowd = crowd_of(seed, hub.hub_pk)
        client = hub.client()
        for number in range(3):
            workers = hub.workers()
            os.kill(workers[number % 2], signal.SIGKILL)
            live_hub.until(
                lambda old=workers: len(hub.workers()) == 2 and hub.workers() != old  # type: ignore[misc]
            )
            live_hub.until(lambda: _answers(hub))
            for producer in crowd.producers:
                fresh = HttpClient(hub.url)
                with contextlib.closing(fresh):
                    producer.step(fresh)
        check_all(hub, crowd)
        del client


def _answers(hub: LiveHub) -> bool:
    """Every worker takes connections again."""
    for _ in range(8):
        client = HttpClient(hub.url, timeout_s=2)
        try:
            if client.get("/profile").status != 200:
                return False
        except BROKEN:
            return False
        finally:
            client.close()
    return True


def test_a_killed_worker_under_load_loses_and_doubles_nothing(tmp_path: Path, seed: int) -> None:
    config = HubConfig(
        data_dir=tmp_path / "d", open_admission=True, open_reads=True, workers=2, log_submits=False
    )
    with live_hub.running(config) as hub:
        crowd = crowd_of(seed, hub.hub_pk)
        for _ in range(3):
            before = crowd.receipts()
            workers = hub.workers()
            with crowd.talking(hub.url):
                live_hub.until(lambda before=before: crowd.receipts() > before)  # type: ignore[misc]
                time.sleep(0.1)
                for pid in workers:
                    os.kill(pid, signal.SIGKILL)
            live_hub.until(lambda: _answers(hub))
        check_all(hub, crowd)


def test_a_stop_under_load_is_quick_and_clean(tmp_path: Path, seed: int) -> None:
    config = HubConfig(
        data_dir=tmp_path / "d", open_admission=True, open_reads=True, workers=2, log_submits=False
    )
    hub = live_hub.start(config)
    crowd = crowd_of(seed, hub.hub_pk)
    with crowd.talking(hub.url):
        live_hub.until(lambda: crowd.receipts() > 20)
        started = time.monotonic()
        assert hub.stop() == 0
        assert time.monotonic() - started < 4
    with live_hub.running(replace(config, port=hub.port)) as again:
        check_all(again, crowd)
    check_fsck(config.data_dir)
