"""The self-tests that ship hold here, and they notice when something is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from config import cli
from hub import label as labels
from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, ProofError, VeenError
from hub.selftest import core, invariants, props
from hub.selftest.checks import Check, Checks, NotHeldError, require
from hub.selftest.fuzz import fuzz_kind, run_fuzz
from hub.selftest.fuzz_targets import canaries, targets
from hub.selftest.ground import Ground
from hub.selftest.kinds import Kind, record_kinds, wire_kinds
from hub.selftest.live import LiveHub, Plan
from hub.selftest.prober import Prober
from hub.selftest.still import StillHub
from hub.types import PublicKey
from hub.wire.captoken import CapToken

ROOT = Path(__file__).resolve().parents[2]
INVARIANTS = [f"I{number}" for number in range(1, 14)]


def silent(_: Check) -> None:
    """Say nothing."""


def failures(checks: Checks) -> list[str]:
    return [check.line() for check in checks.made if not check.ok]


@pytest.fixture(scope="module")
def story() -> Checks:
    return core.run_core(silent)


def test_the_story_and_every_invariant_hold(story: Checks) -> None:
    assert failures(story) == []


def test_the_story_tells_every_step_of_seen_to_work(story: Checks) -> None:
    told = {check.name.split(":")[0] for check in story.made if check.group == "story"}
    steps = {
        "keygen", "up", "cap issue", "authorize", "send", "stream", "verify offline",
        "kill -9, up again", "fsck", "rotate", "down", "HPKE",
    }  # fmt: skip
    assert steps <= told


def test_every_invariant_has_a_positive_check_and_a_refused_violation(story: Checks) -> None:
    for name in INVARIANTS:
        made = [check.name for check in story.made if check.group == name]
        assert any("->" not in check for check in made), name
        # I13 speaks of sameness: its violation is a difference, which `_same` would report.
        assert name == "I13" or any("->" in check for check in made), name


def test_a_story_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def stop_early(*_: object) -> None:
        raise NotHeldError("stopped on purpose")

    monkeypatch.setattr("hub.selftest.core.telling.send_and_read", stop_early)
    checks = core.run_core(silent)
    assert failures(checks) == ["FAILED story    runs to its end: stopped on purpose"]
    assert list(tmp_path.iterdir()) == []


class StillGround(Ground):
    """The ground of a hub in this process, so that a test can break one of its parts."""

    hub: StillHub

    def prober(self, name: str, **_: object) -> Prober:
        key = SigningKey.generate()
        stream = labels.stream_id(f"selftest/{name}")
        token = CapToken.issue(self.issuer, subject_pk=key.public, stream_ids=[stream], ttl=600)
        self.hub.authorize(token)
        return Prober(
            send=self.hub.submit,
            key=key,
            label=labels.derive(self.routing_key, stream),
            auth_ref=token.auth_ref(),
            reader=self.reader,
        )


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[StillGround]:
    issuer, routing_key = SigningKey.generate(), bytes(range(32))
    with StillHub(tmp_path / "d", routing_key=routing_key, issuer=issuer.public) as hub:
        ground = StillGround(
            client=None,  # type: ignore[arg-type]
            folder=tmp_path,
            issuer=issuer,
            routing_key=routing_key,
            reader=DhSecret.generate(),
        )
        object.__setattr__(ground, "hub", hub)
        yield ground


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("i1", "hub.wire.msg.Msg.check_ct_hash"),
        ("i6", "hub.server.gate.check_order"),
        ("i9", "hub.server.gate.check_order"),
    ],
)
def test_a_hub_without_the_check_fails_its_invariant(
    name: str, broken: str, ground: StillGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = Checks("sound", silent)
    getattr(invariants, name)(sound, ground)
    assert failures(sound) == []
    monkeypatch.setattr(broken, lambda *_, **__: None)
    unsound = Checks("unsound", silent)
    unsound.section(name, lambda: getattr(invariants, name)(unsound, ground))
    assert failures(unsound), "the hub took what it must refuse, and nobody noticed"


def test_a_violation_that_is_taken_fails_the_check() -> None:
    checks = Checks("test", silent)
    checks.refused("a violation", ErrorCode.FORMAT, lambda: None)
    assert failures(checks) == [
        "FAILED test     a violation -> E.FORMAT: was taken; it must be refused with E.FORMAT"
    ]


def test_a_refusal_with_another_code_fails_the_check() -> None:
    checks = Checks("test", silent)

    def refuse() -> None:
        raise VeenError(ErrorCode.SIG, "too late in the order")

    checks.refused("a violation", ErrorCode.FORMAT, refuse)
    assert "instead of E.FORMAT" in failures(checks)[0]


def test_a_self_test_without_checks_is_no_success() -> None:
    assert not Checks("nothing", silent).is_good()


def test_a_failed_step_ends_its_section_and_only_that() -> None:
    checks = Checks("test", silent)

    def part() -> None:
        checks.need("cannot be", lambda: require(False, "no"))  # noqa: FBT003
        checks.hold("never reached", lambda: None)

    assert not checks.section("one", part)
    assert checks.section("two", lambda: checks.hold("goes on", lambda: None))
    assert [check.name for check in checks.made] == ["cannot be", "goes on"]


def test_the_laws_hold(seed: int) -> None:
    checks = props.run_props(silent, seconds=1, seed=seed)
    assert failures(checks) == []


def test_a_law_notices_an_object_with_an_unsigned_bit() -> None:
    receipt = next(kind for kind in wire_kinds() if kind.name == "receipt")
    careless = replace(receipt, verify=lambda one: one)
    with pytest.raises(NotHeldError, match="may be flipped"):
        props._flips(careless)


def test_a_law_notices_a_proof_that_passes_elsewhere() -> None:
    with pytest.raises(NotHeldError):
        props._refuses(lambda: None, "it passed")
    with pytest.raises(VeenError):
        props._refuses(_raise_format, "another refusal than of a proof is none")


def _raise_format() -> None:
    raise VeenError(ErrorCode.FORMAT)


def test_the_model_root_is_not_ours() -> None:
    with pytest.raises(NotHeldError):
        log = props._Log.of(8)
        props._Log(log.leaves[::-1], log.node, log.roots).check_model()


def test_invariants_are_thirteen() -> None:
    checks = Checks("test", silent)
    broken = Ground(
        client=None,  # type: ignore[arg-type]
        folder=Path(),
        issuer=None,  # type: ignore[arg-type]
        routing_key=b"",
        reader=None,  # type: ignore[arg-type]
    )
    invariants.check_invariants(checks, broken)
    assert [check.group for check in checks.made] == INVARIANTS
    assert checks.failed == 13


def test_a_hub_that_cannot_start_is_told_with_its_last_words(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a directory")
    hub = LiveHub(
        Plan(data_dir=in_the_way / "d", routing_key=bytes(32), trusted_issuer=PublicKey(bytes(32)))
    )
    with pytest.raises((VeenError, OSError)):
        hub.start()
    hub.close()


def test_still_hubs_answer_batches_in_order(tmp_path: Path) -> None:
    issuer = PublicKey(bytes(32))
    with StillHub(tmp_path / "d", routing_key=bytes(32), issuer=issuer) as hub:
        answers = hub.submit_batch([b"", b"\x80"])
    assert [isinstance(one, VeenError) for one in answers] == [True, True]


def test_the_fuzzer_aims_at_every_door() -> None:
    names = {kind.name for kind in targets()}
    assert len(names) == len(targets()) >= 12
    assert {kind.name for kind in (*wire_kinds(), *record_kinds())} <= names


def test_a_run_of_the_fuzzer_repeats_exactly(seed: int) -> None:
    kind = next(kind for kind in targets() if kind.name == "receipt")
    first, second = (_inputs(kind, seed) for _ in range(2))
    assert first == second
    assert first != _inputs(kind, seed + 1)


def _inputs(kind: Kind, seed: int) -> list[bytes]:
    seen: list[bytes] = []

    def decode(data: bytes) -> object:
        seen.append(data)
        return kind.decode(data)

    fuzz_kind(replace(kind, decode=decode), seed, runs=300)
    return seen


@pytest.mark.parametrize("canary", canaries(), ids=lambda kind: kind.name)
def test_the_fuzzer_finds_each_planted_bug(canary: Kind, seed: int) -> None:
    tally = fuzz_kind(canary, seed, runs=200_000)
    assert tally.finding is not None
    assert tally.runs > len(canary.seeds)  # not in a seed, but in a mutant


def test_the_report_of_a_finding_has_the_input_and_the_seed(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hub.selftest.fuzz.targets", canaries)
    checks = run_fuzz(silent, seed=seed, runs=200_000)
    told = [line for line in failures(checks) if "canary-crash" in line]
    assert f"seed {seed}, input " in told[0]
    assert "IndexError" in told[0]


@pytest.mark.parametrize("args", [["props", "--seconds", "1"], ["fuzz", "--seconds", "1"]])
def test_the_command_prints_one_document(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["selftest", *args, "--json"]) == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert document["ok"] is True
    assert document["failed"] == 0
    assert "seed" in document
    assert err.splitlines()[-1].startswith("selftest ")


def test_a_failed_self_test_exits_with_five(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise ProofError("planted")

    monkeypatch.setattr("hub.selftest.props._split_folds", broken)
    assert cli.run(["selftest", "props", "--seconds", "1"]) == 5
    out = capsys.readouterr().out
    assert "FAILED props    admission folded in two parts, split anywhere: V.PROOF: planted" in out
    assert "1 FAILED" in out.splitlines()[-1]


@pytest.mark.parametrize("command", ["core", "props", "fuzz", "all"])
def test_help_has_two_examples_and_imports_nothing_heavy(command: str) -> None:
    code = (
        "import sys; from config import cli; status = cli.run(sys.argv[1:]); "
        "heavy = {'hub.server', 'hub.client', 'nacl', 'cbor2', 'django'} & set(sys.modules); "
        "assert not heavy, heavy; sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "selftest", command, "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    _, _, after = done.stdout.partition("Examples:")
    assert len([line for line in after.splitlines() if line.strip().startswith("veen ")]) == 2
