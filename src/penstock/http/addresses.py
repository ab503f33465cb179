"""Where a request comes from: the caller's address, the network that limits count, and signs of a proxy."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from starlette.requests import Request
from starlette.types import Scope

_IPV6_NETWORK = 64
"""One customer of a provider has at least so large a network: its addresses are counted as one caller."""
_UNKNOWN = "unknown"
_PROXY_HEADERS = frozenset({
    b"forwarded", b"via", b"x-real-ip", b"x-client-ip", b"x-cluster-client-ip", b"true-client-ip", b"client-ip",
    b"fastly-client-ip", b"fly-client-ip", b"x-original-forwarded-for", b"x-original-host", b"x-original-url",
    b"x-rewrite-url", b"x-amzn-trace-id", b"x-cloud-trace-context", b"cdn-loop", b"x-varnish", b"proxy-connection",
})  # fmt: skip
_PROXY_FAMILIES = (b"x-forwarded", b"cf-", b"x-envoy-", b"x-azure-", b"x-appengine-")


def address_of(request: Request) -> str:
    """The address that a request comes from."""
    return request.client.host if request.client else _UNKNOWN


@lru_cache(10_000)
def network_of(address: str) -> str:
    """What limits count an address by: an IPv4 address, or the /64 network of an IPv6 address."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        # A Unix socket, or a server that does not say.
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, _IPV6_NETWORK), strict=False))


@lru_cache(1000)
def is_loopback(address: str) -> bool:
    """Whether only this host can have sent from an address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def sign_of_proxy(scope: Scope) -> str | None:
    """What says that a request came through a proxy; None: nothing does, which a silent proxy also achieves."""
    for name, _ in scope["headers"]:
        if name in _PROXY_HEADERS or name.startswith(_PROXY_FAMILIES):
            return f"the header {name.decode('latin-1')}"
    # Current programs use 1.1; proxies use 1.0 to servers unless they are configured otherwise.
    version = scope.get("http_version", "")
    return f"HTTP/{version}" if version in ("0.9", "1.0") else None


def route_path(scope: Scope) -> str:
    """The path below which an application is mounted or shown taken off."""
    root: str = scope.get("root_path", "")
    path: str = scope["path"]
    return path[len(root) :] if root and path.startswith(root) else path
