"""One event verified: signatures, binding, and every field opened again [architecture, Verified].

    (1) the RECEIPT is of this place and signed by a key of the log
    (2) MSG.sig holds
    (3) ct_hash and leaf follow from the MSG bytes, and the RECEIPT is of this leaf
    (4) the MSG, opened again, gives every column of the lake's row, shredded paths included

Inclusion under the signed root is the fold's work: it takes the leaves from the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from hub.crypto.hpke import DhSecret
from hub.errors import ProofError, VeenError
from hub.types import HubId, Label, PublicKey
from hub.wire.msg import Msg
from hub.wire.receipt import Receipt
from queryapi.contract.codes import QueryCode, QueryError, failed_at
from recorder.lake.columns import fields_table, path_column
from recorder.lake.shred import shred
from recorder.projection import Fields, fields_beside
from spark_jobs.chunk import StreamSecret
from spark_jobs.query_batch import Batch
from spark_jobs.query_damage import UNREAD, broken
from spark_jobs.query_plan import Chunk

_PROOF_COLUMNS: Final = ("msg", "receipt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """What a task needs to judge the events of one stream."""

    stream: str
    label: Label
    hub_id: HubId
    hub_keys: tuple[PublicKey, ...]  # newest first
    secrets: tuple[StreamSecret, ...]

    def opened(self, chunk: Chunk) -> list[DhSecret]:
        """The keys that made the rows; a later one would open what they rightly call sealed."""
        tried = [one for one in self.secrets if one.key_id in chunk.key_ids]
        missing = set(chunk.key_ids) - {one.key_id for one in tried}
        if missing:
            keys = ", ".join(map(str, sorted(missing)))
            message = f"{self.stream} was opened with reader keys {keys}, which are not at hand"
            raise QueryError(QueryCode.EXECUTION_FAILED, message)
        return [DhSecret(one.secret) for one in tried]


class EventChecker:
    """Verifies rows of one chunk against its proofs file."""

    def __init__(self, witness: Witness, chunk: Chunk) -> None:
        self._witness = witness
        self._chunk = chunk
        self._secrets = witness.opened(chunk)

    def verify(self, batch: Batch, *, is_signed: bool) -> None:
        """Raise evidence_failed at the first row that the log does not bear out.

        Without `is_signed` steps (1) and (2) are left out: the events are opened again, no more.
        """
        if not batch.rows:
            return
        seqs = batch.seqs()
        fields: list[Fields] = []
        for seq, msg_bytes, receipt_bytes in zip(seqs, *self._entries(seqs), strict=True):
            try:
                fields.append(self._judge(seq, msg_bytes, receipt_bytes, is_signed=is_signed))
            except VeenError as refusal:
                raise self._failure(seq, str(refusal.detail)) from refusal
        self._compare(batch, seqs, fields)

    def _judge(
        self, seq: int, msg_bytes: bytes, receipt_bytes: bytes, *, is_signed: bool
    ) -> Fields:
        receipt = Receipt.decode(receipt_bytes)
        if receipt.stream_seq != seq or receipt.label != self._witness.label:
            raise ProofError("the RECEIPT is of another place")  # (1)
        if is_signed:
            check_signer(receipt, self._witness.hub_keys)  # (1)
            Msg.decode(msg_bytes).verify()  # (2)
        return fields_beside(msg_bytes, receipt, self._secrets)  # (3), opens for (4)

    def _entries(self, seqs: Sequence[int]) -> tuple[list[bytes], list[bytes]]:
        """MSG and RECEIPT of these sequences, from the row groups that hold them."""
        try:
            with pq.ParquetFile(self._chunk.proofs_file, memory_map=True) as file:
                table = _rows_at(file, [seq - self._chunk.segment_first for seq in seqs])
            return table["msg"].to_pylist(), table["receipt"].to_pylist()
        except UNREAD as flaw:
            told = broken(self._chunk.proofs_file, flaw).detail
            raise self._failure(seqs[0], f"the proofs cannot be read: {told}") from flaw

    def _compare(self, batch: Batch, seqs: Sequence[int], fields: Sequence[Fields]) -> None:
        truth = fields_table(self._witness.stream, self._witness.hub_id, fields)
        texts = truth["payload_text"].to_pylist()
        columns = {name: truth[name] for name in truth.schema.names}
        paths = sorted(self._chunk.paths)
        columns |= {path_column(path): one for path, one in shred(texts, paths).items()}
        wrong: tuple[int, str] | None = None
        for name, column in columns.items():
            ours = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            held = batch.raw(name)
            if held.equals(ours):
                continue
            pairs = zip(held.to_pylist(), ours.to_pylist(), strict=True)
            position = next((at for at, (one, two) in enumerate(pairs) if one != two), 0)
            wrong = min(wrong or (position, name), (position, name))
        if wrong is not None:
            raise self._failure(seqs[wrong[0]], f"{wrong[1]} in the lake is not what was recorded")

    def _failure(self, seq: int, reason: str) -> QueryError:
        return failed_at(QueryCode.EVIDENCE_FAILED, self._witness.stream, seq, reason)


def _rows_at(file: pq.ParquetFile, positions: Sequence[int]) -> pa.Table:
    """Rows of a file by their places, which rise."""
    groups, starts, start = [], [], 0
    place = 0
    for number in range(file.num_row_groups):
        count = file.metadata.row_group(number).num_rows
        if place < len(positions) and positions[place] < start + count:
            groups.append(number)
            starts.append(start)
            while place < len(positions) and positions[place] < start + count:
                place += 1
        start += count
    if place < len(positions):
        raise IndexError(f"no row {positions[place]}")
    tables, at = [], 0
    for number, first in zip(groups, starts, strict=True):
        count = file.metadata.row_group(number).num_rows
        table = file.read_row_group(number, columns=list(_PROOF_COLUMNS), use_threads=False)
        own = []
        while at < len(positions) and positions[at] < first + count:
            own.append(positions[at] - first)
            at += 1
        tables.append(table.take(pa.array(own, pa.int64())))
    return pa.concat_tables(tables)


def check_signer(receipt: Receipt, keys: Sequence[PublicKey]) -> None:
    """Raise unless a key of the log signed it; how far an ended one reaches, the fold settles."""
    for key in keys:
        try:
            receipt.verify(key)
        except VeenError:
            continue
        return
    raise ProofError("the RECEIPT is signed by no key that is pinned here")
