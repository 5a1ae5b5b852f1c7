"""Replay for programs: events as they come, verified by default against a pinned hub key.

    for event in replay(url, token, hub_pk=pinned, streams=["record/app/shop"]):
        print(event.hub_commit_seq, event.payload)

Nothing is trusted on first use: without a pinned key `verify=True` refuses to run. Memory does not
grow with the answer [SDR0 3.2.5; experience 3: SDK].
"""

from __future__ import annotations

import base64
import binascii
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hub import canonical_json
from hub.canonical_json import Value
from hub.errors import ErrorCode, ProofError, VeenError
from hub.types import Label, ManifestId, PublicKey
from hub.verifiers import Verifiers
from hub.verify_report import Pins
from hub.wire.manifest import Manifest
from recorder.codes import RecordCode, RecordError
from recorder.event import UnixMillis, format_time
from recorder.replay_params import ReplayRange
from recorder.replay_verify import Checked, EventLine, Judge, Walk
from recorder.web_client import LINE_BYTES_MAX, WebClient

if TYPE_CHECKING:
    from hub.authoring import ReaderSecret

PATH: Final = "/api/record/replay"
BLOCK_BYTES: Final = 256 * 1024
CHILDREN_MAX: Final = 8
BLOCKS_AHEAD: Final = 2  # for each child
# A short replay is over before a child has started.
FIRST_BLOCKS: Final = 4
_WITHOUT_PROOFS: Final = tuple(
    name for name in EventLine.__struct_fields__ if name not in {"msg", "proof"}
)


class Covered(msgspec.Struct, kw_only=True, frozen=True):
    """Which part of a log was looked at."""

    stream: str
    label: str
    hub_id: str
    from_seq: int
    to_seq: int
    mmr_root: str | None


class End(msgspec.Struct, kw_only=True, frozen=True):
    """The last line: what came before it."""

    count: int
    coverage: tuple[Covered, ...]
    manifest_id: str | None
    unproven: int | None


class _EndLine(msgspec.Struct, kw_only=True):
    end: End


@dataclass(frozen=True, slots=True)
class ReplayedEvent:
    """One event; `is_proven` says that its place under the manifest was checked here."""

    line: EventLine
    is_proven: bool

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the fields of the line
        return getattr(self.line, name)

    @property
    def payload(self) -> Value:
        """The payload with exact numbers."""
        return canonical_json.parse(bytes(self.line.payload))

    def to_json(self, *, with_proofs: bool = True) -> bytes:
        """The line again, every number as it came."""
        names = self.line.__struct_fields__ if with_proofs else _WITHOUT_PROOFS
        return msgspec.json.encode({name: getattr(self.line, name) for name in names})


class Replaying:
    """An iterator over events; `end` is there once they have all come."""

    def __init__(
        self,
        client: WebClient,
        asked: ReplayRange,
        *,
        judge: Judge | None = None,
        walk: Walk | None = None,
        patience_s: float = 0.0,
    ) -> None:
        self._client = client
        self._asked = asked
        self._judge = judge
        self._walk = walk
        self._patience_s = patience_s
        self.end: End | None = None

    @contextmanager
    def _pieces(self) -> Iterator[Iterator[bytes]]:
        """The answer; while the lake is behind it is asked for again, as the server says."""
        deadline = time.monotonic() + self._patience_s
        with ExitStack() as stack:
            while True:
                try:
                    query = query_of(self._asked)
                    pieces = stack.enter_context(self._client.pieces(PATH, query))
                    break
                except RecordError as refusal:
                    wait_s = refusal.retry_after_s or 1
                    is_over = time.monotonic() + wait_s > deadline
                    if refusal.error_code is not RecordCode.LAKE_BEHIND or is_over:
                        raise
                    time.sleep(wait_s)
            yield pieces

    def __iter__(self) -> Iterator[ReplayedEvent]:
        with self._pieces() as pieces:
            if self._judge is None or self._walk is None:
                yield from self._plain(pieces)
            else:
                yield from self._verified(pieces, self._judge, self._walk)

    def _plain(self, pieces: Iterable[bytes]) -> Iterator[ReplayedEvent]:
        count = 0
        for lines in self._blocks(pieces):
            for line in lines:
                count += 1
                yield ReplayedEvent(line, is_proven=False)
        self._check_end(count)

    def _verified(
        self, pieces: Iterable[bytes], judge: Judge, walk: Walk
    ) -> Iterator[ReplayedEvent]:
        blocks = self._blocks(pieces)
        for lines in islice(blocks, FIRST_BLOCKS):
            yield from _in_order(judge.check_all(lines), walk)
        if (more := next(blocks, None)) is not None:
            with Verifiers(min(os.cpu_count() or 1, CHILDREN_MAX)) as verifiers:
                for checked in _ahead(judge, chain((more,), blocks), verifiers):
                    yield from _in_order(checked, walk)
        end = self._check_end(walk.count)
        check_covered(end, self._asked, walk, judge)

    def _blocks(self, pieces: Iterable[bytes]) -> Iterator[list[EventLine]]:
        """Lines by the block, the last of all put aside."""
        for block in _whole_lines(pieces):
            if self.end is not None:
                raise VeenError(ErrorCode.PROTOCOL, "the answer goes on after its end")
            at = 0 if block.startswith(_END_START) else block.find(b"\n" + _END_START) + 1
            if at or block.startswith(_END_START):
                self.end = _decode_end(block[at:])
                block = block[:at]  # noqa: PLW2901 - what is left of it
            if block:
                yield _decode(block)

    def _check_end(self, count: int) -> End:
        if self.end is None:
            raise VeenError(ErrorCode.UNREACHABLE, "the answer was cut: its end is missing")
        if self.end.count != count:
            raise ProofError(f"{count} events came, the end says {self.end.count}")
        return self.end


