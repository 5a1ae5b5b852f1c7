"""The read routes: every range, proof and head is checked with the pure verifiers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from hub.server.config import HubConfig
from hub.types import Label, LeafHash, MmrRoot, PublicKey
from hub.wire import cbor
from hub.wire.msg import Msg
from hub.wire.proof import ConsistencyProof, MmrProof, RangeProof
from hub.wire.receipt import Receipt
from tests.support import live_hub
from tests.support.live_hub import Author, HttpClient, LiveHub, Reply
from tests.support.memory_log import MemoryLog

SIZE = 77
LABEL = Label(b"r" * 32)
QUERY = f"label={LABEL.hex()}"


@dataclass
class Log:
    """What the client knows of the log it wrote."""

    hub: LiveHub
    msgs: list[bytes]
    receipts: list[bytes]
    model: MemoryLog

    def root(self, size: int) -> MmrRoot:
        return self.model.roots[size]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    config = HubConfig(
        data_dir=tmp_path_factory.mktemp("reads") / "d",
        open_admission=True,
        open_reads=True,
        workers=1,
    )
    with live_hub.running(config) as hub:
        author = Author(LABEL)
        msgs = [author.next(b"%d" % number) for number in range(SIZE)]
        receipts = hub.client().batch(*msgs).items()
        yield Log(hub, msgs, receipts, MemoryLog(Msg.decode(m).leaf_hash() for m in msgs))


@pytest.fixture
def client(log: Log) -> HttpClient:
    return log.hub.client()


def entries(reply: Reply) -> list[list[bytes]]:
    """Each item of a stream answer, split into its parts."""
    split = []
    for item in reply.items():
        reader = cbor.Reader(item)
        parts = reader.array_length(minimum=2, maximum=3)
        pos, found = reader.pos, []
        for _ in range(parts):
            end = cbor.skip(item, pos, depth=8)
            found.append(item[pos:end])
            pos = end
        split.append(found)
    return split


def pages(client: HttpClient, path: str) -> Iterator[Reply]:
    following: str | None = path
    while following is not None:
        reply = client.get(following)
        yield reply
        following = reply.next_link()


def test_a_stream_is_what_was_sent_and_signed(log: Log, client: HttpClient) -> None:
    reply = client.get(f"/stream?{QUERY}")
    assert entries(reply) == [list(pair) for pair in zip(log.receipts, log.msgs, strict=True)]
    assert reply.headers["veen-mmr-size"] == str(SIZE)
    assert reply.headers["veen-mmr-root"] == log.root(SIZE).hex()
    assert reply.next_link() is None


@pytest.mark.parametrize(("first", "last"), [(1, 1), (5, 9), (77, 77), (1, 77), (30, 76)])
def test_a_range_is_inclusive_on_both_ends(
    log: Log, client: HttpClient, first: int, last: int
) -> None:
    found = entries(client.get(f"/stream?{QUERY}&from={first}&to={last}"))
    assert [parts[1] for parts in found] == log.msgs[first - 1 : last]


@pytest.mark.parametrize("upto", [1, 2, 31, 32, 76, 77])
def test_proofs_of_a_stream_verify_against_the_root_in_the_header(
    log: Log, client: HttpClient, upto: int
) -> None:
    reply = client.get(f"/stream?{QUERY}&with_proof=1&upto={upto}")
    root = MmrRoot(bytes.fromhex(reply.headers["veen-mmr-root"]))
    assert root == log.root(upto)
    assert reply.headers["veen-mmr-size"] == str(upto)
    found = entries(reply)
    assert len(found) == upto
    for seq, (receipt, msg, proof) in enumerate(found, start=1):
        decoded = MmrProof.decode(proof)
        decoded.verify(stream_seq=seq, mmr_size=upto, root=root)
        assert decoded.leaf_hash == Msg.decode(msg).leaf_hash()
        assert Receipt.decode(receipt).stream_seq == seq


def test_pages_follow_link_next_with_the_same_upto(log: Log, client: HttpClient) -> None:
    label = Label(b"p" * 32)
    author = Author(label)
    msgs = [author.next(b"%d" % number) for number in range(25)]
    client.batch(*msgs).items()
    seen: list[bytes] = []
    counts = []
    for reply in pages(client, f"/stream?label={label.hex()}&limit=10&with_proof=1"):
        assert reply.headers["veen-mmr-size"] == "25"
        found = entries(reply)
        counts.append(len(found))
        seen.extend(parts[1] for parts in found)
        author.send(client)  # the log grows meanwhile; a listing proves against one size
    assert seen == msgs
    assert counts == [10, 10, 5]


def test_pages_end_at_to(client: HttpClient, log: Log) -> None:
    found = [
        parts[1]
        for reply in pages(client, f"/stream?{QUERY}&from=3&to=20&limit=7")
        for parts in entries(reply)
    ]
    assert found == log.msgs[2:20]


def test_an_empty_page_behind_the_head_is_no_error(client: HttpClient) -> None:
    reply = client.get(f"/stream?{QUERY}&from={SIZE + 1}")
    assert reply.items() == []
    assert reply.headers["veen-mmr-size"] == str(SIZE)


def test_the_limit_is_clamped_to_10000(client: HttpClient) -> None:
    label = Label(b"m" * 32)
    author = Author(label)
    for _ in range(10):
        client.batch(*[author.next() for _ in range(1024)]).items()
    reply = client.get(f"/stream?label={label.hex()}&limit=99999")
    assert len(reply.items()) == 10_000
    following = reply.next_link()
    assert following is not None
    assert len(client.get(following).items()) == 240
    assert len(client.get(f"/stream?label={label.hex()}").items()) == 1000


@pytest.mark.parametrize(
    "query",
    [
        "to=78",
        "upto=78",
        "upto=0",
        "upto=10&to=11",
        "from=0",
        "from=20&to=10",
        "from=20&to=19",
        "to=0",
        "from=-1",
        "from=1.0",
        "from=01",
        "from=%31x",
        "limit=ten",
        "with_proof=yes",
        "with_proof=2",
        "from=99999999999999999999",
        "unknown=1",
        "from=1&from=2",
        "from=",
        "from",
    ],
)
def test_a_bad_parameter_is_400(client: HttpClient, query: str) -> None:
    reply = client.get(f"/stream?{QUERY}&{query}")
    assert (reply.status, reply.code) == (400, "E.FORMAT")


@pytest.mark.parametrize("text", ["", "zz", LABEL.hex().upper(), LABEL.hex()[:-2], "0x" + "a" * 62])
def test_a_label_is_64_lower_case_hex_digits(client: HttpClient, text: str) -> None:
    upper = "AB" * 32 if text == LABEL.hex().upper() else text
    reply = client.get(f"/stream?label={upper}")
    assert (reply.status, reply.code) == (400, "E.FORMAT")


@pytest.mark.parametrize(
    "path",
    [
        "/stream?label={0}",
        "/head?label={0}",
        "/receipt?label={0}&seq=1",
        "/proof?label={0}&seq=1",
        "/consistency?label={0}&from_size=1&to_size=1",
        "/range_proof?label={0}&from=1&to=1",
        "/checkpoint_latest?label={0}",
        "/checkpoint?label={0}&upto_seq=1",
        "/receipt?leaf_hash={0}",
        "/manifest?id={0}",
        "/attachment/{0}",
    ],
)
def test_what_does_not_exist_is_404(client: HttpClient, path: str) -> None:
    reply = client.get(path.format("00" * 32))
    assert (reply.status, reply.code) == (404, "E.NOTFOUND")


def test_a_receipt_by_place_and_by_leaf_is_the_one_that_was_signed(
    log: Log, client: HttpClient
) -> None:
    for seq in (1, 40, SIZE):
        leaf = log.model.leaves[seq - 1].hex()
        assert client.get(f"/receipt?{QUERY}&seq={seq}").ok() == log.receipts[seq - 1]
        assert client.get(f"/receipt?leaf_hash={leaf}").ok() == log.receipts[seq - 1]


@pytest.mark.parametrize("seq", [0, SIZE + 1, 2**63])
def test_a_sequence_that_is_not_there_is_404(client: HttpClient, seq: int) -> None:
    for route in ("receipt", "proof"):
        reply = client.get(f"/{route}?{QUERY}&seq={seq}")
        assert (reply.status, reply.code) == (404, "E.NOTFOUND")


@pytest.mark.parametrize("path", ["/receipt?seq=1", "/receipt", f"/receipt?{QUERY}",
    f"/receipt?{QUERY}&seq=1&leaf_hash={'00' * 32}", f"/proof?{QUERY}", f"/head?{QUERY}&seq=1",
    "/manifest", f"/checkpoint?{QUERY}", "/checkpoint_range?epoch_min=0",
    "/checkpoint_range?epoch_min=1&epoch_max=0", "/head"])  # fmt: skip
def test_missing_and_superfluous_parameters_are_400(client: HttpClient, path: str) -> None:
    reply = client.get(path)
    assert (reply.status, reply.code) == (400, "E.FORMAT")


def test_the_head_is_the_newest_receipt(log: Log, client: HttpClient) -> None:
    assert client.get(f"/head?{QUERY}").ok() == log.receipts[-1]


def test_every_entry_is_proved_against_every_later_size(log: Log, client: HttpClient) -> None:
    for seq in (1, 2, 31, 64, 77):
        for size in {seq, 32, 33, 63, 64, 65, 76, 77}:
            if size < seq:
                continue
            reply = client.get(f"/proof?{QUERY}&seq={seq}&size={size}")
            proof = MmrProof.decode(reply.ok())
            proof.verify(stream_seq=seq, mmr_size=size, root=log.root(size))
            assert proof.leaf_hash == log.model.leaves[seq - 1]
            assert reply.headers["veen-mmr-size"] == str(size)
            assert reply.headers["veen-mmr-root"] == log.root(size).hex()


def test_a_proof_is_against_the_head_by_default(log: Log, client: HttpClient) -> None:
    reply = client.get(f"/proof?{QUERY}&seq=5")
    assert reply.headers["veen-mmr-size"] == str(SIZE)
    MmrProof.decode(reply.ok()).verify(stream_seq=5, mmr_size=SIZE, root=log.root(SIZE))


@pytest.mark.parametrize("size", [4, 0, SIZE + 1])
def test_a_size_that_cannot_hold_the_entry_is_400(client: HttpClient, size: int) -> None:
    reply = client.get(f"/proof?{QUERY}&seq=5&size={size}")
    assert (reply.status, reply.code) == (400, "E.FORMAT")


def test_consistency_holds_between_any_two_sizes(log: Log, client: HttpClient) -> None:
    for old, new in ((1, 1), (1, 77), (32, 64), (63, 65), (76, 77), (77, 77)):
        reply = client.get(f"/consistency?{QUERY}&from_size={old}&to_size={new}")
        ConsistencyProof.decode(reply.ok()).verify(log.root(old), log.root(new))


@pytest.mark.parametrize(("old", "new"), [(0, 5), (6, 5), (5, SIZE + 1)])
def test_consistency_of_sizes_that_are_not_is_400(client: HttpClient, old: int, new: int) -> None:
    reply = client.get(f"/consistency?{QUERY}&from_size={old}&to_size={new}")
    assert (reply.status, reply.code) == (400, "E.FORMAT")


def test_a_range_proof_binds_exactly_its_leaves(log: Log, client: HttpClient) -> None:
    for first, last, size in ((1, 1, 1), (1, 77, 77), (5, 40, 77), (64, 65, 70), (77, 77, 77)):
        reply = client.get(f"/range_proof?{QUERY}&from={first}&to={last}&size={size}")
        leaves = [LeafHash(leaf) for leaf in log.model.leaves[first - 1 : last]]
        RangeProof.decode(reply.ok()).verify(leaves, log.root(size))
    reply = client.get(f"/range_proof?{QUERY}&from=2&to=3")
    leaves = [LeafHash(leaf) for leaf in log.model.leaves[1:3]]
    RangeProof.decode(reply.ok()).verify(leaves, log.root(SIZE))


@pytest.mark.parametrize(
    "query", ["from=0&to=1", "from=3&to=2", "from=1&to=78", "from=1&to=9&size=8"]
)
def test_a_range_that_is_none_is_400(client: HttpClient, query: str) -> None:
    reply = client.get(f"/range_proof?{QUERY}&{query}")
    assert (reply.status, reply.code) == (400, "E.FORMAT")


def test_every_receipt_of_the_stream_verifies(log: Log, client: HttpClient) -> None:
    for receipt, _ in entries(client.get(f"/stream?{QUERY}")):
        Receipt.decode(receipt).verify(PublicKey(log.hub.hub_pk))


def test_head_answers_without_a_body(client: HttpClient) -> None:
    reply = client.ask("HEAD", f"/head?{QUERY}")
    assert (reply.status, reply.body) == (200, b"")
