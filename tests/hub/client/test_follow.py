from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from hub.client import EquivocationError, HubClient
from hub.client.follow import head_from_proof, next_query
from hub.client.heads import LabelHead
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.streamitem import StreamItem
from hub.types import Label
from hub.wire import cbor
from hub.wire.msg import Msg
from hub.wire.receipt import Receipt
from tests.hub.client.drafts import LABEL, draft
from tests.hub.client.scripted_hub import NOW, ScriptedHub

KEY = SigningKey(b"\x01" * 32)


def fill(hub: ScriptedHub, count: int) -> None:
    """Messages of an author that is not the reader."""
    with (
        HubClient(hub.url, hub.first_key.public, timeout_s=5) as author,
        author.producer(KEY) as producer,
    ):
        last = hub.log(LABEL).clients.get(KEY.public, (0, 0))[0]
        producer.submit_batch([draft(b"%d" % number) for number in range(last, last + count)])


def seqs(items: itertools.chain[StreamItem] | list[StreamItem]) -> list[int]:
    return [item.receipt.stream_seq for item in items]


@pytest.mark.parametrize("from_seq", [1, 2, 8, 9, 23])
@pytest.mark.parametrize("with_proof", [False, True])
def test_every_start_gives_the_verified_rest(
    hub: ScriptedHub, client: HubClient, from_seq: int, *, with_proof: bool
) -> None:
    fill(hub, 23)
    items = list(client.follow(LABEL, from_seq, with_proof=with_proof, page=5))
    assert seqs(items) == list(range(from_seq, 24))
    assert all((item.proof is not None) == with_proof for item in items)
    head = client.heads.get(LABEL)
    assert head is not None
    assert head.is_whole()
    assert head.last_stream_seq == 23


def test_a_range_ends_where_it_was_asked_to(hub: ScriptedHub, client: HubClient) -> None:
    fill(hub, 12)
    assert seqs(list(client.follow(LABEL, 3, to_seq=7, page=2))) == [3, 4, 5, 6, 7]


def test_an_unknown_label_is_empty(client: HubClient) -> None:
    assert list(client.follow(LABEL)) == []


def test_polling_goes_on_with_what_comes_later(hub: ScriptedHub, client: HubClient) -> None:
    fill(hub, 3)
    items = client.follow(LABEL, poll_s=0.001)
    assert seqs([next(items) for _ in range(3)]) == [1, 2, 3]
    fill(hub, 2)
    assert seqs([next(items) for _ in range(2)]) == [4, 5]
    items.close()  # type: ignore[attr-defined]


def test_resync_continues_from_the_stored_head(
    hub: ScriptedHub, client: HubClient, tmp_path: Path
) -> None:
    fill(hub, 5)
    list(client.follow(LABEL))
    client.close()
    fill(hub, 4)
    with HubClient(hub.url, hub.key.public, state_dir=tmp_path / "state") as again:
        head = again.heads.get(LABEL)
        assert head is not None
        assert seqs(list(again.follow(LABEL, head.last_stream_seq + 1))) == [6, 7, 8, 9]


def test_a_rewritten_past_is_equivocation_with_both_objects_kept(
    hub: ScriptedHub, client: HubClient, tmp_path: Path
) -> None:
    fill(hub, 6)
    list(client.follow(LABEL))
    hub.forget(LABEL, keep=3)
    fill(hub, 5)
    with pytest.raises(EquivocationError):
        list(client.follow(LABEL, 7))
    (folder,) = (tmp_path / "state" / "evidence").iterdir()
    for name in ("ours.receipt", "theirs.receipt"):
        Receipt.decode((folder / name).read_bytes()).verify(hub.key.public)


def test_a_replay_that_contradicts_the_stored_head_is_equivocation(
    hub: ScriptedHub, client: HubClient
) -> None:
    fill(hub, 6)
    list(client.follow(LABEL))
    hub.forget(LABEL, keep=3)
    fill(hub, 5)
    with pytest.raises(EquivocationError):
        list(client.follow(LABEL, 1))


def test_a_jump_over_unread_messages_needs_a_consistency_proof(
    hub: ScriptedHub, client: HubClient
) -> None:
    fill(hub, 6)
    list(client.follow(LABEL))
    fill(hub, 6)
    assert seqs(list(client.follow(LABEL, 11))) == [11, 12]
    hub.forget(LABEL, keep=3)
    fill(hub, 20)
    with pytest.raises(EquivocationError):
        list(client.follow(LABEL, 18))


def test_damaged_local_peaks_are_repaired_from_the_signed_root(
    hub: ScriptedHub, client: HubClient
) -> None:
    fill(hub, 5)
    list(client.follow(LABEL))
    head = client.heads.get(LABEL)
    assert head is not None
    client.heads.put(LABEL, LabelHead.of_prefix(head.receipt, [b"\0" * 32] * 2))
    fill(hub, 2)
    assert seqs(list(client.follow(LABEL, 6))) == [6, 7]


def swap(hub: ScriptedHub, place: int, receipt: Receipt | None, data: bytes | None) -> None:
    """Serve another receipt or message at one place."""
    old_receipt, old_data = hub.log(LABEL).entries[place]
    hub.log(LABEL).entries[place] = (receipt or old_receipt, data or old_data)