def replay(
    web_url: str,
    token: str,
    *,
    streams: Sequence[str],
    hub_pk: PublicKey | None = None,
    from_seq: int | None = None,
    to_seq: int | None = None,
    start_ms: UnixMillis | None = None,
    end_ms: UnixMillis | None = None,
    manifest_id: ManifestId | None = None,
    verify: bool = True,
    with_proofs: bool = False,
    labels: Mapping[str, Label] | None = None,
    secrets: Mapping[str, Sequence[ReaderSecret]] | None = None,
    timeout_s: float = 60.0,
    patience_s: float = 0.0,
) -> Replaying:
    """Events of streams by range or window, in order.

    `labels` (of a connection file) bind names to labels; without them that binding is the server's
    word. `secrets` open every message again and compare all fields. For `patience_s` a lake that is
    behind is waited for.
    """
    client = WebClient(web_url, token=token, timeout_s=timeout_s)
    asked = ReplayRange(
        streams=tuple(sorted(set(streams))),
        from_seq=from_seq,
        to_seq=to_seq,
        start_ms=start_ms,
        end_ms=end_ms,
        with_proofs=verify or with_proofs,
        manifest_id=manifest_id,
    )
    if not verify:
        return Replaying(client, asked, patience_s=patience_s)
    if hub_pk is None:
        detail = "no pinned hub key: a replay is verified against one, or asked for unverified"
        raise VeenError(ErrorCode.TRUST, detail)
    manifest, pins, ends = _statements(client, asked.manifest_id, hub_pk)
    judge = Judge(pins=pins, manifest=manifest, secrets=secrets or {})
    # The manifest that was verified is the one to prove against, whatever is newest meanwhile.
    asked = replace(asked, manifest_id=None if manifest is None else manifest.id)
    walk = Walk(asked, judge, labels=labels or {}, ends=ends)
    return Replaying(client, asked, judge=judge, walk=walk, patience_s=patience_s)


def _statements(
    client: WebClient, manifest_id: ManifestId | None, hub_pk: PublicKey
) -> tuple[Manifest | None, Pins, dict[PublicKey, Manifest]]:
    """The manifest to prove against, who may sign, and the ends of superseded keys."""
    try:
        manifest, rotations = _fetch(client, "latest" if manifest_id is None else manifest_id.hex())
    except RecordError as refusal:
        if refusal.error_code is not RecordCode.NOT_FOUND or manifest_id is not None:
            raise
        return None, Pins.of_key(hub_pk), {}  # nothing was checkpointed yet
    pins = Pins.of_key(hub_pk, rotations)
    if manifest_id not in (None, manifest.id):
        raise ProofError("another manifest than the one asked for")
    if manifest.hub_pk not in pins.active and pins.ended.get(manifest.hub_pk) != manifest.id:
        detail = "the manifest is of no key that is pinned here, nor an ended key's last one"
        raise ProofError(detail, ErrorCode.TRUST)
    manifest.verify(manifest.hub_pk)
    ends: dict[PublicKey, Manifest] = {}
    for key, last_id in pins.ended.items():
        assert last_id is not None, "a rotation record names it"
        last = manifest if last_id == manifest.id else _fetch(client, last_id.hex())[0]
        if last.id != last_id:
            raise ProofError("not the manifest that the rotation record names", ErrorCode.TRUST)
        last.verify(key)
        ends[key] = last
    return manifest, pins, ends


def _fetch(client: WebClient, name: str) -> tuple[Manifest, list[bytes]]:
    found = client.get(f"/api/record/manifests/{name}")
    try:
        rotations = [base64.b64decode(one, validate=True) for one in found["rotations"]]
        return Manifest.decode(base64.b64decode(found["manifest"], validate=True)), rotations
    except (KeyError, TypeError, binascii.Error) as flaw:
        raise VeenError(ErrorCode.PROTOCOL, "not an answer with a manifest") from flaw


