"""Validation of webhook URLs and receiver addresses.

`ipaddress.is_global` is not used: it counts multicast, NAT64 and other wrapped addresses as public. Addresses that
are not public by the tables below are refused.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from penstock.domain.errors import InvalidInput

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

LONGEST_URL = 2000
DEFAULT_PORTS = (443, 8443)

_REFUSED_V4 = tuple(
    IPv4Network(each)
    for each in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # behind a carrier's NAT
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local, and what clouds put there
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocols
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
_PUBLIC_V6 = IPv6Network("2000::/3")
_REFUSED_V6 = tuple(
    IPv6Network(each)
    for each in (
        "2001::/23",  # protocols; of Teredo see below
        "2001:db8::/32",  # documentation
        "3fff::/20",  # documentation
    )
)
_COMPATIBLE = IPv6Network("::/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_TEREDO = IPv6Network("2001::/32")
_SIX_TO_FOUR = IPv6Network("2002::/16")

_EVERY_PORT = range(65_536)
_EVERYWHERE = (IPv4Network("0.0.0.0/0"), IPv6Network("::/0"))
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\Z")
_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)\Z")
_QUAD = re.compile(r"(0|[1-9][0-9]{0,2})(\.(0|[1-9][0-9]{0,2})){3}\Z")
_DOTS = "。．｡"


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed URL: where to connect, and what to request."""

    url: str
    scheme: str
    host: str
    """In ASCII, without brackets."""
    port: int
    path: str
    """With the query."""
    address: Address | None
    """Set when the host is an address already."""

    @property
    def origin(self) -> str:
        """Identifies a receiver that has no endpoint."""
        return f"{self.scheme}://{self.authority(always=True)}"

    def authority(self, *, always: bool = False) -> str:
        """Host and port as in the Host header; `always` includes the default port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        implied = self.port == (443 if self.scheme == "https" else 80)
        return host if implied and not always else f"{host}:{self.port}"


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Networks from texts such as 10.0.0.0/8."""
    found = []
    for text in texts:
        try:
            found.append(ip_network(text))
        except ValueError as error:
            raise InvalidInput(f"{text!r:.80} is no network: {error}.", hint="Write 10.0.0.0/8 or fd00::/8.") from None
    return tuple(found)


def address_in(address: Address, given: Sequence[Network]) -> bool:
    """Return whether an address, or one wrapped in it, belongs to one of these networks."""
    places = (address, *unwrapped(address))
    return any(each.version == network.version and each in network for each in places for network in given)


def address_allowed(address: Address, allowed: Sequence[Network] = ()) -> bool:
    """Return whether an address is public, or in a network that the settings allow."""
    inner = unwrapped(address)
    if address_in(address, allowed):
        return True
    if inner:
        return all(_is_public(each) for each in inner)
    return _is_public(address)


def check_url(
    url: str, *, allow_http: bool = False, ports: Sequence[int] = DEFAULT_PORTS, allowed: Sequence[Network] = ()
) -> Target:
    """Parse the URL of a webhook; the error says what is wrong with it."""
    if not isinstance(url, str) or not 1 <= len(url) <= LONGEST_URL:
        raise InvalidInput(f"A webhook's URL is a text of 1 to {LONGEST_URL} characters.")
    if any(each <= " " or each == "\\" or unicodedata.category(each)[0] in "CZ" for each in url):
        raise _wrong(url, "it holds a space, a backslash or a control character")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _wrong(url, f"it cannot be read ({error})") from None
    if parts.scheme not in ("http", "https"):
        raise _wrong(url, "it does not begin with https://")
    if parts.scheme == "http" and not allow_http:
        raise _wrong(url, "it is not encrypted", "Use https, or allow http in the settings of webhooks.")
    if "@" in parts.netloc:
        raise _wrong(url, "it holds a user or a password", "Receivers know us by the signature.")
    if "#" in url:
        raise _wrong(url, "it has a fragment, which is never sent")
    host = _host(url, parts.hostname)
    port = port if port is not None else (443 if parts.scheme == "https" else 80)
    if port not in ports and not (port == 80 and parts.scheme == "http"):
        shown = ", ".join(map(str, ports))
        raise _wrong(url, f"port {port} is not allowed", f"Allowed are {shown}; others by the settings of webhooks.")
    address = _literal(url, host)
    _check_place(url, host, address, allowed)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(url, parts.scheme, host, port, _ascii(path), address)


def origin(url: str) -> str:
    """Return scheme, host and port of a URL, independent of settings."""
    return check_url(url, allow_http=True, ports=_EVERY_PORT, allowed=_EVERYWHERE).origin


def without_path(url: str) -> str:
    """A URL without path and query, which often contain a secret."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "***"
    place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    return f"{place}/***" if parts.path.strip("/") or parts.query or parts.fragment else f"{place}{parts.path}"


def _host(url: str, host: str | None) -> str:
    """The host in ASCII; names of other scripts as DNS knows them."""
    if not host:
        raise _wrong(url, "it names no host")
    if ":" in host:
        return host
    host = unicodedata.normalize("NFKC", host)
    for dot in _DOTS:
        host = host.replace(dot, ".")
    try:
        ascii_host = host.encode("idna").decode("ascii").lower() if not host.isascii() else host.lower()
    except UnicodeError:
        raise _wrong(url, "its host is no name that DNS knows") from None
    name = ascii_host.removesuffix(".")
    if len(name) > 253 or not all(_LABEL.match(label) for label in name.split(".")):
        raise _wrong(url, "its host is no name that DNS knows")
    return name


def _literal(url: str, host: str) -> Address | None:
    """The address that a host is; forms that only some resolvers read as one are refused."""
    if ":" in host or _QUAD.match(host):
        try:
            return ip_address(host)
        except ValueError:
            raise _wrong(url, "its host is no address") from None
    if _NUMBER.match(host.rpartition(".")[2]):
        raise _wrong(url, "its host is a number, which is read as an address", "Write the name of the host.")
    return None


def _check_place(url: str, host: str, address: Address | None, allowed: Sequence[Network]) -> None:
    if address is not None and not address_in(address, allowed):
        raise _wrong(url, "its host is an address", "Use a name, or allow the network in the settings of webhooks.")
    if host == "localhost" or host.endswith(".localhost"):
        loopback = (ip_address("127.0.0.1"), ip_address("::1"))
        if not any(address_allowed(each, allowed) for each in loopback):
            raise _wrong(url, "it leads to this host", "Allow 127.0.0.0/8 in the settings of webhooks.")


def _ascii(path: str) -> str:
    """A path as it goes over the wire: what is not ASCII is percent-encoded."""
    return "".join(each if each.isascii() else "".join(f"%{byte:02X}" for byte in each.encode()) for each in path)


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _REFUSED_V4)
    return address in _PUBLIC_V6 and not any(address in network for network in _REFUSED_V6)


def unwrapped(address: Address) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses that an IPv6 address leads to."""
    if isinstance(address, IPv4Address):
        return ()
    number = int(address)
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address in _NAT64 or (address in _COMPATIBLE and number > 1):
        return (IPv4Address(number & 0xFFFFFFFF),)
    if address in _SIX_TO_FOUR:
        return (IPv4Address(number >> 80 & 0xFFFFFFFF),)
    if address in _TEREDO:
        return (IPv4Address(number >> 64 & 0xFFFFFFFF), IPv4Address(~number & 0xFFFFFFFF))
    return ()


def _wrong(url: str, problem: str, hint: str = "") -> InvalidInput:
    return InvalidInput(f"{without_path(url)[:100]!a} cannot be a webhook's URL: {problem}.", hint=hint)
