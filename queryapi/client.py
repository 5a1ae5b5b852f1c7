"""The Query API from Python: `Client(url, token).query(...).wait().rows()` [Query 7].

Numbers arrive as they were recorded: integers of any size, decimals as Decimal. What arrives is
hashed on the way and compared with the digest, so a row that was changed, lost or added is noticed.
Imports no framework.
"""

from __future__ import annotations

import time
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from hub import canonical_json
from hub.canonical_json import JsonError, Value
from hub.errors import ErrorCode, ProofError, VeenError
from hub.wire.rotation import RotationRecord, decode_record
from queryapi.contract.codes import QueryCode, QueryError
from queryapi.contract.digest import ResultDigest
from queryapi.contract.rows import CLOSE, OPEN, SEPARATOR
from queryapi.signers import ROTATIONS
from recorder.codes import RecordCode, RecordError
from recorder.web_client import WebClient, details_of, seconds_of

PAGE_ROWS: Final = 5_000
POLL_S: Final = 0.1
POLL_MAX_S: Final = 2.0
_LIST_MAX: Final = 500
DEPTH: Final = canonical_json.DEPTH_MAX + 8
ROWS: Final = "rows.json"
EVIDENCE: Final = "evidence.json"
DIGEST: Final = "digest.json"
DESCRIPTOR: Final = "descriptor.json"
_BASE: Final = "/api/query"
_MANIFESTS: Final = "/api/record/manifests"


class NotFinishedError(VeenError, TimeoutError):
    """The time that was allowed is over; the work goes on."""

    def __init__(self, name: str, timeout_s: float) -> None:
        super().__init__(ErrorCode.BUSY, f"{name} is not finished after {timeout_s:g} s")


class QueryWeb(WebClient):
    """Knows the codes of queries beside those of the recorder."""

    def _worded(self, status: int, found: object, retry_after: str | None) -> VeenError:
        if isinstance(found, dict) and found.get("error_code") in set(QueryCode):
            return QueryError(
                QueryCode(found["error_code"]),
                str(found.get("message", "")),
                details=details_of(found.get("details")),
                retry_after_s=seconds_of(retry_after),
            )
        return super()._worded(status, found, retry_after)


def parse(data: bytes) -> dict[str, Any]:
    """An answer with exact numbers."""
    try:
        found = canonical_json.parse(data, depth_max=DEPTH, is_bounded=False)
    except JsonError as flaw:
        raise VeenError(ErrorCode.PROTOCOL, f"not an answer of the Query API: {flaw}") from flaw
    if not isinstance(found, dict):
        raise VeenError(ErrorCode.PROTOCOL, "not an answer of the Query API")
    return found


