"""Where a request comes from: the caller's address and network, signs of a proxy, the host name, the browser's page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.http.errors import RequestError

if TYPE_CHECKING:
    from penstock.http.application import ServerState

import ipaddress
from functools import lru_cache

from starlette.requests import Request
from starlette.types import Scope

_IPV6_NETWORK = 64
"""Providers give each customer a network at least this large, so its addresses count as one caller."""
_UNKNOWN = "unknown"
_PROXY_HEADERS = frozenset({
    b"forwarded", b"via", b"x-real-ip", b"x-client-ip", b"x-cluster-client-ip", b"true-client-ip", b"client-ip",
    b"fastly-client-ip", b"fly-client-ip", b"x-original-forwarded-for", b"x-original-host", b"x-original-url",
    b"x-rewrite-url", b"x-amzn-trace-id", b"x-cloud-trace-context", b"cdn-loop", b"x-varnish", b"proxy-connection",
})  # fmt: skip
_PROXY_FAMILIES = (b"x-forwarded", b"cf-", b"x-envoy-", b"x-azure-", b"x-appengine-")


def address_of(request: Request) -> str:
    """Return the address that a request comes from."""
    return request.client.host if request.client else _UNKNOWN


@lru_cache(10_000)
def network_of(address: str) -> str:
    """Return the unit that limits count: an IPv4 address, or the /64 network of an IPv6 address."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        # A Unix socket, or a server that does not report the address.
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, _IPV6_NETWORK), strict=False))


@lru_cache(1000)
def is_loopback(address: str) -> bool:
    """Return whether an address is reachable from this host only."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def sign_of_proxy(scope: Scope) -> str | None:
    """Return the sign that a request came through a proxy; None if there is none, as with a proxy that adds nothing."""
    for name, _ in scope["headers"]:
        if name in _PROXY_HEADERS or name.startswith(_PROXY_FAMILIES):
            return f"the header {name.decode('latin-1')}"
    # Current programs use 1.1; proxies use 1.0 to servers unless they are configured otherwise.
    version = scope.get("http_version", "")
    return f"HTTP/{version}" if version in ("0.9", "1.0") else None


LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})


_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def check_host(request: Request) -> None:
    """Refuse a host name that is not configured: a foreign DNS entry could lead a browser here."""
    server: ServerState = request.app.state.server
    if server.trusted is not None:
        return
    settings = server.settings
    sent = [value for name, value in request.scope["headers"] if name == b"host"]
    if len(sent) > 1:
        raise RequestError("malformed", "The header Host was sent more than once.")
    name = host_name(request)
    if not settings.hosts or name in LOCAL_NAMES or name in settings.hosts:
        return
    raise misdirected(request)


def misdirected(request: Request) -> RequestError:
    return RequestError(
        "misdirected",
        f"This server does not answer to the name {host_name(request)[:80]!r}.",
        hint="Without tokens only localhost is accepted; the setting web.hosts adds names.",
    )


def host_name(request: Request) -> str:
    host = request.headers.get("host", "").lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].rstrip(".")


def refuse_foreign_pages(request: Request, *, of_a_browser: bool = False) -> None:
    """Refuse a changing request that another site's page makes in a user's browser.

    Browsers send Sec-Fetch-Site, or Origin if they are old. A cookie comes from a browser, so one of them must come
    with it; other programs send neither.

    """
    if request.method in _SAFE:
        return
    fetch_site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if fetch_site is not None:
        foreign = fetch_site not in ("same-origin", "none")
    elif origin is not None:
        foreign = origin.partition("://")[2] != request.headers.get("host")
    elif of_a_browser:
        raise RequestError(
            "forbidden",
            "A change with a session needs the header Sec-Fetch-Site or Origin.",
            hint="Browsers send them; programs send a token: Authorization: Bearer pst_…",
        )
    else:
        return
    if foreign and origin not in request.app.state.server.settings.origins:
        raise RequestError("forbidden", "The request comes from a page of another site.")
