"""One valid object of each kind, from fixed keys: the same bytes in every run [SSOT 4, 6]."""

from __future__ import annotations

from typing import Final

from hub import mmr
from hub.authoring import author
from hub.crypto.hashing import h
from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.types import (
    AuthRef,
    ClientSeq,
    Hash,
    HubId,
    Label,
    LeafHash,
    ManifestId,
    MmrRoot,
    StreamId,
    StreamSeq,
    UnixSeconds,
)
from hub.wire.captoken import CapToken, Rate
from hub.wire.checkpoint import Checkpoint
from hub.wire.manifest import Manifest
from hub.wire.msg import Msg
from hub.wire.payload import PayloadHeader
from hub.wire.profile import PRODUCT
from hub.wire.readerkey import ReaderKeyRecord, WrappedReaderSecret
from hub.wire.receipt import Receipt
from hub.wire.rotation import ForkRecord, RotationRecord, hub_id_of
from hub.wire.trust import KeyStatus, TrustedHub, TrustedKey, TrustFile

T: Final = UnixSeconds(1_700_000_000)
HUB: Final = SigningKey(bytes([1]) * 32)
HUB_2: Final = SigningKey(bytes([2]) * 32)
CLIENT: Final = SigningKey(bytes([3]) * 32)
ISSUER: Final = SigningKey(bytes([4]) * 32)
READER: Final = DhSecret(bytes([5]) * 32)
LABEL: Final = Label(h(b"selftest/label"))


def hashes(count: int, name: str = "leaf") -> list[Hash]:
    """As many different hashes as wanted, always the same."""
    return [Hash(h(b"%s %d" % (name.encode(), number))) for number in range(count)]


def memory_log(leaves: list[Hash]) -> tuple[mmr.NodeSource, list[MmrRoot]]:
    """Nodes of a log, and its root for each size from 1 on (index 0 is for size 1)."""
    peaks: list[bytes] = []
    nodes: list[bytes] = []
    roots = []
    for size, leaf in enumerate(leaves):
        nodes += mmr.append(peaks, size, leaf)
        roots.append(mmr.root(peaks))
    return (lambda height, index: nodes[mmr.node_position(height, index)]), roots


def message(client_seq: int = 7, *, auth_ref: AuthRef | None = None, body: bytes = b"b") -> Msg:
    """A MSG of the product profile, the same each time."""
    return author(
        key=CLIENT,
        profile=PRODUCT,
        label=LABEL,
        client_seq=ClientSeq(client_seq),
        prev_ack=client_seq - 1,
        auth_ref=auth_ref,
        reader_pk=READER.public,
        header=PayloadHeader(schema=Hash(h(b"schema"))),
        body=body,
        ephemeral=h(b"ephemeral %d" % client_seq),
    ).msg


def receipt(stream_seq: int = 300) -> Receipt:
    """A RECEIPT of HUB."""
    leaf, root = hashes(2)
    return Receipt.sign(HUB, LABEL, StreamSeq(stream_seq), LeafHash(leaf), MmrRoot(root), T)


def checkpoint(label: Label = LABEL, *, witnesses: int = 0) -> Checkpoint:
    """A CHECKPOINT of HUB."""
    return Checkpoint.sign(
        HUB,
        label_prev=label,
        label_curr=label,
        upto_seq=StreamSeq(70_000),
        mmr_root=MmrRoot(h(b"root")),
        epoch=4,
        witnesses=(HUB, HUB_2)[:witnesses],
    )


def capability(links: int = 1, *, rate: Rate | None = None) -> CapToken:
    """A cap_token of ISSUER for CLIENT."""
    token = CapToken.issue(
        ISSUER,
        subject_pk=CLIENT.public,
        stream_ids=[StreamId(one) for one in hashes(3, "stream")],
        ttl=86_400,
        rate=rate,
    )
    for _ in range(links - 1):
        token = token.renew(ISSUER)
    return token


def manifest(labels: int = 2) -> Manifest:
    """A manifest of HUB."""
    return Manifest.sign(
        HUB,
        profile_id=PRODUCT.id,
        created_at=T,
        checkpoints=[checkpoint(Label(one)) for one in hashes(labels, "label")],
        previous=ManifestId(h(b"previous")),
    )


def rotation() -> RotationRecord:
    """HUB hands its log to HUB_2."""
    return RotationRecord.sign(
        HUB, HUB_2, hub_id=hub_id_of(HUB.public), ts=T, manifest_id=manifest().id
    )


def fork() -> ForkRecord:
    """HUB_2 goes on from two heads of HUB."""
    heads = [(Label(one), StreamSeq(5), MmrRoot(h(bytes(one)))) for one in hashes(2, "label")]
    return ForkRecord.sign(HUB_2, parent_hub_id=hub_id_of(HUB.public), ts=T, heads=heads)


def reader_key() -> ReaderKeyRecord:
    """A reader key record by ISSUER as recorder admin."""
    return ReaderKeyRecord.sign(
        ISSUER,
        stream_id=StreamId(h(b"stream")),
        key_id=3,
        reader_pk=READER.public,
        ts=T,
    )


def wrapped_secret() -> WrappedReaderSecret:
    """A stream's secret for READER."""
    return WrappedReaderSecret.wrap(
        bytes([9]) * 32,
        stream_id=StreamId(h(b"stream")),
        key_id=3,
        reader_dh=READER.public,
        ephemeral=bytes([8]) * 32,
    )


def trust_file() -> TrustFile:
    """Two keys of one hub, the older superseded."""
    old = TrustedKey(
        pk=HUB.public,
        status=KeyStatus.SUPERSEDED,
        superseded_by=HUB_2.public,
        last_manifest_id=manifest().id,
    )
    new = TrustedKey(pk=HUB_2.public, status=KeyStatus.ACTIVE)
    hub = TrustedHub(hub_id=HubId(hub_id_of(HUB.public)), keys=(old, new))
    return TrustFile(serial=9, realm="reich/süd", hubs=(hub,))
