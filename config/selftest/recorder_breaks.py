"""I1 to I3 broken on purpose, each seen and named; a changed lake, a changed log [SDR0 3.4]."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from config.selftest.bundle import clean_environment, until
from config.selftest.forged_lake import change_payload, manifest_of, put_back
from config.selftest.liar import Liar, Lines, lying
from config.selftest.recorder_ground import DOOR, SHOP, TILL, Ground
from hub.client import Draft
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.selftest.checks import Checks, NotHeldError, require
from hub.storage.fsck import run_fsck
from hub.storage.layout import Layout
from hub.types import AuthRef, ClientId
from hub.wire.msg import Msg
from hub.wire.payload import PayloadHeader
from hub.wire.readerkey import ReaderKeyRecord
from recorder.event import SCHEMA
from recorder.evidence.build import build_pack
from recorder.lake.folder import LakeFolder
from recorder.replay_client import replay
from recorder.web_client import WebClient

STRAY: Final = "key_out_of_scope"
LINES: Final = 60
JOB_S: Final = 180.0
FLIPS: Final = 6
EXIT_VERIFICATION: Final = 7
# A cut answer is one that did not come, whoever cut it.
_NOTICED: Final = {ErrorCode.PROOF, ErrorCode.SIG, ErrorCode.FORMAT, ErrorCode.UNREACHABLE}

Lie = Callable[[Lines], None]


def check_invariants(checks: Checks, ground: Ground) -> None:
    """Each lie of a server is noticed by a client that holds nothing but the pinned key."""
    with lying() as liar:
        checks.group = "I1"
        checks.need("an honest answer is captured", lambda: _capture(ground, liar))
        for name, lie, word in _ORDER:
            checks.hold(f"order: {name}", partial(_noticed, ground, liar, lie, word))
        checks.group = "I2"
        for name, lie, word in _STABILITY:
            checks.hold(f"stability: {name}", partial(_noticed, ground, liar, lie, word))
        checks.group = "I3"
        for name, lie, word in _ACTOR:
            checks.hold(f"actor: {name}", partial(_noticed, ground, liar, lie, word))
    checks.hold("actor: the uses of each key are all there, 1, 2, 3 ...", lambda: _all_uses(ground))
    checks.hold("actor: a key on another stream is refused by the hub", lambda: _foreign(ground))
    checks.hold("actor: and is a finding", lambda: _is_finding(ground, STRAY, f"{TILL} on {DOOR}"))
    checks.hold("actor: one key is never two producers", lambda: _two_names(ground))


def _capture(ground: Ground, liar: Liar) -> None:
    bundle = ground.bundle
    liar.capture(bundle.web_url, ground.reader_token, [SHOP], to_seq=LINES)
    liar.tell(lambda _: None)
    require(len(list(_ask(ground, liar))) == LINES, "the honest answer does not verify")


def _ask(ground: Ground, liar: Liar) -> Any:  # noqa: ANN401 - an iterator of events
    return replay(
        liar.url, "any", streams=[SHOP], to_seq=LINES, hub_pk=ground.bundle.hub_pk,
        labels=ground.labels, secrets=ground.secrets(),
    )  # fmt: skip


def _noticed(ground: Ground, liar: Liar, lie: Lie, word: str) -> None:
    liar.tell(lie)
    try:
        list(_ask(ground, liar))
    except VeenError as refusal:
        require(refusal.code in _NOTICED, f"refused with {refusal}")
        require(word in str(refusal), f"{word!r} is not in: {refusal}")
        return
    raise NotHeldError("it was believed")


def _swap(lines: Lines) -> None:
    lines[4], lines[5] = lines[5], lines[4]


def _renumbered(lines: Lines) -> None:
    """Two events in each other's place, each line and count as if it had always been so."""
    one, other = lines[4], lines[5]
    for name in ("receipt", "proof", "hub_commit_seq", "hub_commit_time", "receipt_id"):
        one[name], other[name] = other[name], one[name]
    lines[4], lines[5] = other, one


def _twice(lines: Lines) -> None:
    lines.insert(5, lines[4])
    lines[-1]["end"]["count"] += 1


def _without(lines: Lines) -> None:
    del lines[10]
    lines[-1]["end"]["count"] -= 1


