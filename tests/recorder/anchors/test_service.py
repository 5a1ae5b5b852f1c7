"""Anchors beside their checkpoints: published, failed, tried again, verified; and the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from hub.client import HubClient
from hub.crypto.hashing import h
from hub.errors import ErrorCode, StoreError
from hub.models import Finding
from hub.types import ManifestId, UnixSeconds
from recorder.anchors import service
from recorder.anchors.anchor import Anchored, AnchorRef
from recorder.anchors.file import AnchorFile
from recorder.models import Anchor
from tests.recorder.anchors.authority import OPENSSL, make, serving
from tests.recorder.evidence import logs
from tests.support.live_hub import ROOT, LiveHub

pytestmark = pytest.mark.django_db(transaction=True)
ONE, TWO = ManifestId(h(b"one")), ManifestId(h(b"two"))


@pytest.fixture(autouse=True)
def place(settings: Settings, tmp_path: Path) -> Path:
    settings.VEEN_ANCHOR_FILE = tmp_path / "elsewhere" / "a"
    settings.VEEN_ANCHOR_TSA_URL = None
    settings.VEEN_HUB_DIR = tmp_path / "hub"
    return tmp_path


class Refusing(AnchorFile):
    """A disk that is away until it comes back."""

    is_away = True

    def publish(self, manifest_id: ManifestId, now: UnixSeconds) -> AnchorRef:
        if self.is_away:
            raise StoreError("the other disk is away")
        return super().publish(manifest_id, now)


def test_a_manifest_is_anchored_once_and_its_reference_kept(settings: Settings) -> None:
    (row,) = service.anchor_manifest(ONE)
    assert (row.backend, row.tries, row.error) == ("file", 1, "")
    (again,) = service.anchor_manifest(ONE)
    assert again.pk == row.pk
    assert again.tries == 1
    assert row.anchor_ref is not None
    backend = AnchorFile(settings.VEEN_ANCHOR_FILE)
    assert isinstance(backend.verify(AnchorRef.decode(bytes(row.anchor_ref)), ONE), Anchored)
    (verdict,) = service.verify_anchors(ONE)
    assert verdict.refusal is None
    assert service.verify_anchors(TWO) == []


def test_a_failure_is_kept_told_and_tried_again(place: Path) -> None:
    backend = Refusing(place / "b")
    (row,) = service.anchor_manifest(ONE, backends=[backend])
    assert row.anchored_at is None
    assert "away" in row.error
    service.anchor_manifest(TWO, backends=[backend])
    (finding,) = Finding.objects.all()  # one for the backend, not one for each manifest
    assert (finding.code, finding.object) == (str(ErrorCode.STORE), "anchor file")
    assert finding.severity == Finding.Severity.WARNING
    assert TWO.hex() in finding.detail
    service.retry_anchors(backends=[backend])
    assert set(Anchor.objects.values_list("tries", flat=True)) == {2}
    backend.is_away = False
    done = service.retry_anchors(backends=[backend])
    assert [one.manifest_id for one in done] == [ONE.hex(), TWO.hex()]
    assert service.retry_anchors(backends=[backend]) == []
    assert not Anchor.objects.filter(anchored_at__isnull=True).exists()


def test_a_stop_between_anchor_and_row_is_finished_by_the_next_try(
    settings: Settings,
) -> None:
    AnchorFile(settings.VEEN_ANCHOR_FILE).publish(ONE, UnixSeconds(5))
    (row,) = service.anchor_manifest(ONE)
    assert row.anchored_at is not None
    assert row.anchored_at.timestamp() == 5
    assert len(AnchorFile(settings.VEEN_ANCHOR_FILE).read().lines) == 1


class Forgetful(AnchorFile):
    """Writes an anchor that it does not find again."""

    def verify(self, ref: AnchorRef, manifest_id: ManifestId) -> Anchored:
        raise StoreError(f"{manifest_id.hex()} is not there: {ref.backend}", ErrorCode.DAMAGE)


def test_an_anchor_that_is_written_and_does_not_verify_is_critical(place: Path) -> None:
    (row,) = service.anchor_manifest(ONE, backends=[Forgetful(place / "b")])
    assert row.anchored_at is None
    assert Finding.objects.get().severity == Finding.Severity.CRITICAL


def test_an_anchor_that_no_longer_stands_becomes_a_finding(settings: Settings) -> None:
    service.anchor_manifest(ONE)
    service.anchor_manifest(TWO)
    lines = settings.VEEN_ANCHOR_FILE.read_bytes().splitlines(keepends=True)
    settings.VEEN_ANCHOR_FILE.write_bytes(b"".join(lines[:2]))
    assert service.verify_anchors(ONE)[0].refusal is None
    (verdict,) = service.verify_anchors(TWO)
    assert verdict.refusal is not None
    assert "was cut" in verdict.refusal.detail
    finding = Finding.objects.get()
    assert finding.object == f"anchor file {TWO.hex()[:16]}"
    assert finding.severity == Finding.Severity.CRITICAL


@pytest.fixture
def hub(place: Path) -> Iterator[LiveHub]:
    with logs.hub(place) as live:
        with HubClient(live.url, live.hub_pk) as client:
            logs.record(client, 1, 3)
        live.control("checkpoint")
        yield live


def test_failures_are_counted_where_the_metrics_are(hub: LiveHub, place: Path) -> None:
    service.anchor_manifest(ONE, backends=[Refusing(place / "b")])
    service.retry_anchors(backends=[Refusing(place / "b")])
    text = hub.client().get("/metrics").ok().decode()
    assert "veen_anchor_fail_total 2" in text.splitlines()


@pytest.mark.skipif(OPENSSL is None, reason="no openssl on this machine")
def test_both_backends_are_used_where_both_are_configured(settings: Settings, place: Path) -> None:
    with serving(make(place / "tsa")) as authority:
        settings.VEEN_ANCHOR_TSA_URL = authority.url
        settings.VEEN_ANCHOR_TSA_CERT = authority.certificate
        settings.VEEN_ANCHOR_ALLOW = ()
        rows = service.anchor_manifest(ONE)
    assert [row.backend for row in rows] == ["file", "rfc3161"]
    verdicts = service.verify_anchors(ONE)  # the authority is gone by now
    assert [one.refusal for one in verdicts] == [None, None]


def environment_of(root: Path) -> dict[str, str]:
    """A state directory of its own, whatever the suite itself runs on."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("VEEN_")}
    return {**ours, "VEEN_DATA_DIR": str(root / "state")}


