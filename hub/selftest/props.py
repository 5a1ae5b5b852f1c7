"""`veen selftest props`: the laws of the protocol, checked without a test framework [SSOT 3.1, 5].

Laws over small numbers are checked for all of them; laws over random values for as long as the
time lasts, from a printed seed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import cycle
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Final

from hub import label as labels
from hub import mmr
from hub.admission.authority import AdmissionState, AdmissionSummary
from hub.admission.records import AdmissionRecord, Revocation, RevocationKind
from hub.authoring import author, open_message
from hub.errors import ProofError, VeenError
from hub.selftest.checks import Check, Checks, NotHeldError, require
from hub.selftest.kinds import Kind, record_kinds, wire_kinds
from hub.selftest.specimens import (
    CLIENT,
    ISSUER,
    LABEL,
    READER,
    T,
    capability,
    hashes,
    memory_log,
)
from hub.selftest.still import StillHub
from hub.types import ClientSeq, Hash, LeafHash, StreamId, UnixSeconds
from hub.wire import cbor
from hub.wire.captoken import CapToken
from hub.wire.payload import PayloadHeader
from hub.wire.profile import PRODUCT
from hub.wire.receipt import Receipt

SIZE_MAX: Final = 130


def run_props(say: Callable[[Check], None], *, seconds: float, seed: int) -> Checks:
    """All laws; the random ones share the time that is left after the others."""
    checks = Checks("props", say)
    checks.facts["seed"] = seed
    ends = perf_counter() + seconds
    every = [*wire_kinds(), *record_kinds()]
    checks.hold(f"round trips of {len(every)} objects", lambda: _round_trips(every))
    for kind in every:
        if kind.verify is not None:
            checks.hold(f"no flipped bit survives: {kind.name}", lambda kind=kind: _flips(kind))  # type: ignore[misc]
    log = _Log.of(SIZE_MAX)
    checks.hold(f"inclusion for all (seq, size) up to {SIZE_MAX}", log.check_inclusion)
    checks.hold(f"consistency for all (m, n) up to {SIZE_MAX}", log.check_consistency)
    checks.hold("roots equal those of a model in O(n) that shares no code", log.check_model)
    checks.hold("an MMR taken up at any size goes on to the same root", log.check_resume)
    checks.hold("admission folded in two parts, split anywhere", _split_folds)
    checks.hold("equal logs give equal roots, however batched", lambda: _equal_logs(seed))
    rng = Random(seed)  # noqa: S311 - to be repeated, not to be secret
    laws: dict[str, Callable[[Random], None]] = {
        "random values survive CBOR": _cbor_law,
        "random messages open to what was sealed": _message_law,
        "random ranges prove themselves and no other leaves": log.range_law,
    }
    counts = _run_random(checks, laws, rng, ends)
    checks.facts |= {"random_cases": sum(counts.values())}
    return checks


def _run_random(
    checks: Checks, laws: dict[str, Callable[[Random], None]], rng: Random, ends: float
) -> dict[str, int]:
    """In turn until the time is over, at least a hundred times each; the first failure ends one."""
    counts = dict.fromkeys(laws, 0)
    failures: dict[str, Exception] = {}
    for name in cycle(laws):
        if name not in failures:
            try:
                laws[name](rng)
            except Exception as failure:  # noqa: BLE001 - told below, under its name
                failures[name] = failure
        counts[name] += 1
        if perf_counter() > ends and min(counts.values()) >= 100:
            break
    for name, count in counts.items():
        checks.hold(f"{name}: {count} cases", lambda name=name: _raise(failures.get(name)))  # type: ignore[misc]
    return counts


def _raise(failure: Exception | None) -> None:
    if failure is not None:
        raise failure


def _round_trips(kinds: list[Kind]) -> None:
    for kind in kinds:
        for data in kind.seeds:
            value = kind.decode(data)
            if kind.encode is not None:
                require(kind.encode(value) == data, f"{kind.name} is spelled in another way")
            if kind.verify is not None:
                kind.verify(value)


def flipped_bits(data: bytes) -> Iterator[bytes]:
    """Every copy of the bytes with one bit changed."""
    for place, byte in enumerate(data):
        for bit in range(8):
            yield data[:place] + bytes((byte ^ 1 << bit,)) + data[place + 1 :]


def _flips(kind: Kind) -> None:
    assert kind.verify is not None
    data = min(kind.seeds, key=len)
    for number, changed in enumerate(flipped_bits(data)):
        try:
            kind.verify(kind.decode(changed))
        except VeenError:
            continue
        raise NotHeldError(f"bit {number} may be flipped")


def _refuses(act: Callable[[], None], detail: str) -> None:
    try:
        act()
    except ProofError:
        return
    raise NotHeldError(detail)


@dataclass(frozen=True, slots=True)
class _Log:
    """A log of numbered leaves with its nodes and all its roots."""

    leaves: list[Hash]
    node: mmr.NodeSource
    roots: list[bytes]  # roots[size - 1]

    @classmethod
    def of(cls, size: int) -> _Log:
        leaves = hashes(size)
        node, roots = memory_log(leaves)
        return cls(leaves, node, list(roots))

    def check_inclusion(self) -> None:
        for size in range(1, SIZE_MAX + 1):
            root = self.roots[size - 1]
            for seq in range(1, size + 1):
                proof = mmr.prove(seq, size, self.node)
                require(
                    bytes(proof.leaf_hash) == self.leaves[seq - 1], f"{seq} of {size}: another leaf"
                )
                proof.verify(stream_seq=seq, mmr_size=size, root=root)
                other = seq % size + 1
                if other != seq:
                    _refuses(
                        lambda: proof.verify(stream_seq=other, mmr_size=size, root=root),  # noqa: B023
                        f"the proof of {seq} passes for {other} of {size}",
                    )

    def check_consistency(self) -> None:
        for to_size in range(1, SIZE_MAX + 1):
            for from_size in range(1, to_size + 1):
                proof = mmr.prove_consistency(from_size, to_size, self.node)
                old, new = self.roots[from_size - 1], self.roots[to_size - 1]
                proof.verify(old, new, from_size=from_size, to_size=to_size)
                wrong = self.roots[from_size % SIZE_MAX]
                _refuses(
                    lambda: proof.verify(wrong, new, from_size=from_size, to_size=to_size),  # noqa: B023
                    f"another old root passes for {from_size} of {to_size}",
                )

    def check_model(self) -> None:
        for size in range(1, SIZE_MAX + 1):
            require(model_root(self.leaves[:size]) == self.roots[size - 1], f"size {size}")

    def check_resume(self) -> None:
        for size in range(1, SIZE_MAX):
            peaks = mmr.peaks_at(size, self.node)
            for place in range(size, SIZE_MAX):
                mmr.append(peaks, place, self.leaves[place])
            require(mmr.root(peaks) == self.roots[-1], f"taken up at {size}")

    def range_law(self, rng: Random) -> None:
        size = rng.randint(1, SIZE_MAX)
        first = rng.randint(1, size)
        last = rng.randint(first, size)
        proof = mmr.prove_range(first, last, size, self.node)
        leaves = [LeafHash(leaf) for leaf in self.leaves[first - 1 : last]]
        proof.verify(leaves, self.roots[size - 1])
        leaves[rng.randrange(len(leaves))] = LeafHash(rng.randbytes(32))
        _refuses(lambda: proof.verify(leaves, self.roots[size - 1]), "another leaf passes")


def model_root(leaves: list[Hash]) -> bytes:
    """The root from nothing but leaves and SHA-256: tallest tree first, level by level."""
    peaks: list[bytes] = []
    start = 0
    for height in reversed(range(len(leaves).bit_length())):
        if len(leaves) >> height & 1:
            level: list[bytes] = list(leaves[start : start + (1 << height)])
            while len(level) > 1:
                pairs = zip(level[::2], level[1::2], strict=True)
                level = [sha256(b"veen/mmr-node\x00" + a + b).digest() for a, b in pairs]
            peaks.insert(0, level[0])
            start += 1 << height
    return peaks[0] if len(peaks) == 1 else sha256(b"veen/mmr-root\x00" + b"".join(peaks)).digest()


def _split_folds() -> None:
    """The same events folded whole, and as two summaries merged at each place."""
    tokens = [capability(links) for links in (1, 2, 3)]
    tokens.append(
        CapToken.issue(ISSUER, subject_pk=READER.public, stream_ids=[StreamId(bytes(32))], ttl=5)
    )
    events: list[AdmissionRecord | Revocation] = [AdmissionRecord.of(one) for one in tokens]
    target = tokens[3].revocation_target()
    events.insert(2, Revocation(kind=RevocationKind.CAP_TOKEN, target=target, ts=T, ttl=9))
    events.insert(4, Revocation(kind=RevocationKind.CLIENT_ID, target=Hash(CLIENT.public), ts=T))
    events.append(events[0])  # admitted again: the first time counts
    whole = _fold(events, 0)
    for split in range(len(events) + 1):
        merged = _fold(events[:split], 0).merge(_fold(events[split:], split))
        require(merged == whole, f"split at {split} gives another state")
        again = AdmissionState.from_summary(merged, {ISSUER.public})
        require(again.summary() == whole, f"state rebuilt at {split} differs")


def _fold(events: list[AdmissionRecord | Revocation], offset: int) -> AdmissionSummary:
    state = AdmissionState({ISSUER.public})
    for place, event in enumerate(events, start=offset):
        if isinstance(event, AdmissionRecord):
            state.apply_admission(event, T + place)
        else:
            state.apply_revocation(event)
    return state.summary()


def _equal_logs(seed: int) -> None:
    """The same messages in one batch, one by one, and in random cuts."""
    routing_key = bytes([6]) * 32
    stream = labels.stream_id("selftest/equal")
    token = CapToken.issue(ISSUER, subject_pk=CLIENT.public, stream_ids=[stream], ttl=600)
    batch = [
        author(
            key=CLIENT,
            profile=PRODUCT,
            label=labels.derive(routing_key, stream),
            client_seq=ClientSeq(number),
            prev_ack=0,
            auth_ref=token.auth_ref(),
            reader_pk=READER.public,
            header=PayloadHeader(schema=Hash(bytes(32))),
            body=b"%d" % number,
        ).msg_bytes
        for number in range(1, 41)
    ]
    rng = Random(seed)  # noqa: S311 - to be repeated
    cuts = [[40], [1] * 40, [rng.randint(1, 6) for _ in range(40)]]
    found = []
    with tempfile.TemporaryDirectory(prefix="veen-selftest-") as folder:
        for number, sizes in enumerate(cuts):
            place = Path(folder) / str(number) / "d"
            place.parent.mkdir()
            with StillHub(place, routing_key=routing_key, issuer=ISSUER.public) as hub:
                hub.authorize(token)
                found.append(_roots(hub, list(batch), sizes))
    require(found[0] == found[1] == found[2], "the roots differ")
    require(len(found[0]) == len(batch), "not every message was accepted")


def _roots(hub: StillHub, batch: list[bytes], sizes: list[int]) -> list[bytes]:
    roots: list[bytes] = []
    for size in sizes:
        part, batch = batch[:size], batch[size:]
        for outcome in hub.submit_batch(part):
            if isinstance(outcome, VeenError):
                raise outcome
            roots.append(Receipt.decode(outcome).mmr_root)
    return roots


def _cbor_law(rng: Random) -> None:
    value = _random_value(rng, 4)
    data = cbor.encode(value)
    require(cbor.decode(data) == value, f"{data.hex()} reads as another value")
    require(cbor.skip(data) == len(data), f"{data.hex()} is stepped over wrongly")


def _random_value(rng: Random, depth: int) -> cbor.Value:
    if depth and rng.random() < 0.3:
        inner = [_random_value(rng, depth - 1) for _ in range(rng.randrange(5))]
        maps: tuple[cbor.Value, ...] = (
            {f"key {place}": item for place, item in enumerate(inner)},
            {place * place: item for place, item in enumerate(inner)},
        )
        return rng.choice((inner, *maps))
    number = rng.getrandbits(rng.choice((4, 5, 8, 16, 32, 64)))
    scalars: tuple[cbor.Value, ...] = (
        rng.choice((None, True, False)),
        number,
        -1 - number,
        rng.randbytes(rng.choice((0, 1, 23, 24, 32, 300))),
        "".join(rng.choices("aä€𝄞\x00/", k=rng.randrange(30))),
    )
    return rng.choice(scalars)


def _message_law(rng: Random) -> None:
    body = rng.randbytes(rng.choice((0, 1, 200, 256, 5000)))
    header = PayloadHeader(
        schema=Hash(rng.randbytes(32)), expires_at=UnixSeconds(rng.getrandbits(40))
    )
    made = author(
        key=CLIENT,
        profile=PRODUCT,
        label=LABEL,
        client_seq=ClientSeq(rng.getrandbits(rng.choice((3, 20, 64))) or 1),
        prev_ack=rng.getrandbits(rng.choice((3, 20, 64))),
        auth_ref=None,
        reader_pk=READER.public,
        header=header,
        body=body,
    )
    made.msg.verify()
    made.msg.check_ct_hash()
    opened = open_message(made.msg, profile=PRODUCT, secret=READER)
    require((opened.header, opened.body) == (header, body), "another plaintext")
    require(len(made.msg.ciphertext) % PRODUCT.pad_block == 0, "not padded")
