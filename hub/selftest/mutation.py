"""How valid bytes are turned into almost valid ones [C8].

Half of the mutations know CBOR: they cut at the borders of items, so that a mutant passes the
outer checks and fails, or does not, deep inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from hub.errors import WireError
from hub.types import UINT64_MAX
from hub.wire import cbor

SIZE_MAX: Final = 1 << 16
# Heads with a meaning: empty and indefinite containers, longest claims, null, tags, floats.
_HEADS: Final = bytes.fromhex(
    "00 17 18 19 1a 1b 1c 20 40 58 5b 5f 60 78 7f 80 9b 9f a0 bf c1 f4 f6 f7 f9 fb ff"
)

Mutation = Callable[[bytes, Random, Sequence[bytes]], bytes]


def spans(data: bytes) -> list[tuple[int, int]]:
    """(start, end) of every item, nested ones included; none where the bytes are no CBOR."""
    found: list[tuple[int, int]] = []
    try:
        pending = [(0, cbor.skip(data, 0, depth=32))]
        while pending and len(found) < 512:
            start, end = pending.pop()
            found.append((start, end))
            inside = start + _head_bytes(data[start])
            if data[start] >> 5 in (cbor.ARRAY, cbor.MAP):
                while inside < end:
                    after = cbor.skip(data, inside, depth=32)
                    pending.append((inside, after))
                    inside = after
    except WireError:
        return []
    return found


def _head_bytes(first: int) -> int:
    info = first & 31
    return 1 if info < 24 else 1 + (1 << (info - 24))


def _flip(data: bytes, rng: Random, _: Sequence[bytes]) -> bytes:
    changed = bytearray(data)
    for _number in range(rng.choice((1, 1, 1, 2, 4))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _overwrite(data: bytes, rng: Random, _: Sequence[bytes]) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + bytes((rng.choice(_HEADS),)) + data[at + 1 :]


def _truncate(data: bytes, rng: Random, _: Sequence[bytes]) -> bytes:
    return data[: rng.randrange(len(data))]


def _insert(data: bytes, rng: Random, _: Sequence[bytes]) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(rng.choice((1, 1, 2, 8, 40))) + data[at:]


def _delete(data: bytes, rng: Random, _: Sequence[bytes]) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.choice((1, 1, 2, 33)) :]


def _repeat(data: bytes, rng: Random, _: Sequence[bytes]) -> bytes:
    at = rng.randrange(len(data))
    piece = data[at : at + rng.choice((1, 2, 16, 34, 200))]
    return data[:at] + piece * rng.choice((2, 2, 3, 30)) + data[at + len(piece) :]


def _splice(data: bytes, rng: Random, others: Sequence[bytes]) -> bytes:
    other = rng.choice(others)
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def _length(data: bytes, rng: Random, _: Sequence[bytes]) -> bytes:
    """Another claim in the head of an item, its content unchanged."""
    found = spans(data)
    if not found:
        return _overwrite(data, rng, ())
    start, _end = rng.choice(found)
    major, width = data[start] >> 5, _head_bytes(data[start])
    number = rng.choice((0, 1, 23, 24, 255, 256, 2**16, 2**31, 2**32 - 1, 2**63, 2**64 - 1))
    if rng.random() < 0.5:
        claimed = int.from_bytes(data[start + 1 : start + width], "big") or data[start] & 31
        number = min(max(0, claimed + rng.choice((-1, 1))), UINT64_MAX)
    return data[:start] + cbor.head(major, number) + data[start + width :]


def _widen(data: bytes, rng: Random, _: Sequence[bytes]) -> bytes:
    """The same number in a longer head than it needs."""
    found = spans(data)
    if not found:
        return _insert(data, rng, ())
    start, _end = rng.choice(found)
    width = _head_bytes(data[start])
    number = data[start] & 31
    if width > 1:
        number = int.from_bytes(data[start + 1 : start + width], "big")
    wide = rng.choice((1, 2, 4, 8))
    if number >= 1 << (8 * wide):
        wide = 8
    head = bytes(((data[start] & 0xE0) | (23 + wide.bit_length()),)) + number.to_bytes(wide, "big")
    return data[:start] + head + data[start + width :]


def _item(data: bytes, rng: Random, others: Sequence[bytes]) -> bytes:
    """An item repeated, dropped, or in the place of another."""
    found = spans(data)
    if not found:
        return _splice(data, rng, others)
    start, end = rng.choice(found)
    action = rng.randrange(3)
    if action == 0:
        return data[:end] + data[start:end] + data[end:]
    if action == 1:
        return data[:start] + data[end:]
    donor = rng.choice(others)
    pieces = spans(donor) or [(0, len(donor))]
    left, right = rng.choice(pieces)
    return data[:start] + donor[left:right] + data[end:]


MUTATIONS: Final[tuple[Mutation, ...]] = (
    _flip, _flip, _overwrite, _truncate, _insert, _delete, _repeat, _splice, _length, _length,
    _widen, _item, _item,
)  # fmt: skip


def mutate(data: bytes, rng: Random, others: Sequence[bytes]) -> bytes:
    """One to three changes; never empty for long, never over the size limit."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if not data:
            return rng.randbytes(8)
        data = rng.choice(MUTATIONS)(data, rng, others)[:SIZE_MAX]
    return data
