"""What `veen selftest query` asks about: random events, some unreadable, their answers [query]."""

from __future__ import annotations

import random
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from config.selftest.bundle import TemporaryBundle
from hub import canonical_json
from hub.canonical_json import Value
from hub.client import Draft
from hub.crypto.hashing import h
from hub.crypto.hpke import DhSecret
from hub.selftest.checks import require
from hub.types import Hash, Label, MmrRoot
from hub.wire.payload import PayloadHeader
from hub.wire.readerkey import ReaderKeyRecord
from queryapi.client import Client
from queryapi.contract.codes import QueryError
from queryapi.contract.coverage import Coverage
from queryapi.contract.descriptor import Descriptor
from queryapi.contract.descriptor_reader import read_recorded, read_submitted
from queryapi.contract.digest import ResultDigest
from queryapi.contract.evaluate import Answer, evaluate
from queryapi.replayed import read_events
from queryapi.selftest.questions import TYPES, Asker
from recorder.event import SCHEMA, UnixMillis
from recorder.projection import Row
from recorder.replay_client import replay

STREAMS: Final = ("record/app/selftest", "record/security/selftest", "record/app/quiet")
ODD: Final = 12  # one event in so many cannot be read
READER: Final = "selftest-reader"
STRANGER: Final = "selftest-stranger"
PATIENCE_S: Final = 60.0


@dataclass(slots=True)
class Ground:
    """A bundle with events, its reader, and every event as a replay gives it."""

    bundle: TemporaryBundle
    folder: Path
    rng: random.Random
    token: str = ""
    stranger: str = ""
    events: list[tuple[Row, bytes]] = field(default_factory=list)
    coverage: dict[str, Coverage] = field(default_factory=dict)

    # -- making

    def create(self) -> None:
        """Streams, one of them sensitive and one empty, and two who read."""
        for number, name in enumerate(STREAMS):
            types = [f"selftest.{number}"]
            sensitivity = "high" if number == 1 else "medium"
            self.bundle.act("stream.create", name=name, event_types=types, sensitivity=sensitivity)
        self.token = str(
            self.bundle.act("token.create", role="reader", name=READER, all=True)["token"]
        )
        self.stranger = str(
            self.bundle.act(
                "token.create", role="reader", name=STRANGER, streams=[STREAMS[2]]
            )["token"]
        )  # fmt: skip

    def record(self, stream: str, count: int) -> None:
        """Random events; one in twelve is sealed to nobody here, foreign or garbled."""
        asker = Asker(self.rng)

        def drafts(given: Mapping[str, Any]) -> list[Draft]:
            [entry] = given["streams"]
            key = ReaderKeyRecord.decode(b64decode(entry["reader_key"]))
            label = Label(bytes.fromhex(entry["label"]))
            return [self._draft(asker, label, key) for _ in range(count)]

        self.bundle.send("selftest", stream, drafts)

    def _draft(self, asker: Asker, label: Label, key: ReaderKeyRecord) -> Draft:
        body, schema, reader_pk = asker.event().encode(), SCHEMA, key.reader_pk
        odd = self.rng.randrange(ODD * 3)
        if odd == 0:
            reader_pk = DhSecret.generate().public
        elif odd == 1:
            schema = Hash(h(b"veen.selftest.v1"))
        elif odd == 2:
            body = body[:-1]
        return Draft(
            label=label, reader_pk=reader_pk, header=PayloadHeader(schema=schema), body=body
        )

    def read(self) -> None:
        """All events, verified against the pinned key, and where each stream stands."""
        path = self.replay_file
        with path.open("wb") as sink:
            for event in self.replayed(STREAMS):
                sink.write(event.to_json(with_proofs=False) + b"\n")
        self.events = list(read_events(path, dict.fromkeys(STREAMS, self.bundle.hub_id)))
        asked = self.client().query(scope=[*STREAMS], projection=["stream"]).wait()
        descriptor = _recorded(asked.descriptor()["descriptor"])
        assert descriptor.coverage is not None
        self.coverage = {part.stream: part for part in descriptor.coverage}

    @property
    def replay_file(self) -> Path:
        """Every event as `veen recorder replay --json` writes it."""
        return self.folder / "events.ndjson"

    def replayed(self, streams: Sequence[str]) -> Any:  # noqa: ANN401 - an iterator of events
        """Events of streams, each verified."""
        token = self.bundle.admin_token
        return replay(
            self.bundle.web_url, token, streams=streams, hub_pk=self.bundle.hub_pk,
            patience_s=PATIENCE_S,
        )  # fmt: skip

    # -- asking

    def client(self, token: str = "") -> Client:
        """The Query API, as a reader uses it."""
        return Client(self.bundle.web_url, token or self.token)

    @property
    def rows(self) -> list[Row]:
        """The events alone."""
        return [row for row, _ in self.events]

    def question(self, number: int) -> Descriptor:
        """A random descriptor, pinned; some to an older end of the log."""
        times = [int(row.hub_commit_time) for row in self.rows]
        source = Asker(self.rng).question([*STREAMS], [*times, times[0] + 500])
        asked = read_submitted(canonical_json.encode(source), query_id=f"q-selftest-{number}")
        cut = self.rng.random() if self.rng.random() < 0.3 else 1.0
        pinned = [self._until(self.coverage[name], cut) for name in asked.scope]
        return asked.asked_by("00" * 32, UnixMillis(0)).pin(pinned)

    def _until(self, part: Coverage, share: float) -> Coverage:
        to_seq = int(part.to_seq * share)
        if to_seq in (0, part.to_seq):
            return part
        [row] = [one for one in self.rows
                 if one.stream == part.stream and one.hub_commit_seq == to_seq]  # fmt: skip
        return replace(part, to_seq=to_seq, mmr_root=MmrRoot(row.mmr_root))

    def expect(self, descriptor: Descriptor) -> Answer | QueryError:
        """The answer in plain Python, or how it fails."""
        try:
            return evaluate(descriptor, self.rows)
        except QueryError as failure:
            return failure

    def check(self, descriptor: Value, digest: ResultDigest) -> Answer:
        """Raise unless a digest is what plain Python computes."""
        found = self.expect(_recorded(descriptor))
        if isinstance(found, QueryError):
            raise found
        ours = (found.rows_hash, found.evidence_hash, len(found.rows), found.unreadable_count)
        theirs = (
            digest.rows_hash, digest.evidence_hash, digest.row_count, digest.unreadable_count,
        )  # fmt: skip
        require(ours == theirs, f"{theirs} is not {ours}")
        return found


def _recorded(value: Value) -> Descriptor:
    return read_recorded(canonical_json.encode(value))


def questions() -> dict[str, dict[str, Value]]:
    """One question of each kind; their evidence is chosen by who asks."""
    grouped: dict[str, Value] = {
        "group_by": ["event_type", "payload.n"],
        "metrics": ["count", "min(event_time)", "max(payload.path)", "count_distinct(subject_id)"],
    }
    everything: dict[str, Value] = {"group_by": [], "metrics": ["count", "sum(hub_commit_seq)"]}
    some: dict[str, Value] = {
        "event_type": list(TYPES[:2]),
        "payload": [{"path": "payload.n", "op": "exists", "value": True}],
    }
    scope: list[Value] = [*STREAMS]
    return {
        "selection": {"scope": scope, "projection": ["*"]},
        "filtered": {"scope": scope[:2], "projection": ["payload.n", "origin"], "filter": some},
        "aggregate": {"scope": scope, "aggregate": grouped},
        "count": {"scope": scope, "aggregate": everything},
    }
