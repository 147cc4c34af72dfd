"""Addresses: whose a connection is, and whose a request is that comes through a proxy.

What a proxy says of its client (X-Forwarded-For, X-Forwarded-Proto) is believed only where the proxy is one of those
that the settings name. Each proxy adds the address it was asked from at the right: the right-most one that is no
trusted proxy is the client, and all to the left of it may be invented.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from functools import lru_cache

from starlette.types import Scope

from indubio.errors import ConfigError

PROXIED = "indubio.proxied"  # in a request's scope: it came through a trusted proxy, so it is never local
BY_PROXIES = (b"forwarded", b"via", b"x-real-ip")  # headers that proxies add, beside all of X-Forwarded-
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def network(text: str) -> Network:
    """An address or a network, as 10.0.0.7 or 10.0.0.0/24."""
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise ConfigError(
            f"a trusted proxy must be an address or a network such as 10.0.0.0/24, got {text!r}: {error}."
        ) from None


@lru_cache(maxsize=4096)
def neighbourhood(address: str) -> str:
    """What is counted as one address: of IPv6 the /64, for all of it is given to one customer."""
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(known, ipaddress.IPv6Address):
        if known.ipv4_mapped is not None:
            return str(known.ipv4_mapped)
        return str(ipaddress.ip_network((known, 64), strict=False))
    return address


def peer(scope: Scope) -> str:
    """The address a request comes from: of the connection, or what `TrustedProxies.unwrap` put there."""
    client = scope.get("client")
    return client[0] if client else ""


def came_through_proxy(scope: Scope, headers: Mapping[bytes, bytes]) -> bool:
    """Whether a proxy had the request before, one that is trusted or any other: its client may be anybody.

    One that adds no header is known by its HTTP/1.0, which nginx speaks to those behind it.
    """
    named = any(name in BY_PROXIES or name.startswith(b"x-forwarded-") for name in headers)
    return PROXIED in scope or named or scope["http_version"] == "1.0"


class TrustedProxies:
    """The proxies whose word is taken.

    Args:
        networks: addresses and networks, as texts.
    """

    def __init__(self, networks: Sequence[str]) -> None:
        self._networks = tuple(map(network, networks))
        self.trusts = lru_cache(maxsize=4096)(self._trusts)  # every connection and every request asks

    def unwrap(self, scope: Scope) -> None:
        """Put the client's own address and scheme into the scope of a request that comes through a trusted proxy."""
        if not self._networks or not self.trusts(peer(scope)):
            return
        scope[PROXIED] = True
        hops = [hop for line in _values(scope, b"x-forwarded-for") for hop in line.split(",")]
        for hop in reversed(hops):
            address = _plain(hop.strip())
            if address is None:  # not an address: what the proxy says cannot be used
                return
            scope["client"] = (address, 0)
            if not self.trusts(address):
                break
        schemes = _values(scope, b"x-forwarded-proto")
        if schemes and (scheme := schemes[-1].rpartition(",")[2].strip().lower()) in ("http", "https"):
            scope["scheme"] = scheme

    def _trusts(self, address: str) -> bool:
        try:
            known = ipaddress.ip_address(address)
        except ValueError:
            return False
        if isinstance(known, ipaddress.IPv6Address) and known.ipv4_mapped is not None:
            known = known.ipv4_mapped
        return any(known in one for one in self._networks)


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _plain(hop: str) -> str | None:
    """The address of a hop, which some proxies write with a port: 10.0.0.7:4711, [::1]:4711."""
    if hop.startswith("["):
        hop = hop[1:].partition("]")[0]
    elif hop.count(":") == 1:
        hop = hop.partition(":")[0]
    try:
        return str(ipaddress.ip_address(hop))
    except ValueError:
        return None
