"""The index stores only what verifies, and notices a log that does not just grow."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from django.utils import timezone

from hub import mmr, queries, services
from hub.crypto.hashing import h
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.models import Finding, IndexState, LabelHead, ManifestRow
from hub.types import Label, LeafHash, ManifestId, StreamSeq, UnixSeconds
from hub.wire import cbor
from hub.wire.checkpoint import Checkpoint
from hub.wire.manifest import NO_MANIFEST, Manifest
from hub.wire.profile import PRODUCT
from hub.wire.receipt import Receipt
from hub.wire.rotation import RotationRecord, hub_id_of
from hub.wire.trust import KeyStatus, TrustedHub, TrustedKey, TrustFile
from tests.support.memory_log import MemoryLog

pytestmark = pytest.mark.django_db

LABEL = Label(h(b"first label"))
OTHER = Label(h(b"second label"))
TOKEN = "vrt_token_of_the_web_process"
STARTED = 1_700_000_000


class WatchedHub:
    """Signs with real keys over a real socket, and can be told to misbehave."""

    def __init__(self) -> None:
        self.key = self.first_key = SigningKey(h(b"hub key"))
        self.signers: dict[Label, SigningKey] = {}
        self.logs: dict[Label, MemoryLog] = {}
        self.manifests: dict[ManifestId, bytes] = {}
        self.latest: ManifestId = NO_MANIFEST
        self.rotations = b""
        self.is_down = False
        self.asked: list[str] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = hub.answer(self.path, self.headers.get("Authorization", ""))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, target: str, authorization: str) -> tuple[int, bytes]:
        url = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        self.asked.append(url.path)
        if self.is_down:
            return 503, cbor.encode({"code": "E.STORE"})
        if url.path == "/rotations":
            return 200, self.rotations
        if authorization != f"Bearer {TOKEN}":
            return 401, cbor.encode({"code": "E.AUTH", "detail": "bearer token is not known"})
        name = query.get("id", self.latest.hex())
        if url.path in ("/manifest", "/manifest_latest"):
            found = self.manifests.get(ManifestId(bytes.fromhex(name)))
            return (200, found) if found else (404, cbor.encode({"code": "E.NOTFOUND"}))
        return 200, self.read(url.path, Label(bytes.fromhex(query["label"])), query)

    def read(self, path: str, label: Label, query: dict[str, str]) -> bytes:
        log = self.logs[label]
        if path == "/head":
            size = len(log.leaves)
            leaf = LeafHash(log.leaves[-1])
            key = self.signers.get(label, self.key)
            when = UnixSeconds(STARTED + size)
            return Receipt.sign(key, label, StreamSeq(size), leaf, log.roots[-1], when).encode()
        assert path == "/consistency"
        first, last = int(query["from_size"]), int(query["to_size"])
        return mmr.prove_consistency(first, last, log.node).encode()

    def append(self, label: Label, *leaves: bytes) -> None:
        log = self.logs.setdefault(label, MemoryLog())
        for leaf in leaves:
            log.append(h(leaf))
        self.signers.pop(label, None)

    def checkpoint(self) -> ManifestId:
        checkpoints = [
            Checkpoint.sign(
                self.key,
                label_prev=label,
                label_curr=label,
                upto_seq=StreamSeq(len(log.leaves)),
                mmr_root=log.roots[-1],
            )
            for label, log in self.logs.items()
        ]
        manifest = Manifest.sign(
            self.key,
            profile_id=PRODUCT.id,
            created_at=UnixSeconds(STARTED + len(self.manifests)),
            checkpoints=checkpoints,
            previous=self.latest,
        )
        self.manifests[manifest.id] = manifest.encode()
        self.latest = manifest.id
        return manifest.id

    def rotate(self) -> None:
        old, new = self.key, SigningKey(h(self.key.seed))
        self.signers = dict.fromkeys(self.logs, old)
        record = RotationRecord.sign(
            old,
            new,
            hub_id=hub_id_of(self.first_key.public),
            ts=UnixSeconds(STARTED),
            manifest_id=self.checkpoint(),
        )
        self.rotations += record.encode()
        self.key = new


@pytest.fixture
def hub(tmp_path: Path, settings: object) -> Iterator[WatchedHub]:
    hub = WatchedHub()
    thread = threading.Thread(target=hub.server.serve_forever, args=(0.01,))
    thread.start()
    _give_files(hub, tmp_path, settings)
    yield hub
    hub.server.shutdown()
    thread.join()
    hub.server.server_close()


def _give_files(hub: WatchedHub, place: Path, settings: object) -> None:
    trust_key = SigningKey(h(b"trust key"))
    pinned = TrustedKey(pk=hub.key.public, status=KeyStatus.ACTIVE)
    hub_id = hub_id_of(hub.key.public)
    trust = TrustFile(serial=1, realm="test", hubs=(TrustedHub(hub_id=hub_id, keys=(pinned,)),))
    (place / "trust.json").write_bytes(trust.encode())
    (place / "trust.json.sig").write_bytes(trust.sign(trust_key))
    (place / "trust.pk").write_text(trust_key.public.hex())
    (place / "web.token").write_text(TOKEN)
    (place / "status.json").write_text(json.dumps({"hub_url": hub.url, "hub_id": hub_id.hex()}))
    for name, file in {
        "VEEN_STATUS_FILE": "status.json",
        "VEEN_TRUST_FILE": "trust.json",
        "VEEN_TRUST_PK_FILE": "trust.pk",
        "VEEN_READ_TOKEN_FILE": "web.token",
    }.items():
        setattr(settings, name, place / file)


def word() -> str:
    return queries.overview(timezone.now()).verdict.word


@pytest.mark.usefixtures("hub")
def test_a_new_hub_is_empty_and_not_yet_consistent() -> None:
    assert word() == "UNKNOWN"
    services.refresh_index()
    assert word() == "EMPTY"


def test_heads_and_manifests_are_stored_as_the_hub_signed_them(hub: WatchedHub) -> None:
    hub.append(LABEL, b"a", b"b", b"c")
    hub.append(OTHER, b"x")
    manifest_id = hub.checkpoint()
    hub.append(LABEL, b"d")
    services.refresh_index()
    head = LabelHead.objects.get(label=LABEL.hex())
    assert (head.upto_seq, head.checkpoint_seq) == (4, 3)
    assert head.root == hub.logs[LABEL].roots[-1].hex()
    row = ManifestRow.objects.get()
    assert (row.manifest_id, row.labels, row.messages) == (manifest_id.hex(), 2, 4)
    assert row.verified
    assert word() == "CONSISTENT"


def test_a_label_is_shown_under_the_name_that_somebody_knows(hub: WatchedHub) -> None:
    hub.append(LABEL, b"a")
    hub.append(OTHER, b"b")
    hub.checkpoint()
    services.refresh_index(lambda: {LABEL.hex(): "record/app/old"})
    services.refresh_index(lambda: {LABEL.hex(): "record/app/shop"})
    names = LabelHead.objects.values_list("label", "stream_name")
    assert dict(names) == {LABEL.hex(): "record/app/shop", OTHER.hex(): None}


def test_growth_is_followed_and_earlier_manifests_are_fetched_once(hub: WatchedHub) -> None:
    for leaf in (b"a", b"b", b"c"):
        hub.append(LABEL, leaf)
        hub.checkpoint()
    services.refresh_index()
    hub.append(LABEL, b"d", b"e")
    hub.asked.clear()
    services.refresh_index()
    assert LabelHead.objects.get().upto_seq == 5
    assert ManifestRow.objects.count() == 3
    assert "/manifest" not in hub.asked
    assert word() == "CONSISTENT"


def test_nothing_is_proved_again_when_nothing_changed(hub: WatchedHub) -> None:
    hub.append(LABEL, b"a", b"b")
    hub.checkpoint()
    hub.append(LABEL, b"c")
    services.refresh_index()
    hub.asked.clear()
    services.refresh_index()
    assert hub.asked == ["/rotations", "/manifest_latest", "/head"]


def rewrite_history(hub: WatchedHub) -> None:
    hub.logs[LABEL] = MemoryLog([h(b"a"), h(b"B"), h(b"c"), h(b"d")])


def roll_back(hub: WatchedHub) -> None:
    hub.logs[LABEL] = MemoryLog([h(b"a")])


def replace_the_newest(hub: WatchedHub) -> None:
    hub.logs[LABEL] = MemoryLog([h(b"a"), h(b"b"), h(b"C")])


@pytest.mark.parametrize("misdeed", [rewrite_history, roll_back, replace_the_newest])
def test_a_log_that_does_not_just_grow_is_a_finding_and_keeps_the_old_head(
    hub: WatchedHub, misdeed: Callable[[WatchedHub], None]
) -> None:
    hub.append(LABEL, b"a", b"b", b"c")
    hub.checkpoint()
    services.refresh_index()
    seen = LabelHead.objects.get().root
    misdeed(hub)
    services.refresh_index()
    finding = Finding.objects.get()
    assert (finding.code, finding.object) == ("V.EQUIVOCATION", f"label {LABEL.hex()}")
    assert LabelHead.objects.get().root == seen
    assert word() == "DIVERGED"


def test_a_manifest_by_a_stranger_is_a_finding_and_is_not_stored(hub: WatchedHub) -> None:
    hub.append(LABEL, b"a")
    hub.key = SigningKey(h(b"somebody else"))
    hub.checkpoint()
    services.refresh_index()
    assert not ManifestRow.objects.exists()
    assert not LabelHead.objects.exists()
    assert Finding.objects.get().code == "V.TRUST"


def test_a_head_by_a_stranger_is_a_finding(hub: WatchedHub) -> None:
    hub.append(LABEL, b"a")
    hub.checkpoint()
    hub.signers[LABEL] = SigningKey(h(b"somebody else"))
    services.refresh_index()
    assert not LabelHead.objects.exists()
    assert Finding.objects.get().code == "V.TRUST"


def test_a_label_that_vanishes_between_two_manifests_is_a_finding(hub: WatchedHub) -> None:
    hub.append(LABEL, b"a")
    hub.append(OTHER, b"x")
    hub.checkpoint()
    del hub.logs[OTHER]
    hub.checkpoint()
    services.refresh_index()
    assert Finding.objects.get().code == "V.EQUIVOCATION"


def test_a_rotated_key_is_followed_from_the_pinned_one(hub: WatchedHub) -> None:
    hub.append(LABEL, b"a", b"b")
    hub.rotate()
    services.refresh_index()  # the head is still signed by the old key, within its last manifest
    assert word() == "CONSISTENT"
    hub.append(LABEL, b"c")
    hub.checkpoint()
    services.refresh_index()
    assert IndexState.objects.get().hub_pk == hub.key.public.hex()
    assert LabelHead.objects.get().upto_seq == 3
    assert not Finding.objects.exists()


def test_a_superseded_key_that_goes_on_signing_is_a_finding(hub: WatchedHub) -> None:
    hub.append(LABEL, b"a", b"b")
    hub.rotate()
    old = hub.signers[LABEL]
    hub.append(LABEL, b"c")
    hub.signers[LABEL] = old
    services.refresh_index()
    assert Finding.objects.get().code == "V.TRUST"


def test_a_hub_out_of_reach_is_said_and_changes_nothing(hub: WatchedHub) -> None:
    hub.append(LABEL, b"a")
    hub.checkpoint()
    services.refresh_index()
    hub.is_down = True
    services.refresh_index()
    assert word() == "UNREACHABLE"
    assert LabelHead.objects.count() == 1
    assert not Finding.objects.exists()


def test_a_changed_trust_file_is_refused(hub: WatchedHub, tmp_path: Path) -> None:
    hub.append(LABEL, b"a")
    hub.checkpoint()
    trust = tmp_path / "trust.json"
    trust.write_bytes(trust.read_bytes().replace(b'"serial":1', b'"serial":2'))
    assert services.refresh_index().problem.startswith("E.SIG")
    assert not LabelHead.objects.exists()


def test_rows_that_were_lost_come_back_and_findings_stay(hub: WatchedHub) -> None:
    hub.append(LABEL, b"a", b"b")
    hub.checkpoint()
    services.refresh_index()
    columns = ("label", "upto_seq", "root", "checkpoint_seq", "checkpoint_manifest")
    before = list(LabelHead.objects.values(*columns)), list(ManifestRow.objects.values())
    moment = timezone.now()
    Finding.objects.create(
        code="V.PROOF", severity="critical", object="x", first_seen=moment, last_seen=moment
    )
    for table in (LabelHead, ManifestRow, IndexState):
        table.objects.all().delete()
    services.refresh_index()
    assert (list(LabelHead.objects.values(*columns)), list(ManifestRow.objects.values())) == before
    assert Finding.objects.count() == 1


def test_an_acknowledged_finding_that_is_still_there_does_not_turn_the_word(
    hub: WatchedHub,
) -> None:
    hub.append(LABEL, b"a", b"b")
    hub.checkpoint()
    services.refresh_index()
    roll_back(hub)
    services.refresh_index()
    services.acknowledge_finding(Finding.objects.get().pk, by="olga", reason="under inquiry")
    assert word() == "DIVERGED"
    services.refresh_index()
    assert word() == "DIVERGED"


def test_a_finding_is_acknowledged_once_and_with_a_reason() -> None:
    moment = timezone.now()
    finding = Finding.objects.create(
        code="V.PROOF", severity="critical", object="x", first_seen=moment, last_seen=moment
    )
    with pytest.raises(VeenError) as refusal:
        services.acknowledge_finding(finding.pk, by="olga", reason="  ")
    assert refusal.value.code is ErrorCode.POLICY
    services.acknowledge_finding(finding.pk, by="olga", reason="drill")
    with pytest.raises(VeenError):
        services.acknowledge_finding(finding.pk, by="ivan", reason="again")
