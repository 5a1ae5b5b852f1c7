"""What can become of a message that was sent, as far as its author cares [SSOT 8.2, RESYNC0]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hub.client.outbox import Entry
from hub.errors import ErrorCode, VeenError
from hub.wire.receipt import Receipt

# The bytes are fine and the hub is not ready for them: the same bytes go out again.
TRANSIENT: Final = frozenset(
    {
        ErrorCode.RATE,
        ErrorCode.BUSY,
        ErrorCode.STORE,
        ErrorCode.INTERNAL,
        ErrorCode.UNREACHABLE,
        ErrorCode.PROTOCOL,  # a proxy's own page: the hub may have answered behind it
    }
)
# Authored with an authority that is over; helps only if there is a newer one.
AUTHORITY: Final = frozenset({ErrorCode.AUTH, ErrorCode.CAP, ErrorCode.TIME})


class RefusedError(VeenError):
    """The hub refused this entry for good; it stays in the outbox until withdrawn."""

    def __init__(self, refusal: VeenError, entry: Entry) -> None:
        super().__init__(refusal.code, refusal.detail, retry_after_s=refusal.retry_after_s)
        self.entry = entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A verified RECEIPT and the very MSG bytes that it is for."""

    receipt: Receipt
    msg_bytes: bytes
