"""A live hub to knock at, with the key that issues capabilities for it [SSOT 6]."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hub import label as labels
from hub.client import HubClient
from hub.client.http import Call
from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.selftest.prober import Prober
from hub.wire.captoken import CapToken, Rate
from hub.wire.profile import PRODUCT, Profile

_YEAR_S: Final = 365 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """A live hub to knock at, and what is needed to be let in."""

    client: HubClient
    folder: Path
    issuer: SigningKey
    routing_key: bytes
    reader: DhSecret

    def send(self, data: bytes) -> bytes:
        """POST /submit of one MSG."""
        return self.client.http.call(Call(method="POST", path="/submit", body=data)).body

    def prober(
        self, name: str, *, rate: Rate | None = None, profile: Profile = PRODUCT, epoch: int = 0
    ) -> Prober:
        """A new client with a capability for one stream of its own."""
        key = SigningKey.generate()
        stream = labels.stream_id(f"selftest/{name}")
        token = CapToken.issue(
            self.issuer, subject_pk=key.public, stream_ids=[stream], ttl=_YEAR_S, rate=rate
        )
        auth_ref, _ = self.client.authorize(token)
        return Prober(
            send=self.send,
            key=key,
            label=labels.derive(self.routing_key, stream, epoch),
            auth_ref=auth_ref,
            reader=self.reader,
            profile=profile,
        )
