from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.authoring import (
    Authored,
    Numbered,
    author,
    author_all,
    open_disclosed,
    open_message,
)
from hub.crypto import aead, hpke
from hub.crypto.hpke import DhSecret
from hub.errors import ErrorCode, VeenError, WireError
from hub.limits import Limits
from hub.types import AuthRef, ClientSeq, DhKey, Hash, Label, LeafHash
from hub.wire import attachment, ciphertext
from hub.wire.msg import Msg
from hub.wire.payload import PayloadHeader
from hub.wire.profile import DEFAULT_PROFILES, PRODUCT, Profile
from tests.support import vectors
from tests.support.strategies import flipped_bits
from tests.support.vectors import unhex
from tests.support.wire_objects import author_vector, dh_secret, signing_key

READER = dh_secret("receiver_dh")
CLIENT = signing_key("client")
CAP = AuthRef(bytes([7]) * 32)
HEADER = PayloadHeader(schema=Hash(bytes(32)))


def _author(**changed: Any) -> Authored:
    arguments: dict[str, Any] = {
        "key": CLIENT,
        "profile": PRODUCT,
        "label": Label(bytes(32)),
        "client_seq": ClientSeq(1),
        "prev_ack": 0,
        "auth_ref": CAP,
        "reader_pk": READER.public,
        "header": HEADER,
        "body": b"body",
    }
    return author(**(arguments | changed))


def _author_carelessly(header: bytes, body_key: bytes | None = None) -> Msg:
    """A MSG of somebody who checks nothing before sealing and signing."""
    template = _author().msg
    context = hpke.seal_setup(READER.public)
    key = context.export(b"veen/body-k") if body_key is None else body_key
    joined = ciphertext.join(
        context.enc,
        context.seal(header, template.aad()),
        aead.seal(key, template.body_nonce(), b"body", template.aad()),
        PRODUCT.pad_block,
    )
    return dataclasses.replace(template, ciphertext=joined)


def _profile(letter: str) -> Profile:
    return Profile(epoch_sec=0, pad_block=vectors.message(letter)["inputs"]["pad_block"])


@pytest.mark.parametrize("letter", ["A", "B"])
def test_the_messages_of_the_vectors_byte_for_byte(letter: str) -> None:
    vector = vectors.message(letter)
    authored = author_vector(letter)
    assert authored.msg_bytes == unhex(vector["msg_cbor"])
    assert authored.msg == Msg.decode(authored.msg_bytes)
    assert authored.leaf_hash == unhex(vector["derived"]["leaf_hash"])
    assert authored.attachments == ()


@pytest.mark.parametrize("letter", ["A", "B"])
def test_the_messages_of_the_vectors_open(letter: str) -> None:
    vector = vectors.message(letter)
    msg = Msg.decode(unhex(vector["msg_cbor"]))
    opened = open_message(msg, profile=_profile(letter), secret=READER.secret)
    assert opened.header.encode() == unhex(vector["inputs"]["payload_hdr_cbor"])
    assert opened.body == unhex(vector["inputs"]["body"])
    assert opened.shared_secret == unhex(vector["derived"]["hpke_shared_secret"])
    assert not opened.cap_mismatch


@given(
    st.binary(max_size=600),
    st.lists(st.binary(max_size=60), max_size=4),
    st.sampled_from(DEFAULT_PROFILES),
)
def test_what_was_authored_opens(body: bytes, attachments: list[bytes], profile: Profile) -> None:
    authored = _author(body=body, attachments=attachments, profile=profile)
    authored.msg.verify()
    opened = open_message(Msg.decode(authored.msg_bytes), profile=profile, secret=READER)
    assert opened.body == body
    assert dataclasses.replace(opened.header, att_root=None) == HEADER
    assert (opened.header.att_root is None) is (not attachments)
    opened.check_attachments([one.coid for one in authored.attachments])
    for index, one in enumerate(authored.attachments):
        assert attachment.coid(one.sealed) == one.coid
        assert opened.open_attachment(index, one.sealed) == attachments[index]
        nonce = attachment.att_nonce(authored.msg.aad(), index)
        assert aead.open_(opened.att_key(index), nonce, one.sealed, b"") == attachments[index]


