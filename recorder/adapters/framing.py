"""Messages out of a TCP stream: octet counting and newline framing [RFC 6587 3.4]."""

from __future__ import annotations

from typing import Final

_LENGTH_DIGITS_MAX: Final = 7
_ENDS: Final = (b"\n", b"\0")


class FramingError(ValueError):
    """The stream cannot be cut any further."""


class Framer:
    """Cuts one connection; each message says by its first byte how it is framed."""

    def __init__(self, message_bytes_max: int) -> None:
        self._max = message_bytes_max
        self._buffer = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that are whole now; empty ones are left out."""
        self._buffer += data
        found: list[bytes] = []
        while self._buffer:
            cut = self._counted() if self._buffer[:1].isdigit() else self._line()
            if cut is None:
                break
            message, self._buffer = cut
            if message:
                found.append(message)
        return found

    def end(self) -> list[bytes]:
        """What a peer sent without its last newline before it closed."""
        rest, self._buffer = self._buffer, b""
        return [rest] if rest.startswith(b"<") else []

    def _counted(self) -> tuple[bytes, bytes] | None:
        count, space, rest = self._buffer[: _LENGTH_DIGITS_MAX + 1].partition(b" ")
        del rest
        if not space:
            if len(self._buffer) > _LENGTH_DIGITS_MAX:
                raise FramingError("a message length without end")
            return None
        if not count.isdigit():
            raise FramingError("a message length that is no number")
        start = len(count) + 1
        end = start + int(count)
        if int(count) > self._max:
            raise FramingError(f"a message of {int(count)} bytes")
        if len(self._buffer) < end:
            return None
        return self._buffer[start:end], self._buffer[end:]

    def _line(self) -> tuple[bytes, bytes] | None:
        places = [place for end in _ENDS if (place := self._buffer.find(end)) >= 0]
        if not places:
            if len(self._buffer) > self._max:
                raise FramingError(f"a line of more than {self._max} bytes")
            return None
        place = min(places)
        if place > self._max:
            raise FramingError(f"a line of more than {self._max} bytes")
        return self._buffer[:place].removesuffix(b"\r"), self._buffer[place + 1 :]