def veen(root: Path, hub: LiveHub, *args: str) -> tuple[int, dict[str, Any]]:
    """The real command on a state directory of its own."""
    hub_named = {"VEEN_HUB_URL": hub.url, "VEEN_HUB_PK": hub.hub_pk.hex()}
    environment = environment_of(root) | hub_named
    done = subprocess.run(
        [sys.executable, "-m", "config.cli", "hub", "anchor", *args, "--json"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout or "{}")


def test_the_command_anchors_in_the_bundle_and_without_one(hub: LiveHub, place: Path) -> None:
    for name in ("web", "run", "secrets"):
        (place / "state" / name).mkdir(parents=True)
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
        cwd=ROOT, env=environment_of(place), check=True,
    )  # fmt: skip
    code, made = veen(place, hub, "publish")
    assert code == 0, made
    assert made["anchors"][0]["anchored_at"]
    assert (place / "state" / "anchors" / "manifests.anchor").exists()
    assert veen(place, hub, "list")[1]["anchors"][0]["manifest_id"] == made["manifest_id"]
    assert veen(place, hub, "verify")[0] == 0
    other = str(place / "stick" / "veen.anchor")
    out = str(place / "one.anchor")
    code, alone = veen(place, hub, "publish", "--file", other, "--out", out)
    assert (code, alone["manifest_id"]) == (0, made["manifest_id"])
    named = ("verify", "--manifest", made["manifest_id"], "--ref", out, "--file", other)
    assert veen(place, hub, *named)[1]["valid"] is True
    Path(other).write_bytes(Path(other).read_bytes().replace(b" ", b"  ", 1))
    assert veen(place, hub, *named)[0] == 7
    (place / "state" / "anchors" / "manifests.anchor").unlink()
    code, told = veen(place, hub, "verify")
    assert (code, told["valid"]) == (7, False)
    assert veen(place, hub, "publish", "--manifest", "ab" * 32)[0] == 4


def test_without_a_database_the_command_says_what_makes_one(tmp_path: Path) -> None:
    for words in (["list"], ["verify"]):
        done = subprocess.run(
            [sys.executable, "-m", "config.cli", "hub", "anchor", *words],
            cwd=ROOT, env=environment_of(tmp_path), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 9, done.stderr
        assert "`veen up` makes it" in done.stderr
        assert "Traceback" not in done.stderr
