"""What the author holds, opened from the state directory: keys, facts, the hub [architecture]."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from django.utils import timezone

from config.up_secrets import (
    GATEWAY_KEYS,
    ISSUER,
    READERS_KEYS,
    RECORDER_ADMIN,
    RECORDER_ADMIN_DH,
    ROUTING_KEY,
    engine_keys,
    open_keystore,
)
from config.up_state import StateDir
from hub import keystore
from hub.client import HubClient
from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.index_source import pin_from_trust
from hub.types import HubId, PublicKey
from recorder.acts.authority import SERVICE_TTL_S, Authority, Facts, KeyFiles
from recorder.scribe import Scribe, ServiceKey

HUB_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Realm:
    """The unlocked keys; opened once, because opening is slow by intention."""

    issuer: SigningKey
    recorder_admin: SigningKey
    admin_dh: DhSecret
    engine: dict[str, SigningKey]
    routing_key: bytes = field(repr=False)


def read_realm(state: StateDir) -> Realm:
    """Unlock the keystore with the passphrase file, and read the engine's keys."""
    from django.conf import settings  # noqa: PLC0415

    sealed = open_keystore(state)
    routing_key_file = settings.VEEN.routing_key_file or state.secret(ROUTING_KEY)
    return Realm(
        issuer=SigningKey(sealed[ISSUER]),
        recorder_admin=SigningKey(sealed[RECORDER_ADMIN]),
        admin_dh=DhSecret(sealed[RECORDER_ADMIN_DH]),
        engine=engine_keys(state),
        routing_key=keystore.read_key_file(routing_key_file),
    )


def read_facts(state: StateDir) -> Facts:
    """Where the hub is reached now, under the key that the trust file vouches for."""
    try:
        status = json.loads(state.status.read_bytes())
        trust_pk = PublicKey(bytes.fromhex(state.trust_pk.read_text()))
        hub_id = HubId(bytes.fromhex(status["hub_id"]))
        pin = pin_from_trust(
            state.trust.read_bytes(), state.trust_sig.read_bytes(), trust_pk, hub_id
        )
        return Facts(
            hub_url=str(status["hub_url"]),
            hub_pk=pin.hub_pk,
            hub_id=hub_id,
            trust_pk=trust_pk,
            web_url=status["web_url"],
            gateway_url=status["gateway_url"],
        )
    except OSError as missing:
        detail = f"{missing.filename} cannot be read: {missing.strerror}"
        raise VeenError(ErrorCode.CONFIG, detail) from missing
    except (KeyError, TypeError, ValueError) as flaw:
        raise VeenError(ErrorCode.CONFIG, "no hub is running under this bundle") from flaw


def key_files(state: StateDir) -> KeyFiles:
    """The files that the author writes for the gateway and the worker."""
    return KeyFiles(
        gateway_keys=state.secret(GATEWAY_KEYS),
        gateway_config=state.gateway / "config.json",
        gateway_state=state.gateway,
        readers_keys=state.secret(READERS_KEYS),
        stream_keys=state.author / "stream-keys",
    )


def open_authority(state: StateDir, realm: Realm, facts: Facts) -> Authority:
    """Take up the outboxes of the service identities; S.LOCKED while another process has them."""
    client = HubClient(
        facts.hub_url,
        facts.hub_pk,
        state_dir=state.author,
        token=keystore.read_private(state.secret("author.token")).decode("ascii").strip(),
        timeout_s=HUB_TIMEOUT_S,
        hub_id=facts.hub_id,
    )
    services = {
        name: ServiceKey.issue(name, key, realm.issuer, SERVICE_TTL_S)
        for name, key in realm.engine.items()
    }
    try:
        scribe = Scribe(client, services)
    except BaseException:
        client.close()
        raise
    return Authority(
        issuer=realm.issuer,
        recorder_admin=realm.recorder_admin,
        admin_dh=realm.admin_dh,
        services={name: key.public for name, key in realm.engine.items()},
        routing_key=realm.routing_key,
        hub_dir=state.hub,
        client=client,
        scribe=scribe,
        files=key_files(state),
        facts=facts,
        now=timezone.now,
    )
