"""The interface of an anchor, and anchor_ref, which is stored beside the checkpoint [ANCHOR0.1].

anchor_ref: array[3] of ver=1, name of the backend, body (bytes that only the backend reads).
What is anchored is manifest_id, which commits to every root, key and time of the manifest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol, Self

from hub.types import ManifestId, UnixSeconds
from hub.wire import cbor

VER: Final = 1
NAME_BYTES_MAX: Final = 32
BODY_BYTES_MAX: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorRef:
    """Where a manifest_id was anchored."""

    backend: str
    body: bytes

    def encode(self) -> bytes:
        """Canonical bytes."""
        return cbor.encode([VER, self.backend, self.body])

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse an anchor_ref or raise E.FORMAT."""
        reader = cbor.Reader(data).array(3)
        reader.uint(exactly=VER)
        found = cls(
            backend=reader.tstr(maximum=NAME_BYTES_MAX), body=reader.bstr(maximum=BODY_BYTES_MAX)
        )
        reader.end()
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchored:
    """What an anchor shows: not later than `at`, by the word of `witness`."""

    at: UnixSeconds
    witness: str


class Backend(Protocol):
    """A place outside the hub; both verbs raise VeenError when they cannot do it."""

    @property
    def name(self) -> str:
        """Stands in anchor_ref and beside the checkpoint."""

    def publish(self, manifest_id: ManifestId, now: UnixSeconds) -> AnchorRef:
        """Anchor it and see that it is; the same id again gives an anchor of it again."""

    def verify(self, ref: AnchorRef, manifest_id: ManifestId) -> Anchored:
        """Raise unless this anchor is of this manifest_id and still stands; never a network."""