def test_a_receipt_beside_another_message_is_refused(hub: ScriptedHub, client: HubClient) -> None:
    fill(hub, 4)
    swap(hub, 2, None, hub.log(LABEL).entries[1][1])
    with pytest.raises(VeenError) as refused:
        list(client.follow(LABEL))
    assert refused.value.code is ErrorCode.PROOF


def test_a_flipped_bit_of_a_message_is_refused(hub: ScriptedHub, client: HubClient) -> None:
    fill(hub, 2)
    data = bytearray(hub.log(LABEL).entries[1][1])
    data[-80] ^= 1
    swap(hub, 1, None, bytes(data))
    with pytest.raises(VeenError):
        list(client.follow(LABEL))


def test_a_left_out_message_is_seen(hub: ScriptedHub, client: HubClient) -> None:
    fill(hub, 4)
    del hub.log(LABEL).entries[1]
    with pytest.raises(VeenError) as refused:
        list(client.follow(LABEL))
    assert refused.value.code is ErrorCode.PROOF


def test_a_signed_root_over_another_log_is_refused(hub: ScriptedHub, client: HubClient) -> None:
    fill(hub, 3)
    receipt = hub.log(LABEL).entries[2][0]
    lie = Receipt.sign(
        hub.key, receipt.label, receipt.stream_seq, receipt.leaf_hash, receipt.mmr_root[::-1],  # type: ignore[arg-type]
        receipt.hub_ts,
    )  # fmt: skip
    swap(hub, 2, lie, None)
    with pytest.raises(EquivocationError):
        list(client.follow(LABEL))


def test_time_that_runs_backwards_is_refused(hub: ScriptedHub, client: HubClient) -> None:
    fill(hub, 3)
    receipt = hub.log(LABEL).entries[2][0]
    lie = Receipt.sign(
        hub.key, receipt.label, receipt.stream_seq, receipt.leaf_hash, receipt.mmr_root,
        NOW - 5,  # type: ignore[arg-type]
    )  # fmt: skip
    swap(hub, 2, lie, None)
    with pytest.raises(EquivocationError):
        list(client.follow(LABEL))


def test_receipts_of_superseded_keys_count_up_to_their_last_manifest(
    hub: ScriptedHub, client: HubClient
) -> None:
    fill(hub, 5)
    hub.rotate()
    fill(hub, 4)
    hub.rotate()
    fill(hub, 3)
    assert seqs(list(client.follow(LABEL, page=2))) == list(range(1, 13))


def test_a_reader_that_pinned_the_newest_key_reads_the_past(
    hub: ScriptedHub, tmp_path: Path
) -> None:
    fill(hub, 5)
    hub.rotate()
    fill(hub, 2)
    with HubClient(hub.url, hub.key.public, state_dir=tmp_path / "late") as late:
        assert seqs(list(late.follow(LABEL))) == list(range(1, 8))


def test_a_stolen_superseded_key_cannot_append(hub: ScriptedHub, client: HubClient) -> None:
    fill(hub, 3)
    stolen = hub.key
    hub.rotate()
    new, hub.key = hub.key, stolen
    with HubClient(hub.url, stolen.public) as blind:
        msg = Msg.decode(hub.log(LABEL).entries[-1][1])
        assert blind.chain.pinned == stolen.public
    hub.admit(_next_message(hub, msg))
    hub.key = new
    with pytest.raises(VeenError) as refused:
        list(client.follow(LABEL))
    assert refused.value.code is ErrorCode.TRUST


def _next_message(hub: ScriptedHub, before: Msg) -> bytes:
    return Msg.sign(
        KEY,
        profile_id=before.profile_id,
        label=Label(before.label),
        client_seq=before.client_seq + 1,  # type: ignore[arg-type]
        prev_ack=len(hub.log(LABEL).entries),
        auth_ref=None,
        ciphertext=before.ciphertext,
    ).encode()


def test_forged_rotation_records_are_refused(hub: ScriptedHub, client: HubClient) -> None:
    fill(hub, 2)
    hub.rotate()
    record = bytearray(hub.rotations[0])
    record[-1] ^= 1  # the new key's signature
    hub.rotations[0] = bytes(record)
    with pytest.raises(VeenError) as refused:
        list(client.follow(LABEL))
    assert refused.value.code in (ErrorCode.SIG, ErrorCode.TRUST)


@pytest.mark.parametrize("size", range(1, 34))
def test_one_receipt_and_its_proof_hold_all_peaks(hub: ScriptedHub, size: int) -> None:
    fill(hub, size)
    log = hub.log(LABEL)
    with HubClient(hub.url, hub.key.public) as reader:
        proof, _, _ = reader.proof(LABEL, size, size=size)
    head = head_from_proof(log.entries[-1][0], proof)
    assert list(head.peaks) == log.tree.peaks


def test_a_link_without_next_ends_the_pages() -> None:
    assert next_query("") is None
    assert next_query('</stream?from=1>; rel="prev"') is None
    found = next_query('</stream?label=ab&from=7&upto=9>; rel="next"')
    assert found == {"label": "ab", "from": "7", "upto": "9"}


def test_stream_items_refuse_trailing_bytes(hub: ScriptedHub) -> None:
    fill(hub, 1)
    receipt, data = hub.log(LABEL).entries[0]
    item = cbor.head(cbor.ARRAY, 2) + receipt.encode() + data
    assert StreamItem.decode(item).msg_bytes == data
    with pytest.raises(VeenError):
        StreamItem.decode(item + b"\x00")
