"""Sends webhooks: to public addresses that were checked, and nowhere that an answer or the environment leads.

The name of a host is looked up once, every address it has is checked, and the connection goes to one of those. The name
itself is only used for the Host header and to check the certificate. Connections are not kept: two names may share an
address, and a kept connection was checked for one of them only.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from penstock.domain.errors import InvalidInput
from penstock.domain.webhook.endpoint import USER_AGENT, Answer, excerpt, readable
from penstock.domain.webhook.settings import WebhookSettings
from penstock.domain.webhook.url import Address, Target, address_allowed, address_in, unwrapped

if TYPE_CHECKING:
    import httpx2

_MOST_BYTES = 16_384
"""Of an answer; the rest is not read."""
_MOST_ADDRESSES = 3
_RESOLVERS = 8
_LONGEST_ERROR = 500


class Refused(Exception):
    """A URL leads to an address to which nothing may be sent."""


class WebhookSender:
    """Posts webhooks, and returns the answer of the receiver."""

    def __init__(self, settings: WebhookSettings) -> None:
        self._settings = settings
        self._client: httpx2.AsyncClient | None = None
        self._preparing = asyncio.Lock()
        # In separate threads: a name server that does not answer must hold up nothing else.
        self._resolvers = ThreadPoolExecutor(_RESOLVERS, thread_name_prefix="penstock-resolve")

    async def send(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Post a body; every failure becomes an answer, and only a cancellation is raised."""
        await self._prepare()
        began = time.monotonic()
        answer = await self._sent(url, body, headers)
        return _timed(answer, time.monotonic() - began)

    async def close(self) -> None:
        self._resolvers.shutdown(wait=False, cancel_futures=True)
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    async def _prepare(self) -> None:
        """Load the HTTP client at its first use, in a thread: it takes as long as a short try."""
        if self._client is None:
            async with self._preparing:
                self._client = self._client or await asyncio.to_thread(_client, self._settings.timeout)

    async def _sent(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        try:
            target = self._settings.check(url)
            async with asyncio.timeout(self._settings.timeout):
                addresses = await self._addresses(target)
                return await self._posted(target, addresses, body, headers)
        except (InvalidInput, Refused) as error:
            return Answer(error=_short(str(error)), hopeless=True)
        except TimeoutError:
            return Answer(error=f"There was no answer within {self._settings.timeout:g} s.")
        except (OSError, UnicodeError) as error:
            return Answer(error=_short(f"The host could not be found: {error}."))
        except Exception as error:
            return Answer(error=_short(f"{type(error).__name__}: {error}"))

    async def _addresses(self, target: Target) -> list[Address]:
        """Where a URL leads, all of it allowed."""
        if target.address is not None:
            found = [target.address]
        else:
            loop = asyncio.get_running_loop()
            looked_up = await loop.run_in_executor(self._resolvers, _look_up, target.host, target.port)
            found = list(dict.fromkeys(ip_address(each) for each in looked_up))
        if not found:
            raise Refused(f"{target.host} has no address.")
        for address in found:
            if address_in(address, self._settings.networks):
                continue
            if not address_allowed(address) or address_in(address, self._settings.refused):
                raise Refused(f"{target.host} leads to {address}, where no webhook may be sent to.")
            if any(map(is_own, (address, *unwrapped(address)))):
                raise Refused(f"{target.host} leads to {address}, which is this host; settings can allow it.")
        return found[:_MOST_ADDRESSES]

    async def _posted(
        self, target: Target, addresses: list[Address], body: bytes, headers: Mapping[str, str]
    ) -> Answer:
        import httpx2

        for last, address in ((each is addresses[-1], each) for each in addresses):
            try:
                return await self._post(target, address, body, headers)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                # Nothing was sent; a certificate that does not fit comes here, too.
                if last:
                    raise
        raise Refused(f"{target.host} has no address.")

    async def _post(self, target: Target, address: Address, body: bytes, headers: Mapping[str, str]) -> Answer:
        host = f"[{address}]" if address.version == 6 else str(address)
        sent = {
            "Host": target.authority(),
            "Content-Type": "application/json",
            "User-Agent": USER_AGENT,
            "Accept": "*/*",
            "Accept-Encoding": "identity",
            **headers,
        }
        url = f"{target.scheme}://{host}:{target.port}{target.path}"
        extensions: dict[str, Any] = {"sni_hostname": target.host} if target.scheme == "https" else {}
        request = self._http.build_request("POST", url, content=body, headers=sent, extensions=extensions)
        response = await self._http.send(request, stream=True, follow_redirects=False)
        try:
            data = bytearray()
            async for chunk in response.aiter_raw():
                data += chunk
                if len(data) >= _MOST_BYTES:
                    break
            return Answer(
                response.status_code, excerpt=excerpt(bytes(data)), retry_after=response.headers.get("Retry-After")
            )
        finally:
            with contextlib.suppress(Exception):
                await response.aclose()

    @property
    def _http(self) -> httpx2.AsyncClient:
        if self._client is None:
            raise Refused("The sender was closed.")
        return self._client


def is_own(address: Address) -> bool:
    """Whether an address belongs to this host: then the kernel would answer from it. Nothing is sent."""
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.setblocking(False)
            probe.connect((str(address), 9))
            return ip_address(probe.getsockname()[0].partition("%")[0]) == address
    except OSError:
        # There is no route to it.
        return False


def _client(timeout: float) -> httpx2.AsyncClient:
    import httpx2

    return httpx2.AsyncClient(
        trust_env=False,
        follow_redirects=False,
        timeout=timeout,
        limits=httpx2.Limits(max_keepalive_connections=0),
    )


def _look_up(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(place[0]) for *_, place in found]


def _timed(answer: Answer, seconds: float) -> Answer:
    return Answer(
        answer.status_code, answer.error, answer.excerpt, answer.retry_after, round(seconds, 6), answer.hopeless
    )


def _short(text: str) -> str:
    return readable(text)[:_LONGEST_ERROR]
