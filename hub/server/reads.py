"""The read routes, served by HTTP workers straight from the files [interfaces, Hub]."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from time import perf_counter

from hub.errors import ErrorCode, VeenError
from hub.limits import Limits
from hub.server.answers import CBOR, CBOR_SEQ
from hub.server.http import Response
from hub.server.metrics import HubMetrics
from hub.server.params import Params
from hub.server.tokens import ReadToken
from hub.storage import attachments, framedfile, manifests
from hub.storage.reader import LogReader
from hub.types import Hash, Label, ManifestId
from hub.wire.checkpoint import Checkpoint

Route = Callable[[Params, ReadToken], Response]
_CHUNK_BYTES = 256 * 1024


class Reads:
    """All reads of one worker; every one positions in O(log n)."""

    def __init__(self, reader: LogReader, limits: Limits, metrics: HubMetrics) -> None:
        self._reader = reader
        self._limits = limits
        self._metrics = metrics
        self.routes: dict[str, Route] = {
            "/stream": self.stream,
            "/receipt": self.receipt,
            "/proof": self.proof,
            "/consistency": self.consistency,
            "/range_proof": self.range_proof,
            "/head": self.head,
            "/checkpoint_latest": self.checkpoint_latest,
            "/checkpoint": self.checkpoint,
            "/checkpoint_range": self.checkpoint_range,
            "/manifest_latest": self.manifest_latest,
            "/manifest": self.manifest,
        }

    def _size(self, label: Label) -> int:
        size = self._reader.count(label)
        if size == 0:
            raise VeenError(ErrorCode.NOTFOUND, "no such label")
        return size

    def stream(self, params: Params, token: ReadToken) -> Response:
        """A range of entries, with proofs against one size on request."""
        label = params.label()
        token.check(label)
        first = params.uint("from")
        last, limit, upto = params.uint("to"), params.uint("limit"), params.uint("upto")
        with_proof = params.flag("with_proof")
        params.end()
        head = self._size(label)
        size = head if upto is None else upto
        first = 1 if first is None else first
        if size < 1 or size > head or first < 1 or (last is not None and last > size):
            raise VeenError(ErrorCode.FORMAT, f"range is outside 1..{min(max(size, 0), head)}")
        # Whoever follows the log asks from behind its end; a range written backwards is a flaw.
        if (size + 1 if last is None else last) < first:
            raise VeenError(ErrorCode.FORMAT, "to is before from")
        last = size if last is None else last
        limit = self._limits.stream_limit_default if limit is None else limit
        stop = min(last, first + max(1, min(limit, self._limits.stream_limit_max)) - 1)
        headers = self._root_headers(label, size)
        if stop < last:
            query = f"label={label.hex()}&from={stop + 1}&to={last}&limit={limit}"
            query += f"&with_proof={int(with_proof)}&upto={size}"
            headers += (("Link", f'</stream?{query}>; rel="next"'),)
        items = self._items(label, first, stop, size if with_proof else 0)
        return self._chunked(items, CBOR_SEQ, headers)

    def _items(self, label: Label, first: int, last: int, size: int) -> Iterator[bytes]:
        for seq in range(first, last + 1):
            receipt, msg = self._reader.entry(label, seq)
            if size:
                yield b"\x83" + receipt + msg + self._reader.prove(label, seq, size).encode()
            else:
                yield b"\x82" + receipt + msg

    @staticmethod
    def _chunked(
        items: Iterator[bytes], content_type: str, headers: tuple[tuple[str, str], ...]
    ) -> Response:
        """The first chunk is read before the head is sent, so that its refusals are answers."""
        first = _chunk(items)
        if len(first) < _CHUNK_BYTES:
            return Response(200, first, content_type, headers)

        async def rest() -> AsyncIterator[bytes]:
            chunk = first
            while chunk:
                yield chunk
                chunk = _chunk(items)

        return Response(200, rest(), content_type, headers)

    def _root_headers(self, label: Label, size: int) -> tuple[tuple[str, str], ...]:
        root = self._reader.root_at(label, size)
        return (("Veen-Mmr-Size", str(size)), ("Veen-Mmr-Root", root.hex()))

    def receipt(self, params: Params, token: ReadToken) -> Response:
        """A RECEIPT by place; by leaf_hash the writer answers."""
        label = params.label()
        token.check(label)
        seq = params.need("seq")
        params.end()
        self._in_log(label, seq)
        return Response(200, self._reader.receipt(label, seq), CBOR)

    def head(self, params: Params, token: ReadToken) -> Response:
        """The newest RECEIPT."""
        label = params.label()
        token.check(label)
        params.end()
        return Response(200, self._reader.receipt(label, self._size(label)), CBOR)

    def _in_log(self, label: Label, seq: int) -> int:
        size = self._size(label)
        if not 1 <= seq <= size:
            raise VeenError(ErrorCode.NOTFOUND, f"the label has sequences 1 to {size}")
        return size

    def proof(self, params: Params, token: ReadToken) -> Response:
        """Inclusion of one entry under the root of any later size."""
        started = perf_counter()
        label = params.label()
        token.check(label)
        seq, size = params.need("seq"), params.uint("size")
        params.end()
        head = self._in_log(label, seq)
        size = head if size is None else size
        if not seq <= size <= head:
            raise VeenError(ErrorCode.FORMAT, f"size is outside {seq}..{head}")
        proof = self._reader.prove(label, seq, size).encode()
        headers = self._root_headers(label, size)
        self._metrics.proof_latency.observe((perf_counter() - started) * 1000)
        return Response(200, proof, CBOR, headers)

    def consistency(self, params: Params, token: ReadToken) -> Response:
        """One size of the log is a prefix of another."""
        label = params.label()
        token.check(label)
        old, new = params.need("from_size"), params.need("to_size")
        params.end()
        head = self._size(label)
        if not 1 <= old <= new <= head:
            raise VeenError(ErrorCode.FORMAT, f"sizes must be ordered within 1..{head}")
        proof = self._reader.prove_consistency(label, old, new)
        return Response(200, proof.encode(), CBOR, self._root_headers(label, new))

    def range_proof(self, params: Params, token: ReadToken) -> Response:
        """A range of leaves is exactly that of the log."""
        label = params.label()
        token.check(label)
        first, last, size = params.need("from"), params.need("to"), params.uint("size")
        params.end()
        head = self._size(label)
        size = head if size is None else size
        if not 1 <= first <= last <= size <= head:
            raise VeenError(ErrorCode.FORMAT, f"range must be ordered within 1..{head}")
        proof = self._reader.prove_range(label, first, last, size)
        return Response(200, proof.encode(), CBOR, self._root_headers(label, size))

    def checkpoint_latest(self, params: Params, token: ReadToken) -> Response:
        """The newest CHECKPOINT of a label."""
        label = params.label()
        token.check(label)
        params.end()
        count = self._reader.checkpoint_count(label)
        if count == 0:
            raise VeenError(ErrorCode.NOTFOUND, "no checkpoint of this label yet")
        return Response(200, self._reader.checkpoint(label, count - 1)[1], CBOR)

    def checkpoint(self, params: Params, token: ReadToken) -> Response:
        """The CHECKPOINT at one sequence."""
        label = params.label()
        token.check(label)
        upto_seq = params.need("upto_seq")
        params.end()
        wire = self._reader.checkpoint_at(label, upto_seq)
        if wire is None:
            raise VeenError(ErrorCode.NOTFOUND, "no checkpoint at this sequence")
        return Response(200, wire, CBOR)

    def checkpoint_range(self, params: Params, token: ReadToken) -> Response:
        """CHECKPOINTs of an epoch range, by label then upto_seq.

        A listing goes on at number `at` of `from_label`: a label's CHECKPOINTs are only added to,
        so pages neither repeat nor leave out what was there when it began.
        """
        low, high = params.need("epoch_min"), params.need("epoch_max")
        wanted, limit = params.hash("label"), params.uint("limit")
        from_label, at = params.hash("from_label") or b"", params.uint("at") or 0
        params.end()
        if low > high:
            raise VeenError(ErrorCode.FORMAT, "epoch_min is over epoch_max")
        if wanted is not None:
            token.check(Label(wanted))
            labels = [Label(wanted)]
        else:
            labels = token.labels_of(self._reader)
        limit = self._limits.stream_limit_default if limit is None else limit
        limit = max(1, min(limit, self._limits.stream_limit_max))
        labels = [label for label in labels if label >= from_label]
        skip = at if labels and labels[0] == from_label else 0
        found, place = self._checkpoints(labels, low, high, skip, limit)
        headers: tuple[tuple[str, str], ...] = ()
        if place is not None:
            query = f"epoch_min={low}&epoch_max={high}&limit={limit}"
            query += f"&from_label={place[0].hex()}&at={place[1]}"
            query += f"&label={wanted.hex()}" if wanted is not None else ""
            headers = (("Link", f'</checkpoint_range?{query}>; rel="next"'),)
        return Response(200, b"".join(found), CBOR_SEQ, headers)

    def _checkpoints(
        self, labels: list[Label], low: int, high: int, skip: int, limit: int
    ) -> tuple[list[bytes], tuple[Label, int] | None]:
        """Up to `limit` CHECKPOINTs, from number `skip` of the first label, and where to go on."""
        found: list[bytes] = []
        for label in labels:
            count = self._reader.checkpoint_count(label)
            if count and low <= self._epoch_of(label) <= high:
                for number in range(skip, count):
                    if len(found) == limit:
                        return found, (label, number)
                    found.append(self._reader.checkpoint(label, number)[1])
            skip = 0
        return found, None

    def _epoch_of(self, label: Label) -> int:
        """A label has one epoch for ever, so its first CHECKPOINT tells that of all."""
        return Checkpoint.decode(self._reader.checkpoint(label, 0)[1]).epoch

    def manifest_latest(self, params: Params, _token: ReadToken) -> Response:
        """The newest signed checkpoint manifest."""
        params.end()
        newest = manifests.latest_id(self._reader.layout)
        if newest is None:
            raise VeenError(ErrorCode.NOTFOUND, "no manifest yet")
        return self._manifest(newest)

    def manifest(self, params: Params, _token: ReadToken) -> Response:
        """A manifest by its id."""
        wanted = params.hash("id")
        params.end()
        if wanted is None:
            raise VeenError(ErrorCode.FORMAT, "id is missing")
        return self._manifest(ManifestId(wanted))

    def _manifest(self, manifest_id: ManifestId) -> Response:
        data = manifests.read(self._reader.layout, manifest_id)
        if data is None:
            raise VeenError(ErrorCode.NOTFOUND, "no such manifest")
        return Response(200, data, CBOR)

    def rotations(self) -> Response:
        """Every rotation and fork record; no token is needed."""
        return Response(200, b"".join(framedfile.read_all(self._reader.layout.rotations)), CBOR_SEQ)

    def attachment(self, coid: Hash, token: ReadToken) -> Response:
        """A sealed attachment; needs a token for all streams."""
        token.check_all()
        data = attachments.read(self._reader.layout, coid)
        return Response(200, data, "application/octet-stream")


def _chunk(items: Iterator[bytes]) -> bytes:
    parts: list[bytes] = []
    size = 0
    for item in items:
        parts.append(item)
        size += len(item)
        if size >= _CHUNK_BYTES:
            break
    return b"".join(parts)
