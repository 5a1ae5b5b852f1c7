"""What a producer learns of an event that is in the log [SDR0 3.2.1; interfaces, Recorder]."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from functools import lru_cache

from hub.types import PublicKey
from hub.wire.receipt import Receipt
from recorder.event import format_time
from recorder.projection import receipt_id


@lru_cache(maxsize=16)  # a batch is committed within a second or two
def _time_of(hub_ts: int) -> str:
    return format_time(hub_ts * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A verified RECEIPT, and the names under which its event is found."""

    stream: str
    principal: PublicKey
    receipt: Receipt

    @property
    def hub_commit_seq(self) -> int:
        """The event's place in its stream."""
        return self.receipt.stream_seq

    @property
    def receipt_id(self) -> str:
        """The event's name."""
        return receipt_id(self.receipt.leaf_hash)

    def to_json(self) -> dict[str, object]:
        """The answer of the contract."""
        return {
            "stream": self.stream,
            "hub_commit_seq": self.receipt.stream_seq,
            "hub_commit_time": _time_of(self.receipt.hub_ts),
            "principal_id": self.principal.hex(),
            "receipt_id": self.receipt_id,
            "receipt": b64encode(self.receipt.encode()).decode(),
        }
