"""What the author process holds to execute acts: keys, the hub, files, the clock [architecture]."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from hub import control
from hub.client import HubClient
from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.label import derive, stream_id
from hub.types import HubId, Label, PublicKey, UnixSeconds
from recorder.acts.key_files import KeptKey
from recorder.scribe import Scribe

ADMIN_READER: Final = "recorder-admin"  # the Reader to whom every stream secret is wrapped
SERVICE_TTL_S: Final = 315_360_000  # of the product's own capabilities and its producers'


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a producer or reader is told about this bundle."""

    hub_url: str
    hub_pk: PublicKey
    hub_id: HubId
    trust_pk: PublicKey
    web_url: str | None
    gateway_url: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFiles:
    """The files that the author writes for other processes, mode 0600."""

    gateway_keys: Path
    gateway_config: Path
    gateway_state: Path  # where the gateway keeps its outboxes
    readers_keys: Path
    stream_keys: Path  # a folder: every stream secret, wrapped to the recorder admin


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """All that an act may use; explicit, so that a test executes acts without the process."""

    issuer: SigningKey
    recorder_admin: SigningKey
    admin_dh: DhSecret
    services: Mapping[str, PublicKey]  # the identities that record for the product
    routing_key: bytes = field(repr=False)
    hub_dir: Path
    client: HubClient
    scribe: Scribe
    files: KeyFiles
    facts: Facts
    now: Callable[[], datetime]
    # While rows are made again from the log: the key that an act made then, instead of a new one.
    made_then: Callable[[str, int], KeptKey] | None = None

    def seconds(self) -> UnixSeconds:
        """Now, as wire objects carry it."""
        return UnixSeconds(int(self.now().timestamp()))

    def label(self, stream: str) -> Label:
        """The one label of a stream."""
        return derive(self.routing_key, stream_id(stream))

    def ask_hub(self, verb: str, *, timeout_s: float = 60, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401
        """One verb of the hub's control socket."""
        return control.call(self.hub_dir, verb, timeout_s=timeout_s, **arguments)
