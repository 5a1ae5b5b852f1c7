"""Stream names, epochs and the labels derived from them [SSOT 2, 3.2]."""

from __future__ import annotations

import re
from typing import Final

from hub.crypto import hashing
from hub.crypto.hashing import u64be
from hub.errors import ErrorCode, VeenError
from hub.types import Label, StreamId

ROUTING_KEY_BYTES: Final = 32
NAME_BYTES_MAX: Final = 128
_SEGMENT: Final = r"[a-z0-9][a-z0-9._-]*"
# At least one slash, so no name is mistaken for a stream_id in hex and none climbs a path.
_NAME: Final = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT}){{1,7}}", re.ASCII)
_HEX_ID: Final = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)


def check_stream_name(name: str) -> None:
    """Raise E.FORMAT unless the name is 2 to 8 segments within 128 bytes."""
    if len(name) > NAME_BYTES_MAX:
        raise VeenError(ErrorCode.FORMAT, f"a stream name has at most {NAME_BYTES_MAX} bytes")
    if not _NAME.fullmatch(name):
        detail = f"stream name {name!r}: 2 to 8 segments of [a-z0-9][a-z0-9._-]* joined by '/'"
        raise VeenError(ErrorCode.FORMAT, detail)


def stream_id(name: str) -> StreamId:
    """H(name), or the id itself when it is given as 64 hex digits."""
    if _HEX_ID.fullmatch(name):
        return StreamId(bytes.fromhex(name))
    check_stream_name(name)
    return StreamId(hashing.h(name.encode()))


def check_routing_key(routing_key: bytes) -> None:
    """Raise E.FORMAT unless the key has 32 bytes; `derive` itself takes any, as the text does."""
    if len(routing_key) != ROUTING_KEY_BYTES:
        detail = f"a routing key has {ROUTING_KEY_BYTES} bytes, not {len(routing_key)}"
        raise VeenError(ErrorCode.FORMAT, detail)


def epoch_of(unix: int, epoch_sec: int) -> int:
    """The epoch of a second; always 0 where labels do not rotate."""
    return unix // epoch_sec if epoch_sec else 0


def derive(routing_key: bytes, stream_id: StreamId, epoch: int = 0) -> Label:
    """Ht("veen/label", routing_key || stream_id || u64be(epoch))."""
    return Label(hashing.LABEL(routing_key, stream_id, u64be(epoch)))
