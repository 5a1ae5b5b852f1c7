"""I7, I12 and I13: what depends on time, on rate and on the whole log before [SSOT 7]."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from hub import label as labels
from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.selftest.checks import Checks, require
from hub.selftest.ground import Ground
from hub.selftest.live import HOURLY
from hub.selftest.prober import Prober
from hub.selftest.still import T0, StillHub
from hub.types import AuthRef, ProfileId, Signature, StreamId
from hub.wire.captoken import CapToken, Rate

_TTL_S: Final = 600
_FAR_EPOCHS: Final = 3  # more than the skew, and the hub still knows it for this stream's label


def i7(checks: Checks, ground: Ground) -> None:
    """Capability constraints: who, where, how long, how fast."""
    prober = ground.prober("i7", rate=Rate(per_sec=0, burst=2))
    checks.need(
        "as many messages as the bucket holds are accepted",
        lambda: [prober.take(prober.draft()) for _ in range(2)],
    )
    checks.refused("one more", ErrorCode.RATE, lambda: prober.send(prober.draft()))
    checks.refused(
        "no capability at all", ErrorCode.AUTH, lambda: prober.send(prober.draft(auth_ref=None))
    )
    unknown = AuthRef(bytes(32))
    checks.refused(
        "one that was never admitted",
        ErrorCode.AUTH,
        lambda: prober.send(prober.draft(auth_ref=unknown)),
    )
    stranger = Prober(
        send=ground.send,
        key=SigningKey.generate(),
        label=prober.label,
        auth_ref=prober.auth_ref,
        reader=ground.reader,
    )
    checks.refused("somebody else's", ErrorCode.CAP, lambda: stranger.send(stranger.draft()))
    elsewhere = labels.derive(ground.routing_key, labels.stream_id("selftest/elsewhere"))
    checks.refused(
        "a stream it does not name",
        ErrorCode.CAP,
        lambda: prober.send(prober.draft(label=elsewhere)),
    )
    self_made = CapToken.issue(
        prober.key, subject_pk=prober.key.public, stream_ids=[StreamId(bytes(32))], ttl=_TTL_S
    )
    checks.refused(
        "one of an issuer nobody trusts",
        ErrorCode.CAP,
        lambda: ground.client.authorize(self_made),
    )
    _ttl(checks, ground)


def _ttl(checks: Checks, ground: Ground) -> None:
    with _Scene(ground, ground.folder / "i7").open() as hub:
        prober = _Scene(ground, ground.folder / "i7").prober(hub)
        hub.now = T0 + _TTL_S
        checks.hold("the last second of its ttl counts", lambda: prober.take(prober.draft()))
        hub.now += 1
        checks.refused("one second later", ErrorCode.TIME, lambda: prober.send(prober.draft()))


def i12(checks: Checks, ground: Ground) -> None:
    """Labels of an epoch are taken only around that epoch."""
    stream = labels.stream_id("selftest/i12")
    epoch = labels.epoch_of(int(time.time()), HOURLY.epoch_sec)
    prober = ground.prober("i12", profile=HOURLY, epoch=epoch)
    checks.need("a label of this hour is accepted", lambda: prober.take(prober.draft()))

    def knock(distance: int) -> None:
        label = labels.derive(ground.routing_key, stream, epoch + distance)
        prober.send(prober.draft(label=label, client_seq=1, prev_ack=0))

    checks.refused("one of three hours ahead", ErrorCode.TIME, lambda: knock(_FAR_EPOCHS))
    checks.refused("one of three hours ago", ErrorCode.TIME, lambda: knock(-_FAR_EPOCHS))
    with _Scene(ground, ground.folder / "i12").open() as hub:
        _skew(checks, ground, hub)


def _skew(checks: Checks, ground: Ground, hub: StillHub) -> None:
    prober = _Scene(ground, ground.folder / "i12").prober(hub)
    epoch = labels.epoch_of(hub.now, HOURLY.epoch_sec)

    def knock(distance: int) -> None:
        label = labels.derive(ground.routing_key, _STREAM, epoch + distance)
        prober.send(prober.draft(profile=HOURLY, label=label, client_seq=1, prev_ack=0))

    def knock_all(*distances: int) -> None:
        for distance in distances:
            knock(distance)

    checks.hold("one epoch of skew is allowed", lambda: knock_all(-1, 0, 1))
    checks.refused("two epochs ahead, by the hub's own clock", ErrorCode.TIME, lambda: knock(2))
    checks.refused("two epochs behind", ErrorCode.TIME, lambda: knock(-2))


_STREAM: Final = labels.stream_id("selftest/still")
_OTHER: Final = labels.stream_id("selftest/other")


@dataclass(frozen=True, slots=True)
class _Scene:
    """A hub with a clock of its own and one admitted client, whose keys follow from the folder."""

    ground: Ground
    data_dir: Path

    def open(self) -> StillHub:
        return StillHub(
            self.data_dir,
            routing_key=self.ground.routing_key,
            issuer=self.ground.issuer.public,
        )

    def prober(self, hub: StillHub, key: SigningKey | None = None) -> Prober:
        key = key or SigningKey.generate()
        token = CapToken.issue(
            self.ground.issuer,
            subject_pk=key.public,
            stream_ids=[_STREAM],
            ttl=_TTL_S,
            rate=Rate(per_sec=1, burst=5),
        )
        hub.authorize(token)
        return Prober(
            send=hub.submit,
            key=key,
            label=labels.derive(self.ground.routing_key, _STREAM),
            auth_ref=token.auth_ref(),
            reader=self.ground.reader,
        )


@dataclass(frozen=True, slots=True)
class _Act:
    """One submission, so many seconds after the one before."""

    name: str
    after_s: int
    data: bytes


def i13(checks: Checks, ground: Ground) -> None:
    """Same log prefix and configuration: same codes, same receipts."""
    folder = ground.folder / "i13"
    key = SigningKey.generate()
    first = _Scene(ground, folder / "first")
    with first.open() as hub:
        prober = first.prober(hub, key)
        acts = _script(ground, prober)
        half = len(acts) // 2
        answers = _play(hub, acts[:half])
        _copy_log(first.data_dir, folder / "clone")
        answers += _play(hub, acts[half:])
    told = [answer if isinstance(answer, str) else "receipt" for answer in answers]
    checks.hold(
        "the script meets at least eight different codes",
        lambda: require(len({one.split(":")[0] for one in told}) > 8, f"only {set(told)}"),
    )
    second = _Scene(ground, folder / "second")
    shutil.copytree(first.data_dir / "keys", second.data_dir / "keys")
    with second.open() as hub:
        second.prober(hub, key)
        again = _play(hub, acts)
    checks.hold(
        f"a fresh hub with the same key gives the same {len(acts)} answers and roots",
        lambda: _same(acts, answers, again),
    )
    third = _Scene(ground, folder / "third")
    with third.open() as hub:
        third.prober(hub, key)
        foreign = _play(hub, acts)
    checks.hold(
        "a hub with another key gives the same codes",
        lambda: _same(acts, [_code(one) for one in answers], [_code(one) for one in foreign]),
    )
    with _Scene(ground, folder / "clone").open() as hub:
        hub.now = T0 + sum(act.after_s for act in acts[:half])
        rest = _play(hub, acts[half:])
    checks.hold(
        "a clone of the half-way log goes on as the original did",
        lambda: _same(acts[half:], answers[half:], rest),
    )


def _script(ground: Ground, prober: Prober) -> list[_Act]:
    """Good and bad messages of one client; written down once, played to several hubs."""
    good = [prober.draft(b"%d" % n, client_seq=n, prev_ack=0) for n in range(1, 10)]
    nobody = SigningKey.generate()
    elsewhere = labels.derive(ground.routing_key, _OTHER)
    unknown = ProfileId(bytes(32))

    def bad(**changes: object) -> bytes:
        return prober.draft(b"bad", **{"client_seq": 3, "prev_ack": 0, **changes})

    forged = replace(prober.author(b"forged").msg, sig=Signature(bytes(64))).encode()
    stranger = DhSecret.generate()
    return [
        _Act("first", 0, good[0]),
        _Act("gap", 0, good[2]),
        _Act("second", 0, good[1]),
        _Act("again", 0, good[0]),
        _Act("cut", 0, good[2][:-1]),
        _Act("ct_hash", 0, prober.resigned(ct_hash=bytes(32))),
        _Act("profile", 0, prober.resigned(profile_id=unknown)),
        _Act("forged", 0, forged),
        _Act("ack beyond the head", 0, bad(prev_ack=99)),
        _Act("no capability", 0, bad(auth_ref=None)),
        _Act("scope", 0, bad(label=elsewhere)),
        _Act("subject", 0, bad(key=nobody, client_seq=1)),
        *[_Act(f"burst {n}", 0, good[n]) for n in range(2, 5)],
        _Act("bucket empty", 0, good[5]),
        _Act("other reader", 0, bad(reader_pk=stranger.public, client_seq=6)),
        _Act("a second later", 1, good[5]),
        _Act("bucket empty again", 0, good[6]),
        _Act("much later", 30, good[6]),
        _Act("same number, other content", 0, bad(client_seq=7)),
        _Act("at the end of the ttl", _TTL_S - 31, good[7]),
        _Act("after the ttl", 1, good[8]),
    ]


def _play(hub: StillHub, acts: list[_Act]) -> list[bytes | str]:
    """The RECEIPT or the refusal with its detail, for each."""
    answers: list[bytes | str] = []
    for act in acts:
        hub.now += act.after_s
        try:
            answers.append(hub.submit(act.data))
        except VeenError as refusal:
            answers.append(str(refusal))
    return answers


def _code(answer: bytes | str) -> bytes | str:
    return answer if isinstance(answer, str) else "receipt"


def _same(acts: list[_Act], ours: list[bytes | str], theirs: list[bytes | str]) -> None:
    require(len(acts) == len(ours) == len(theirs), "not as many answers as submissions")
    for act, one, other in zip(acts, ours, theirs, strict=True):
        require(one == other, f"{act.name}: {one!r} here, {other!r} there")


def _copy_log(data_dir: Path, to: Path) -> None:
    """Clone a directory together with the heads beside it."""
    shutil.copytree(data_dir, to)
    shutil.copy(f"{data_dir}.heads", f"{to}.heads")
