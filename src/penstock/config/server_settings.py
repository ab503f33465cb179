"""How a server answers: who may call it, and how much it takes."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from penstock.config.project_file import FILE, is_like
from penstock.domain.errors import InvalidInput, refuse_unknown
from penstock.domain.secrets.policy import SecretPolicy

MEGABYTE = 1024 * 1024
_AT_LEAST_ONE = (
    "max_body", "max_batch_body", "max_batch", "max_bytes_per_caller", "max_bytes_in_flight", "max_headers",
    "max_header_bytes", "max_target", "max_streams", "max_streams_per_token",
    "max_streams_per_address", "stream_buffer", "failed_tokens", "failed_tokens_total",
)  # fmt: skip
_ROOT_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)+")


@dataclass(frozen=True, slots=True)
class WebSettings:
    """What an operator may say about the server."""

    anonymous_create: bool = False
    """Whether jobs may be created without a token, also where tokens exist."""
    creation_limit: int = 0
    """How many jobs one token, or one address without a token, may create per `creation_period`; 0: no limit."""
    anonymous_limit: int = 60
    """The same for one address without a token where `anonymous_create` is set, the smaller one counts; 0: no limit."""
    creation_period: float = 60.0
    unknown_definitions: bool = False
    """Whether jobs may be created of definitions that no worker has made known yet."""
    max_body: int = 2 * MEGABYTE
    max_batch_body: int = 4 * MEGABYTE
    max_batch: int = 10_000
    max_bytes_per_caller: int = 16 * MEGABYTE
    """Bytes of bodies of one token, or one address, that are worked on at a time; a single body may have more."""
    max_bytes_in_flight: int = 48 * MEGABYTE
    """The same for all callers together."""
    max_headers: int = 100
    max_header_bytes: int = 32 * 1024
    max_target: int = 8192
    """Bytes of path and query together."""
    max_streams: int = 2000
    """Concurrent event streams of one server."""
    max_streams_per_token: int = 500
    max_streams_per_address: int = 1000
    """How many of them one token and one address may have; IPv6 counts by /64 network."""
    stream_buffer: int = 1000
    """How many events may wait for one slow client before it is dropped."""
    ping_every: float = 15.0
    failed_tokens: int = 20
    """How many wrong tokens one address may show in a minute before it has to wait; IPv6 counts by /64 network."""
    failed_tokens_total: int = 200
    """How many wrong tokens all addresses together may show in a minute; valid ones are never refused by it."""
    hosts: tuple[str, ...] = ()
    """Host names of the server, in addition to those of this host; empty: any, once there are tokens."""
    origins: tuple[str, ...] = ()
    """Origins whose pages may call the API from a browser (CORS)."""
    session_hours: float = 12.0
    root_path: str = ""
    """The path below which a proxy shows the server, such as "/ops/penstock", whether or not it strips it."""
    hsts_seconds: int = 365 * 86_400
    """How long browsers that came over https keep to https; 0: not said."""
    secrets: SecretPolicy = field(default_factory=SecretPolicy)

    def __post_init__(self) -> None:
        for name in _AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise InvalidInput(f"web.{name} must be at least 1, not {getattr(self, name)!r}.")
        for name in ("creation_limit", "anonymous_limit", "hsts_seconds"):
            if getattr(self, name) < 0:
                raise InvalidInput(f"web.{name} must not be negative, not {getattr(self, name)!r}.")
        for name in ("creation_period", "ping_every", "session_hours"):
            if not getattr(self, name) > 0:
                raise InvalidInput(f"web.{name} must be more than 0, not {getattr(self, name)!r}.")
        if self.root_path and not _ROOT_PATH.fullmatch(self.root_path):
            raise InvalidInput(
                f"web.root_path: {self.root_path!r:.80} is no path.", hint='Write it as in "/ops/penstock".'
            )
        object.__setattr__(self, "hosts", tuple(host.lower() for host in self.hosts))
        for origin in self.origins:
            if origin == "*" or not origin.startswith(("http://", "https://")) or origin.endswith("/"):
                raise InvalidInput(
                    f"web.origins: {origin!r} is no origin.", hint='Write them out, as in "https://ops.example.org".'
                )

    def creation_limit_of(self, *, anonymous: bool) -> int:
        """How many jobs a caller may create per `creation_period`; 0: no limit."""
        limits = (self.creation_limit, self.anonymous_limit) if anonymous else (self.creation_limit,)
        return min(filter(None, limits), default=0)


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where a server listens, and how long it waits for a client; times are in seconds."""

    host: str = "127.0.0.1"
    port: int = 7367
    proxies: tuple[str, ...] = ()
    """Addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto count."""
    max_connections: int = 4000
    header_timeout: float = 10.0
    """How long a client may take to send the head of a request."""
    body_timeout: float = 30.0
    """How long a client may take to send a body, with more time for a larger one."""
    write_timeout: float = 30.0
    """How long a client may leave its answer unread."""
    linger_timeout: float = 5.0
    """How long a refused client may continue sending before its connection is reset."""
    linger_bytes: int = 32 * MEGABYTE
    """Bytes of a refused request that are read and dropped before its connection is reset."""
    max_head: int = 64 * 1024
    """Bytes of a request's line and headers that are read before it is refused unseen."""
    keep_alive: float = 5.0
    """How long a connection without a request stays open."""
    stop_timeout: float = 5.0
    """How long requests may continue after the server was asked to stop."""

    def __post_init__(self) -> None:
        if not isinstance(self.port, int) or not 0 <= self.port <= 65_535:
            raise InvalidInput(f"The port must be a number from 0 to 65535, not {self.port!r:.80}.")
        for name in (
            "max_connections", "max_head", "header_timeout", "body_timeout", "write_timeout", "keep_alive",
            "linger_timeout", "linger_bytes",
        ):  # fmt: skip
            if not getattr(self, name) > 0:
                raise InvalidInput(f"web.{name} must be more than 0, not {getattr(self, name)!r:.80}.")
        if self.stop_timeout < 0:
            raise InvalidInput(f"web.stop_timeout must not be negative, not {self.stop_timeout!r:.80}.")
        for each in self.proxies:
            try:
                ipaddress.ip_network(each)
            except ValueError:
                raise InvalidInput(
                    f"web.proxies: {each!r:.80} is no address.", hint='Write "10.0.0.7" or "10.0.0.0/24".'
                ) from None


def configured(table: Mapping[str, Any], secrets: SecretPolicy) -> tuple[WebSettings, ServerSettings]:
    """What `[web]` of a project's file says; a name that is unknown is refused."""
    about_answers = {each.name for each in fields(WebSettings)} - {"secrets"}
    about_server = {each.name for each in fields(ServerSettings)}
    refuse_unknown(table, sorted(about_answers | about_server), f"a setting of [web] in {FILE}")
    for name, value in table.items():
        plain = _PLAIN_WEB if name in about_answers else _PLAIN_SERVER
        if not is_like(value, getattr(plain, name)):
            raise InvalidInput(f"{FILE}: {value!r:.80} cannot be {name} of [web].")
    return (
        WebSettings(**{name: value for name, value in table.items() if name in about_answers}, secrets=secrets),
        ServerSettings(**{name: value for name, value in table.items() if name in about_server}),
    )


_PLAIN_WEB = WebSettings()
_PLAIN_SERVER = ServerSettings()
