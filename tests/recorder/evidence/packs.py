"""Evidence packs of a log in memory: plain, after key rotations, opened, and every way broken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Final

from hub import mmr
from hub.authoring import author, open_message
from hub.crypto.hashing import h
from hub.crypto.signing import SigningKey
from hub.label import derive, stream_id
from hub.selftest.specimens import CLIENT, HUB, HUB_2, READER, T
from hub.types import AuthRef, ClientSeq, Hash, Label, MmrRoot, StreamSeq
from hub.wire.checkpoint import Checkpoint
from hub.wire.manifest import Manifest
from hub.wire.msg import Msg
from hub.wire.payload import PayloadHeader
from hub.wire.profile import PRODUCT, Profile
from hub.wire.receipt import Receipt
from hub.wire.rotation import RotationRecord, hub_id_of
from recorder.event import SCHEMA, RecorderEvent, UnixMillis
from recorder.evidence.pack import Pack
from tests.support.memory_log import MemoryLog

ROUTING_KEY: Final = bytes([6]) * 32
STREAM: Final = "record/security/iam"
LABEL: Final = derive(ROUTING_KEY, stream_id(STREAM))
HUB_3: Final = SigningKey(bytes([7]) * 32)
CAP: Final = AuthRef(h(b"a capability"))
PAYLOAD: Final = '{"ip":"192.0.2.7","n":12345678901234567890,"ok":false,"why":"pässword"}'


def event(number: int, payload: str = PAYLOAD) -> RecorderEvent:
    return RecorderEvent(
        subject_id=f"user:{number}",
        event_type="login.failed",
        event_time=UnixMillis(T * 1000 + number),
        origin="api-gateway-1",
        payload=payload,
    )


def message(
    number: int,
    *,
    body: bytes | None = None,
    schema: Hash = SCHEMA,
    cap_ref: AuthRef | None = CAP,
    profile: Profile = PRODUCT,
) -> Msg:
    return (
        author(
            key=CLIENT,
            profile=profile,
            label=LABEL,
            client_seq=ClientSeq(number),
            prev_ack=number - 1,
            auth_ref=CAP,
            reader_pk=READER.public,
            header=PayloadHeader(schema=schema, cap_ref=cap_ref),
            body=event(number).encode() if body is None else body,
            ephemeral=h(b"ephemeral of pack %d" % number),
        ).msg
        if cap_ref in {None, CAP}
        else _mismatched(number, cap_ref)
    )


def _mismatched(number: int, cap_ref: AuthRef) -> Msg:
    """Our own authoring refuses to write this, a foreign one may."""
    from hub.crypto import aead, hpke  # noqa: PLC0415
    from hub.wire import ciphertext  # noqa: PLC0415

    told = message(number)
    context = hpke.seal_setup(READER.public, ephemeral=h(b"mismatched"))
    header = PayloadHeader(schema=SCHEMA, cap_ref=cap_ref).encode()
    sealed = ciphertext.join(
        context.enc,
        context.seal(header, told.aad()),
        aead.seal(
            context.export(b"veen/body-k"), told.body_nonce(), event(number).encode(), told.aad()
        ),
        PRODUCT.pad_block,
    )
    return Msg.sign(
        CLIENT,
        profile_id=PRODUCT.id,
        label=LABEL,
        client_seq=ClientSeq(number),
        prev_ack=number - 1,
        auth_ref=CAP,
        ciphertext=sealed,
    )


def opening(msg: Msg, profile: Profile = PRODUCT) -> bytes:
    return open_message(msg, profile=profile, secret=READER).shared_secret


def checkpoint(key: SigningKey, label: Label, size: int, root: bytes) -> Checkpoint:
    return Checkpoint.sign(
        key,
        label_prev=label,
        label_curr=label,
        upto_seq=StreamSeq(size),
        mmr_root=MmrRoot(root),
    )


def manifest_of(key: SigningKey, size: int, root: bytes, *, others: int = 2) -> Manifest:
    labels = [Label(h(b"another label %d" % number)) for number in range(others)]
    found = [checkpoint(key, one, 9, h(one)) for one in labels]
    return Manifest.sign(
        key,
        profile_id=PRODUCT.id,
        created_at=T,
        checkpoints=[*found, checkpoint(key, LABEL, size, root)],
    )


def make_pack(
    seq: int = 5,
    size: int = 11,
    *,
    msg: Msg | None = None,
    is_open: bool = False,
    keys: tuple[SigningKey, ...] = (HUB,),
    signer: int = 0,
    profile: Profile = PRODUCT,
) -> Pack:
    """Event `seq` of a log of `size`; `keys` hand the log over, the signer's number made both."""
    messages = [message(number) for number in range(1, size + 1)]
    if msg is not None:
        messages[seq - 1] = msg
    log = MemoryLog(one.leaf_hash() for one in messages)
    own, key = messages[seq - 1], keys[signer]
    receipt = Receipt.sign(key, LABEL, StreamSeq(seq), own.leaf_hash(), log.roots[seq], T)
    manifest = manifest_of(key, size, log.roots[size])
    hub_id = hub_id_of(keys[0].public)
    rotations = [
        RotationRecord.sign(
            old,
            new,
            hub_id=hub_id,
            ts=T,
            manifest_id=manifest.id if old is key else manifest_of(old, 3, h(old.public)).id,
        )
        for old, new in pairwise(keys)
    ]
    found = manifest.checkpoint(LABEL)
    assert found is not None
    return Pack(
        hub_id=hub_id,
        stream=STREAM,
        msg=own.encode(),
        receipt=receipt.encode(),
        proof=mmr.prove(seq, size, log.node).encode(),
        checkpoint=found.encode(),
        manifest=manifest.encode(),
        rotations=tuple([one.encode() for one in rotations]),
        opening=opening(own, profile) if is_open else None,
    )


