"""The shared query vectors: the log they read and every case, in the bytes a client sends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, TypeAlias

from hub.types import HubId, Label, LeafHash, MmrRoot, StreamSeq
from queryapi.contract.coverage import Coverage
from queryapi.contract.descriptor import Descriptor
from queryapi.contract.descriptor_reader import read_submitted
from recorder.event import UnixMillis, parse_time
from recorder.projection import Row, RowError

FOLDER: Final = Path(__file__).parent.parent / "vectors" / "query"
FILES: Final = ("answers", "corpus", "fail", "normalize", "refuse")

Case: TypeAlias = dict[str, Any]


def load(name: str) -> dict[str, Any]:
    """One file as it is."""
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def cases(name: str) -> list[Case]:
    """The cases of a file; `source` is the exact text of `submitted`, numbers as spelled."""
    text = (FOLDER / f"{name}.json").read_text()
    found: list[Case] = load(name)["cases"]
    decoder, start = json.JSONDecoder(), 0
    for case in found:
        start = text.index('"submitted": ', start) + len('"submitted": ')
        _, end = decoder.raw_decode(text, start)
        case["source"] = text[start:end].encode()
    return found


def names(name: str) -> list[str]:
    """For the ids of parametrized tests."""
    return [case["name"] for case in load(name)["cases"]]


def corpus_coverage() -> dict[str, Coverage]:
    """Coverage of every stream of the corpus, by name."""
    return {
        one["stream"]: Coverage(
            stream=one["stream"],
            label=Label(bytes.fromhex(one["label"])),
            hub_id=HubId(bytes.fromhex(one["hub_id"])),
            from_seq=one["from_seq"],
            to_seq=one["to_seq"],
            mmr_root=None if one["mmr_root"] is None else MmrRoot(bytes.fromhex(one["mmr_root"])),
        )
        for one in load("corpus")["coverage"]
    }


def corpus_rows() -> list[Row]:
    """Every event of the corpus as a row of the lake."""
    return [
        Row(
            stream=one["stream"],
            hub_commit_seq=StreamSeq(one["hub_commit_seq"]),
            hub_commit_time=parse_time(one["hub_commit_time"]),
            subject_id=one["subject_id"],
            principal_id=one["principal_id"],
            event_type=one["event_type"],
            event_time=None if one["event_time"] is None else parse_time(one["event_time"]),
            origin=one["origin"],
            payload_text=one["payload_text"],
            error=None if one["error"] is None else RowError(one["error"]),
            receipt_id=one["receipt_id"],
            leaf_hash=LeafHash(bytes.fromhex(one["receipt_id"].removeprefix("rcpt-"))),
            mmr_root=MmrRoot(bytes.fromhex(one["mmr_root"])),
            hub_id=HubId(bytes.fromhex(one["hub_id"])),
        )
        for one in load("corpus")["events"]
    ]


def corpus_entries(stream: str) -> list[tuple[bytes, bytes]]:
    """MSG and RECEIPT of every event of a stream."""
    return [
        (bytes.fromhex(one["msg"]), bytes.fromhex(one["receipt"]))
        for one in load("corpus")["events"]
        if one["stream"] == stream
    ]


def server() -> tuple[str, UnixMillis, str]:
    """principal_id, requested_at and the query_id the server generates."""
    given = load("normalize")["server"]
    return given["principal_id"], parse_time(given["requested_at"]), given["query_id"]


def pinned(source: bytes) -> Descriptor:
    """What submit makes of these bytes over the corpus."""
    principal_id, requested_at, query_id = server()
    coverage = corpus_coverage()
    asked = read_submitted(source, query_id=query_id).asked_by(principal_id, requested_at)
    return asked.pin([coverage[name] for name in asked.scope])
