"""What the fuzzer aims at: every decoder, and two with a planted bug that it must find [C8]."""

from __future__ import annotations

from typing import Final

import cbor2

from hub.admission.authority import AdmissionState
from hub.client.heads import LabelHead
from hub.client.http import refusal_of
from hub.errors import WireError
from hub.selftest.checks import require
from hub.selftest.kinds import Kind, record_kinds, wire_kinds
from hub.selftest.specimens import ISSUER, T, capability, message, receipt
from hub.server.http_head import parse_target
from hub.storage import frames
from hub.storage.spine import Spine
from hub.streamitem import StreamItem
from hub.wire import cbor, ciphertext
from hub.wire.profile import PRODUCT

# Shapes that broke decoders elsewhere: depth, claimed lengths, repeats, other spellings.
CBOR_BOMBS: Final = (
    b"\x81" * 2000 + b"\x00",
    b"\xa1\x61a" * 1000 + b"\x00",
    b"\x9a\xff\xff\xff\xff",
    b"\xba\xff\xff\xff\xff",
    b"\x5b\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x7b\x7f\xff\xff\xff\xff\xff\xff\xff",
    b"\x9b\x00\x00\x00\x01\x00\x00\x00\x00",
    b"\xa2\x01\x00\x01\x00",
    b"\xa2\x61a\x00\x61a\x01",
    b"\x9f\x9f\x9f\xff\xff\xff",
    b"\xc1" * 500 + b"\x00",
    b"\x99\x10\x00" + b"\x80" * 4096,
    b"\x82" * 15 + b"\x00" * 16,
)


def targets() -> list[Kind]:
    """At least one for each door through which foreign bytes come in."""
    return [*wire_kinds(), *record_kinds(), *_cbor_targets(), *_edge_targets()]


def _cbor_targets() -> list[Kind]:
    mixed: dict[str, cbor.Value] = {"a": [1, -2, b"\x00", "text", True, None], "b": {"c": {}}}
    nested: list[cbor.Value] = ["ü", [], [[[[[]]]]], -(2**64)]
    values: tuple[cbor.Value, ...] = (
        mixed,
        {1: 24, 2: 256, 3: 65_536, 4: 2**32, 5: 2**64 - 1},
        nested,
    )
    seeds = tuple(cbor.encode(value) for value in values)
    return [
        Kind(
            name="cbor",
            seeds=seeds + CBOR_BOMBS,
            decode=_decode_twice,
            encode=cbor.encode,
        ),
        Kind(
            name="cbor_sequence",
            seeds=(b"".join(seeds), seeds[0] * 3, *CBOR_BOMBS),
            decode=lambda data: cbor.split_sequence(data, items_max=1024),
            encode=b"".join,
        ),
    ]


def _decode_twice(data: bytes) -> cbor.Value:
    """What ours accepts, a general decoder reads as the same value."""
    value = cbor.decode(data)
    require(cbor2.loads(data) == value, "cbor2 reads another value")
    return value


def _split_whole(data: bytes) -> ciphertext.Parts:
    """Padding may be longer than needed; besides zeros nothing may be left over."""
    parts = ciphertext.split(data, PRODUCT.pad_block)
    joined = ciphertext.join(parts.enc, parts.hdr_ct, parts.body_ct, 0)
    padded = joined + bytes(len(data) - len(joined))
    require(data == padded, "something but zeros is left over")
    return parts


def _edge_targets() -> list[Kind]:
    msg, signed, token = message(), receipt(), capability(2)
    item = b"\x82" + signed.encode() + msg.encode()
    spine = Spine.of(msg, len(msg.encode()))
    log = b"".join(
        (
            frames.frame(frames.MSG, msg.encode()),
            frames.frame(frames.RECEIPT, signed.encode()),
            frames.commit(1, 1),
        )
    )
    state = AdmissionState({ISSUER.public})
    return [
        Kind(
            name="ciphertext",
            seeds=(msg.ciphertext, message(body=bytes(700)).ciphertext),
            decode=_split_whole,
        ),
        Kind(
            name="frames",
            seeds=(log, log * 2),
            decode=lambda data: list(frames.scan(data, 0, "fuzz")),
            encode=lambda found: b"".join(frames.frame(one.kind, one.payload) for one in found),
        ),
        Kind(
            name="spine",
            seeds=(spine.encode(),),
            decode=Spine.decode,
            encode=lambda found: found.encode(),
        ),
        Kind(name="stream_item", seeds=(item,), decode=StreamItem.decode),
        Kind(
            name="authorize",
            seeds=(token.encode(), capability(8).encode()),
            decode=lambda data: state.authorize(data, T),
        ),
        Kind(
            name="error_answer",
            seeds=(cbor.encode({"code": "E.SEQ", "detail": "next=1 ack=0 head=0"}),),
            decode=lambda data: refusal_of(409, data),
        ),
        Kind(
            name="client_head",
            seeds=(LabelHead.of_prefix(signed, [bytes(32)]).encode(),),
            decode=LabelHead.decode,
            encode=lambda head: head.encode(),
        ),
        Kind(
            name="request_target",
            seeds=(b"/stream?label=00ff&from=1", b"http://hub/receipt?seq=7", b"/%2e%2e/x"),
            decode=parse_target,
        ),
    ]


def canaries() -> list[Kind]:
    """Decoders with a planted bug each; a fuzzer that does not find them proves nothing."""
    seed = (cbor.encode([1, b"0123456789", "text"]),)

    def trusts_a_length(data: bytes) -> object:
        value = cbor.decode(data)
        if data[2:3] == b"\x4b":  # a byte string one longer than the seed's
            return data[len(data)]
        return value

    def ignores_the_rest(data: bytes) -> object:
        reader = cbor.Reader(data)
        return reader.any()

    def allocates_what_is_claimed(data: bytes) -> object:
        if data[1:2] == b"\x1a":
            return b"x" * min(int.from_bytes(data[2:6], "big"), 2**28)
        raise WireError("not four bytes of length")

    return [
        Kind(name="canary-crash", seeds=seed, decode=trusts_a_length),
        Kind(name="canary-spelling", seeds=seed, decode=ignores_the_rest, encode=cbor.encode),
        Kind(
            name="canary-memory",
            seeds=(b"\x81\x1a\x00\x00\x10\x00",),
            decode=allocates_what_is_claimed,
        ),
    ]
