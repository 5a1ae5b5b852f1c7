"""Sixteen threads at once, on one label and on many: one order, nothing lost, nothing doubled."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import pytest

from hub.server.config import HubConfig
from hub.types import Label
from hub.wire.msg import Msg
from hub.wire.receipt import Receipt
from tests.support import live_hub
from tests.support.live_hub import Author, HttpClient, LiveHub, code_of

THREADS = 16
Scaled = Callable[[int, int], int]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    config = HubConfig(
        data_dir=tmp_path_factory.mktemp("threads") / "d",
        open_admission=True,
        open_reads=True,
        workers=2,
        log_submits=False,
    )
    with live_hub.running(config) as hub:
        yield hub


def in_threads(work: Callable[[int], None]) -> None:
    """Run work(0..15) at the same time; the first failure is the test's."""
    failures: list[BaseException] = []
    gate = threading.Barrier(THREADS)

    def guarded(number: int) -> None:
        try:
            gate.wait(10)
            work(number)
        except BaseException as failure:  # noqa: BLE001 - a thread's verdict goes to the test
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    if failures:
        raise failures[0]


def check_label(hub: LiveHub, label: Label, receipts: list[Receipt]) -> None:
    """The receipts are all places of the label, in one order that hub_ts follows."""
    by_seq = sorted(receipts, key=lambda receipt: receipt.stream_seq)
    assert [receipt.stream_seq for receipt in by_seq] == list(range(1, len(receipts) + 1))
    times = [receipt.hub_ts for receipt in by_seq]
    assert times == sorted(times)
    client = HttpClient(hub.url)
    with contextlib.closing(client):
        assert client.get(f"/head?label={label.hex()}").ok() == by_seq[-1].encode()
    for receipt in by_seq:
        receipt.verify(hub.hub_pk)


def test_sixteen_clients_on_one_label(hub: LiveHub, scaled: Scaled) -> None:
    label = Label(b"1" * 32)
    count = scaled(60, 2000)
    found: list[list[Receipt]] = [[] for _ in range(THREADS)]

    def write(number: int) -> None:
        client, author = HttpClient(hub.url), Author(label)
        with contextlib.closing(client):
            for _ in range(count):
                found[number].append(author.send(client))

    in_threads(write)
    check_label(hub, label, [receipt for each in found for receipt in each])
    for each in found:  # a client's own messages are in the order it sent them
        seqs = [receipt.stream_seq for receipt in each]
        assert seqs == sorted(seqs)


def test_sixteen_clients_on_many_labels(hub: LiveHub, scaled: Scaled) -> None:
    labels = [Label(bytes([100 + number]) * 32) for number in range(40)]
    found: dict[Label, list[Receipt]] = {label: [] for label in labels}
    lock = threading.Lock()

    def write(_: int) -> None:
        client = HttpClient(hub.url)
        authors = [Author(label) for label in labels]
        with contextlib.closing(client):
            for round_ in range(scaled(3, 60)):
                msgs = [author.next(b"%d" % round_) for author in authors]
                answers = client.batch(*msgs).items()
                with lock:
                    for author, answer in zip(authors, answers, strict=True):
                        found[author.label].append(Receipt.decode(answer))

    in_threads(write)
    for label in labels:
        check_label(hub, label, found[label])


def test_sixteen_senders_of_the_same_message_get_one_receipt(hub: LiveHub, scaled: Scaled) -> None:
    author = Author(Label(b"2" * 32))
    msgs = [author.next() for _ in range(scaled(30, 500))]
    answers: list[list[bytes]] = [[] for _ in range(THREADS)]

    def write(number: int) -> None:
        client = HttpClient(hub.url)
        with contextlib.closing(client):
            for data in msgs:
                reply = client.submit(data)
                code = code_of(reply.body)
                assert code in {None, "E.DUP", "E.SEQ"}
                while code == "E.SEQ":  # another thread has not got so far yet
                    reply = client.submit(data)
                    code = code_of(reply.body)
                if code == "E.DUP":
                    leaf = Msg.decode(data).leaf_hash().hex()
                    reply = client.get(f"/receipt?leaf_hash={leaf}")
                answers[number].append(reply.ok())

    in_threads(write)
    assert all(each == answers[0] for each in answers)
    check_label(hub, author.label, [Receipt.decode(wire) for wire in answers[0]])


def test_readers_see_only_what_is_committed(hub: LiveHub, scaled: Scaled) -> None:
    label = Label(b"3" * 32)
    author = Author(label)
    done = threading.Event()
    given: dict[int, bytes] = {}

    def act(number: int) -> None:
        client = HttpClient(hub.url)
        with contextlib.closing(client):
            if number == 0:
                try:
                    for _ in range(scaled(150, 3000)):
                        receipt = author.send(client)
                        given[receipt.stream_seq] = receipt.encode()
                finally:
                    done.set()
                return
            before = 0
            while not done.is_set():
                reply = client.get(f"/head?label={label.hex()}")
                if reply.status == 404:
                    continue
                head = Receipt.decode(reply.ok())
                assert head.stream_seq >= before
                before = head.stream_seq
                head.verify(hub.hub_pk)

    in_threads(act)
    client = HttpClient(hub.url)
    with contextlib.closing(client):
        for seq, wire in given.items():
            assert client.get(f"/receipt?label={label.hex()}&seq={seq}").ok() == wire