def query_of(asked: ReplayRange) -> dict[str, str | Sequence[str]]:
    """The query string of a replay."""
    found: dict[str, str | Sequence[str]] = {"stream": asked.streams}
    for name, number in (("from_seq", asked.from_seq), ("to_seq", asked.to_seq)):
        if number is not None:
            found[name] = str(number)
    for name, moment in (("start_time", asked.start_ms), ("end_time", asked.end_ms)):
        if moment is not None:
            found[name] = format_time(moment)
    if asked.with_proofs:
        found["with_proofs"] = "1"
    if asked.manifest_id is not None:
        found["manifest"] = asked.manifest_id.hex()
    return found


def check_covered(end: End, asked: ReplayRange, walk: Walk, judge: Judge) -> None:
    """What the last line claims must fit what was seen."""
    if [one.stream for one in end.coverage] != list(asked.streams):
        raise ProofError("the coverage names other streams than were asked for")
    if end.unproven != walk.unproven:
        raise ProofError(f"{walk.unproven} events had no proof, the end says {end.unproven}")
    manifest_id = None if judge.manifest is None else judge.manifest.id.hex()
    if end.manifest_id != manifest_id:
        raise ProofError("proven against another manifest than was asked for")
    for one in end.coverage:
        _check_reach(one, asked, judge)
        _check_seen(one, asked, walk)


def _check_seen(one: Covered, asked: ReplayRange, walk: Walk) -> None:
    seen = walk.range_of(one.stream)
    if seen is None:
        if not asked.is_window and one.from_seq <= one.to_seq:
            raise ProofError(f"{one.stream}: no event of {one.from_seq}..{one.to_seq} came")
        return
    label, first, last = seen
    if one.label != label.hex():
        raise ProofError(f"{one.stream}: the coverage names another label")
    if not one.from_seq <= first <= last.stream_seq <= one.to_seq:
        raise ProofError(f"{one.stream}: events outside the coverage")
    if last.stream_seq == one.to_seq and one.mmr_root != last.mmr_root.hex():
        raise ProofError(f"{one.stream}: the coverage ends in another root")
    if not asked.is_window and (first, last.stream_seq) != (one.from_seq, one.to_seq):
        raise ProofError(f"{one.stream}: {one.from_seq}..{one.to_seq} did not come whole")


def _check_reach(one: Covered, asked: ReplayRange, judge: Judge) -> None:
    """A log that is said to end before its own checkpoint, or to start before what was asked."""
    try:
        checkpoint = judge.checkpoint(Label(bytes.fromhex(one.label)))
    except ValueError as flaw:
        raise ProofError(f"{one.stream}: the coverage names no label") from flaw
    known = 0 if checkpoint is None else checkpoint.upto_seq
    if one.to_seq < min(known, asked.to_seq or known):
        raise ProofError(f"{one.stream}: said to end at {one.to_seq}, checkpointed at {known}")
    if one.from_seq < (asked.from_seq or 1) or one.to_seq > (asked.to_seq or one.to_seq):
        raise ProofError(f"{one.stream}: the coverage is wider than what was asked for")


def _ahead(
    judge: Judge, blocks: Iterable[list[EventLine]], verifiers: Verifiers
) -> Iterator[list[Checked]]:
    """Checked blocks in order; the signatures of some are verified while others are read."""
    waiting: deque[Callable[[], list[Checked]]] = deque()
    for lines in blocks:
        waiting.append(judge.begin(lines, verifiers.ask))
        if len(waiting) > verifiers.count * BLOCKS_AHEAD:
            yield waiting.popleft()()
    while waiting:
        yield waiting.popleft()()


def _in_order(checked: Iterable[Checked], walk: Walk) -> Iterator[ReplayedEvent]:
    for one in checked:
        walk.take(one)
        yield ReplayedEvent(one.line, is_proven=one.is_proven)


_END_START: Final = b'{"end"'
_LINES: Final = msgspec.json.Decoder(EventLine)
_END: Final = msgspec.json.Decoder(_EndLine)


def _whole_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The bytes again, in blocks that end where a line does."""
    begun: list[bytes] = []
    size = 0
    for piece in pieces:
        begun.append(piece)
        size += len(piece)
        if size < BLOCK_BYTES:
            continue
        end = piece.rfind(b"\n") + 1
        if end:
            begun[-1] = piece[:end]
            yield b"".join(begun)
            begun = [piece[end:]]
            size = len(piece) - end
        elif size > LINE_BYTES_MAX:
            raise VeenError(ErrorCode.PROTOCOL, "a line is longer than any event")
    last = b"".join(begun)
    if last and not last.endswith(b"\n"):
        raise VeenError(ErrorCode.UNREACHABLE, "the answer was cut inside a line")
    if last:
        yield last


def _decode(block: bytes) -> list[EventLine]:
    try:
        return _LINES.decode_lines(block)
    except msgspec.DecodeError as flaw:
        raise VeenError(ErrorCode.PROTOCOL, f"not a line of a replay: {flaw}") from flaw


def _decode_end(line: bytes) -> End:
    try:
        return _END.decode(line).end
    except msgspec.DecodeError as flaw:
        raise VeenError(ErrorCode.PROTOCOL, f"not the end of a replay: {flaw}") from flaw
