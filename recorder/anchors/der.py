"""Puts the certificates of a TimeStampResp into the order that DER asks for [RFC 3161, RFC 5652].

Authorities built on OpenSSL list them as they were configured, and the strict parser refuses that.
Nothing signs this list, and sorting it changes no length, so the other bytes stay as they came.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from hub.errors import WireError

_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_INTEGER: Final = 0x02
_OID: Final = 0x06
_CONTEXT_0: Final = 0xA0
_LENGTH_BYTES_MAX: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Value:
    tag: int
    start: int  # of the whole value
    inside: int  # of its contents
    end: int


def sorted_certificates(data: bytes) -> bytes:
    """The same response with sorted certificates; E.FORMAT when the bytes are no such response."""
    outer = _read(data, 0, len(data), _SEQUENCE)
    parts = list(_values(data, outer.inside, outer.end))
    if outer.end != len(data) or len(parts) > 2:
        raise WireError("not a timestamp: bytes that do not belong to it")
    if len(parts) < 2:
        return data  # a refusal has a status and no token
    content = _child(data, parts[1], (_OID, _CONTEXT_0))
    signed = _read(data, content.inside, content.end, _SEQUENCE)
    fields = list(_values(data, signed.inside, signed.end))
    if len(fields) < 4 or [one.tag for one in fields[:3]] != [_INTEGER, _SET, _SEQUENCE]:
        raise WireError("not a timestamp: its content is no signed data")
    if fields[3].tag != _CONTEXT_0:
        return data  # it came without certificates
    listed = [data[one.start : one.end] for one in _values(data, fields[3].inside, fields[3].end)]
    return data[: fields[3].inside] + b"".join(sorted(listed)) + data[fields[3].end :]


def _child(data: bytes, parent: _Value, tags: tuple[int, int]) -> _Value:
    if parent.tag != _SEQUENCE:
        raise WireError("not a timestamp: its token is no sequence")
    found = list(_values(data, parent.inside, parent.end))
    if tuple(one.tag for one in found) != tags:
        raise WireError("not a timestamp: its token has another shape")
    return found[1]


def _values(data: bytes, start: int, end: int) -> Iterator[_Value]:
    while start < end:
        found = _read(data, start, end)
        yield found
        start = found.end


def _read(data: bytes, at: int, end: int, tag: int | None = None) -> _Value:
    if at + 2 > end:
        raise WireError("not a timestamp: cut off")
    length, inside = data[at + 1], at + 2
    if length >= 0x80:
        width = length & 0x7F
        if not 1 <= width <= _LENGTH_BYTES_MAX or inside + width > end:
            raise WireError("not a timestamp: a length that no answer has")
        length = int.from_bytes(data[inside : inside + width], "big")
        inside += width
    if inside + length > end or (tag is not None and data[at] != tag):
        raise WireError("not a timestamp: a value that does not fit")
    return _Value(tag=data[at], start=at, inside=inside, end=inside + length)
