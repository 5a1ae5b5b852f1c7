"""Who may send to an adapter: an address list, loopback by default [architecture]."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from hub.errors import ErrorCode, VeenError

LOOPBACK: Final = ("127.0.0.0/8", "::1/128")


class AllowList:
    """Networks whose peers are heard."""

    def __init__(self, networks: Sequence[str]) -> None:
        try:
            self._networks = [ip_network(one) for one in networks or LOOPBACK]
        except ValueError as flaw:
            raise VeenError(ErrorCode.CONFIG, f"not a network: {flaw}") from flaw

    def allows(self, peer: str) -> bool:
        """Whether this address is on the list."""
        try:
            address: IPv4Address | IPv6Address = ip_address(peer.partition("%")[0])
        except ValueError:
            return False
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(
            address in network
            for network in self._networks
            if isinstance(network, IPv6Network) == isinstance(address, IPv6Address)
        )


def check_bind(bind: str, networks: Sequence[str], *, needed: str = "--allow") -> None:
    """Refuse to listen beyond loopback without a list of who may send."""
    try:
        is_local = bind == "localhost" or ip_address(bind).is_loopback
    except ValueError as flaw:
        raise VeenError(ErrorCode.CONFIG, f"{bind!r} is not an address") from flaw
    if not is_local and not networks:
        raise VeenError(ErrorCode.CONFIG, f"binding {bind} needs {needed} with who may send")
