"""The questions a recorder answers, asked of a running bundle [SDR0 3.1, 3.2]."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any, Final

from config.selftest.bundle import until
from config.selftest.recorder_ground import (
    BADGE,
    BATCH,
    DOOR,
    SERVICE,
    SHOP,
    STREAMS,
    TILL,
    TYPES,
    Ground,
    Progress,
    subject,
)
from hub.selftest.checks import Checks, NotHeldError, require
from hub.types import ManifestId
from hub.wire.manifest import Manifest
from queryapi.client import Client
from recorder.codes import RecordCode, RecordError
from recorder.event import UnixMillis, parse_time
from recorder.gateway_client import GatewayClient
from recorder.replay_client import ReplayedEvent
from recorder.streams import CHECKPOINTS
from recorder.web_client import WebClient

ANSWER_S: Final = 180.0
PUBLISHED_S: Final = 60.0


def check_ways_in(checks: Checks, ground: Ground, progress: Progress) -> None:
    """Every event goes in once, through an outage and through a repetition."""
    count = ground.share
    checks.need(
        f"SDK: {count(TILL)} events, the hub killed in mid-way: each has its receipt",
        lambda: ground.by_sdk(progress),
    )
    checks.need(f"logging.Handler: {count(SERVICE)} lines", lambda: ground.by_handler(progress))
    checks.need(
        f"gateway: {count(BADGE)} events by token, in batches of {BATCH}",
        lambda: ground.by_gateway(progress),
    )
    checks.hold(
        "gateway: a repeated batch gets its first answers, verified", lambda: _repeat(ground)
    )
    conflict = [ground.door_event(0) | {"payload": "other"}]
    for name, event, code in (
        ("an unknown event type", {"event_type": "no.such"}, RecordCode.UNKNOWN_EVENT_TYPE),
        ("a type of somebody else's stream", {"event_type": "order.placed"},
         RecordCode.FORBIDDEN_STREAM),
        ("another stream than the type's", {"stream": SHOP}, RecordCode.WRONG_STREAM),
        ("an event over the bound", {"payload": "x" * 200_000}, RecordCode.EVENT_TOO_LARGE),
        ("an unknown key", {"colour": "red"}, RecordCode.INVALID_EVENT),
    ):  # fmt: skip
        asked = {"event_type": "door.opened", "subject_id": "mallory", **event}
        checks.hold(f"gateway: {name} -> {code}", partial(_refused, ground, [asked], code))
    checks.hold(
        f"gateway: a used key for other content -> {RecordCode.IDEMPOTENCY_CONFLICT}",
        partial(_refused, ground, conflict, RecordCode.IDEMPOTENCY_CONFLICT),
    )
    checks.hold("a reader's and an administrator's token record nothing", lambda: _roles(ground))
    checks.hold("a producer's token reads nothing", lambda: _reads_nothing(ground))


def _repeat(ground: Ground) -> None:
    batch = [ground.door_event(number) for number in range(min(BATCH, ground.share(BADGE)))]
    first, again = ground.post(batch)[1]["results"], ground.post(batch)[1]["results"]
    require(first == again, "another answer")
    for number, one in enumerate(again):
        receipt = ground.check_receipt(one)
        require(receipt.stream_seq == number + 1, "recorded a second time")


def _refused(ground: Ground, events: list[dict[str, Any]], code: RecordCode) -> None:
    status, found = ground.post(events)
    require(status == 200, f"status {status}: {found}")
    told = found["results"][0].get("error_code")
    require(told == code, f"{told} instead of {code}")


def _roles(ground: Ground) -> None:
    for token in (ground.reader_token, ground.bundle.admin_token):
        with GatewayClient(ground.bundle.status["gateway_url"], token) as gateway:
            answer = gateway.post("/api/record/events", b'{"events": []}')
        require(answer.status == 403, f"status {answer.status}")


def _reads_nothing(ground: Ground) -> None:
    web = WebClient(ground.bundle.web_url, token=ground.door_token)
    try:
        web.get("/api/record/replay", {"stream": DOOR})
    except RecordError as refusal:
        require(refusal.error_code is RecordCode.FORBIDDEN, str(refusal))
        return
    raise NotHeldError("a producer read its stream")


def check_checkpoints(checks: Checks, ground: Ground, volume: int) -> None:
    """By volume, on demand, and each recorded."""
    made = checks.need(f"by volume, every {volume} messages", lambda: _by_volume(ground, volume))
    checks.facts["manifests"] = len(made)
    web = WebClient(ground.bundle.web_url, token=ground.bundle.admin_token, timeout_s=90)
    asked = checks.need(
        "on demand", lambda: web.post("/api/record/checkpoints", {"reason": "self-test"})
    )
    checks.hold("it covers every stream to its head", lambda: _covers(ground, asked))
    checks.hold(f"each is recorded in {CHECKPOINTS}", lambda: _published(ground))


def _by_volume(ground: Ground, volume: int) -> list[Manifest]:
    """More than one manifest, though the next one by time is an hour away."""
    made: list[Manifest] = []

    def enough() -> bool:
        made[:] = ground.manifests()
        return sum(_messages(made[0]).values()) >= ground.events - volume and len(made) > 1

    until(enough, "manifests by volume", PUBLISHED_S)
    return made


def _messages(manifest: Manifest) -> dict[bytes, int]:
    return {one.label_curr: one.upto_seq for one in manifest.checkpoints}


def _covers(ground: Ground, asked: dict[str, Any]) -> None:
    upto = {one["name"]: one["upto_seq"] for one in asked["streams"]}
    wanted = {SHOP: ground.share(TILL) + ground.share(SERVICE), DOOR: ground.share(BADGE)}
    require({name: upto.get(name) for name in wanted} == wanted, f"{upto} is not {wanted}")


def _published(ground: Ground) -> None:
    def all_of_them() -> bool:
        found = {_manifest_id(one) for one in ground.replay(
            streams=[CHECKPOINTS], secrets=None, labels=None)}  # fmt: skip
        return found >= {one.id.hex() for one in ground.manifests()}

    until(all_of_them, "every manifest is recorded", PUBLISHED_S)


def _manifest_id(one: ReplayedEvent) -> str:
    payload: Any = one.payload  # always an object there
    return str(payload["manifest_id"])


def check_replay(checks: Checks, ground: Ground, progress: Progress) -> None:
    """What happened, in which order, and up to where it is proven."""
    progress("the lake is filled, every event verified")
    checks.need("all streams: verified, opened again, in order", lambda: _everything(ground))
    for producer, kinds in ((TILL, TYPES[SHOP][:2]), (BADGE, TYPES[DOOR]), (SERVICE, ["log.line"])):
        checks.hold(f"{producer}: each event once, in the order it was recorded",
                    partial(_as_recorded, ground, producer, kinds))  # fmt: skip
    head = ground.share(TILL) + ground.share(SERVICE)
    for first, last in ((1, 1), (head // 3, head // 2), (head - 1, head + 50)):
        checks.hold(f"by range {first} to {last}: inclusive, cut at the head",
                    partial(_range, ground, first, last))  # fmt: skip
    checks.hold("by window over both streams: both ends inclusive", lambda: _window(ground))
    older = list(ground.manifests())[-2:][0]
    checks.hold("against a chosen older checkpoint: proven up to it, not beyond",
                lambda: _against(ground, older))  # fmt: skip


def _everything(ground: Ground) -> None:
    found = ground.replay()
    ground.recorded = list(found)
    require(len(ground.recorded) == ground.events, f"{len(ground.recorded)} events came")
    require(all(one.is_proven for one in ground.recorded), "not all are proven")


def _as_recorded(ground: Ground, producer: str, kinds: list[str]) -> None:
    found = ground.of(producer)
    require(len(found) == ground.share(producer), f"{len(found)} events")
    for number, one in enumerate(found):
        payload: Any = one.payload
        told = payload["extra"]["n"] if producer == SERVICE else payload["n"]
        said = (one.subject_id, one.event_type, told)
        wanted = (subject(number), kinds[number % len(kinds)], number)
        require(said == wanted, f"{one.hub_commit_seq}: {said} is not {wanted}")


def _range(ground: Ground, first: int, last: int) -> None:
    found = [one.hub_commit_seq for one in
             ground.replay(streams=[SHOP], from_seq=first, to_seq=last)]  # fmt: skip
    head = ground.share(TILL) + ground.share(SERVICE)
    require(found == list(range(first, min(last, head) + 1)), f"{found[:3]} to {found[-3:]}")


def _window(ground: Ground) -> None:
    times = sorted({one.hub_commit_time for one in ground.recorded})
    start, end = times[len(times) // 4], times[len(times) * 3 // 4]
    wanted = [_place(one) for one in ground.recorded if start <= one.hub_commit_time <= end]
    found = ground.replay(start_ms=_millis(start), end_ms=_millis(end))
    require([_place(one) for one in found] == wanted, "other events")


def _millis(text: str) -> UnixMillis:
    return parse_time(text, fraction_digits_max=3)


def _place(one: ReplayedEvent) -> tuple[str, int]:
    return one.stream, one.hub_commit_seq


def _against(ground: Ground, older: Manifest) -> None:
    upto = _messages(older)
    found = ground.replay(manifest_id=ManifestId(older.id))
    for one in found:
        covered = one.hub_commit_seq <= upto.get(ground.labels[one.stream], 0)
        require(one.is_proven == covered, f"{_place(one)}: proven is {one.is_proven}")
    assert found.end is not None
    require(found.end.unproven, "it proves everything; it is not older")


def check_actors(checks: Checks, ground: Ground) -> None:
    """Who caused it: by key and by person, with every row verified from the log up."""
    for producer in (TILL, SERVICE, BADGE):
        checks.hold(f"by principal_id of {producer}, evidence full: its events and no other",
                    partial(_by_principal, ground, producer))  # fmt: skip
    checks.hold("by subject_id, evidence full: one person's events on both streams",
                lambda: _by_subject(ground))  # fmt: skip
    checks.hold("counted by principal and type: as the log has them", lambda: _counted(ground))


def _places(ground: Ground, chosen: dict[str, str]) -> list[tuple[str, int]]:
    client = Client(ground.bundle.web_url, ground.reader_token)
    query = client.query(
        scope=[*STREAMS], projection=["stream", "hub_commit_seq"], filter={**chosen},
        evidence={"mode": "full"},
    )  # fmt: skip
    return [(row["stream"], int(row["hub_commit_seq"])) for row in query.wait(ANSWER_S).rows()]


def _by_principal(ground: Ground, producer: str) -> None:
    found = _places(ground, {"principal_id": ground.principal(producer)})
    require(found == [_place(one) for one in ground.of(producer)], "other events")


def _by_subject(ground: Ground) -> None:
    found = _places(ground, {"subject_id": subject(3)})
    wanted = [_place(one) for one in ground.recorded if one.subject_id == subject(3)]
    require(found == wanted, "other events")
    require({stream for stream, _ in found} == set(STREAMS), "not on both streams")


def _counted(ground: Ground) -> None:
    client = Client(ground.bundle.web_url, ground.reader_token)
    asked = client.query(
        scope=[*STREAMS],
        aggregate={"group_by": ["principal_id", "event_type"], "metrics": ["count"]},
    ).wait(ANSWER_S)
    found = {(row["principal_id"], row["event_type"]): int(row["count"]) for row in asked.rows()}
    wanted = Counter((one.principal_id, one.event_type) for one in ground.recorded)
    require(found == dict(wanted), f"{found} is not {dict(wanted)}")
