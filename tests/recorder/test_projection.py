from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hub import authoring
from hub.crypto.hashing import h
from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.types import AuthRef, ClientSeq, Hash, HubId, Label, MmrRoot, StreamSeq, UnixSeconds
from hub.wire.msg import Msg
from hub.wire.payload import PayloadHeader
from hub.wire.profile import PRODUCT, Profile
from hub.wire.receipt import Receipt
from recorder.event import SCHEMA, from_json
from recorder.projection import Row, RowError, project, receipt_id

CORPUS: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "query" / "corpus.json").read_text()
)
CORPUS_READER = DhSecret(bytes.fromhex(CORPUS["reader_sk"]))
HUB = SigningKey(b"\x01" * 32)
CLIENT = SigningKey(b"\x02" * 32)
READER = DhSecret(b"\x03" * 32)
LABEL = Label(b"\x04" * 32)
AUTHORITY = AuthRef(b"\x05" * 32)
HUB_ID = HubId(b"\x06" * 32)
BODY = from_json(
    {"event_type": "a", "subject_id": "s", "payload": 1}, now_ms=7, default_origin="o"
).encode()


def authored(body: bytes = BODY, **changes: Any) -> authoring.Authored:
    header = changes.pop("header", PayloadHeader(schema=SCHEMA))
    return authoring.author(
        **{
            "key": CLIENT, "profile": PRODUCT, "label": LABEL, "client_seq": ClientSeq(1),
            "prev_ack": 0, "auth_ref": AUTHORITY, "reader_pk": READER.public, **changes,
        },
        header=header,
        body=body,
    )  # fmt: skip


def receipt_of(msg: Msg, *, label: Label = LABEL) -> bytes:
    return Receipt.sign(
        HUB, label, StreamSeq(9), msg.leaf_hash(), MmrRoot(b"\x08" * 32), UnixSeconds(1_000)
    ).encode()


def row_of(msg: Msg, *secrets: DhSecret) -> Row:
    return project(
        msg.encode(),
        receipt_of(msg),
        stream="record/app/x",
        hub_id=HUB_ID,
        secrets=secrets or (READER,),
    )


@pytest.mark.parametrize(
    "event", CORPUS["events"], ids=lambda one: f"{one['stream']}-{one['hub_commit_seq']}"
)
def test_every_entry_of_the_corpus_gives_its_row(event: dict[str, Any]) -> None:
    row = project(
        bytes.fromhex(event["msg"]),
        bytes.fromhex(event["receipt"]),
        stream=event["stream"],
        hub_id=HubId(bytes.fromhex(event["hub_id"])),
        secrets=[CORPUS_READER],
    )
    expected = {key: value for key, value in event.items() if key not in ("msg", "receipt")}
    assert row.shown() == expected


def test_a_good_event_has_its_fields_and_who_signed_it() -> None:
    made = authored()
    row = row_of(made.msg)
    assert (row.subject_id, row.event_type, row.event_time, row.origin) == ("s", "a", 7, "o")
    assert row.principal_id == CLIENT.public.hex()
    assert (row.hub_commit_seq, row.hub_commit_time) == (9, 1_000_000)
    assert row.receipt_id == receipt_id(made.leaf_hash) == f"rcpt-{made.leaf_hash.hex()}"
    assert row.error is None


def test_keys_are_tried_in_turn() -> None:
    other = DhSecret(b"\x0b" * 32)
    assert row_of(authored().msg, other, READER).error is None
    assert row_of(authored().msg, other).error is RowError.SEALED


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"body": b"no map"}, RowError.UNDECODABLE),
        ({"body": BODY + b"\0"}, RowError.UNDECODABLE),
        ({"header": PayloadHeader(schema=Hash(h(b"other.v1")))}, RowError.UNKNOWN_SCHEMA),
        (
            {"header": PayloadHeader(schema=Hash(h(b"other.v1"))), "body": b"no map"},
            RowError.UNKNOWN_SCHEMA,
        ),
        ({"header": PayloadHeader(schema=SCHEMA, cap_ref=AUTHORITY)}, None),
    ],
)
def test_what_an_author_did_wrong_is_named(changes: dict[str, Any], error: RowError | None) -> None:
    row = row_of(authored(**changes).msg)
    assert row.error is error
    if error is not None:
        nothing = (row.subject_id, row.event_type, row.event_time, row.origin, row.payload_text)
        assert nothing == (None,) * 5


def foreign(header: bytes, body: bytes, *, auth_ref: AuthRef | None = AUTHORITY) -> Msg:
    """A MSG as a program without our checks would author it."""
    from hub.crypto import aead, hpke  # noqa: PLC0415
    from hub.types import ClientId  # noqa: PLC0415
    from hub.wire import ciphertext  # noqa: PLC0415
    from hub.wire.msg import aad_of, body_nonce_of  # noqa: PLC0415

    context = hpke.seal_setup(READER.public)
    place: dict[str, Any] = {
        "label": LABEL, "client_id": ClientId(CLIENT.public), "client_seq": 1, "prev_ack": 0,
    }  # fmt: skip
    aad = aad_of(profile_id=PRODUCT.id, auth_ref=auth_ref, **place)
    sealed = aead.seal(context.export(b"veen/body-k"), body_nonce_of(**place), body, aad)
    joined = ciphertext.join(context.enc, context.seal(header, aad), sealed, PRODUCT.pad_block)
    return Msg.sign(
        CLIENT, profile_id=PRODUCT.id, label=LABEL, client_seq=ClientSeq(1), prev_ack=0,
        auth_ref=auth_ref, ciphertext=joined,
    )  # fmt: skip


def test_a_cap_ref_that_is_not_the_auth_ref_comes_last() -> None:
    header = PayloadHeader(schema=SCHEMA, cap_ref=AuthRef(b"\x0c" * 32)).encode()
    assert row_of(foreign(header, BODY)).error is RowError.CAP_MISMATCH
    assert row_of(foreign(header, b"junk")).error is RowError.UNDECODABLE


def test_a_broken_header_is_its_authors_fault_and_not_a_missing_key() -> None:
    assert row_of(foreign(b"junk", BODY)).error is RowError.UNDECODABLE


def test_a_message_of_an_unknown_profile_is_sealed() -> None:
    strange = Profile(epoch_sec=0, pad_block=512)
    assert row_of(authored(profile=strange).msg).error is RowError.SEALED


def test_a_receipt_of_another_message_is_a_broken_log() -> None:
    one, two = authored().msg, authored(client_seq=ClientSeq(2)).msg
    for receipt in (receipt_of(two), receipt_of(one, label=Label(b"\x0d" * 32))):
        with pytest.raises(VeenError) as refused:
            project(one.encode(), receipt, stream="record/app/x", hub_id=HUB_ID, secrets=[READER])
        assert refused.value.code is ErrorCode.PROOF
