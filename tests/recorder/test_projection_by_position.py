"""The fast projection of an entry gives nothing that the plain one does not give."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hub.authoring import author
from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.errors import VeenError
from hub.limits import DEFAULT
from hub.types import AuthRef, ClientSeq, Label, MmrRoot, StreamSeq, UnixSeconds
from hub.wire.msg import Msg
from hub.wire.payload import PayloadHeader
from hub.wire.profile import PRODUCT
from hub.wire.receipt import Receipt
from recorder import projection
from recorder.event import SCHEMA, RecorderEvent, UnixMillis
from recorder.projection import PROFILES, Fields

CLIENT = SigningKey(b"\x02" * 32)
HUB = SigningKey(b"\x01" * 32)
READER, OTHER = DhSecret(b"\x03" * 32), DhSecret(b"\x0b" * 32)
LABEL = Label(b"\x04" * 32)
AUTHORITY = AuthRef(b"\x05" * 32)
EVENT = RecorderEvent(
    subject_id="alice", event_type="login.failed", event_time=UnixMillis(1_772_355_600_000),
    origin="web-1", payload='{"ms":12.5,"path":"/"}',
)  # fmt: skip


def message(body: bytes, client_seq: int = 1, auth_ref: AuthRef | None = None) -> Msg:
    return author(
        key=CLIENT, profile=PRODUCT, label=LABEL, client_seq=ClientSeq(client_seq), prev_ack=0,
        auth_ref=auth_ref, reader_pk=READER.public,
        header=PayloadHeader(schema=SCHEMA, cap_ref=auth_ref), body=body,
    ).msg  # fmt: skip


def receipt_of(msg: Msg, *, label: Label = LABEL) -> Receipt:
    return Receipt.sign(
        HUB, label, StreamSeq(300), msg.leaf_hash(), MmrRoot(b"\x08" * 32), UnixSeconds(1 << 30)
    )


def fast(data: bytes, receipt: Receipt, *secrets: DhSecret) -> Fields | None:
    return projection._event_at(data, receipt, secrets or (OTHER, READER), PROFILES, DEFAULT)


def check_both_agree(data: bytes, receipt: Receipt) -> None:
    found = fast(data, receipt)
    if found is not None:
        assert found == projection.fields_of(Msg.decode(data), receipt, (OTHER, READER))


@given(
    st.binary(max_size=80) | st.just(EVENT.encode()),
    st.integers(1, 2**63),
    st.none() | st.just(AUTHORITY),
    st.data(),
)
def test_on_messages_and_edits_of_them(
    body: bytes, client_seq: int, auth_ref: AuthRef | None, data: st.DataObject
) -> None:
    msg = message(body, client_seq, auth_ref)
    encoded, receipt = msg.encode(), receipt_of(msg)
    check_both_agree(encoded, receipt)
    at = data.draw(st.integers(0, len(encoded)))
    gone = data.draw(st.integers(0, 3))
    new = data.draw(st.binary(max_size=3))
    check_both_agree(encoded[:at] + new + encoded[at + gone :], receipt)


def test_a_sound_event_goes_the_fast_way() -> None:
    for auth_ref in (None, AUTHORITY):
        msg = message(EVENT.encode(), auth_ref=auth_ref)
        found = fast(msg.encode(), receipt_of(msg))
        assert found == projection.fields_of(msg, receipt_of(msg), (READER,))
        assert found is not None
        assert found[2] == "alice"


def test_every_flipped_byte_is_left_to_the_plain_way() -> None:
    msg = message(EVENT.encode())
    encoded, receipt = msg.encode(), receipt_of(msg)
    for position in range(len(encoded) - 64):  # the signature is the caller's
        changed = bytearray(encoded)
        changed[position] ^= 1
        assert fast(bytes(changed), receipt) in (None, fields_or_none(bytes(changed), receipt))


def fields_or_none(data: bytes, receipt: Receipt) -> Fields | None:
    try:
        return projection.fields_of(Msg.decode(data), receipt, (OTHER, READER))
    except VeenError:
        return None


def test_what_is_no_sound_event_of_its_receipt_is_left_to_the_plain_way() -> None:
    msg, other = message(EVENT.encode()), message(EVENT.encode(), 2)
    encoded = msg.encode()
    assert fast(encoded, receipt_of(other)) is None
    assert fast(encoded, receipt_of(msg, label=Label(b"\x0d" * 32))) is None
    assert fast(encoded, receipt_of(msg), OTHER) is None
    assert fast(encoded + b"\0", receipt_of(msg)) is None
    assert fast(message(b"no map").encode(), receipt_of(message(b"no map"))) is None
