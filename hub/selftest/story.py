"""The hub's whole story against a temporary hub of real processes [SSOT 12].

keygen, cap issue, authorize, send, stream with proofs, verify offline, kill -9, up again, fsck,
rotate the hub key, verify the old receipt.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hub import control, keystore
from hub import label as labels
from hub.authoring import open_message
from hub.client import Draft, HubClient
from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode
from hub.selftest import offline
from hub.selftest.checks import Checks, require
from hub.selftest.foreign import open_with_pyhpke
from hub.selftest.ground import Ground
from hub.selftest.live import LiveHub, Plan
from hub.selftest.prober import SCHEMA
from hub.streamitem import StreamItem
from hub.types import AuthRef, Label, ManifestId, PublicKey
from hub.verify import Evidence, Pins, verify_evidence
from hub.wire.captoken import CapToken
from hub.wire.msg import Msg
from hub.wire.payload import PayloadHeader
from hub.wire.profile import PRODUCT
from hub.wire.receipt import Receipt
from hub.wire.rotation import RotationRecord

STREAM: Final = "selftest/core"
_PASSPHRASE: Final = b"only for this temporary keystore"
_BODIES: Final = tuple(b"event %d" % number for number in range(1, 13))
_TTL_S: Final = 86_400


@dataclass(slots=True)
class Story:
    """The cast; what a step learns, the next ones use."""

    checks: Checks
    folder: Path
    closing: ExitStack
    alice: SigningKey = field(default_factory=SigningKey.generate)
    issuer: SigningKey = field(default_factory=SigningKey.generate)
    reader: DhSecret = field(default_factory=DhSecret.generate)
    routing_key: bytes = field(default_factory=lambda: SigningKey.generate().seed)
    token: str = ""
    pinned: PublicKey = field(default_factory=lambda: PublicKey(b""))
    auth_ref: AuthRef = field(default_factory=lambda: AuthRef(b""))
    receipts: list[Receipt] = field(default_factory=list)
    items: list[StreamItem] = field(default_factory=list)

    @property
    def label(self) -> Label:
        """Of the stream all this happens on."""
        return labels.derive(self.routing_key, labels.stream_id(STREAM))

    @property
    def data_dir(self) -> Path:
        """Of the temporary hub."""
        return self.folder / "hub"

    def ground(self, client: HubClient) -> Ground:
        """What the invariants need of this story."""
        return Ground(
            client=client,
            folder=self.folder,
            issuer=self.issuer,
            routing_key=self.routing_key,
            reader=self.reader,
        )

    def connect(self, hub: LiveHub, *, token: bool = True) -> HubClient:
        """Alice's client, with the key she pinned at the beginning and the state she kept."""
        client = HubClient(
            hub.url,
            self.pinned,
            state_dir=self.folder / "alice",
            token=self.token if token else None,
        )
        self.closing.callback(client.close)
        return client

    def header(self) -> PayloadHeader:
        """Of every event of the story."""
        return PayloadHeader(schema=SCHEMA, cap_ref=self.auth_ref)

    def drafts(self, *bodies: bytes) -> list[Draft]:
        """Events for the stream's reader."""
        return [
            Draft(label=self.label, reader_pk=self.reader.public, header=self.header(), body=body)
            for body in bodies
        ]


def begin(story: Story) -> tuple[LiveHub, HubClient]:
    """keygen, up, cap issue, authorize, read token."""
    checks = story.checks
    checks.need("keygen: a sealed keystore gives the key back", lambda: _keygen(story))
    checks.refused(
        "keygen: a wrong passphrase",
        ErrorCode.KEYSTORE,
        lambda: keystore.read(story.folder / "alice.keystore", b"wrong"),
    )
    hub = LiveHub(
        Plan(
            data_dir=story.data_dir,
            routing_key=story.routing_key,
            trusted_issuer=story.issuer.public,
        )
    )
    story.closing.callback(hub.close)
    checks.need("up: the hub is ready and says its key", hub.start)
    story.pinned = hub.hub_pk
    added = control.call(story.data_dir, "token_add", name="alice", all=True)
    story.token = str(added["token"])
    client = story.connect(hub)
    capability = CapToken.issue(
        story.issuer,
        subject_pk=story.alice.public,
        stream_ids=[labels.stream_id(STREAM)],
        ttl=_TTL_S,
    )
    checks.need("cap issue: the issuer signed every link", capability.verify_chain)
    story.auth_ref = capability.auth_ref()
    checks.refused(
        "send: before the capability is authorized",
        ErrorCode.AUTH,
        lambda: _send(story, client, _BODIES[0]),
    )
    expires_at = checks.need("authorize: admitted", lambda: client.authorize(capability))[1]
    checks.hold(
        "authorize: the same again has the first expires_at",
        lambda: require(client.authorize(capability)[1] == expires_at, "another expires_at"),
    )
    return hub, client


