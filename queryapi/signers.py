"""Who may have signed the receipts of an answer: a pinned key, and those before it [KEX0.1].

A superseded key is believed up to the manifest that its rotation record names, and no further.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from hub import canonical_json
from hub.canonical_json import JsonError, Value
from hub.errors import ErrorCode, ProofError, WireError
from hub.types import PublicKey
from hub.verify_report import Pins
from hub.wire.manifest import Manifest
from hub.wire.receipt import Receipt

ROTATIONS: Final = "rotations.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signers:
    """Keys, and the last manifests of those that were superseded."""

    pins: Pins
    ends: Mapping[PublicKey, Manifest] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path, hub_pk: PublicKey) -> Self:
        """A pinned key, with the rotations that were saved beside an answer, if there were any."""
        path = folder / ROTATIONS
        if not path.exists():
            return cls(pins=Pins.of_key(hub_pk))
        try:
            found = canonical_json.parse(path.read_bytes())
            rotations, saved = (_many(found, name) for name in ("rotations", "manifests"))
        except (JsonError, binascii.Error, KeyError, TypeError) as flaw:
            raise WireError(f"{path.name}: {flaw}") from flaw
        pins = Pins.of_key(hub_pk, rotations)
        manifests = {one.id: one for one in map(Manifest.decode, saved)}
        ends = {}
        for key, last_id in pins.ended.items():
            last = None if last_id is None else manifests.get(last_id)
            if last is not None:
                last.verify(key)
                ends[key] = last
        return cls(pins=pins, ends=ends)

    def check(self, receipt: Receipt) -> None:
        """Raise unless one of the keys signed it while it could."""
        signer = self.pins.signer(receipt)
        if signer in self.pins.active:
            return
        last = self.ends.get(signer)
        checkpoint = None if last is None else last.checkpoint(receipt.label)
        if checkpoint is None or receipt.stream_seq > checkpoint.upto_seq:
            raise ProofError("signed by a superseded key after its end", ErrorCode.TRUST)


def _many(found: Value, name: str) -> list[bytes]:
    if not isinstance(found, dict) or not isinstance(found[name], list):
        raise TypeError("not an object with two lists")
    listed: list[Value] = found[name]  # type: ignore[assignment]
    return [b64decode(str(one), validate=True) for one in listed]
