from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from hub.authoring import open_message
from hub.client import Draft, EquivocationError, HubClient, RefusedError
from hub.crypto.hashing import h
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.types import AuthRef, Hash, LeafHash, PublicKey
from hub.wire.msg import Msg
from hub.wire.profile import PRODUCT
from hub.wire.receipt import Receipt
from tests.hub.client.drafts import LABEL, READER, draft
from tests.hub.client.scripted_hub import HangupError, ScriptedHub

KEY = SigningKey(b"\x01" * 32)


def texts(hub: ScriptedHub) -> list[bytes]:
    """The committed bodies in order, opened."""
    return [
        open_message(Msg.decode(data), profile=PRODUCT, secret=READER).body
        for _, data in hub.log(LABEL).entries
    ]


def test_without_a_pinned_key_there_is_no_client() -> None:
    with pytest.raises(VeenError) as refused:
        HubClient("http://127.0.0.1:1", PublicKey(b""))
    assert refused.value.code is ErrorCode.TRUST


def test_a_state_directory_is_not_used_for_another_hub(
    hub: ScriptedHub, client: HubClient, tmp_path: Path
) -> None:
    client.close()
    with pytest.raises(VeenError) as refused:
        HubClient(hub.url, SigningKey.generate().public, state_dir=tmp_path / "state")
    assert refused.value.code is ErrorCode.TRUST


@pytest.mark.parametrize("pipelined", [False, True])
def test_a_batch_gets_one_receipt_each_in_order(
    hub: ScriptedHub, client: HubClient, *, pipelined: bool
) -> None:
    with client.producer(KEY) as producer:
        receipts = producer.submit_batch(
            [draft(b"%d" % number) for number in range(40)], pipelined=pipelined
        )
    assert [receipt.stream_seq for receipt in receipts] == list(range(1, 41))
    assert texts(hub) == [b"%d" % number for number in range(40)]


def test_prev_ack_follows_the_receipts(hub: ScriptedHub, client: HubClient) -> None:
    with client.producer(KEY) as producer:
        producer.submit(draft())
        producer.submit(draft())
    assert [Msg.decode(data).prev_ack for data in hub.submitted] == [0, 1]


def test_a_lost_answer_gives_the_same_bytes_again_and_one_entry(
    hub: ScriptedHub, client: HubClient
) -> None:
    lost: list[Receipt] = []

    def lose_once(_: Msg, receipt: Receipt) -> None:
        if not lost:
            lost.append(receipt)
            raise HangupError

    hub.after = lose_once
    with client.producer(KEY, sleep=lambda _: None) as producer:
        assert producer.submit(draft()) == lost[0]
    assert len(hub.submitted) == 2
    assert hub.submitted[0] == hub.submitted[1]
    assert len(hub.leaves(LABEL)) == 1


def test_a_lost_request_is_sent_again(hub: ScriptedHub, client: HubClient) -> None:
    seen = []

    def cut(msg: Msg) -> None:
        seen.append(msg)
        if len(seen) < 3:
            raise HangupError

    hub.before = cut
    with client.producer(KEY, sleep=lambda _: None) as producer:
        producer.submit_batch([draft(b"a"), draft(b"b")])
    assert texts(hub) == [b"a", b"b"]


@pytest.mark.parametrize("code", [ErrorCode.RATE, ErrorCode.BUSY])
def test_retry_after_is_honoured_and_bounded(
    hub: ScriptedHub, client: HubClient, code: ErrorCode
) -> None:
    pauses: list[float] = []
    refusals = 2

    def refuse(_: Msg) -> None:
        if len(pauses) < refusals:
            raise VeenError(code, retry_after_s=7)

    hub.before = refuse
    with client.producer(KEY, sleep=pauses.append) as producer:
        producer.submit(draft())
        assert pauses == [7.0, 7.0]
        refusals = 10**9
        with pytest.raises(RefusedError) as refused:
            producer.submit(draft())
        assert refused.value.code is code
        assert len(pauses) == 2 + 6
        assert producer.pending() == 1


def test_a_client_that_lost_its_state_goes_on_from_the_detail_of_e_seq(
    hub: ScriptedHub, client: HubClient, tmp_path: Path
) -> None:
    with client.producer(KEY) as producer:
        producer.submit_batch([draft(b"1"), draft(b"2"), draft(b"3")])
    with (
        HubClient(hub.url, hub.key.public, state_dir=tmp_path / "new") as amnesiac,
        amnesiac.producer(KEY) as producer,
    ):
        producer.submit_batch([draft(b"%d" % number) for number in range(4, 20)])
    assert texts(hub) == [b"%d" % number for number in range(1, 20)]


def test_a_key_used_elsewhere_meanwhile_loses_and_doubles_nothing(
    hub: ScriptedHub, client: HubClient, tmp_path: Path
) -> None:
    with client.producer(KEY) as producer:
        producer.submit(draft(b"1"))
        with (
            HubClient(hub.url, hub.key.public, state_dir=tmp_path / "twin") as twin,
            twin.producer(KEY) as other,
        ):
            other.submit_batch([draft(b"x"), draft(b"y")])
        producer.submit_batch([draft(b"%d" % number) for number in range(2, 9)])
    assert sorted(texts(hub)) == sorted([b"x", b"y", *(b"%d" % number for number in range(1, 9))])


