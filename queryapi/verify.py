"""A saved answer checked offline: its digest, its evidence, and its rows from the events [Query 5].

Integrity: descriptor, rows and evidence are the bytes that digest and result_id cover. Binding: the
evidence is about these rows, sampled as the descriptor says. With the events of the coverage the
whole answer is computed again, and with a pinned hub key each of their receipts is checked, also
where the key was rotated since (`rotations.json`, saved beside the answer).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final

from hub import canonical_json, mmr
from hub.canonical_json import JsonError, Value
from hub.errors import ErrorCode, ProofError, VeenError, WireError
from hub.types import MmrRoot, PublicKey
from hub.verify_report import Report, Verdict
from hub.wire.receipt import Receipt
from queryapi.client import DEPTH, DESCRIPTOR, DIGEST, EVIDENCE, ROWS, encode_row
from queryapi.contract.descriptor import Descriptor, Mode
from queryapi.contract.descriptor_reader import read_recorded
from queryapi.contract.digest import ResultDigest
from queryapi.contract.evaluate import evaluate
from queryapi.contract.evidence import Sampler, summary_bytes
from queryapi.contract.rows import RowShape, rows_hash
from queryapi.replayed import read_events
from queryapi.signers import Signers
from recorder.projection import Row

_BLOCK: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """The files of one answer."""

    folder: Path
    descriptor: Descriptor
    digest: ResultDigest


def verify_saved(
    folder: Path,
    *,
    events: Iterable[tuple[Row, bytes]] | None = None,
    events_file: Path | None = None,
    hub_pk: PublicKey | None,
) -> Report:
    """Every check that these files allow; `events` are rows of the log with their RECEIPTs."""
    report = Report("query result")
    saved = _open(report, folder)
    if saved is None:
        return report
    digest, descriptor = saved.digest, saved.descriptor
    report.check(
        Verdict.BINDING, "the digest is of this descriptor", lambda: _check_ids(descriptor, digest)
    )
    report.check(Verdict.INTEGRITY, "rows_hash covers the rows", lambda: _check_rows(folder, saved))
    report.check(
        Verdict.INTEGRITY,
        "evidence_hash covers the evidence",
        lambda: _check_hash(folder / EVIDENCE, digest.evidence_hash),
    )
    report.check(
        Verdict.BINDING,
        f"the evidence is what mode {descriptor.evidence.mode} asks for, about these rows",
        lambda: _check_evidence(folder, saved),
    )
    if events_file is not None:
        assert descriptor.coverage is not None
        hub_ids = {part.stream: part.hub_id for part in descriptor.coverage}
        events = read_events(events_file, hub_ids)
    if events is not None:
        reading: Callable[[], list[tuple[Row, bytes]]] = partial(list, events)
        given = report.check(Verdict.INTEGRITY, "the events are well-formed", reading)
        if given is not None:
            _check_events(report, saved, given, hub_pk)
    return report


def _open(report: Report, folder: Path) -> Saved | None:
    def read() -> Saved:
        descriptor = read_recorded(_bytes(folder / DESCRIPTOR))
        digest = ResultDigest.decode(canonical_json.parse(_bytes(folder / DIGEST)))
        return Saved(folder=folder, descriptor=descriptor, digest=digest)

    return report.check(Verdict.INTEGRITY, "descriptor and digest are in their only spelling", read)


def _bytes(path: Path) -> bytes:
    """A file of the answer; one that is not there is a check that fails."""
    try:
        return path.read_bytes()
    except OSError as missing:
        detail = f"{path.name}: {missing.strerror}"
        raise VeenError(ErrorCode.NOTFOUND, detail) from missing


def _check_ids(descriptor: Descriptor, digest: ResultDigest) -> None:
    if digest.result_id != descriptor.result_id:
        raise ProofError("result_id does not follow from the descriptor")
    if digest.query_id != descriptor.query_id:
        raise ProofError("query_id is another one")
    if digest.evidence_policy != descriptor.evidence:
        raise ProofError("evidence_policy is not what was asked for")


def _check_hash(path: Path, expected: str) -> None:
    context = sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                context.update(block)
    except OSError as missing:
        detail = f"{path.name}: {missing.strerror}"
        raise VeenError(ErrorCode.NOTFOUND, detail) from missing
    if context.hexdigest() != expected:
        raise ProofError(f"{path.name} has the hash {context.hexdigest()}, not {expected}")


def _check_rows(folder: Path, saved: Saved) -> None:
    _check_hash(folder / ROWS, saved.digest.rows_hash)
    rows = _rows(folder)
    if len(rows) != saved.digest.row_count:
        raise ProofError(f"{len(rows)} rows, not {saved.digest.row_count}")
    names = set(RowShape.of(saved.descriptor).names)
    for number, row in enumerate(rows):
        if row.keys() != names:
            raise ProofError(f"row {number} has other keys than were asked for")
    if rows_hash(map(encode_row, rows)) != saved.digest.rows_hash:
        raise ProofError("the rows are not in canonical form")


def _rows(folder: Path) -> list[dict[str, Value]]:
    try:
        # Sums have no bound, so what was hashed may hold numbers that no event could.
        data = _bytes(folder / ROWS)
        found = canonical_json.parse(data, depth_max=DEPTH, is_bounded=False)
    except JsonError as flaw:
        raise WireError(f"{ROWS}: {flaw}") from flaw
    if not isinstance(found, list):
        raise WireError(f"{ROWS} is not a list")
    rows = [row for row in found if isinstance(row, dict)]
    if len(rows) != len(found):
        raise WireError(f"{ROWS} holds what is no row")
    return rows


def _check_evidence(folder: Path, saved: Saved) -> None:
    """The summary is the descriptor's, its entries exactly the sampled rows, in order."""
    descriptor = saved.descriptor
    data = _bytes(folder / EVIDENCE)
    found = canonical_json.parse(data)
    if not isinstance(found, dict):
        raise WireError("the evidence is no object")
    verified = found.get("verified", [])
    if not isinstance(verified, list):
        raise WireError("verified is no list")
    entries = [canonical_json.encode(one) for one in verified]
    if summary_bytes(descriptor, entries) != data:
        raise ProofError("the summary is not that of this descriptor and coverage")
    sampler = Sampler(descriptor)
    expected = [row for row in range(saved.digest.row_count) if sampler.takes(row)]
    numbers = [one.get("row") for one in verified if isinstance(one, dict)]
    if numbers != expected:
        raise ProofError("the entries are not those of the rows that are sampled")
    if descriptor.evidence.mode is not Mode.NONE and descriptor.aggregate is None:
        _check_receipts(_rows(folder), verified)


