"""Reads what a client still sends after its refusal, so that it hears the answer [RFC 9112 9.6].

A connection that is closed with unread bytes in it is reset, and a reset takes the answer along: a
client in the middle of a body that is too large would learn nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gunicorn.http.errors import ParseException  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from wsgiref.types import InputStream, StartResponse, WSGIApplication, WSGIEnvironment

BYTES_MAX: Final = 64 * 1024 * 1024
TIME_MAX_S: Final = 5.0
_PIECE: Final = 65_536


def reading_the_rest(application: WSGIApplication) -> WSGIApplication:
    """The application, which leaves no body unread; bounded, so that nobody keeps a thread."""

    def serve(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        answer = application(environ, start_response)
        # A client that is gone, or sends no HTTP, does not wait for the answer.
        with suppress(OSError, ParseException):
            _discard(environ["wsgi.input"])
        return answer

    return serve


def _discard(body: InputStream) -> None:
    end = time.monotonic() + TIME_MAX_S
    left = BYTES_MAX
    while left > 0 and time.monotonic() < end:
        piece = body.read(min(left, _PIECE))
        if not piece:
            return
        left -= len(piece)