def _keygen(story: Story) -> None:
    path = story.folder / "alice.keystore"
    keystore.write(path, {"sign": story.alice.seed}, _PASSPHRASE)
    require(stat.S_IMODE(path.stat().st_mode) == 0o600, "the keystore is readable by others")
    found = keystore.read(path, _PASSPHRASE)["sign"]
    require(SigningKey(found).public == story.alice.public, "another key")


def _send(story: Story, client: HubClient, *bodies: bytes, pipelined: bool = False) -> None:
    with client.producer(story.alice, auth_ref=story.auth_ref) as producer:
        story.receipts += producer.submit_batch(story.drafts(*bodies), pipelined=pipelined)


def send_and_read(story: Story, client: HubClient) -> None:
    """Send in three ways, stream with proofs, open, and a foreign HPKE."""
    checks, bodies = story.checks, _BODIES
    # The message that was refused before stayed in the outbox and goes first.
    checks.need("send: one by one", lambda: _send(story, client, bodies[1]))
    checks.need("send: one batch", lambda: _send(story, client, *bodies[2:7]))
    checks.need("send: pipelined", lambda: _send(story, client, *bodies[7:], pipelined=True))
    checks.refused(
        "stream: without a token",
        ErrorCode.AUTH,
        lambda: list(_anonymous(story, client)),
    )
    story.items = checks.need(
        "stream: every item verified with its proof",
        lambda: list(client.follow(story.label, with_proof=True)),
    )
    checks.need("stream: all events, in order, open to what was sent", lambda: _open_all(story))
    checks.refused(
        "stream: another reader's key",
        ErrorCode.FORMAT,
        lambda: open_message(story.items[0].msg, profile=PRODUCT, secret=DhSecret.generate()),
    )
    checks.hold(
        "HPKE: an independent implementation (pyhpke) opens the first event",
        lambda: require(
            open_with_pyhpke(story.items[0].msg, PRODUCT, story.reader) == bodies[0],
            "another plaintext",
        ),
    )


def _anonymous(story: Story, client: HubClient) -> Iterator[StreamItem]:
    stranger = HubClient(client.http.url, story.pinned)
    story.closing.callback(stranger.close)
    return stranger.follow(story.label)


def _open_all(story: Story) -> None:
    found = [
        open_message(item.msg, profile=PRODUCT, secret=story.reader).body for item in story.items
    ]
    require(found == list(_BODIES), f"{len(found)} events, or others than were sent")


def evidence_of(client: HubClient, item: StreamItem, manifest_id: ManifestId) -> Evidence:
    """What proves one event against one manifest."""
    manifest = client.manifest(manifest_id)
    checkpoint = manifest.checkpoint(item.receipt.label)
    require(checkpoint is not None, "the manifest does not have the label")
    assert checkpoint is not None
    seq = item.receipt.stream_seq
    proof, _, _ = client.proof(item.receipt.label, seq, size=checkpoint.upto_seq)
    consistency = client.consistency(item.receipt.label, seq, checkpoint.upto_seq)
    return Evidence(
        receipt=item.receipt_bytes,
        msg=item.msg_bytes,
        proof=proof.encode(),
        manifest=manifest.encode(),
        consistency=consistency.encode(),
    )


