"""The author keeps every recorded manifest outside the hub, without being asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from config.author_anchors import Anchoring
from hub.server.config import HubConfig
from hub.types import ManifestId
from recorder import checkpoints
from recorder.anchors import service
from recorder.anchors.file import AnchorFile
from recorder.checkpoints import Schedule
from recorder.models import Anchor
from tests.recorder.anchors.authority import OPENSSL, make, serving
from tests.support import live_hub
from tests.support.live_hub import ISSUER, ROUTING_KEY, LiveHub
from tests.support.office import Office, opened

pytestmark = pytest.mark.django_db(transaction=True)
NEVER = 10**11
PATIENCE_S = 30.0


@pytest.fixture(autouse=True)
def place(settings: Settings, tmp_path: Path) -> Path:
    settings.VEEN_ANCHOR_FILE = tmp_path / "elsewhere" / "a"
    settings.VEEN_ANCHOR_TSA_URL = None
    settings.VEEN_HUB_DIR = tmp_path / "hub"
    return tmp_path


@pytest.fixture
def hub(place: Path) -> Iterator[LiveHub]:
    """Makes manifests only when asked."""
    config = HubConfig(
        data_dir=place / "hub",
        trusted_issuers=frozenset({ISSUER.public}),
        routing_key=ROUTING_KEY,
        workers=1,
        checkpoint_interval_s=NEVER,
        checkpoint_messages=NEVER,
        log_submits=False,
    )
    with live_hub.running(config) as hub:
        yield hub


@pytest.fixture
def office(hub: LiveHub, place: Path) -> Iterator[Office]:
    with opened(hub, place / "office") as made:
        made.found()
        yield made


@pytest.fixture
def anchoring() -> Iterator[Anchoring]:
    made = Anchoring(look_s=0.05, retry_s=0.2)
    made.start()
    yield made
    made.stop()


def make_manifest(office: Office) -> ManifestId:
    """A new manifest of the hub, recorded as the author does it."""
    made = office.hub.control("checkpoint")["manifest_id"]
    checkpoints.publish(office.authority, Schedule(interval_s=300, messages=10_000))
    office.run()
    return ManifestId(bytes.fromhex(str(made)))


def wait_for(what: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < ends_at, list(Anchor.objects.values())
        time.sleep(0.05)


def anchored() -> set[str]:
    return set(
        Anchor.objects.filter(anchored_at__isnull=False).values_list("manifest_id", flat=True)
    )


def test_every_manifest_recorded_from_now_on_is_anchored(
    office: Office, settings: Settings
) -> None:
    old = make_manifest(office)
    first = make_manifest(office)
    service.anchor_published()
    assert anchored() == {first.hex()}, "a new backend starts with the newest, which names the rest"
    later = [make_manifest(office) for _ in range(2)]
    service.anchor_published()
    service.anchor_published()
    assert anchored() == {one.hex() for one in (first, *later)}
    lines = AnchorFile(settings.VEEN_ANCHOR_FILE).read().lines
    assert [line.manifest_id for line in lines] == [first, *later]
    assert old not in {line.manifest_id for line in lines}


def test_the_thread_anchors_and_repeats_what_failed(
    office: Office, place: Path, anchoring: Anchoring
) -> None:
    (place / "elsewhere").write_text("a file where the directory should be")
    made = make_manifest(office)
    wait_for(lambda: Anchor.objects.filter(manifest_id=made.hex(), tries__gt=1).exists())
    assert anchored() == set()
    (place / "elsewhere").unlink()
    wait_for(lambda: anchored() == {made.hex()})
    assert service.verify_anchors(made)[0].refusal is None


@pytest.mark.skipif(OPENSSL is None, reason="no openssl on this machine")
def test_an_authority_that_is_away_gets_its_manifest_when_it_is_back(
    office: Office, place: Path, settings: Settings
) -> None:
    with serving(make(place / "tsa")) as authority:
        settings.VEEN_ANCHOR_TSA_URL = authority.url
        settings.VEEN_ANCHOR_TSA_CERT = authority.certificate
        settings.VEEN_ANCHOR_ALLOW = ()
        authority.answer = lambda _: (503, {}, b"")
        made = make_manifest(office)
        anchoring = Anchoring(look_s=0.05, retry_s=0.2)
        anchoring.start()
        try:
            wait_for(lambda: Anchor.objects.filter(backend="rfc3161", tries__gt=1).exists())
            authority.answer = None
            wait_for(lambda: not Anchor.objects.filter(anchored_at__isnull=True).exists())
        finally:
            anchoring.stop()
    verdicts = service.verify_anchors(made)
    assert [(one.row.backend, one.refusal) for one in verdicts] == [
        ("file", None),
        ("rfc3161", None),
    ]