def test_many_authored_at_once_are_what_each_would_be_alone() -> None:
    """The same rules and bytes but for the HPKE contexts, of which no two are alike."""
    other = DhSecret.generate()
    items = [
        Numbered(
            label=Label(bytes([number % 2]) * 32),
            client_seq=ClientSeq(number + 1),
            prev_ack=number,
            auth_ref=None if number % 3 else CAP,
            reader_pk=(READER, other)[number % 2].public,
            header=HEADER,
            body=b"%d" % number * 50,
            attachments=[b"attached"] * (number % 4),
            profile=DEFAULT_PROFILES[number % len(DEFAULT_PROFILES)],
        )
        for number in range(12)
    ]
    made = author_all(CLIENT, items)
    assert len({one.msg.ciphertext[:32] for one in made}) == len(items)
    for number, (item, one) in enumerate(zip(items, made, strict=True)):
        msg = Msg.decode(one.msg_bytes)
        msg.verify()
        msg.check_ct_hash()
        assert (one.msg, one.leaf_hash) == (msg, msg.leaf_hash())
        alone = author(key=CLIENT, **item._asdict()).msg
        sealed = dataclasses.replace(alone, ct_hash=msg.ct_hash, ciphertext=msg.ciphertext)
        assert dataclasses.replace(sealed, sig=msg.sig) == msg
        secret = (READER, other)[number % 2]
        opened = open_message(msg, profile=item.profile, secret=secret)
        assert opened.body == item.body
        opened.check_attachments([one.coid for one in one.attachments])


def test_one_that_may_not_be_authored_spoils_the_whole() -> None:
    good = Numbered(Label(bytes(32)), ClientSeq(1), 0, CAP, READER.public, HEADER, b"")
    mismatched = dataclasses.replace(HEADER, cap_ref=AuthRef(bytes(32)))
    for bad in (good._replace(header=mismatched), good._replace(reader_pk=DhKey(bytes(32)))):
        with pytest.raises(VeenError):
            author_all(CLIENT, [good, bad])


def test_another_set_or_order_of_attachments_is_refused() -> None:
    authored = _author(attachments=[b"one", b"two"])
    opened = open_message(authored.msg, profile=PRODUCT, secret=READER)
    coids = [one.coid for one in authored.attachments]
    for other in ([], coids[:1], coids[::-1], [*coids, coids[0]]):
        with pytest.raises(WireError, match="att_root"):
            opened.check_attachments(other)


def test_the_same_event_authored_twice_shares_no_secret() -> None:
    first, second = _author(attachments=[b"x"]), _author(attachments=[b"x"])
    assert first.leaf_hash != second.leaf_hash
    assert first.msg.ciphertext[:32] != second.msg.ciphertext[:32]
    assert first.attachments[0].coid != second.attachments[0].coid
    secrets = {
        open_message(one.msg, profile=PRODUCT, secret=READER).shared_secret
        for one in (first, second)
    }
    assert len(secrets) == 2


def test_every_flipped_bit_of_the_ciphertext_is_refused_when_opened() -> None:
    msg = _author(attachments=[b"x"]).msg
    for changed in flipped_bits(msg.ciphertext):
        with pytest.raises(WireError):
            open_message(
                dataclasses.replace(msg, ciphertext=changed), profile=PRODUCT, secret=READER
            )


