"""Making an evidence pack from what a hub serves, judged before it is handed out [SDR0 3.2.5]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hub.authoring import ReaderSecret, open_message
from hub.client import HubClient
from hub.errors import ErrorCode, ProofError, VeenError, WireError
from hub.streamitem import StreamItem
from hub.types import HubId, Label, ManifestId, PublicKey
from hub.wire.manifest import Manifest
from hub.wire.msg import Msg
from hub.wire.rotation import RotationRecord, decode_record, hub_id_of
from recorder.evidence.pack import Pack
from recorder.evidence.verify import Signer, verify_pack
from recorder.projection import PROFILES

MANIFESTS_WALKED_MAX: Final = 10_000


def build_pack(
    client: HubClient,
    *,
    label: Label,
    stream: str,
    seq: int,
    secrets: Sequence[ReaderSecret] = (),
    manifest_id: ManifestId | None = None,
) -> Pack:
    """The pack of one event; with the stream's secrets, newest first, it carries the opening.

    A message under a superseded key is proven against the manifest that ended the key, any other
    one against `manifest_id` or the newest manifest. Nothing leaves here that does not verify.
    """
    item = _fetch(client, label, seq)
    signer = client.chain.signer(item.receipt)
    records = _records_of(client, signer)
    manifest = _manifest(client, signer, records, manifest_id)
    checkpoint = manifest.checkpoint(label)
    if checkpoint is None or checkpoint.upto_seq < seq:
        detail = f"no manifest covers {stream} {seq} yet; `veen hub checkpoint` makes one"
        raise VeenError(ErrorCode.NOTFOUND, detail)
    proof, _, _ = client.proof(label, seq, size=checkpoint.upto_seq)
    pack = Pack(
        hub_id=_hub_id(records, manifest),
        stream=stream,
        msg=item.msg_bytes,
        receipt=item.receipt_bytes,
        proof=proof.encode(),
        checkpoint=checkpoint.encode(),
        manifest=manifest.encode(),
        rotations=tuple([record.encode() for record in records]),
        opening=shared_secret(item.msg, secrets) if secrets else None,
    )
    judgement = verify_pack(pack.encode(), signer)
    judgement.report.require()
    assert judgement.signer is Signer.TRUSTED
    return pack


def shared_secret(msg: Msg, secrets: Sequence[ReaderSecret]) -> bytes:
    """What discloses this one message; E.FORMAT when none of the secrets opens it."""
    profile = PROFILES.get(msg.profile_id)
    if profile is None:
        raise WireError(f"profile_id {msg.profile_id.hex()}", ErrorCode.PROFILE)
    return open_message(msg, profile=profile, secret=secrets).shared_secret


def _fetch(client: HubClient, label: Label, seq: int) -> StreamItem:
    if seq < 1:
        raise VeenError(ErrorCode.FORMAT, "sequences start at 1")
    found = list(client.follow(label, seq, to_seq=seq, verify=False))
    if not found or found[0].receipt.stream_seq != seq or found[0].receipt.label != label:
        raise VeenError(ErrorCode.NOTFOUND, f"the hub has no sequence {seq} on this label")
    return found[0]


def _records_of(client: HubClient, signer: PublicKey) -> list[RotationRecord]:
    """The records of the log that `signer` signed for, oldest first.

    A hub serves the records of its parents too when it was forked from them; they are no part of
    the fork's log, and the fork's are none of the parent's.
    """
    served = [decode_record(data) for data in client.rotations()]
    rotations = [one for one in served if isinstance(one, RotationRecord)]
    mine = [one.hub_id for one in rotations if signer in (one.old_pk, one.new_pk)]
    wanted = mine[0] if mine else hub_id_of(signer)
    return [one for one in rotations if one.hub_id == wanted]


def _hub_id(records: Sequence[RotationRecord], manifest: Manifest) -> HubId:
    return records[0].hub_id if records else hub_id_of(manifest.hub_pk)


def _manifest(
    client: HubClient,
    signer: PublicKey,
    records: Sequence[RotationRecord],
    wanted: ManifestId | None,
) -> Manifest:
    ended = next((one.manifest_id for one in records if one.old_pk == signer), None)
    if ended is not None:
        if wanted not in (None, ended):
            detail = f"a message under this superseded key is proven against {ended.hex()} only"
            raise ProofError(detail, ErrorCode.TRUST)
        return _by(signer, client.get("/manifest", id=ended.hex()).body)
    if wanted is not None:
        return _by(signer, client.get("/manifest", id=wanted.hex()).body)
    return _newest_by(client, signer)


def _newest_by(client: HubClient, signer: PublicKey) -> Manifest:
    """The newest manifest by a key: the newest of all, but for a parent from before a fork."""
    manifest = Manifest.decode(client.get("/manifest_latest").body)
    for _ in range(MANIFESTS_WALKED_MAX):
        if manifest.hub_pk == signer:
            return manifest
        if not any(manifest.previous):
            break
        manifest = Manifest.decode(client.get("/manifest", id=manifest.previous.hex()).body)
    raise VeenError(ErrorCode.NOTFOUND, "the hub has no manifest by the key of this receipt")


def _by(signer: PublicKey, data: bytes) -> Manifest:
    manifest = Manifest.decode(data)
    if manifest.hub_pk != signer:
        raise ProofError("the manifest is by another key than the receipt", ErrorCode.TRUST)
    return manifest
