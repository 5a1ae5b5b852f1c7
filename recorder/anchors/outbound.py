"""The recorder's only way out: one bounded POST to a listed host and port [assurance 2.5].

The name is resolved once and the connection goes to that address. Private and loopback addresses
are refused unless the list names the address itself. There are no redirects, no proxies, no second
try, and the whole exchange ends when its time is over, however slowly the peer speaks.
"""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from hub.errors import ErrorCode, VeenError

ANSWER_BYTES_MAX: Final = 64 * 1024
PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An address that a URL names; P.POLICY for one that is not listed."""

    scheme: str
    host: str
    port: int
    path: str

    @classmethod
    def of(cls, url: str, allowed: Collection[str]) -> Target:
        """Parse a URL and look it up in the list of `host:port`."""
        parts = urlsplit(url)
        try:
            port = parts.port or PORTS[parts.scheme]
        except (KeyError, ValueError):
            raise VeenError(ErrorCode.CONFIG, f"{url!r} is not an http or https URL") from None
        host = parts.hostname or ""
        if not host or parts.username or parts.password or parts.fragment:
            raise VeenError(ErrorCode.CONFIG, "a URL with host and path only is expected")
        if name_of(host, port) not in allowed:
            detail = f"{name_of(host, port)} is not on the list of allowed addresses"
            raise VeenError(ErrorCode.POLICY, detail)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(scheme=parts.scheme, host=host, port=port, path=path)

    def resolve(self, allowed: Collection[str]) -> str:
        """The one address that is used, after it was judged."""
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except OSError as failure:
            raise VeenError(ErrorCode.UNREACHABLE, f"{self.host}: {failure}") from failure
        address = str(found[0][4][0])
        is_public = ipaddress.ip_address(address.partition("%")[0]).is_global
        if not is_public and name_of(address, self.port) not in allowed:
            detail = f"{self.host} is at {address}, which is no public address and is not listed"
            raise VeenError(ErrorCode.POLICY, detail)
        return address


def name_of(host: str, port: int) -> str:
    """An address as the list spells it."""
    return f"[{host}]:{port}" if ":" in host else f"{host.lower()}:{port}"


def post(
    url: str,
    body: bytes,
    *,
    allowed: Collection[str],
    content_type: str,
    accept: str,
    timeout_s: float,
    tls: ssl.SSLContext | None = None,
) -> bytes:
    """The body of a 200 answer of the accepted type; anything else raises."""
    target = Target.of(url, allowed)
    address = target.resolve(allowed)
    ends_at = time.monotonic() + timeout_s
    try:
        with contextlib.closing(_connect(target, address, timeout_s, tls)) as link:
            watch = threading.Timer(max(0.0, ends_at - time.monotonic()), _hang_up, [link])
            watch.start()
            try:
                return _exchange(target, link, body, content_type, accept)
            finally:
                watch.cancel()
    except (OSError, http.client.HTTPException) as failure:
        late = " (its time was over)" if time.monotonic() >= ends_at else ""
        raise VeenError(ErrorCode.UNREACHABLE, f"{url}: {failure!r}{late}") from failure


def _connect(
    target: Target, address: str, timeout_s: float, tls: ssl.SSLContext | None
) -> socket.socket:
    link = socket.create_connection((address, target.port), timeout_s)
    if target.scheme == "http":
        return link
    try:
        context = tls or ssl.create_default_context()
        return context.wrap_socket(link, server_hostname=target.host)
    except BaseException:
        link.close()
        raise


def _hang_up(link: socket.socket) -> None:
    with contextlib.suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)


def _exchange(
    target: Target, link: socket.socket, body: bytes, content_type: str, accept: str
) -> bytes:
    connection = http.client.HTTPConnection(target.host, target.port)
    connection.sock = link
    headers = {"Content-Type": content_type, "Accept": accept, "Connection": "close"}
    connection.request("POST", target.path, body, headers)
    with contextlib.closing(connection.getresponse()) as answer:
        data = answer.read(ANSWER_BYTES_MAX + 1)
        kind = (answer.getheader("Content-Type") or "").partition(";")[0].strip().lower()
        if answer.status != http.HTTPStatus.OK or kind != accept:
            detail = f"{target.host} answered {answer.status} with {kind or 'no type'}"
            raise VeenError(ErrorCode.PROTOCOL, detail)
    if len(data) > ANSWER_BYTES_MAX:
        raise VeenError(ErrorCode.SIZE, f"{target.host} answered with too many bytes")
    return data
