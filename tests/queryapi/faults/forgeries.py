"""A liar who can write the lake, manifest included: every mode that proves anything names him."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from config.selftest.bundle import until
from config.selftest.forged_lake import manifest_of, put_back
from config.selftest.query_ground import STREAMS
from hub.canonical_json import Value
from hub.crypto.signing import SigningKey
from hub.types import MmrRoot
from hub.wire.receipt import Receipt
from queryapi.client import Query
from queryapi.contract.codes import QueryCode, QueryError
from recorder.lake.columns import PROOFS, ROWS
from recorder.lake.folder import LakeFolder
from recorder.lake.manifest import Segment
from recorder.lake.segments import SegmentContent, read_file, write_segment
from recorder.streams import CHANGES
from tests.support import hubs
from tests.support.query_scene import ANSWER_S, COUNT, Scene

STREAM, OTHER = STREAMS[:2]
FULL: Value = {"mode": "full"}
SPOT: Value = {"mode": "spot", "sample_rate": 1}
AT = 7  # the place of the forgery in the first segment

Forge = Callable[[LakeFolder, Segment], tuple[Segment, int]]


def rewritten(
    folder: LakeFolder, old: Segment, *, rows: pa.Table | None = None, proofs: pa.Table | None
) -> Segment:
    """Files with other content, written as ingest writes them."""
    content = SegmentContent(
        rows=read_file(folder, old.rows, ROWS) if rows is None else rows,
        proofs=read_file(folder, old.proofs, PROOFS) if proofs is None else proofs,
        upto_root=MmrRoot(bytes.fromhex(old.upto_root)),
        key_ids=old.key_ids,
    )
    return write_segment(folder, content, old.state)


def forged_receipt(folder: LakeFolder, old: Segment) -> tuple[Segment, int]:
    """Everything in it is true, but it is signed by a stranger's key."""
    proofs = read_file(folder, old.proofs, PROOFS)
    receipts = proofs["receipt"].to_pylist()
    genuine = Receipt.decode(receipts[AT])
    receipts[AT] = Receipt.sign(
        SigningKey(hubs.seed("stranger")), genuine.label, genuine.stream_seq, genuine.leaf_hash,
        genuine.mmr_root, genuine.hub_ts,
    ).encode()  # fmt: skip
    column = pa.array(receipts, PROOFS.field("receipt").type)
    place = PROOFS.get_field_index("receipt")
    changed = proofs.set_column(place, "receipt", column)
    return rewritten(folder, old, proofs=changed), old.from_seq + AT


def another_payload(folder: LakeFolder, old: Segment) -> tuple[Segment, int]:
    """Two genuine messages, each beside the other's genuine receipt."""
    proofs = read_file(folder, old.proofs, PROOFS)
    messages = proofs["msg"].to_pylist()
    messages[AT], messages[AT + 1] = messages[AT + 1], messages[AT]
    place = PROOFS.get_field_index("msg")
    changed = proofs.set_column(place, "msg", pa.array(messages, PROOFS.field("msg").type))
    return rewritten(folder, old, proofs=changed), old.from_seq + AT


def dropped_row(folder: LakeFolder, old: Segment) -> tuple[Segment, int]:
    """A rows file without one event, beside proofs that still have it."""
    rows = read_file(folder, old.rows, ROWS)
    fewer = pa.concat_tables([rows.slice(0, AT), rows.slice(AT + 1)])
    short = rewritten(folder, old, rows=fewer, proofs=None)
    return replace(old, rows=short.rows, paths=short.paths), old.from_seq + AT


FORGERIES: dict[str, tuple[Forge, str]] = {
    "forged receipt": (forged_receipt, "no key that is pinned"),
    "another payload": (another_payload, "another MSG"),
    "dropped row": (dropped_row, ""),
}


def forged(scene: Scene) -> list[Query]:
    """Each forgery in turn; whoever asks about something else is answered meanwhile."""
    folder = LakeFolder.of(scene.bundle.lake, scene.ground.coverage[STREAM].label)
    before = scene.ask()
    scene.completes(before)
    answered = [before]
    for name, (forge, reason) in FORGERIES.items():
        honest = manifest_of(folder)
        segment, seq = forge(folder, honest.segments[0])
        put_back(folder, replace(honest, segments=(segment, *honest.segments[1:])))
        try:
            _caught(scene, f"{STREAM} {seq}: ", reason, name)
            _replay_caught(scene, before, f"{STREAM} {seq}: ")
            answered.append(scene.ask(scope=[OTHER]))
            scene.completes(answered[-1])
        finally:
            put_back(folder, honest)
        answered.append(scene.ask())
        scene.completes(answered[-1])
    return answered


