"""I1 to I13, one by one: each holds for what is accepted, each violation is refused [SSOT 7]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256

from hub import mmr
from hub.authoring import open_message
from hub.client.http import Call
from hub.errors import ErrorCode
from hub.limits import DEFAULT as LIMITS
from hub.selftest.checks import Checks, require
from hub.selftest.ground import Ground
from hub.selftest.invariants_time import i7, i12, i13
from hub.selftest.prober import Prober
from hub.types import Hash, ProfileId
from hub.verify import Evidence, Pins, verify_evidence
from hub.wire import ciphertext
from hub.wire.profile import PRODUCT, Profile


def check_invariants(checks: Checks, ground: Ground) -> None:
    """All thirteen, each in a section of its own."""
    parts: dict[str, Callable[[Checks, Ground], None]] = {
        "I1": i1, "I2": i2, "I3": i3, "I4": i4, "I5": i5, "I6": i6, "I7": i7,
        "I8": i8, "I9": i9, "I10": i10, "I11": i11, "I12": i12, "I13": i13,
    }  # fmt: skip
    for name, part in parts.items():
        checks.section(name, lambda part=part: part(checks, ground))  # type: ignore[misc]


def i1(checks: Checks, ground: Ground) -> None:
    """H(ciphertext) = ct_hash."""
    prober = ground.prober("i1")
    checks.need("an accepted message has ct_hash = H(ciphertext)", lambda: _take_i1(prober))
    wrong = Hash(sha256(b"another ciphertext").digest())
    checks.refused(
        "a signed message with another ct_hash",
        ErrorCode.FORMAT,
        lambda: prober.send(prober.resigned(ct_hash=wrong)),
    )


def _take_i1(prober: Prober) -> None:
    prober.take(prober.draft(b"i1"))
    msg, _ = prober.accepted[-1]
    require(sha256(msg.ciphertext).digest() == msg.ct_hash, "ct_hash differs")


def i2(checks: Checks, ground: Ground) -> None:
    """leaf_hash = Ht("veen/leaf", label || profile_id || ct_hash || client_id || client_seq)."""
    prober = ground.prober("i2")
    checks.need("leaf_hash of the receipt is recomputed from the message", lambda: _leaves(prober))
    (one, _), (_, other) = prober.accepted
    evidence = Evidence(receipt=other.encode(), msg=one.encode())
    pins = Pins(active=frozenset(ground.client.chain.keys))
    checks.refused(
        "a genuine receipt beside another message",
        ErrorCode.PROOF,
        lambda: verify_evidence(evidence, pins).require(),
    )


def _leaves(prober: Prober) -> None:
    for body in (b"one", b"two"):
        prober.take(prober.draft(body))
    for msg, receipt in prober.accepted:
        parts = msg.label + msg.profile_id + msg.ct_hash + msg.client_id
        leaf = sha256(b"veen/leaf\x00" + parts + msg.client_seq.to_bytes(8, "big")).digest()
        require(leaf == receipt.leaf_hash, f"sequence {receipt.stream_seq} has another leaf")


def i3(checks: Checks, ground: Ground) -> None:
    """mmr_root is that of the MMR after appending leaf_hash at stream_seq."""
    prober = ground.prober("i3")
    checks.need("mmr_root is recomputed from all leaves, for 11 sizes", lambda: _roots(prober))
    (_, first), (_, last) = prober.accepted[0], prober.accepted[-1]
    proof, size, root = ground.client.proof(prober.label, first.stream_seq)
    checks.hold(
        "the hub's proof holds at its place under the signed root",
        lambda: proof.verify(
            stream_seq=first.stream_seq, mmr_size=last.stream_seq, root=last.mmr_root
        ),
    )
    checks.refused(
        "the same proof for another place",
        ErrorCode.PROOF,
        lambda: proof.verify(stream_seq=first.stream_seq + 1, mmr_size=size, root=root),
    )
    checks.refused(
        "a receipt with another root",
        ErrorCode.SIG,
        lambda: replace(last, mmr_root=first.mmr_root).verify(ground.client.chain.current),
    )


def _roots(prober: Prober) -> None:
    peaks: list[bytes] = []
    for number in range(11):
        receipt = prober.take(prober.draft(b"%d" % number))
        require(receipt.stream_seq == number + 1, f"stream_seq {receipt.stream_seq}")
        mmr.append(peaks, number, receipt.leaf_hash)
        require(mmr.root(peaks) == receipt.mmr_root, f"root at {receipt.stream_seq}")


def i4(checks: Checks, ground: Ground) -> None:
    """profile_id is supported."""
    prober = ground.prober("i4")
    checks.need("a message of the product profile is accepted", lambda: prober.take(prober.draft()))
    unknown = ProfileId(sha256(b"no such profile").digest())
    checks.refused(
        "a profile_id nobody knows",
        ErrorCode.PROFILE,
        lambda: prober.send(prober.resigned(profile_id=unknown)),
    )
    other = Profile(epoch_sec=7, pad_block=64)
    checks.refused(
        "a well-formed profile that is not configured",
        ErrorCode.PROFILE,
        lambda: prober.send(prober.draft(profile=other)),
    )


def i5(checks: Checks, ground: Ground) -> None:
    """att_root, where there is one, is the root over the attachments in their order."""
    prober = ground.prober("i5")
    plain = (b"first attachment", b"second attachment", b"third attachment")
    authored = prober.author(b"with attachments", attachments=plain)
    stored = [
        ground.client.put_attachment(one.sealed, key=prober.key, auth_ref=prober.auth_ref)
        for one in authored.attachments
    ]
    prober.take(authored.msg_bytes)
    opened = open_message(authored.msg, profile=PRODUCT, secret=ground.reader)
    checks.hold("att_root covers the stored coids", lambda: opened.check_attachments(stored))
    checks.hold(
        "each attachment opens to what was sealed",
        lambda: require(
            plain
            == tuple(
                opened.open_attachment(place, ground.client.attachment(coid))
                for place, coid in enumerate(stored)
            ),
            "another plaintext",
        ),
    )
    checks.refused(
        "two attachments in the wrong order",
        ErrorCode.FORMAT,
        lambda: opened.check_attachments([stored[1], stored[0], stored[2]]),
    )
    checks.refused(
        "one attachment left out", ErrorCode.FORMAT, lambda: opened.check_attachments(stored[:2])
    )
    checks.refused(
        "bytes that do not have the coid they are stored under",
        ErrorCode.FORMAT,
        lambda: ground.client.http.call(
            Call(
                method="PUT",
                path=f"/attachment/{stored[0].hex()}",
                body=b"other bytes",
                content_type="application/octet-stream",
            )
        ),
    )


def i6(checks: Checks, ground: Ground) -> None:
    """prev_ack is at most the last stream_seq of the label."""
    prober = ground.prober("i6")

    def rise() -> None:
        for number in range(3):
            prober.take(prober.draft(prev_ack=number))

    checks.need("prev_ack up to the head is accepted", rise)
    checks.refused(
        "prev_ack one beyond the head",
        ErrorCode.SEQ,
        lambda: prober.send(prober.draft(prev_ack=prober.head + 1)),
    )
    checks.refused(
        "prev_ack that goes back", ErrorCode.SEQ, lambda: prober.send(prober.draft(prev_ack=0))
    )


def i8(checks: Checks, ground: Ground) -> None:
    """(label, client_id, client_seq) is unique."""
    prober = ground.prober("i8")
    data = prober.draft(b"once")
    receipt = checks.need("a first message is accepted", lambda: prober.take(data))
    checks.refused("the same bytes again", ErrorCode.DUP, lambda: prober.send(data))
    checks.hold(
        "its receipt is found by leaf_hash, as it was signed",
        lambda: require(
            ground.client.receipt_by_leaf(receipt.leaf_hash) == receipt, "another receipt"
        ),
    )
    checks.refused(
        "other content under the same client_seq",
        ErrorCode.SEQ,
        lambda: prober.send(prober.draft(b"other", client_seq=1)),
    )


def i9(checks: Checks, ground: Ground) -> None:
    """client_seq rises by exactly one."""
    prober = ground.prober("i9")

    def first_refused() -> None:
        prober.send(prober.draft(client_seq=2))

    checks.refused("a first message that is not number 1", ErrorCode.SEQ, first_refused)
    checks.need("1, 2, 3 are accepted", lambda: [prober.take(prober.draft()) for _ in range(3)])
    checks.refused(
        "a gap", ErrorCode.SEQ, lambda: prober.send(prober.draft(client_seq=prober.seq + 2))
    )
    checks.refused("number 0", ErrorCode.SEQ, lambda: prober.send(prober.draft(client_seq=0)))
    checks.hold("the order of one client does not bind another", lambda: _second_client(ground))


def _second_client(ground: Ground) -> None:
    other = ground.prober("i9")
    require(other.take(other.draft()).stream_seq == 4, "not the fourth of the label")


def i10(checks: Checks, ground: Ground) -> None:
    """Deterministic CBOR: one value has one spelling."""
    prober = ground.prober("i10")
    good = prober.draft(b"spelling")
    seq_at = 4 + 32 + 2 + 32 + 2 + 32  # array head, ver, profile_id, label, client_id
    spellings = {
        "client_seq in two bytes": good[:seq_at] + b"\x18" + good[seq_at:],
        "an array of indefinite length": b"\x9f" + good[1:] + b"\xff",
        "an array head that is not minimal": b"\x98\x0a" + good[1:],
        "a trailing byte": good + b"\x00",
        "a tag around it": b"\xd9\xd9\xf7" + good,
        "ver as a float": good[:1] + b"\xf9\x3c\x00" + good[2:],
        "undefined instead of client_seq": good[:seq_at] + b"\xf7" + good[seq_at + 1 :],
        "the last byte missing": good[:-1],
    }
    for name, data in spellings.items():
        checks.refused(name, ErrorCode.FORMAT, lambda data=data: prober.send(data))  # type: ignore[misc]
    checks.hold("the canonical spelling is accepted", lambda: prober.take(good))


def i11(checks: Checks, ground: Ground) -> None:
    """Size limits, at the limit and one beyond it."""
    prober = ground.prober("i11")
    block = PRODUCT.pad_block
    # A MSG adds less than one block to its ciphertext, so the largest has one block to spare.
    largest = LIMITS.msg_bytes_max // block * block - block
    full = ciphertext.join(bytes(32), b"h" * 16, bytes(largest - 40 - 16), block)
    checks.hold("the largest message is accepted", lambda: prober.take(prober.sealed(full)))
    checks.refused(
        "a message one block larger",
        ErrorCode.SIZE,
        lambda: prober.send(prober.sealed(full + bytes(block))),
    )
    header = ciphertext.join(bytes(32), bytes(LIMITS.hdr_bytes_max + 1), b"b" * 16, block)
    checks.refused(
        "a header one byte too long", ErrorCode.SIZE, lambda: prober.send(prober.sealed(header))
    )
    claim = bytes(36) + (LIMITS.body_bytes_max + 1).to_bytes(4, "big")
    padded = claim + bytes(-len(claim) % block)
    checks.refused(
        "a body that claims one byte too many",
        ErrorCode.SIZE,
        lambda: prober.send(prober.sealed(padded)),
    )
    _attachment_limits(checks, ground, prober)


def _attachment_limits(checks: Checks, ground: Ground, prober: Prober) -> None:
    def put(size: int) -> None:
        ground.client.put_attachment(bytes(size), key=prober.key, auth_ref=prober.auth_ref)

    top = LIMITS.attachment_bytes_max
    checks.hold("the largest attachment is accepted", lambda: put(top))
    checks.refused("an attachment one byte larger", ErrorCode.SIZE, lambda: put(top + 1))
    many = [b""] * (LIMITS.attachments_per_msg_max + 1)
    checks.refused(
        "more attachments than a message may have",
        ErrorCode.SIZE,
        lambda: prober.author(b"", attachments=many),
    )