def verify_offline(story: Story, client: HubClient) -> None:
    """Evidence of one event, saved and verified where there is no network."""
    checks = story.checks
    answer = control.call(story.data_dir, "checkpoint")
    manifest_id = ManifestId(bytes.fromhex(str(answer["manifest_id"])))
    evidence = evidence_of(client, story.items[4], manifest_id)
    folder = story.folder / "evidence"
    offline.save(folder, story.pinned, [], evidence)
    outcome = checks.need("verify offline: a child without network", lambda: _offline_ok(folder))
    story.checks.facts["offline"] = outcome.isolation
    blocked = folder.with_name("evidence-again")
    offline.save(blocked, story.pinned, [], evidence)
    checks.hold(
        "verify offline: with blocked sockets alone",
        lambda: require(
            offline.verify_in_child(blocked, use_namespace=False).is_valid, "not valid"
        ),
    )
    swapped = folder.with_name("evidence-swapped")
    wrong = Evidence(receipt=evidence.receipt, msg=story.items[5].msg_bytes)
    offline.save(swapped, story.pinned, [], wrong)
    checks.hold(
        "verify offline: another message beside the receipt does not pass",
        lambda: require(not offline.verify_in_child(swapped).is_valid, "it passed"),
    )


def _offline_ok(folder: Path) -> offline.Outcome:
    outcome = offline.verify_in_child(folder)
    failed = [check["name"] for check in outcome.report["checks"] if not check["ok"]]
    require(outcome.is_valid, f"failed: {failed}")
    verdicts = outcome.report["verdicts"]
    for name in ("integrity", "binding", "position", "consistency"):
        require(verdicts[name] == "holds", f"{name}: {verdicts[name]}")
    require(not outcome.report["network"]["routed_after"], "the child still had a network")
    if outcome.isolation != "sockets blocked":
        require(not outcome.report["network"]["routed_before"], "the namespace was not empty")
    return outcome


def crash(story: Story, hub: LiveHub, client: HubClient) -> HubClient:
    """After kill -9 and up again nothing that had a receipt is gone, and work goes on."""
    checks = story.checks
    before = client.head(story.label)
    client.close()
    hub.kill()
    checks.need("kill -9, up again: the hub is ready", hub.start)
    again = story.connect(hub)
    checks.hold(
        "up again: hub key and hub_id are the same",
        lambda: require(hub.hub_pk == story.pinned, "another key"),
    )
    checks.hold(
        "up again: the head is where it was",
        lambda: require(again.head(story.label) == before, "another head"),
    )
    checks.hold(
        "up again: every receipt is served as it was signed",
        lambda: _same_receipts(story, again),
    )
    checks.refused(
        "up again: a message from before",
        ErrorCode.DUP,
        lambda: story.ground(again).send(story.items[-1].msg_bytes),
    )
    checks.need("up again: sending goes on", lambda: _send(story, again, b"after the crash"))
    return again


def _same_receipts(story: Story, client: HubClient) -> None:
    for one in story.receipts:
        require(client.receipt_by_leaf(one.leaf_hash) == one, f"receipt {one.stream_seq}")


def rotate(story: Story, client: HubClient) -> None:
    """Rotate the hub key; an old receipt is verified through record and manifest."""
    checks = story.checks
    answer = control.call(story.data_dir, "rotate")
    record = RotationRecord.decode(bytes.fromhex(str(answer["record"])))
    checks.need("rotate: the record is signed by both keys", record.verify)
    old = story.items[2]
    evidence = evidence_of(client, old, record.manifest_id)
    pins = Pins.of_key(record.new_pk, [record.encode()])
    checks.hold(
        "rotate: an old receipt verifies through record and manifest",
        lambda: verify_evidence(evidence, pins).require(),
    )
    folder = story.folder / "evidence-rotated"
    offline.save(folder, record.new_pk, [record.encode()], evidence)
    checks.hold("rotate: the same offline", lambda: _offline_ok(folder))
    checks.refused(
        "rotate: the old receipt without the manifest",
        ErrorCode.TRUST,
        lambda: verify_evidence(Evidence(receipt=old.receipt_bytes), pins).require(),
    )
    checks.refused(
        "rotate: the old receipt under the new key alone",
        ErrorCode.TRUST,
        lambda: verify_evidence(evidence, Pins.of_key(record.new_pk)).require(),
    )
    checks.hold(
        "rotate: a client that pinned the old key follows and sends",
        lambda: _send_after_rotation(story, client, record.new_pk),
    )


def _send_after_rotation(story: Story, client: HubClient, new_pk: PublicKey) -> None:
    _send(story, client, b"after the rotation")
    story.receipts[-1].verify(new_pk)
    items = list(client.follow(story.label))
    last = open_message(Msg.decode(items[-1].msg_bytes), profile=PRODUCT, secret=story.reader)
    require(last.body == b"after the rotation", "another last event")