@pytest.mark.parametrize(
    "change",
    [
        {"label": Label(bytes([1]) * 32)},
        {"client_id": signing_key("client2").public},
        {"client_seq": ClientSeq(2)},
        {"prev_ack": 1},
        {"auth_ref": None},
        {"auth_ref": AuthRef(bytes(32))},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_ciphertext_moved_to_another_msg_does_not_open(change: dict[str, Any]) -> None:
    with pytest.raises(WireError, match="does not open"):
        open_message(dataclasses.replace(_author().msg, **change), profile=PRODUCT, secret=READER)


def test_the_keys_of_a_stream_are_tried_newest_first() -> None:
    others = [DhSecret.generate() for _ in range(2)]
    msg = _author().msg
    assert open_message(msg, profile=PRODUCT, secret=[*others, READER]).body == b"body"
    assert open_message(msg, profile=PRODUCT, secret=(READER.secret, others[0])).body == b"body"
    for secrets in (others, [], others[0], others[0].secret):
        with pytest.raises(WireError, match="does not open"):
            open_message(msg, profile=PRODUCT, secret=secrets)


def test_a_disclosed_shared_secret_opens_its_message_and_no_other() -> None:
    first, second = _author(attachments=[b"x"]), _author()
    secret = open_message(first.msg, profile=PRODUCT, secret=READER).shared_secret
    opened = open_disclosed(first.msg, profile=PRODUCT, shared_secret=secret)
    assert opened.body == b"body"
    assert opened.open_attachment(0, first.attachments[0].sealed) == b"x"
    with pytest.raises(WireError, match="does not open"):
        open_disclosed(second.msg, profile=PRODUCT, shared_secret=secret)


def test_a_message_of_another_profile_is_refused() -> None:
    msg, unpadded = _author().msg, DEFAULT_PROFILES[0]
    with pytest.raises(VeenError) as refusal:
        open_message(msg, profile=unpadded, secret=READER)
    assert refusal.value.code is ErrorCode.PROFILE
    with pytest.raises(VeenError) as refusal:
        open_disclosed(msg, profile=unpadded, shared_secret=bytes(32))
    assert refusal.value.code is ErrorCode.PROFILE


@pytest.mark.parametrize("auth_ref", [None, AuthRef(bytes(32))])
def test_a_cap_ref_that_is_not_the_auth_ref_is_not_authored(auth_ref: AuthRef | None) -> None:
    header = dataclasses.replace(HEADER, cap_ref=CAP)
    assert _author(header=header).msg.auth_ref == CAP
    with pytest.raises(VeenError) as refusal:
        _author(header=header, auth_ref=auth_ref)
    assert refusal.value.code is ErrorCode.CAP


def test_a_cap_mismatch_of_another_author_is_marked_and_not_hidden() -> None:
    header = dataclasses.replace(HEADER, cap_ref=AuthRef(bytes([8]) * 32))
    msg = _author_carelessly(header.encode())
    assert open_message(msg, profile=PRODUCT, secret=READER).cap_mismatch


def test_att_root_cannot_be_given() -> None:
    with pytest.raises(WireError, match="att_root"):
        _author(header=dataclasses.replace(HEADER, att_root=Hash(bytes(32))))


@pytest.mark.parametrize(
    ("limits", "changed"),
    [
        pytest.param(Limits(body_bytes_max=20), {"body": bytes(5)}, id="body"),
        pytest.param(Limits(hdr_bytes_max=51), {}, id="header"),
        pytest.param(Limits(msg_bytes_max=498), {}, id="message"),
        pytest.param(Limits(attachments_per_msg_max=1), {"attachments": [b"", b""]}, id="count"),
        pytest.param(Limits(attachment_bytes_max=16), {"attachments": [b"x"]}, id="attachment"),
    ],
)
def test_what_a_hub_would_refuse_for_its_size_is_not_authored(
    limits: Limits, changed: dict[str, Any]
) -> None:
    with pytest.raises(VeenError) as refusal:
        _author(limits=limits, **changed)
    assert refusal.value.code is ErrorCode.SIZE


def test_sizes_at_their_limits_are_authored() -> None:
    exact = len(_author(attachments=[b""]).msg_bytes)
    limits = Limits(
        body_bytes_max=20,
        msg_bytes_max=exact,
        attachments_per_msg_max=1,
        attachment_bytes_max=16,
    )
    assert len(_author(limits=limits, attachments=[b""]).msg_bytes) == exact


def test_a_reader_key_that_is_no_key_is_refused() -> None:
    with pytest.raises(WireError):
        _author(reader_pk=DhKey(bytes(32)))


@pytest.mark.parametrize("header", [b"", b"\xa0", HEADER.encode() + b"\x00"])
def test_a_sealed_header_that_is_not_canonical_is_refused(header: bytes) -> None:
    with pytest.raises(WireError):
        open_message(_author_carelessly(header), profile=PRODUCT, secret=READER)


def test_a_header_that_opens_beside_a_body_that_does_not_is_refused() -> None:
    msg = _author_carelessly(HEADER.encode(), body_key=bytes(32))
    with pytest.raises(WireError, match="does not open"):
        open_message(msg, profile=PRODUCT, secret=READER)


def test_a_log_line_of_an_opened_message_shows_no_plaintext() -> None:
    header = dataclasses.replace(HEADER, parent_id=LeafHash(bytes([3]) * 32))
    opened = open_message(
        _author(header=header, body=b"patient 4711").msg, profile=PRODUCT, secret=READER
    )
    assert "4711" not in repr(opened)
    assert "context" not in repr(opened)
