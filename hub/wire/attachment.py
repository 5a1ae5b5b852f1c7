"""Attachments: sealed beside a MSG and bound to it by att_root [SSOT 4.6]."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from hub.crypto import aead, hashing
from hub.crypto.hashing import u64be
from hub.types import Hash


class Exporter(Protocol):
    """The HPKE context of the MSG, at either end."""

    def export(self, context: bytes, length: int = 32) -> bytes:
        """A secret bound to the context and to the name given."""


def att_key(context: Exporter, index: int) -> bytes:
    """The key of attachment `index`, counted from 0."""
    return context.export(b"veen/att-k" + u64be(index))


def att_nonce(aad: bytes, index: int) -> bytes:
    """The nonce, from the MSG's aad.

    The text names msg_id, but msg_id covers att_root, which covers this nonce (wire.md, Errata).
    """
    return hashing.ATT_NONCE(aad, u64be(index))[:24]


def seal(context: Exporter, aad: bytes, index: int, plaintext: bytes) -> bytes:
    """Attachment `index`, sealed with empty associated data."""
    return aead.seal(att_key(context, index), att_nonce(aad, index), plaintext, b"")


def open_(context: Exporter, aad: bytes, index: int, sealed: bytes) -> bytes:
    """The plaintext of attachment `index`, or E.FORMAT."""
    return aead.open_(att_key(context, index), att_nonce(aad, index), sealed, b"")


def coid(sealed: bytes) -> Hash:
    """The content id under which a hub keeps the sealed bytes."""
    return Hash(hashing.h(sealed))


def att_root(coids: Iterable[Hash]) -> Hash:
    """Ht("veen/att-root", concat(peaks by increasing height)), also for a single peak."""
    peaks: list[tuple[int, bytes]] = []  # (height, hash), highest first
    for leaf in coids:
        height, node = 0, bytes(leaf)
        while peaks and peaks[-1][0] == height:
            node = hashing.ATT_NODE(peaks.pop()[1], node)
            height += 1
        peaks.append((height, node))
    return Hash(hashing.ATT_ROOT(*(node for _, node in reversed(peaks))))