def _shorter(lines: Lines) -> None:
    """A log that is said to end before its own checkpoint."""
    del lines[LINES // 2 : -1]
    lines[-1]["end"]["count"] = LINES // 2
    lines[-1]["end"]["coverage"][0]["to_seq"] = LINES // 2


def _unproven(lines: Lines) -> None:
    lines[3]["proof"] = None
    lines[-1]["end"]["unproven"] = 1


def _other_proof(lines: Lines) -> None:
    lines[3]["proof"] = lines[2]["proof"]


def _flipped(lines: Lines) -> None:
    data = bytearray(b64decode(lines[6]["msg"]))
    data[-100] ^= 1
    lines[6]["msg"] = b64encode(data).decode()


def _other_payload(lines: Lines) -> None:
    lines[7]["payload"] = {"n": 7, "total": 0}


def _cut(lines: Lines) -> None:
    del lines[-1]


def _other_principal(lines: Lines) -> None:
    lines[3]["principal_id"] = "ab" * 32


def _other_subject(lines: Lines) -> None:
    lines[3]["subject_id"] = "somebody-else"


def _adopted(lines: Lines) -> None:
    """Another key signs the same content as its own."""
    thief = SigningKey.generate()
    msg = Msg.decode(b64decode(lines[3]["msg"]))
    stolen = replace(msg, client_id=ClientId(thief.public))
    signed = replace(stolen, sig=thief.sign(stolen.signing_hash()))
    lines[3]["msg"] = b64encode(signed.encode()).decode()
    lines[3]["principal_id"] = thief.public.hex()


_ORDER: Final[tuple[tuple[str, Lie, str], ...]] = (
    ("two events swapped", _swap, f"{SHOP} 6"),
    ("two events renumbered", _renumbered, f"{SHOP} 5"),
    ("an event twice", _twice, f"{SHOP} 5"),
)
_STABILITY: Final[tuple[tuple[str, Lie, str], ...]] = (
    ("an event left out", _without, "left out"),
    ("the log ends before its own checkpoint", _shorter, "checkpointed at"),
    ("a proof withheld below the checkpoint", _unproven, "the manifest covers it"),
    ("the proof of another event", _other_proof, f"{SHOP} 4"),
    ("one bit of a message", _flipped, f"{SHOP} 7"),
    ("a payload that was never recorded", _other_payload, f"{SHOP} 8"),
    ("an answer without its end", _cut, "its end is missing"),
)
_ACTOR: Final[tuple[tuple[str, Lie, str], ...]] = (
    ("an event under another principal_id", _other_principal, f"{SHOP} 4"),
    ("an event under another subject_id", _other_subject, f"{SHOP} 4"),
    ("an event signed again with another key", _adopted, "another message"),
)


def _all_uses(ground: Ground) -> None:
    """Each signed message has the number of its author's use of the key on that label."""
    uses: dict[tuple[str, str], list[int]] = defaultdict(list)
    for one in ground.recorded:
        uses[one.principal_id, one.stream].append(Msg.decode(one.msg).client_seq)
    require(len(uses) == 3, f"{len(uses)} keys on streams instead of 3")
    for (principal, stream), found in uses.items():
        told = f"{principal[:16]} on {stream}"
        require(found == list(range(1, len(found) + 1)), f"uses are missing: {told}")


def _foreign(ground: Ground) -> None:
    """The till's key, with its own capability, on the door's stream."""
    given = ground.given[TILL]
    [door] = [one for one in ground.given["selftest-door"]["streams"] if one["name"] == DOOR]
    key = ReaderKeyRecord.decode(b64decode(door["reader_key"]))
    draft = Draft(
        label=ground.labels[DOOR], reader_pk=key.reader_pk, header=PayloadHeader(schema=SCHEMA),
        body=b"not mine",
    )  # fmt: skip
    auth_ref = AuthRef(bytes.fromhex(given["auth_ref"]))
    with ground.hub() as hub, hub.producer(ground.keys[TILL], auth_ref=auth_ref) as producer:
        try:
            producer.submit(draft)
        except VeenError as refusal:
            require(refusal.code is ErrorCode.CAP, f"refused with {refusal}")
            return
    raise NotHeldError("it was taken")


def _two_names(ground: Ground) -> None:
    try:
        ground.bundle.act(
            "producer.add", name="selftest-second", streams=[SHOP],
            principal=ground.keys[TILL].public.hex(),
        )  # fmt: skip
    except VeenError as refusal:
        require(ErrorCode.POLICY in str(refusal), f"refused with {refusal}")
        return
    raise NotHeldError("one key stands for two services")


def check_tampered_lake(checks: Checks, ground: Ground) -> None:
    """A row changed by someone who can write the lake: reader, audit and findings say so."""
    folder = LakeFolder.of(ground.bundle.lake, ground.labels[SHOP])
    checks.hold("audit of an honest lake: equal", lambda: _audited(ground, "equal", None))
    honest = checks.need("the lake is there", lambda: manifest_of(folder))
    seq = checks.need("a payload is changed in it", lambda: change_payload(folder, honest))
    try:
        checks.hold(
            "a replay that opens messages again names the event", lambda: _seen(ground, seq)
        )
        checks.hold(
            "audit: different, naming the event", lambda: _audited(ground, "different", seq)
        )
        checks.hold("it is a finding", lambda: _is_finding(ground, "lake.different", SHOP))
    finally:
        put_back(folder, honest)
    checks.hold("the row put back: equal again", lambda: _audited(ground, "equal", None))


def _seen(ground: Ground, seq: int) -> None:
    try:
        list(ground.replay(streams=[SHOP], to_seq=seq + 10))
    except VeenError as refusal:
        require(f"{SHOP} {seq}:" in str(refusal), f"{seq} is not named: {refusal}")
        return
    raise NotHeldError("it was believed")


def _audited(ground: Ground, verdict: str, seq: int | None) -> None:
    job_id = ground.bundle.act("lake.audit", streams=[SHOP])["job_id"]
    web = WebClient(ground.bundle.web_url, token=ground.bundle.admin_token, timeout_s=60)
    job: dict[str, Any] = {}

    def is_over() -> bool:
        job.update(web.get(f"/api/admin/lake-jobs/{job_id}"))
        return job["state"] not in {"pending", "running"}

    until(is_over, "the audit ends", JOB_S)
    require(job["state"] == "done", f"{job['state']}: {job['error']}")
    [found] = job["result"]["verdicts"]
    require(found["verdict"] == verdict, f"the verdict is {found}")
    named = [one["seq"] for one in found["first_differences"]]
    require(seq is None or seq in named, f"{seq} is not named: {found}")


def _is_finding(ground: Ground, code: str, about: str) -> None:
    def is_there() -> bool:
        return any(one == code and about in what for one, what, _ in ground.bundle.findings())

    until(is_there, f"the finding {code}", JOB_S)


def make_packs(checks: Checks, ground: Ground) -> None:
    """An evidence pack, sealed and opened, while the hub is there."""

    def make() -> None:
        with ground.hub() as hub:
            for name, secrets in (("sealed", []), ("opened", ground.secrets()[DOOR])):
                pack = build_pack(
                    hub, label=ground.labels[DOOR], stream=DOOR, seq=7, secrets=secrets
                )
                (ground.folder / f"{name}.evidence").write_bytes(pack.encode())

    checks.need("an evidence pack is made, sealed and opened", make)


def check_packs(checks: Checks, ground: Ground) -> None:
    """With the whole bundle stopped, `veen verify` needs nothing but file and fingerprint."""
    pinned = ground.bundle.hub_pk.hex()
    opened = ground.folder / "opened.evidence"
    checks.hold("opened: VALID, and its content is the event", lambda: _content(opened, pinned))
    sealed = ground.folder / "sealed.evidence"
    checks.hold("sealed: VALID, content sealed", lambda: _verdict(sealed, pinned, "valid"))
    checks.hold("another fingerprint: SIGNER UNKNOWN",
                lambda: _verdict(opened, "ab" * 32, "signer unknown"))  # fmt: skip
    data = bytearray(opened.read_bytes())
    data[len(data) // 2] ^= 1
    forged = ground.folder / "forged.evidence"
    forged.write_bytes(data)
    checks.hold("one bit changed: NOT VALID", lambda: _verdict(forged, pinned, "not valid"))


def _verdict(path: Path, pinned: str, word: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "config.cli", "verify", str(path), "--hub-pk", pinned, "--json"],
        env=clean_environment(), capture_output=True, check=False, timeout=120,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    require(found["word"] == word, f"the verdict is {found['word']}")
    require(done.returncode == (0 if word == "valid" else EXIT_VERIFICATION), "another exit code")
    return found


def _content(path: Path, pinned: str) -> None:
    event = _verdict(path, pinned, "valid")["event"]
    require((event["hub_commit_seq"], event["payload"]) == (7, '{"n":6}'), f"{event}")


def check_tampered_log(checks: Checks, ground: Ground) -> None:
    """Bytes changed in a copy of the data directory: fsck says where."""
    state = ground.bundle.state
    checks.hold("fsck of the log: clean", lambda: _fsck(ground, state.hub))
    copy = ground.folder / "copy"
    shutil.copytree(state.hub, copy, ignore=shutil.ignore_patterns("*.sock"))
    [segment, *_] = sorted(Layout(copy).log.glob("*.seg"))
    data = segment.read_bytes()
    for _ in range(FLIPS):
        place = ground.rng.randrange(64, len(data) * 9 // 10)
        changed = bytearray(data)
        changed[place] ^= 1 << ground.rng.randrange(8)
        segment.write_bytes(changed)
        checks.hold(f"one bit of byte {place} of the log: fsck names the file",
                    partial(_damaged, ground, copy, segment))  # fmt: skip
    segment.write_bytes(data)
    checks.hold("the bytes put back: clean again", lambda: _fsck(ground, copy))


def _fsck(ground: Ground, folder: Path) -> None:
    report = run_fsck(folder, hub_pk=ground.bundle.hub_pk, heads_file=ground.bundle.state.heads)
    require(report.ok, f"first finding: {report.findings[:1]}")
    require(report.entries >= ground.events, f"only {report.entries} entries")


def _damaged(ground: Ground, folder: Path, segment: Path) -> None:
    report = run_fsck(folder, hub_pk=ground.bundle.hub_pk, heads_file=ground.bundle.state.heads)
    require(not report.ok, "it is called clean")
    require(segment.name in str(report.findings[0]), f"named is {report.findings[0]}")
