"""A log that tells lies, each of one kind, to see which check names it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from hub.crypto.signing import SigningKey
from hub.types import Label, LeafHash, ManifestId, MmrRoot, StreamSeq, UnixSeconds
from hub.wire.msg import Msg
from hub.wire.proof import ConsistencyProof, MmrProof
from hub.wire.receipt import Receipt
from spark_jobs.sources import Entry, HubFiles, OpenLog

AT = 4  # the entry that is lied about


@dataclass(frozen=True, kw_only=True)
class LyingFiles:
    """A data directory read through a lie; it travels to the tasks as its name."""

    data_dir: Path
    lie: str

    def open(self) -> OpenLog:
        return _LyingLog(HubFiles(data_dir=self.data_dir).open(), LIES[self.lie])


class _LyingLog:
    def __init__(self, honest: OpenLog, lie: Callable[[list[Entry]], list[Entry]]) -> None:
        self._honest = honest
        self._lie = lie

    def head(self, label: Label) -> bytes | None:
        return self._honest.head(label)

    def receipt(self, label: Label, seq: int) -> bytes:
        return self._honest.receipt(label, seq)

    def first_held(self, label: Label) -> int:
        return self._honest.first_held(label)

    def proof(self, label: Label, seq: int, size: int) -> MmrProof:
        return self._honest.proof(label, seq, size)

    def consistency(self, label: Label, from_size: int, to_size: int) -> ConsistencyProof:
        return self._honest.consistency(label, from_size, to_size)

    def blocks(self, label: Label, first: int, last: int) -> Iterator[list[Entry]]:
        for block in self._honest.blocks(label, first, last):
            yield self._lie(block)

    def rotations(self) -> list[bytes]:
        return self._honest.rotations()

    def manifest(self, manifest_id: ManifestId) -> bytes:
        return self._honest.manifest(manifest_id)

    def close(self) -> None:
        self._honest.close()


def _changed(
    block: list[Entry], change: Callable[[Receipt, Msg], tuple[bytes, bytes]]
) -> list[Entry]:
    receipt, msg = block[AT]
    return [*block[:AT], change(Receipt.decode(receipt), Msg.decode(msg)), *block[AT + 1 :]]


def _another_msg(receipt: Receipt, msg: Msg) -> tuple[bytes, bytes]:
    """A genuine receipt beside another payload."""
    other = Msg.sign(
        SigningKey.generate(),
        profile_id=msg.profile_id,
        label=msg.label,
        client_seq=msg.client_seq,
        prev_ack=0,
        auth_ref=None,
        ciphertext=msg.ciphertext,
    )
    return receipt.encode(), other.encode()


def _forged_pair(receipt: Receipt, msg: Msg) -> tuple[bytes, bytes]:
    """Another payload with a receipt made for it, signed by nobody we know."""
    data = Msg.decode(_another_msg(receipt, msg)[1])
    forged = Receipt.sign(
        SigningKey.generate(),
        receipt.label,
        StreamSeq(receipt.stream_seq),
        LeafHash(data.leaf_hash()),
        MmrRoot(receipt.mmr_root),
        UnixSeconds(receipt.hub_ts),
    )
    return forged.encode(), data.encode()


LIES: dict[str, Callable[[list[Entry]], list[Entry]]] = {
    "another message": lambda block: _changed(block, _another_msg),
    "a forged pair": lambda block: _changed(block, _forged_pair),
    "a changed ciphertext": lambda block: _changed(
        block,
        lambda receipt, msg: (
            receipt.encode(),
            replace(msg, ciphertext=msg.ciphertext[:-1] + b"\x01").encode(),
        ),
    ),
    "another root": lambda block: _changed(
        block,
        lambda receipt, msg: (replace(receipt, mmr_root=MmrRoot(bytes(32))).encode(), msg.encode()),
    ),
    "time that goes back": lambda block: _changed(
        block,
        lambda receipt, msg: (
            replace(receipt, hub_ts=UnixSeconds(receipt.hub_ts - 1)).encode(),
            msg.encode(),
        ),
    ),
    "two entries swapped": lambda block: [
        *block[:AT],
        block[AT + 1],
        block[AT],
        *block[AT + 2 :],
    ],
    "an entry left out": lambda block: [*block[:AT], *block[AT + 1 :]],
    "an entry twice": lambda block: [*block[:AT], block[AT], *block[AT:]],
    "a cut end": lambda block: block[:-1],
    "no RECEIPT": lambda block: [*block[:AT], (b"", block[AT][1]), *block[AT + 1 :]],
    "no MSG": lambda block: [*block[:AT], (block[AT][0], b"\xff"), *block[AT + 1 :]],
}