def _caught(scene: Scene, place: str, reason: str, name: str) -> None:
    """Selections and aggregates, in both modes, side by side with an honest question."""
    told: Value = {"projection": None, "aggregate": COUNT}
    assert isinstance(told, dict)
    asked = {
        "full": scene.ask(), "spot": scene.ask(evidence=SPOT),
        "full count": scene.ask(**told), "spot count": scene.ask(**told, evidence=SPOT),
    }  # fmt: skip
    other = scene.ask(scope=[OTHER])
    for kind, query in asked.items():
        message = scene.fails(query, QueryCode.EVIDENCE_FAILED)
        if name == "dropped row" and "spot" in kind:
            # Which one is missing only the log can tell; that the file is short, its rows say.
            assert message.startswith(f"{STREAM} 1: "), (name, kind, message)
        else:
            assert message.startswith(place), (name, kind, message)
            assert reason in message, (name, kind, message)
        status = query.status()
        assert (status["status"], status["error_code"]) == ("failed", "evidence_failed"), status
        assert not scene.folder(query).exists()
        _found(scene, f"query {query.result_id}", message)
        _executed(scene, query, message)
    scene.completes(other)


def _replay_caught(scene: Scene, recorded: Query, place: str) -> None:
    """A recorded question asked again meets the same forgery."""
    descriptor = recorded.descriptor()["descriptor"]
    taken = scene.client.replay(descriptor, recorded.digest().to_json())
    with pytest.raises(QueryError):
        taken.wait(ANSWER_S)
    said = taken.status()
    assert (said["status"], said["error_code"]) == ("failed", "evidence_failed"), said
    assert said["message"].startswith(place), said
    assert said["local_digest"] is None
    _found(scene, f"replay {taken.replay_id}", said["message"])


def _found(scene: Scene, about: str, message: str) -> None:
    """A finding for the operator, and the event that keeps it where nobody can take it away."""
    rows = scene.sql(
        "SELECT severity, detail FROM hub_finding WHERE code = ? AND object = ?",
        "evidence_failed", about,
    )  # fmt: skip
    assert rows == [("critical", message)], (about, rows)

    def is_recorded() -> bool:
        found = scene.sql(
            "SELECT payload_text FROM recorder_authoredevent "
            "WHERE stream = ? AND event_type = 'finding.noted' AND state = 'recorded'",
            CHANGES,
        )
        said = [json.loads(text) for (text,) in found]
        return any((one["object"], one["detail"]) == (about, message) for one in said)

    until(is_recorded, f"the finding about {about} is recorded", ANSWER_S)


def _executed(scene: Scene, query: Query, message: str) -> None:
    """One line about how it went, and no digest."""
    found = scene.sql(
        "SELECT event_type, payload_text FROM recorder_authoredevent WHERE payload_text LIKE ? "
        "AND event_type IN ('query.executed', 'query.result')",
        f"%{query.result_id}%",
    )
    [(kind, text)] = found
    said = json.loads(text)
    assert (kind, said["outcome"], said["message"]) == ("query.executed", "failed", message)


def weakened(scene: Scene) -> list[Query]:
    """A recorded question cannot be made to prove less and pass for the same."""
    strong = scene.ask(query_id="q-strong")
    scene.completes(strong)
    recorded = strong.descriptor()["descriptor"]
    recorded["evidence"] = {"mode": "none"}
    taken = scene.client.replay(recorded, strong.digest().to_json())
    said = taken.wait(ANSWER_S)
    assert said["equal"] is False
    differing = {one["field"] for one in said["comparison"] if not one["equal"]}
    assert {"evidence_policy", "evidence_hash", "result_id"} <= differing, differing
    assert "rows_hash" not in differing
    key = f"query.replayed/{taken.replay_id}"
    until(lambda: scene.is_recorded(key), "the replay is in the log", ANSWER_S)
    return [strong]
