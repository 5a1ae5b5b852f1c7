"""What verifies the corpus of the shared vectors: its log in memory and its test keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hub.errors import ErrorCode, VeenError
from hub.types import Label, ManifestId, PublicKey
from hub.wire.proof import ConsistencyProof, MmrProof
from spark_jobs.chunk import StreamPlace, StreamSecret
from spark_jobs.evidence_trust import Means
from spark_jobs.sources import Entry, OpenLog
from tests.support import query_vectors


@dataclass(frozen=True)
class ReceiptsOnly:
    """A log of which only the receipts are asked: nothing was pruned, no key was rotated."""

    receipts: tuple[bytes, ...]

    def open(self) -> OpenLog:
        return self

    def head(self, label: Label) -> bytes | None:
        return self.receipts[-1] if self.receipts else None

    def receipt(self, label: Label, seq: int) -> bytes:
        return self.receipts[seq - 1]

    def first_held(self, label: Label) -> int:
        return 1

    def proof(self, label: Label, seq: int, size: int) -> MmrProof:
        raise VeenError(ErrorCode.NOTFOUND, "no proofs here")

    def consistency(self, label: Label, from_size: int, to_size: int) -> ConsistencyProof:
        raise VeenError(ErrorCode.NOTFOUND, "no proofs here")

    def blocks(self, label: Label, first: int, last: int) -> Iterator[list[Entry]]:
        raise VeenError(ErrorCode.NOTFOUND, "no entries here")

    def rotations(self) -> list[bytes]:
        return []

    def manifest(self, manifest_id: ManifestId) -> bytes:
        raise VeenError(ErrorCode.NOTFOUND, "no manifests here")

    def close(self) -> None:
        pass


def corpus_means(lake: Path) -> Means:
    corpus = query_vectors.load("corpus")
    secret = StreamSecret(key_id=1, secret=bytes.fromhex(corpus["reader_sk"]))
    places = {}
    for stream, coverage in query_vectors.corpus_coverage().items():
        receipts = tuple(receipt for _, receipt in query_vectors.corpus_entries(stream))
        places[stream] = StreamPlace(
            lake=lake,
            stream=stream,
            label=coverage.label,
            hub_id=coverage.hub_id,
            source=ReceiptsOnly(receipts),
            secrets=(secret,),
        )
    return Means(hub_pk=PublicKey(bytes.fromhex(corpus["hub_pk"])), places=places)
