"""The HTTP server: uvicorn in the caller's event loop, without its signal handlers, with deadlines for slow clients."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import os
import resource
import socket
from collections.abc import Iterator, Sequence
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from penstock.config.server_settings import ServerSettings
from penstock.domain.errors import InvalidInput
from penstock.http.slow_clients import Connection

_BACKLOG = 2048
_OTHER_FILES = 500
_LAST_READ = 1.0
_TICKS_PER_SECOND = 10


class Server(uvicorn.Server):
    """Serves one ASGI application until `stop()`; open event streams are ended first."""

    def __init__(
        self, web: FastAPI, settings: ServerSettings | None = None, sockets: Sequence[socket.socket] = ()
    ) -> None:
        self.settings: ServerSettings = settings or ServerSettings()
        self.answers: asyncio.Event = asyncio.Event()
        """Set once it answers requests."""
        self._web = web
        self._sockets = list(sockets)
        super().__init__(_config(web, self.settings))

    @property
    def addresses(self) -> list[str]:
        """The URLs of the server, once it is bound."""
        return [_url(each) for each in self._sockets]

    @property
    def setup_code(self) -> str | None:
        """The code that allows creating the first token over HTTP; None if a token is required already."""
        code: str | None = self._web.state.server.token_policy.setup_code
        return code

    async def run(self) -> None:  # type: ignore[override]
        """Answer requests until `stop()` is called."""
        if not self._sockets:
            self._sockets = bound(self.settings.host, self.settings.port)
        try:
            await self.serve(sockets=self._sockets)
        except OSError as error:
            raise _cannot_bind(self.settings.host, self.settings.port, error) from None
        finally:
            for each in self._sockets:
                each.close()
            # Requests that were cancelled at the end must finish before the loop closes.
            if self.server_state.tasks:
                await asyncio.wait(list(self.server_state.tasks), timeout=1)

    def stop(self) -> None:
        """Accept no more requests and finish the running ones; a second call aborts them."""
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the program that runs the server."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.answers.set()

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS_PER_SECOND == 0:
            now = asyncio.get_running_loop().time()
            for each in list(self.server_state.connections):
                if isinstance(each, Connection):
                    each.end_if_late(now)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Accept no new streams while the open ones are ended.
        for server in self.servers:
            server.close()
        streams = self._web.state.server.streams
        streams.close()
        await super().shutdown(sockets)
        # A running read of the feed would open the store again.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(streams.wait_closed(), _LAST_READ)


def make_room(connections: int) -> None:
    """Raise this process's limit of open files for this many connections, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _OTHER_FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def is_loopback(host: str) -> bool:
    """Return whether a server on this address is reachable from this host only."""
    return all(ipaddress.ip_address(address[0].partition("%")[0]).is_loopback for _, address in _found(host, 0))


def bound(host: str, port: int) -> list[socket.socket]:
    """Return a socket for each address of a host, all on one port."""
    sockets: list[socket.socket] = []
    problem: OSError | None = None
    try:
        for family, address in _found(host, port):
            if sockets and port == 0:
                address = (address[0], sockets[0].getsockname()[1], *address[2:])
            try:
                sockets.append(_bound(family, address))
            except OSError as error:
                # A name such as localhost may resolve to an address that this host does not have.
                if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise
                problem = error
        if problem is not None and not sockets:
            raise problem
    except OSError as error:
        for each in sockets:
            each.close()
        raise _cannot_bind(host, port, error) from None
    return sockets


def _bound(family: int, address: tuple[Any, ...]) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made


def _found(host: str, port: int) -> list[tuple[int, tuple[Any, ...]]]:
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise InvalidInput(f"The host {host!r:.80} is unknown: {error}.") from None
    return list(dict.fromkeys((int(family), address) for family, _, _, _, address in found))


def _cannot_bind(host: str, port: int, error: OSError) -> InvalidInput:
    if error.errno == errno.EADDRINUSE:
        return InvalidInput(
            f"Port {port} of {host} is in use by another program.",
            hint="Stop that program, or choose another port with --port.",
        )
    if error.errno == errno.EACCES:
        return InvalidInput(f"Port {port} of {host} may not be used by this user.", hint="Choose one above 1023.")
    reason = os.strerror(error.errno) if error.errno else str(error)
    return InvalidInput(f"{host}, port {port}, cannot be listened on: {reason}.", hint="Choose with --host and --port.")


def _url(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _config(web: ASGIApp, settings: ServerSettings) -> uvicorn.Config:
    def connection(**given: Any) -> Connection:
        return Connection(settings, **given)

    config = uvicorn.Config(
        web,
        host=settings.host,
        port=settings.port,
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        backlog=_BACKLOG,
        timeout_keep_alive=settings.keep_alive,  # type: ignore[arg-type]
        timeout_graceful_shutdown=settings.stop_timeout,  # type: ignore[arg-type]
    )
    config.load()
    config.http_protocol_class = connection  # type: ignore[assignment]
    return config