def mutated(pack: Pack) -> Iterator[tuple[str, bytes]]:
    """The pack with each byte of each small field changed, and pieces cut, doubled and swapped."""
    for name in ("receipt", "proof", "checkpoint", "hub_id", "opening"):
        data: bytes | None = getattr(pack, name)
        for at in range(len(data or b"")):
            assert data is not None
            changed = data[:at] + bytes((data[at] ^ (1 << at % 8),)) + data[at + 1 :]
            yield f"{name} {at}", raw_encode(replace(pack, **{name: changed}))  # type: ignore[arg-type]
    for name in ("msg", "manifest"):
        data = getattr(pack, name)
        for at in range(0, len(data), 7):
            changed = data[:at] + bytes((data[at] ^ (1 << at % 8),)) + data[at + 1 :]
            yield f"{name} {at}", raw_encode(replace(pack, **{name: changed}))  # type: ignore[arg-type]
    for number, record in enumerate(pack.rotations):
        for at in range(0, len(record), 3):
            changed = record[:at] + bytes((record[at] ^ (1 << at % 8),)) + record[at + 1 :]
            rows = (*pack.rotations[:number], changed, *pack.rotations[number + 1 :])
            yield f"rotation {number} {at}", raw_encode(replace(pack, rotations=rows))


def raw_encode(pack: Pack) -> bytes:
    """The bytes of a pack that our own encoder would refuse to make."""
    from hub.wire import cbor  # noqa: PLC0415

    fields: dict[str, cbor.Value] = {"format": "veen.evidence", "ver": 1}
    for name in ("hub_id", "stream", "msg", "receipt", "proof", "checkpoint", "manifest"):
        fields[name] = getattr(pack, name)
    fields["rotations"] = list(pack.rotations)
    if pack.opening is not None:
        fields["opening"] = pack.opening
    return cbor.encode(fields)


CHAIN: Final = (HUB, HUB_2, HUB_3)
