"""The hub of a bundle: how it is started, and what it is given once it answers [architecture]."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Final

from config.settings_file import Settings
from config.up_secrets import ROUTING_KEY, RealmKeys
from config.up_state import StateDir, read_json, write_atomic
from config.up_trust import ensure_trust
from hub import control
from hub.client.http import Call, HubHttp
from hub.errors import ErrorCode, VeenError
from hub.types import HubId, PublicKey
from hub.wire import cbor
from hub.wire.rotation import RotationRecord, decode_record

READ_TOKENS: Final = ("web", "worker", "author")
ROTATIONS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningHub:
    """What the hub says of itself in its data directory."""

    url: str
    hub_pk: PublicKey
    hub_id: HubId


def hub_command(settings: Settings, state: StateDir, realm: RealmKeys, port: int) -> list[str]:
    """The command line of the hub; secrets go by file name only."""
    command = [sys.executable, "-m", "config.cli", "hub", "start"]
    command += ["--data-dir", str(state.hub), "--port", str(port)]
    command += ["--trusted-issuer", realm.issuer_pk.hex()]
    for issuer in settings.trusted_issuers:
        command += ["--trusted-issuer", issuer]
    routing_key = settings.routing_key_file or state.secret(ROUTING_KEY)
    command += ["--routing-key-file", str(routing_key)]
    command += ["--heads-file", str(settings.heads_file or state.heads)]
    for profile in settings.profiles:
        command += ["--profile", profile]
    if settings.open_admission:
        command.append("--open-admission")
    if settings.open_reads:
        command.append("--open-reads")
    if not settings.log_submits:
        command.append("--no-submit-log")
    command += ["--workers", str(settings.workers or os.cpu_count() or 1)]
    command += ["--checkpoint-interval", str(settings.checkpoint_interval_s)]
    command += ["--checkpoint-messages", str(settings.checkpoint_messages)]
    command += ["--segment-bytes", str(settings.segment_bytes)]
    command += ["--queue-max", str(settings.queue_max)]
    return command


def running_hub(state: StateDir) -> RunningHub | None:
    """The hub's own note of address and key; None until it is ready."""
    found = read_json(state.hub_json)
    if found is None:
        return None
    try:
        return RunningHub(
            url=str(found["url"]),
            hub_pk=PublicKey(bytes.fromhex(found["hub_pk"])),
            hub_id=HubId(bytes.fromhex(found["hub_id"])),
        )
    except (KeyError, TypeError, ValueError):
        return None


def asked_hub(state: StateDir, timeout_s: float = 2.0) -> RunningHub | None:
    """What the hub says now over its control socket; it may have rotated its key since."""
    try:
        found = control.call(state.hub, "status", timeout_s=timeout_s)
        return RunningHub(
            url=str(found["url"]),
            hub_pk=PublicKey(bytes.fromhex(found["hub_pk"])),
            hub_id=HubId(bytes.fromhex(found["hub_id"])),
        )
    except (KeyError, VeenError):
        return None


def settle_trust(state: StateDir, hub: RunningHub, accepted_pk: PublicKey | None = None) -> None:
    """Bring the trust file in line with the hub's key, or refuse."""
    with HubHttp(hub.url, timeout_s=10) as http:
        body = http.call(Call(method="GET", path="/rotations")).body
    records = [decode_record(item) for item in cbor.split_sequence(body, items_max=ROTATIONS_MAX)]
    ensure_trust(
        state,
        hub_pk=hub.hub_pk,
        hub_id=hub.hub_id,
        rotations=[record for record in records if isinstance(record, RotationRecord)],
        accepted_pk=accepted_pk,
    )


def ensure_read_tokens(state: StateDir, hub: RunningHub) -> None:
    """A token that the hub knows, in each token file.

    The hub shows a token once. One whose file was never written is lost, so it is made again.
    """
    for name in READ_TOKENS:
        path = state.secret(f"{name}.token")
        if path.exists() and _is_known(hub, path.read_text().strip()):
            continue
        _revoke_token(state, name)
        answer = control.call(state.hub, "token_add", name=name, all=True)
        write_atomic(path, str(answer["token"]).encode() + b"\n")


def _revoke_token(state: StateDir, name: str) -> None:
    try:
        control.call(state.hub, "token_revoke", name=name)
    except VeenError as refusal:
        if refusal.code is not ErrorCode.NOTFOUND:
            raise


def _is_known(hub: RunningHub, token: str) -> bool:
    try:
        with HubHttp(hub.url, token=token, timeout_s=10) as http:
            http.call(Call(method="GET", path="/manifest_latest"))
    except VeenError as refusal:
        if refusal.code is ErrorCode.AUTH:
            return False
        if refusal.code is not ErrorCode.NOTFOUND:
            raise
    return True
