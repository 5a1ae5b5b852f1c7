"""JSON over HTTP to the gateway and the web process [interfaces, Recorder]."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final, Self
from urllib.parse import urlsplit

from hub.errors import ErrorCode, VeenError, unreachable

JSON: Final = "application/json"
_ANSWER_BYTES_MAX: Final = 32 * 1024 * 1024
_RETRY_AFTER_MAX_S: Final = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayAnswer:
    """Any answer, refusals included; the caller judges the status."""

    status: int
    body: Any
    retry_after_s: int | None


class GatewayClient:
    """One kept connection that is made again when it broke; one thread uses it at a time."""

    def __init__(self, url: str, token: str, *, timeout_s: float = 30.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise VeenError(ErrorCode.CONFIG, f"{url!r} is not an http or https URL")
        if not token.isascii() or not token.isprintable():
            raise VeenError(ErrorCode.CONFIG, "a token is printable ASCII")
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._link = kind(parts.hostname, parts.port, timeout=timeout_s)
        self._url = url
        self._prefix = parts.path.rstrip("/")
        self._token = token

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._link.close()

    def get(self, path: str) -> GatewayAnswer:
        """A read."""
        return self._ask("GET", path, None)

    def post(self, path: str, body: bytes) -> GatewayAnswer:
        """A write of a JSON text; the caller decides whether sending it twice is safe."""
        return self._ask("POST", path, body)

    def _ask(self, method: str, path: str, body: bytes | None) -> GatewayAnswer:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": JSON}
        if body is not None:
            headers["Content-Type"] = JSON
        try:
            self._link.request(method, self._prefix + path, body, headers)
            answer = self._link.getresponse()
            data = answer.read(_ANSWER_BYTES_MAX + 1)
            if len(data) > _ANSWER_BYTES_MAX:
                self._link.close()
        except (OSError, HTTPException) as broken:
            self._link.close()
            raise unreachable(self._url, broken) from broken
        try:
            found = json.loads(data)
        except ValueError as flaw:
            detail = f"{self._url}: status {answer.status} without a JSON body"
            raise VeenError(ErrorCode.PROTOCOL, detail) from flaw
        retry = answer.getheader("Retry-After", "")
        seconds = min(int(retry), _RETRY_AFTER_MAX_S) if retry.isdecimal() else None
        return GatewayAnswer(status=answer.status, body=found, retry_after_s=seconds)