def test_a_rebuilt_message_keeps_its_client_seq_and_never_its_hpke_context(
    hub: ScriptedHub, client: HubClient
) -> None:
    with client.producer(KEY, auth_ref=AuthRef(b"\x06" * 32)) as producer:
        producer.submit(draft(b"0"))
        hub.submitted.clear()
        hub.admitted = {b"\x07" * 32}
        with pytest.raises(RefusedError) as refused:
            producer.submit_batch([draft(b"a"), draft(b"b")])
        assert refused.value.code is ErrorCode.AUTH
        producer.auth_ref = AuthRef(b"\x07" * 32)
        producer.flush()
        assert producer.pending() == 0
    messages = [Msg.decode(data) for data in hub.submitted]
    by_seq: dict[int, set[bytes]] = {}
    for msg in messages:
        by_seq.setdefault(msg.client_seq, set()).add(msg.ciphertext[:32])
    assert set(by_seq) == {2, 3}
    assert all(len(encs) == 2 for encs in by_seq.values())  # one before, one after the renewal
    assert texts(hub) == [b"0", b"a", b"b"]


def test_an_old_leaf_that_arrived_late_settles_the_rebuilt_entry(
    hub: ScriptedHub, client: HubClient
) -> None:
    """The first bytes were delayed, refused in between, and then committed after all."""
    hub.admitted = {b"\x07" * 32}
    with client.producer(KEY, auth_ref=AuthRef(b"\x06" * 32)) as producer:
        with pytest.raises(RefusedError):
            producer.submit(draft(b"a"))
        late = hub.submitted[0]

        def deliver_late(_: Msg) -> None:
            hub.before = None
            hub.admitted = None
            hub.admit(late)

        hub.before = deliver_late
        producer.auth_ref = AuthRef(b"\x07" * 32)
        producer.flush()
        assert producer.pending() == 0
    assert texts(hub) == [b"a"]


def test_a_refusal_for_good_stays_pending_until_withdrawn(
    hub: ScriptedHub, client: HubClient
) -> None:
    poison = draft(b"poison")

    def refuse(msg: Msg) -> None:
        if open_message(msg, profile=PRODUCT, secret=READER).body == b"poison":
            raise VeenError(ErrorCode.SIZE, "too large for this hub")

    hub.before = refuse
    with client.producer(KEY) as producer:
        with pytest.raises(RefusedError) as refused:
            producer.submit_batch([draft(b"1"), poison, draft(b"2"), draft(b"3")])
        assert producer.pending() == 3
        producer.withdraw(refused.value.entry)
        producer.flush()
    assert texts(hub) == [b"1", b"2", b"3"]
    assert [Msg.decode(data).client_seq for _, data in hub.log(LABEL).entries] == [1, 2, 3]


def test_a_committed_message_cannot_be_withdrawn(hub: ScriptedHub, client: HubClient) -> None:
    def refuse_after_commit(*_: object) -> None:
        raise VeenError(ErrorCode.INTERNAL)

    hub.after = refuse_after_commit
    with client.producer(KEY, retries_max=0, sleep=lambda _: None) as producer:
        with pytest.raises(RefusedError) as refused:
            producer.submit(draft())
        with pytest.raises(VeenError) as kept:
            producer.withdraw(refused.value.entry)
        assert kept.value.code is ErrorCode.DUP
        producer.flush()
        assert producer.pending() == 0


def test_a_broken_connection_while_asking_for_the_receipt_is_survived(
    hub: ScriptedHub, client: HubClient
) -> None:
    """The answer is lost, the resend gives E.DUP, and the question for the receipt is cut too."""
    cuts = iter([True, True, False])

    def lose(*_: object) -> None:
        if next(cuts, False):
            raise HangupError

    hub.after = lose
    hub.before_read = lose
    with client.producer(KEY, sleep=lambda _: None) as producer:
        producer.submit(draft(b"once"))
    assert texts(hub) == [b"once"]


def test_one_process_per_key(client: HubClient) -> None:
    with client.producer(KEY), pytest.raises(VeenError) as locked:
        client.producer(KEY)
    assert locked.value.code is ErrorCode.LOCKED
    client.producer(KEY).close()