class Client:
    """One base URL and one token."""

    def __init__(self, url: str, token: str, *, timeout_s: float = 60.0) -> None:
        self.web = QueryWeb(url, token=token, timeout_s=timeout_s)

    def query(
        self, descriptor: Mapping[str, Value] | None = None, *, wait_s: int = 0, **parts: Value
    ) -> Query:
        """Submit a descriptor, or its members as arguments (`evidence` is none where not given)."""
        source: dict[str, Value] = {"evidence": {"mode": "none"}, **(descriptor or {}), **parts}
        return self.submit(canonical_json.encode(source), wait_s=wait_s)

    def submit(self, source: bytes, *, wait_s: int = 0) -> Query:
        """Submit a descriptor as it is written."""
        prefer = f"wait={wait_s}" if wait_s else "respond-async"
        found = parse(self.web.send(f"{_BASE}/submit", source, {"Prefer": prefer}))
        digest = found.get("result_digest")
        if isinstance(digest, dict):
            return Query(client=self, query_id=digest["query_id"], result_id=digest["result_id"])
        return Query(client=self, query_id=found["query_id"], result_id=found["result_id"])

    def result(self, result_id: str) -> Query:
        """A query that was submitted before."""
        status = parse(self.web.read(f"{_BASE}/status/{result_id}"))
        return Query(client=self, query_id=status["query_id"], result_id=result_id)

    def list(self, *, limit: int = 50, after: str | None = None) -> Iterator[dict[str, Any]]:
        """Status objects, newest first."""
        yield from self.listed(limit=limit, after=after)["queries"]

    def listed(self, *, limit: int = 50, after: str | None = None) -> dict[str, Any]:
        """The same as one document; `next` is what to give as `after` for more, null at the end."""
        found: list[dict[str, Any]] = []
        while True:
            asked = {"limit": str(min(limit - len(found), _LIST_MAX))}
            page = parse(
                self.web.read(f"{_BASE}/list", asked | ({} if after is None else {"after": after}))
            )
            found += page["queries"]
            after = page["next"]
            if after is None or len(found) >= limit:
                return {"queries": found, "next": after}

    def replay(self, descriptor: Value, digest: Value) -> Replay:
        """Ask a recorded query again, to be compared with its digest."""
        body = canonical_json.encode(
            {"descriptor": descriptor, "result_digest": digest}, depth_max=DEPTH
        )
        found = parse(self.web.send(f"{_BASE}/replay", body))
        return Replay(client=self, replay_id=found["replay_id"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query that was taken."""

    client: Client
    query_id: str
    result_id: str

    def status(self) -> dict[str, Any]:
        """Where it is."""
        return parse(self.client.web.read(f"{_BASE}/status/{self.result_id}"))

    def wait(self, timeout_s: float = 600.0) -> Query:
        """Return when it is completed; raise its failure, or NotFinishedError."""
        for status in watch(self, timeout_s):
            if status["status"] == "failed":
                raise failure_of(status)
            if status["status"] == "completed":
                return self
        raise NotFinishedError(self.query_id, timeout_s)

    def cancel(self) -> dict[str, Any]:
        """Stop it; the status object."""
        return parse(self.client.web.send(f"{_BASE}/cancel/{self.result_id}", b"{}"))

    def page(self, offset: int, limit: int) -> dict[str, Any]:
        """One page as the API gives it."""
        asked = {"offset": str(offset), "limit": str(limit)}
        return parse(self.client.web.read(f"{_BASE}/result/{self.result_id}", asked))

    def digest(self) -> ResultDigest:
        """The recorded digest."""
        return ResultDigest.decode(self.page(0, 1)["result_digest"])

    def descriptor(self) -> dict[str, Any]:
        """The recorded descriptor and its event."""
        return parse(self.client.web.read(f"{_BASE}/descriptor/{self.query_id}"))

    def rows(self, page_rows: int = PAGE_ROWS) -> Iterator[dict[str, Any]]:
        """Every row; V.PROOF at the end when they are not those of the digest."""
        offset, context = 0, sha256(OPEN)
        while True:
            found = self.page(offset, page_rows)
            for row in found["rows"]:
                context.update((SEPARATOR if offset else b"") + encode_row(row))
                offset += 1
                yield row
            if not found["page"]["has_more"]:
                break
        context.update(CLOSE)
        if context.hexdigest() != found["result_digest"]["rows_hash"]:
            raise ProofError("the rows are not those that rows_hash covers")

    def save(self, folder: Path) -> ResultDigest:
        """Everything that verifies offline, in a folder: rows, evidence, digest, descriptor."""
        folder.mkdir(parents=True, exist_ok=True)
        digest = self.digest()
        with (folder / ROWS).open("wb") as sink:
            self.client.web.save(f"{_BASE}/result/{self.result_id}/rows.json", None, sink)
        with (folder / EVIDENCE).open("wb") as sink:
            self.client.web.save(f"{_BASE}/evidence/{self.result_id}", None, sink)
        (folder / DESCRIPTOR).write_bytes(canonical_json.encode(self.descriptor()["descriptor"]))
        (folder / DIGEST).write_bytes(digest.canonical())
        self._save_rotations(folder / ROTATIONS)
        return digest

    def _save_rotations(self, path: Path) -> None:
        """What leads from a pinned key to those that signed before it; nothing where none did."""
        web = self.client.web
        try:
            rotations = web.get(f"{_MANIFESTS}/latest")["rotations"]
        except RecordError as refusal:
            if refusal.error_code is not RecordCode.NOT_FOUND:
                raise
            return  # Nothing was checkpointed yet, so nothing was handed over.
        records = [decode_record(b64decode(one)) for one in rotations]
        last = [one.manifest_id.hex() for one in records if isinstance(one, RotationRecord)]
        if rotations:
            manifests = [web.get(f"{_MANIFESTS}/{one}")["manifest"] for one in last]
            found: dict[str, Value] = {"rotations": rotations, "manifests": manifests}
            path.write_bytes(canonical_json.encode(found))


def encode_row(row: Value) -> bytes:
    """A row as it was hashed; metric results have no bound."""
    return canonical_json.encode(row, depth_max=DEPTH, is_bounded=False)


def failure_of(status: Mapping[str, Any]) -> QueryError:
    """The failure that a status object tells of."""
    code = status["error_code"]
    known = QueryCode(code) if code in set(QueryCode) else QueryCode.EXECUTION_FAILED
    return QueryError(known, str(status["message"]))


def watch(query: Query, timeout_s: float) -> Iterator[dict[str, Any]]:
    """Status after status until it is over or the time is, less and less often."""
    end, pause = time.monotonic() + timeout_s, POLL_S
    while True:
        status = query.status()
        yield status
        if status["status"] in {"completed", "failed"} or time.monotonic() >= end:
            return
        time.sleep(max(0.0, min(pause, end - time.monotonic())))
        pause = min(pause * 1.3, POLL_MAX_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A replay that was taken."""

    client: Client
    replay_id: str

    def status(self) -> dict[str, Any]:
        """Where it is, and once completed how it compares."""
        return parse(self.client.web.read(f"{_BASE}/replay/{self.replay_id}"))

    def wait(self, timeout_s: float = 600.0) -> dict[str, Any]:
        """The comparison; raises the failure, or NotFinishedError."""
        end, pause = time.monotonic() + timeout_s, POLL_S
        while True:
            status = self.status()
            if status["status"] == "failed":
                raise failure_of(status)
            if status["status"] == "completed":
                return status
            if time.monotonic() >= end:
                raise NotFinishedError(f"replay {self.replay_id}", timeout_s)
            time.sleep(pause)
            pause = min(pause * 1.3, POLL_MAX_S)
