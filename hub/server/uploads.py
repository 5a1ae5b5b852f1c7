"""PUT /attachment: who may store bytes that no message names yet [interfaces, Hub]."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from hub.crypto.hashing import h
from hub.errors import ErrorCode, VeenError
from hub.server import ipc
from hub.server.answers import CBOR, error_response
from hub.server.http import Request, Respond, Response
from hub.storage import attachments
from hub.storage.disk import Disk
from hub.storage.layout import Layout
from hub.types import Hash
from hub.wire import cbor

_HEX: Final = re.compile(r"[0-9a-f]*", re.ASCII)
OCTETS: Final = "application/octet-stream"
Ask = Callable[[int, bytes, Callable[[int, bytes], None]], None]


class Uploads:
    """Stores attachments for one worker; the writer says yes and keeps the quota."""

    __slots__ = ("_ask", "_is_open", "_layout")

    def __init__(self, layout: Layout, ask: Ask, *, is_open: bool) -> None:
        self._layout = layout
        self._ask = ask
        self._is_open = is_open

    def put(self, request: Request, coid: Hash, respond: Respond) -> None:
        """Store a body under its hash. A wrong hash costs nobody a signature or a quota."""
        media = request.headers.get("content-type", OCTETS).partition(";")[0].strip().lower()
        if media != OCTETS:
            raise VeenError(ErrorCode.FORMAT, f"send {OCTETS}")
        if h(request.body) != coid:
            raise VeenError(ErrorCode.FORMAT, "coid is not the hash of the body")
        if self._is_open and "veen-auth-ref" not in request.headers:
            respond(self._store(coid, request.body))
            return
        auth_ref = _header(request, "veen-auth-ref", 32, ErrorCode.AUTH)
        signature = _header(request, "veen-sig", 64, ErrorCode.SIG)
        is_there = attachments.path_of(self._layout, coid).exists()
        size = 0 if is_there else len(request.body)

        def granted(kind: int, payload: bytes) -> None:
            try:
                if kind != ipc.OK:
                    raise ipc.as_error(payload)
                respond(self._store(coid, request.body))
            except VeenError as refusal:
                respond(error_response(refusal))

        self._ask(ipc.ATTACH, cbor.encode([auth_ref, coid, size, signature]), granted)

    def _store(self, coid: Hash, body: bytes) -> Response:
        is_new = attachments.write(self._layout, Disk(), coid, body)
        return Response(201 if is_new else 200, b"", CBOR)


def _header(request: Request, name: str, size: int, code: ErrorCode) -> bytes:
    return hex_bytes(request.headers.get(name, ""), size, name, code)


def hex_bytes(text: str, size: int, name: str, code: ErrorCode) -> bytes:
    """Bytes in lower-case hex, or this code."""
    if len(text) != 2 * size or not _HEX.fullmatch(text):
        raise VeenError(code, f"{name} is missing or not {2 * size} lower-case hex digits")
    return bytes.fromhex(text)