def test_a_full_disk_at_the_end_does_not_keep_the_key(
    client: HubClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the process itself would be refused with S.LOCKED for as long as it lives."""

    def full() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    producer = client.producer(KEY)
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr(client.heads, "save", full)
        producer.close()
    client.producer(KEY).close()


def forge(hub: ScriptedHub, **changes: object) -> None:
    """Answer with a receipt that is signed but says something else."""

    def answer(_: Msg, receipt: Receipt) -> Receipt:
        fields = {
            "label": receipt.label,
            "stream_seq": receipt.stream_seq,
            "leaf_hash": receipt.leaf_hash,
            "mmr_root": receipt.mmr_root,
            "hub_ts": receipt.hub_ts,
        } | changes
        return Receipt.sign(hub.key, **fields)  # type: ignore[arg-type]

    hub.after = answer


@pytest.mark.parametrize(
    "changes",
    [
        {"leaf_hash": LeafHash(b"\x05" * 32)},
        {"label": b"\x05" * 32},
        {"hub_ts": 2**40},
    ],
)
def test_a_receipt_that_promises_something_else_is_refused(
    hub: ScriptedHub, client: HubClient, changes: dict[str, object]
) -> None:
    forge(hub, **changes)
    with client.producer(KEY) as producer:
        with pytest.raises(VeenError) as refused:
            producer.submit(draft())
        assert refused.value.code is ErrorCode.PROOF
        assert producer.pending() == 1


def test_a_receipt_of_an_unknown_key_is_refused(hub: ScriptedHub, client: HubClient) -> None:
    with client.producer(KEY) as producer:
        hub.key = SigningKey.generate()
        with pytest.raises(VeenError) as refused:
            producer.submit(draft())
    assert refused.value.code is ErrorCode.TRUST


@pytest.mark.parametrize("place", [0, 3, 9])
def test_a_forged_receipt_in_a_row_settles_only_those_before_it(
    hub: ScriptedHub, client: HubClient, place: int
) -> None:
    """A row is verified in one go; where that fails each receipt is judged by itself."""
    stranger = SigningKey.generate()
    heard: list[int] = []
    with client.producer(KEY) as producer:
        producer.submit(draft())

        def forge(_: Msg, receipt: Receipt) -> Receipt | None:
            if receipt.stream_seq != place + 2:
                return None
            fields = (receipt.leaf_hash, receipt.mmr_root, receipt.hub_ts)
            return Receipt.sign(stranger, receipt.label, receipt.stream_seq, *fields)

        hub.after = forge
        producer.on_settled = lambda done: heard.extend(one.client_seq for one, _ in done)
        with pytest.raises(VeenError) as refused:
            producer.submit_batch([draft(b"%d" % number) for number in range(10)])
        assert refused.value.code is ErrorCode.TRUST
        assert heard == [number + 2 for number in range(place)]
        assert producer.pending() == 10 - place


def test_a_root_that_does_not_extend_the_last_one_is_kept_as_evidence(
    hub: ScriptedHub, client: HubClient, tmp_path: Path
) -> None:
    with client.producer(KEY) as producer:
        first = producer.submit(draft())
        forge(hub, mmr_root=b"\x05" * 32)
        with pytest.raises(EquivocationError):
            producer.submit(draft())
    (folder,) = (tmp_path / "state" / "evidence").iterdir()
    ours = Receipt.decode((folder / "ours.receipt").read_bytes())
    theirs = Receipt.decode((folder / "theirs.receipt").read_bytes())
    assert ours == first
    ours.verify(hub.key.public)
    theirs.verify(hub.key.public)


def test_a_hub_that_forgot_a_receipted_message_is_not_served_again(
    hub: ScriptedHub, client: HubClient
) -> None:
    with client.producer(KEY) as producer:
        producer.submit_batch([draft(b"1"), draft(b"2")])
        hub.forget(LABEL, keep=1)
        with pytest.raises(VeenError) as refused:
            producer.submit(draft(b"3"))
        assert refused.value.code is ErrorCode.EQUIVOCATION


def test_a_rotated_hub_is_followed_from_the_pinned_key(hub: ScriptedHub, client: HubClient) -> None:
    with client.producer(KEY) as producer:
        producer.submit(draft(b"1"))
        hub.rotate()
        hub.rotate()
        producer.submit(draft(b"2"))
    assert client.chain.current == hub.key.public
    assert texts(hub) == [b"1", b"2"]


def test_an_old_key_signs_nothing_new(hub: ScriptedHub, client: HubClient) -> None:
    """Whoever steals a superseded key can sign receipts, and none of them counts."""
    stolen = hub.key
    with client.producer(KEY) as producer:
        producer.submit(draft(b"1"))
        hub.rotate()
        hub.key = stolen
        client.chain.refresh()
        with pytest.raises(VeenError) as refused:
            producer.submit(draft(b"2"))
        assert refused.value.code is ErrorCode.TRUST


def test_attachments_are_stored_before_their_message(hub: ScriptedHub, client: HubClient) -> None:
    def check(msg: Msg) -> None:
        opened = open_message(msg, profile=PRODUCT, secret=READER)
        opened.check_attachments([Hash(coid) for coid in hub.attachments])

    hub.before = check
    contents = (b"first", b"second" * 100)
    with client.producer(KEY) as producer:
        producer.submit(draft(attachments=contents))
    msg = Msg.decode(hub.submitted[0])
    opened = open_message(msg, profile=PRODUCT, secret=READER)
    for place, coid in enumerate(hub.attachments):
        assert h(client.attachment(Hash(coid))) == coid
        assert opened.open_attachment(place, hub.attachments[coid]) == contents[place]


def test_a_draft_survives_the_outbox() -> None:
    original = draft(b"body", attachments=(b"x", b""))
    assert Draft.decode(original.encode()) == original