def _check_receipts(rows: list[dict[str, Value]], verified: list[Value]) -> None:
    """Where rows name their event, the entry names the same."""
    shared = {"receipt_id": "receipt_id", "stream": "stream", "hub_commit_seq": "seq"}
    for entry in verified:
        number = entry.get("row") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(number, int) or number >= len(rows):
            raise ProofError("an entry is about no row")
        for field, name in shared.items():
            if field in rows[number] and rows[number][field] != entry.get(name):
                raise ProofError(f"row {number} is about another event than its evidence")


def _check_events(
    report: Report,
    saved: Saved,
    events: list[tuple[Row, bytes]],
    hub_pk: PublicKey | None,
) -> None:
    rows = [row for row, _ in events]
    told = report.check(
        Verdict.COMPLETENESS,
        "the events fold to the roots of the coverage",
        lambda: _check_fold(saved.descriptor, rows),
    )
    if told:
        report.note(_pruned_note(told, is_pinned=hub_pk is not None))
    if hub_pk is not None:
        report.check(
            Verdict.INTEGRITY,
            "every event's receipt is signed by the pinned key",
            lambda: _check_signed(saved, events, hub_pk),
        )
    report.check(
        Verdict.CONSISTENCY,
        "computed again from the events, the answer is the same",
        lambda: _check_again(saved, rows),
    )


def _check_fold(descriptor: Descriptor, rows: list[Row]) -> list[str]:
    """The streams whose start was pruned, of which only the end and the places are compared."""
    assert descriptor.coverage is not None
    by_stream: dict[str, dict[int, Row]] = {}
    for row in rows:
        by_stream.setdefault(row.stream, {})[row.hub_commit_seq] = row
    pruned = []
    for part in descriptor.coverage:
        held = by_stream.get(part.stream, {})
        for seq in range(part.from_seq, part.to_seq + 1):
            if seq not in held:
                raise ProofError(f"{part.stream} {seq} is missing")
        if part.from_seq > 1 and part.to_seq:
            pruned.append(part.stream)
            is_root = part.from_seq > part.to_seq or held[part.to_seq].mmr_root == part.mmr_root
        else:
            peaks = list[bytes]()
            for seq in range(1, part.to_seq + 1):
                mmr.append(peaks, seq - 1, held[seq].leaf_hash)
            is_root = not part.to_seq or MmrRoot(mmr.root(peaks)) == part.mmr_root
        if not is_root:
            raise ProofError(f"{part.stream}: the events do not fold to the root")
    return pruned


def _pruned_note(streams: list[str], *, is_pinned: bool) -> str:
    names = ", ".join(streams)
    rest = "the signed receipts say so" if is_pinned else "only --hub-pk shows that it is theirs"
    return f"{names}: its start was pruned; every event is there and the last has the root, {rest}"


def _check_signed(saved: Saved, events: list[tuple[Row, bytes]], hub_pk: PublicKey) -> None:
    signers = Signers.read(saved.folder, hub_pk)
    assert saved.descriptor.coverage is not None
    labels = {part.stream: part.label for part in saved.descriptor.coverage}
    for row, data in events:
        receipt = Receipt.decode(data)
        where = f"{row.stream} {row.hub_commit_seq}"
        try:
            signers.check(receipt)
        except VeenError as refusal:
            raise ProofError(f"{where}: {refusal.detail}", refusal.code) from refusal
        said = (receipt.stream_seq, receipt.leaf_hash, receipt.mmr_root, receipt.hub_ts * 1000)
        if said != (row.hub_commit_seq, row.leaf_hash, row.mmr_root, row.hub_commit_time):
            raise ProofError(f"{where}: the receipt is of another event")
        if receipt.label != labels.get(row.stream, receipt.label):
            raise ProofError(f"{where}: the receipt is of another stream")


def _check_again(saved: Saved, rows: list[Row]) -> None:
    answer = evaluate(saved.descriptor, rows)
    digest = saved.digest
    pairs: Iterator[tuple[str, object, object]] = iter(
        (
            ("unreadable_count", digest.unreadable_count, answer.unreadable_count),
            ("row_count", digest.row_count, len(answer.rows)),
            ("rows_hash", digest.rows_hash, answer.rows_hash),
            ("evidence_hash", digest.evidence_hash, answer.evidence_hash),
        )
    )
    for name, theirs, ours in pairs:
        if theirs != ours:
            raise ProofError(f"{name} is {ours} from these events, not {theirs}")
