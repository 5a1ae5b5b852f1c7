"""Signed messages for a load, and the ceiling: the crypto alone [interfaces, Benchmarks]."""

from __future__ import annotations

import os
from collections.abc import Iterator
from time import perf_counter

from hub import mmr
from hub.crypto.hashing import h
from hub.crypto.signing import SigningKey
from hub.types import ClientSeq, Label, StreamSeq, UnixSeconds
from hub.wire import ciphertext
from hub.wire.msg import Msg
from hub.wire.profile import PRODUCT
from hub.wire.receipt import Receipt

CIPHERTEXT_BYTES = 512  # a message of about 800 bytes, as the ceiling of the guide has
_OVERHEAD = 40


def label_of(name: str) -> Label:
    """A label of the benchmark's own."""
    return Label(h(b"veen-bench/" + name.encode()))


def messages(count: int, *, label: Label, clients: int) -> Iterator[bytes]:
    """Messages of several clients in turn, each in order.

    With more clients than connections no two messages of one client are under way at once, so a
    load generator may send them over any connection. The hub cannot tell sealed bytes from random
    ones, and does not pay for the sealing.
    """
    keys = [SigningKey.generate() for _ in range(clients)]
    body = bytes(CIPHERTEXT_BYTES - _OVERHEAD - 48)
    for number in range(count):
        sealed = ciphertext.join(os.urandom(32), os.urandom(48), body, PRODUCT.pad_block)
        msg = Msg.sign(
            keys[number % clients],
            profile_id=PRODUCT.id,
            label=label,
            client_seq=ClientSeq(number // clients + 1),
            prev_ack=0,
            auth_ref=None,
            ciphertext=sealed,
        )
        yield msg.encode()


def ceiling_per_s(count: int) -> float:
    """Verify, append and sign in memory, one process, one thread."""
    label = label_of("ceiling")
    decoded = [Msg.decode(data) for data in messages(count, label=label, clients=16)]
    key = SigningKey.generate()
    peaks: list[bytes] = []
    started = perf_counter()
    for size, msg in enumerate(decoded):
        msg.check_ct_hash()
        msg.verify()
        leaf = msg.leaf_hash()
        mmr.append(peaks, size, leaf)
        Receipt.encode_signed(
            key, label, StreamSeq(size + 1), leaf, mmr.root(peaks), UnixSeconds(1_700_000_000)
        )
    return count / (perf_counter() - started)
