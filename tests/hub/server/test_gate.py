"""Capability, rate and epochs with a clock of the test's own; the same log, the same decisions."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hub import label as labels
from hub.admission import records
from hub.admission.records import Revocation, RevocationKind
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.server.config import HubConfig
from hub.server.core import HubCore, open_hub
from hub.types import Hash, Label, UnixSeconds
from hub.wire.captoken import CapToken, Rate
from hub.wire.profile import PRODUCT, Profile
from hub.wire.receipt import Receipt
from tests.support.hubs import abandon
from tests.support.live_hub import ISSUER, ROUTING_KEY, Author, Hands, commit, receipt_of

T0 = 1_700_000_000
STREAM = labels.stream_id("test/gate")
LABEL = labels.derive(ROUTING_KEY, STREAM)
KEY = SigningKey(b"the producer of the gate's tests")
EPOCHS = Profile(epoch_sec=100, pad_block=256)


def config_in(path: Path) -> HubConfig:
    return HubConfig(
        data_dir=path / "d",
        trusted_issuers=frozenset({ISSUER.public}),
        routing_key=ROUTING_KEY,
        profiles=(PRODUCT, EPOCHS),
    )


def opened(config: HubConfig, hands: Hands) -> HubCore:
    return open_hub(config, wall=hands.wall, boot=hands.boot)


def token(*, ttl: int = 10**6, rate: Rate | None = None) -> CapToken:
    return CapToken.issue(ISSUER, subject_pk=KEY.public, stream_ids=[STREAM], ttl=ttl, rate=rate)


def author_of(cap: CapToken, label: Label = LABEL, profile: Profile = PRODUCT) -> Author:
    return Author(label, KEY, auth_ref=cap.auth_ref(), profile=profile)


def attempt(core: HubCore, author: Author) -> ErrorCode | None:
    """Submit the next MSG; the author counts it when it was taken."""
    [outcome] = commit(core, author.draft().encode())
    if isinstance(outcome, Receipt):
        author.seq += 1
        return None
    return outcome


class TestRate:
    def test_a_bucket_starts_full_and_refills_by_whole_seconds(self, tmp_path: Path) -> None:
        hands = Hands(T0)
        core = opened(config_in(tmp_path), hands)
        cap = token(rate=Rate(per_sec=2, burst=3))
        core.authorize(cap.encode())
        author = author_of(cap)
        assert [attempt(core, author) for _ in range(4)] == [None, None, None, ErrorCode.RATE]
        hands.passes(0.9)
        assert attempt(core, author) is ErrorCode.RATE
        hands.passes(0.2)
        assert [attempt(core, author) for _ in range(3)] == [None, None, ErrorCode.RATE]
        hands.passes(1000)
        assert [attempt(core, author) for _ in range(4)] == [None, None, None, ErrorCode.RATE]
        core.close()

    @pytest.mark.parametrize("crash", [False, True], ids=["closed", "dropped"])
    def test_a_restart_makes_the_same_decisions(self, tmp_path: Path, crash: bool) -> None:  # noqa: FBT001
        script = [0, 0, 0, 1, 0, 2, 0, 0, 0, 5, 0, 0, 0, 0, 0]
        verdicts: list[list[ErrorCode | None]] = []
        for name, restarts in (("steady", False), ("restarting", True)):
            hands = Hands(T0)
            config = config_in(tmp_path / name)
            core = opened(config, hands)
            cap = token(rate=Rate(per_sec=1, burst=3))
            core.authorize(cap.encode())
            author = author_of(cap)
            found = []
            for seconds in script:
                hands.passes(seconds)
                if restarts:
                    if crash:
                        abandon(core)
                    else:
                        core.close()
                    core = opened(config, hands)
                found.append(attempt(core, author))
            verdicts.append(found)
            core.close()
        assert ErrorCode.RATE in verdicts[0]
        assert verdicts[0] == verdicts[1]

    def test_the_bucket_is_per_label(self, tmp_path: Path) -> None:
        core = opened(config_in(tmp_path), Hands(T0))
        other = labels.stream_id("test/other")
        cap = CapToken.issue(
            ISSUER,
            subject_pk=KEY.public,
            stream_ids=[STREAM, other],
            ttl=1000,
            rate=Rate(per_sec=0, burst=1),
        )
        core.authorize(cap.encode())
        one, two = author_of(cap), author_of(cap, labels.derive(ROUTING_KEY, other))
        assert [attempt(core, author) for author in (one, two)] == [None, None]
        assert [attempt(core, author) for author in (one, two)] == [ErrorCode.RATE] * 2
        core.close()

    def test_a_batch_cannot_overdraw_a_bucket(self, tmp_path: Path) -> None:
        core = opened(config_in(tmp_path), Hands(T0))
        cap = token(rate=Rate(per_sec=0, burst=5))
        core.authorize(cap.encode())
        author = author_of(cap)
        outcomes = commit(core, *[author.next() for _ in range(10)])
        assert sum(isinstance(item, Receipt) for item in outcomes) == 5
        assert outcomes[5:] == [ErrorCode.RATE] * 5
        core.close()


class TestTtl:
    def test_a_capability_is_valid_up_to_and_with_its_last_second(self, tmp_path: Path) -> None:
        hands = Hands(T0)
        core = opened(config_in(tmp_path), hands)
        cap = token(ttl=10)
        said = core.authorize(cap.encode())
        assert said["expires_at"] == T0 + 10
        author = author_of(cap)
        hands.passes(10)
        assert attempt(core, author) is None
        hands.passes(1)
        assert attempt(core, author) is ErrorCode.TIME
        assert core.authorize(cap.encode()) == said
        renewed = cap.renew(ISSUER)
        assert core.authorize(renewed.encode())["expires_at"] == T0 + 21
        author.auth_ref = renewed.auth_ref()
        assert attempt(core, author) is None
        core.close()

    def test_a_ttl_that_overflows_saturates(self, tmp_path: Path) -> None:
        core = opened(config_in(tmp_path), Hands(T0))
        assert core.authorize(token(ttl=2**64 - 1).encode())["expires_at"] == 2**64 - 1
        core.close()

    def test_a_revocation_is_in_force_for_its_ttl(self, tmp_path: Path) -> None:
        hands = Hands(T0)
        core = opened(config_in(tmp_path), hands)
        cap = token()
        core.authorize(cap.encode())
        revocation = Revocation(
            kind=RevocationKind.AUTH_REF,
            target=Hash(cap.auth_ref()),
            ts=UnixSeconds(T0),
            ttl=100,
        )
        core.record(records.REVOCATION, revocation.encode())
        author = author_of(cap)
        assert attempt(core, author) is ErrorCode.CAP
        hands.passes(99)
        assert attempt(core, author) is ErrorCode.CAP
        hands.passes(1)
        assert attempt(core, author) is None
        core.close()


class TestEpochs:
    def label(self, epoch: int) -> Label:
        return labels.derive(ROUTING_KEY, STREAM, epoch)

    def write(self, core: HubCore, cap: CapToken, epoch: int) -> None:
        receipt_of(core, author_of(cap, self.label(epoch), EPOCHS).next())

    def chain(self, core: HubCore) -> dict[int, Label | None]:
        states = core.store.state.labels.values()
        return {state.epoch: state.label_prev for state in states if state.epoch}

    def test_each_epoch_names_the_one_before_however_the_hub_was_restarted(
        self, tmp_path: Path
    ) -> None:
        hands = Hands(T0)
        config = config_in(tmp_path)
        core = opened(config, hands)
        cap = token()
        core.authorize(cap.encode())
        start = T0 // 100
        written = [0, 1, 2, 5, 6]
        expected: dict[int, Label | None] = {}
        before: Label | None = None
        at = 0
        for number, offset in enumerate(written):
            hands.passes((offset - at) * 100)
            at = offset
            self.write(core, cap, start + offset)
            expected[start + offset] = before
            before = self.label(start + offset)
            if number % 2:
                core.close()
            else:
                abandon(core)
            core = opened(config, hands)
            assert self.chain(core) == expected
        core.close()
        # From the log alone, as a rebuild does it, the chain is the same.
        (config.data_dir / "snapshot").unlink()
        core = opened(config, hands)
        assert self.chain(core) == expected
        core.close()

    def test_two_epochs_that_begin_in_one_batch_chain_as_on_replay(self, tmp_path: Path) -> None:
        hands = Hands(T0)
        config = config_in(tmp_path)
        core = opened(config, hands)
        cap = token()
        core.authorize(cap.encode())
        now = T0 // 100
        msgs = [
            author_of(cap, self.label(epoch), EPOCHS).next() for epoch in (now - 1, now, now + 1)
        ]
        assert all(isinstance(item, Receipt) for item in commit(core, *msgs))
        live = self.chain(core)
        assert live == {
            now - 1: None, now: self.label(now - 1), now + 1: self.label(now)
        }  # fmt: skip
        abandon(core)
        core = opened(config, hands)
        assert self.chain(core) == live
        core.close()

    def test_a_batch_that_failed_leaves_no_trace_in_the_chain(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hands = Hands(T0)
        core = opened(config_in(tmp_path), hands)
        cap = token()
        core.authorize(cap.encode())
        now = T0 // 100
        self.write(core, cap, now)
        hands.passes(100)
        msg = author_of(cap, self.label(now + 1), EPOCHS).next()
        with monkeypatch.context() as patch:

            def refuse(*_: object) -> None:
                raise OSError(28, "no space left on device")

            patch.setattr(type(core.store.segments), "write", refuse)
            assert commit(core, msg) == [ErrorCode.STORE]
        receipt_of(core, msg)
        assert self.chain(core)[now + 1] == self.label(now)
        core.close()


def test_a_clone_folds_the_same_admissions(tmp_path: Path) -> None:
    hands = Hands(T0)
    config = config_in(tmp_path)
    core = opened(config, hands)
    caps = [token(ttl=ttl) for ttl in (10, 20, 30)]
    for cap in caps:
        core.authorize(cap.encode())
    core.authorize(caps[0].renew(ISSUER).encode())
    summary = core.gate.state.summary()
    core.close()
    copy = tmp_path / "copy"
    shutil.copytree(config.data_dir, copy)
    clone = opened(replace(config, data_dir=copy), hands)
    assert clone.gate.state.summary() == summary
    assert clone.read_only is not None  # no heads beside it: it may read, not write
    assert clone.authorize(caps[1].encode())["expires_at"] == T0 + 20
    with pytest.raises(VeenError) as refused:
        clone.authorize(token(ttl=40).encode())
    assert refused.value.code is ErrorCode.STORE
    clone.close()
