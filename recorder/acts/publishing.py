"""The files other processes live on, derived from the tables and replaced whole [architecture].

readers.keys is the worker's, gateway.keys and config.json the gateway's. The gateway's keys are
written before the configuration that names them, so it never lacks a key it is told to use.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from hub import keystore
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, StoreError
from hub.types import PublicKey
from recorder.acts import reader_keys
from recorder.acts.authority import Authority
from recorder.models import ApiToken, Producer, Stream
from recorder.streams import is_reserved

VER: Final = 1


def publish_readers(authority: Authority) -> None:
    """Every stream's secrets, newest first, for the process that opens events."""
    streams = {
        stream.name: [
            {"key_id": key_id, "secret": secret.hex()}
            for key_id, secret in reader_keys.secrets_of(stream, authority)
        ]
        for stream in Stream.objects.order_by("name")
    }
    _replace(authority.files.readers_keys, {"ver": VER, "streams": streams})


def publish_gateway(authority: Authority) -> None:
    """Which token is which producer, and where each event type goes.

    Of the other tokens their hashes, so that the gateway can tell a wrong role from no token.
    """
    drop_unused_seeds(authority)
    facts = authority.facts
    held = Producer.objects.filter(held=Producer.Held.GATEWAY, revoked_at__isnull=True)
    held = held.order_by("name", "principal").prefetch_related("streams")
    producers = [one for one in held if one.ended_at is None]
    names = [producer.name for producer in producers]
    tokens = ApiToken.objects.filter(
        role=ApiToken.Role.PRODUCER, revoked_at__isnull=True, producer_name__in=names
    )
    found: dict[str, Any] = {
        "ver": VER,
        "hub_url": facts.hub_url,
        "hub_pk": facts.hub_pk.hex(),
        "hub_id": facts.hub_id.hex(),
        "recorder_admin_pk": authority.recorder_admin.public.hex(),
        "streams": [described(stream) for stream in recordable_streams()],
        "producers": [_producer(one) for one in producers],
        "tokens": [
            {"id": str(token.id), "sha256": token.sha256, "producer": token.producer_name}
            for token in tokens.order_by("sha256")
        ],
    }
    others = ApiToken.objects.filter(revoked_at__isnull=True).exclude(role=ApiToken.Role.PRODUCER)
    if others.exists():
        found["other_tokens"] = sorted(others.values_list("sha256", flat=True))
    retiring = [_producer(one) for one in held if one.ended_at is not None]
    if retiring:
        found["retiring"] = retiring
    path = authority.files.gateway_config
    before = _read(path)
    # Where the file was lost, the time is above every serial there was: the gateway goes only up.
    serial = int(before.pop("serial", authority.seconds()))
    if before != found:
        _write(path, {"ver": VER, "serial": serial + 1, **found})


def _producer(producer: Producer) -> dict[str, Any]:
    return {
        "name": producer.name,
        "principal": producer.principal,
        "cap_token": b64encode(bytes(producer.cap_token)).decode(),
        "streams": sorted(stream.name for stream in producer.streams.all()),
    }


def recordable_streams() -> list[Stream]:
    """Streams that producers write to."""
    streams = Stream.objects.prefetch_related("event_types").order_by("name")
    return [stream for stream in streams if not is_reserved(stream.name)]


def described(stream: Stream) -> dict[str, Any]:
    """A stream as whoever seals events to it needs it."""
    return {
        "name": stream.name,
        "label": stream.label,
        "event_types": sorted(one.event_type for one in stream.event_types.all()),
        "event_bytes_max": stream.event_bytes_max,
        "reader_key": b64encode(reader_keys.newest_record(stream).encode()).decode(),
    }


def keep_seed(key: SigningKey, authority: Authority) -> None:
    """Give the gateway a producer's key; before its row exists, so that no row lacks its key."""
    path = authority.files.gateway_keys
    seeds = {**_seeds(path), key.public.hex(): key.seed.hex()}
    _replace(path, {"ver": VER, "producers": seeds})


def seed_of(principal: PublicKey, authority: Authority) -> bytes | None:
    """A key that the gateway holds."""
    found = _seeds(authority.files.gateway_keys).get(principal.hex())
    return None if found is None else bytes.fromhex(found)


def drop_unused_seeds(authority: Authority) -> None:
    """A key whose producer was never stored, or is revoked, is kept by nobody."""
    path = authority.files.gateway_keys
    seeds = _seeds(path)
    # The key of a rotated producer stays until it is revoked: the gateway may still send with it.
    held = Producer.objects.filter(held=Producer.Held.GATEWAY, revoked_at__isnull=True)
    used = set(held.values_list("principal", flat=True))
    kept = {principal: seed for principal, seed in seeds.items() if principal in used}
    _replace(path, {"ver": VER, "producers": kept})


def _seeds(path: Path) -> dict[str, str]:
    found = _read(path).get("producers", {})
    assert isinstance(found, dict)
    return found


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_bytes())
    except ValueError as flaw:
        # Replacing it would drop keys that exist nowhere else.
        raise StoreError(f"{path} is damaged: {flaw}", ErrorCode.DAMAGE) from flaw
    if not isinstance(found, dict) or found.get("ver") != VER:
        raise StoreError(f"{path} is not of version {VER}", ErrorCode.DAMAGE)
    return found


def _replace(path: Path, found: Mapping[str, Any]) -> None:
    if not path.exists() or _read(path) != found:
        _write(path, found)


def _write(path: Path, found: Mapping[str, Any]) -> None:
    keystore.write_private(path, json.dumps(found, indent=1).encode() + b"\n")
