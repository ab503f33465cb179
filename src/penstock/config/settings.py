"""Every setting of a project in one table: its name, what it is, its default, and by which words it is given.

A flag counts most, then the environment, then `penstock.toml`, then the default.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.config.store_address import masked
from penstock.config.worker_settings import WorkerSettings
from penstock.domain.errors import InvalidInput
from penstock.domain.secrets.policy import DEFAULT_PATTERNS
from penstock.domain.webhook.settings import WebhookSettings

DEFAULT = "default"
FILE = "penstock.toml"
"""Where a project says what it wants."""
_TRUTHS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
_LONGEST = 65_536


@dataclass(frozen=True, slots=True)
class Known:
    """One setting; its name in `penstock.toml` has the table in front of the dot."""

    name: str
    sentence: str
    default: Any = None
    flag: str | None = None
    variable: str | None = None
    """The environment variable, where it is not called as the setting is."""
    secret: bool = False
    """Whether it is never shown, and may be read from the file that `…_FILE` names."""
    items: type = str
    """What a list is a list of."""
    in_file: bool = True
    """Whether `penstock.toml` may say it."""

    @property
    def environment(self) -> str:
        return self.variable or "PENSTOCK_" + self.name.upper().replace(".", "_")

    def read(self, text: str, variable: str) -> Any:
        """Parse a value from the environment; lists are separated by commas."""
        if isinstance(self.default, tuple):
            return tuple(self._item(each.strip(), self.items, variable) for each in text.split(",") if each.strip())
        return self._item(text, str if self.default is None else type(self.default), variable)

    def _item(self, text: str, kind: type, variable: str) -> Any:
        if kind is bool:
            if text.lower() not in _TRUTHS:
                raise InvalidInput(f"{variable} must be true or false, not {text!r:.80}.")
            return _TRUTHS[text.lower()]
        if kind is int:
            if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 18):
                raise InvalidInput(f"{variable} must be a whole number, not {text!r:.80}.")
            return int(text)
        if kind is float:
            try:
                number = float(text)
            except ValueError:
                number = math.nan
            if not math.isfinite(number):
                raise InvalidInput(f"{variable} must be a number, not {text!r:.80}.")
            return number
        return text


@dataclass(frozen=True, slots=True)
class Given:
    """A value that the environment gives to a setting, and by which variable."""

    value: Any
    variable: str


_worker, _webhooks = WorkerSettings(), WebhookSettings()

SETTINGS: tuple[Known, ...] = (
    Known("name", "Distinguishes the schedules of these job files from those of others on the same store."),
    Known("app", "The application: `module:app`, or a file such as `jobs.py:app`."),
    Known("store", "The URL of the store; a password in it is not shown.", flag="--store", secret=True),
    Known("schema", "The schema of a PostgreSQL store.", "penstock"),
    Known("pooler", "Whether PostgreSQL is reached through a pooler that keeps no session.", False),
    Known("migrate", "Whether a PostgreSQL schema is brought up to date when the store is first used.", False),
    Known("jobs", "The folder of job files.", flag="--jobs"),
    Known("queue", "The queue adapter, as `module:name`; without it the store is the queue."),
    Known("server", "The server that commands such as `penstock jobs` use instead of the store.", None,
          "--server"),
    Known("resources", "Names of resources with the functions that open them.", {}),
    Known("worker.slots", "Concurrent jobs with process isolation; by default 2 for each core.", _worker.slots,
          "--slots"),
    Known("worker.inline_slots", "Concurrent inline jobs, in the worker's event loop.", 100, "--inline-slots"),
    Known("worker.ahead", "Jobs that are claimed before there is a slot for them.", 0, "--ahead"),
    Known("worker.lease", "Seconds after which a silent worker counts as dead.", 15.0, "--lease"),
    Known("worker.heartbeat", "Seconds between heartbeats.", 3.0, "--heartbeat"),
    Known("worker.poll", "Seconds after which a worker looks for jobs unasked.", 1.0, "--poll"),
    Known(
        "worker.cancel_grace", "Seconds to stop for a cancelled attempt whose definition does not say.", 10.0,
        "--cancel-grace",
    ),
    Known("worker.drain", "Seconds that running jobs may continue after the worker is asked to stop.", 25.0, "--drain"),
    Known("worker.stop_grace", "Seconds between asking jobs to stop and killing them.", 5.0, "--stop-grace"),
    Known("worker.rescue", "Seconds between looks for jobs of workers that are gone.", 2.0),
    Known("worker.hook_timeout", "Seconds that a hook may take before it is killed.", 10.0, "--hook-timeout"),
    Known("worker.user", "The user as which jobs run; it takes root to choose another.", None, "--user"),
    Known("worker.allow_root", "Whether jobs run as root when the worker does.", False, "--allow-root"),
    Known("worker.environment", "Environment variables that all jobs may see.", (), "--environment"),
    Known("worker.allow_preload_threads", "Whether applications may start threads when they are imported.", False,
          "--allow-preload-threads"),
    Known("worker.name", "What the worker is called in lists; empty: the host's name.", "", "--name"),
    Known("worker.folder", "Where the private folders of jobs are made; empty: where temporary files are.", ""),
    Known("worker.processes", "Processes that one job may have where its definition says nothing.", 256),
    Known("web.host", "Where a server listens.", "127.0.0.1", "--host", "PENSTOCK_HOST"),
    Known("web.port", "The port on which a server listens.", 7367, "--port", "PENSTOCK_PORT"),
    Known("web.proxies", "Addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto count.", ()),
    Known("web.hosts", "Host names of the server, in addition to those of this host.", ()),
    Known("web.origins", "Origins whose pages may call the API from a browser.", ()),
    Known("web.anonymous_create", "Whether jobs may be created without a token, also where tokens exist.", False),
    Known("web.creation_limit", "How many jobs one caller may create per `creation_period`; 0: no limit.", 0),
    Known("web.anonymous_limit",
          "How many jobs one address without a token may create per `creation_period`; 0: no limit.", 60),
    Known("web.creation_period", "Seconds for which `creation_limit` is counted.", 60.0),
    Known("web.unknown_definitions", "Whether jobs of definitions that are not registered yet may be created.", False),
    Known("web.failed_tokens", "How many wrong tokens one address, or one IPv6 /64 network, may show in a minute.", 20),
    Known("web.failed_tokens_total", "How many wrong tokens all addresses together may show in a minute.", 200),
    Known("web.hsts_seconds", "Seconds for which browsers that came over https keep to https; 0: not said.",
          365 * 86_400),
    Known("web.session_hours", "Hours after which a session in the browser ends.", 12.0),
    Known("web.root_path", 'The path below which a proxy shows the server, as "/ops/penstock".', ""),
    Known("web.max_body", "Bytes of a request's body.", 2 * 1024 * 1024),
    Known("web.max_batch_body", "Bytes of the body of a request that creates many jobs.", 4 * 1024 * 1024),
    Known("web.max_bytes_per_caller", "Bytes of bodies of one caller that are worked on at a time.", 16 * 1024 * 1024),
    Known("web.max_bytes_in_flight", "Bytes of bodies of all callers that are worked on at a time.", 48 * 1024 * 1024),
    Known("web.max_batch", "How many jobs one request may create.", 10_000),
    Known("web.max_headers", "How many headers a request may have.", 100),
    Known("web.max_header_bytes", "Bytes of all headers of a request.", 32 * 1024),
    Known("web.max_target", "Bytes of path and query together.", 8192),
    Known("web.max_head", "Bytes of a request's head that are read before it is refused unseen.", 64 * 1024),
    Known("web.max_connections", "Concurrent connections of a server.", 4000),
    Known("web.max_streams", "Concurrent event streams of a server.", 2000),
    Known("web.max_streams_per_token", "How many of them one token may have.", 500),
    Known("web.max_streams_per_address", "How many of them one address, or one IPv6 /64 network, may have.", 1000),
    Known("web.stream_buffer", "Events that may wait for one slow client before it is dropped.", 1000),
    Known("web.ping_every", "Seconds between signs of life on an event stream.", 15.0),
    Known("web.header_timeout", "Seconds that a client may take to send the head of a request.", 10.0),
    Known("web.body_timeout", "Seconds that a client may take to send a body, with more for a larger one.", 30.0),
    Known("web.write_timeout", "Seconds for which a client may leave its answer unread.", 30.0),
    Known("web.linger_timeout",
          "Seconds for which a refused client may continue sending before its connection is reset.", 5.0),
    Known("web.linger_bytes", "Bytes of a refused request that are read and dropped before its connection is reset.",
          32 * 1024 * 1024),
    Known("web.keep_alive", "Seconds for which a connection without a request stays open.", 5.0),
    Known("web.stop_timeout", "Seconds that requests may continue after the server was asked to stop.", 5.0),
    Known("webhooks.global_url", "Gets the default event types of all jobs.", None, None, "PENSTOCK_WEBHOOK_URL"),
    Known("webhooks.global_secret", "Signs what goes to the global URL and to the URLs of single jobs.", None, None,
          "PENSTOCK_WEBHOOK_SECRET", secret=True),
    Known("webhooks.allowed_networks", "Networks that are not public and may be sent to all the same.", ()),
    Known("webhooks.refused_networks",
          "Networks that are public and may not be sent to, such as the public addresses of your own hosts.", ()),
    Known("webhooks.allow_http", "Whether webhooks may be sent without encryption.", False),
    Known("webhooks.ports", "Ports that may be sent to.", _webhooks.ports, items=int),
    Known("webhooks.timeout", "Seconds after which a try to send is given up.", 15.0),
    Known("webhooks.parallel", "Concurrent deliveries of one process.", 16),
    Known("webhooks.per_receiver", "Concurrent deliveries to one receiver, from all processes together.", 2),
    Known("webhooks.retries", "Seconds to wait after each try that failed.", _webhooks.retries, items=float),
    Known("webhooks.breaker_failures", "Failures in a row after which a receiver is left alone for a while.", 5),
    Known("webhooks.disable_after",
          "Seconds without a success after which an endpoint whose tries fail is disabled; 0: never.", 5 * 86_400.0),
    Known("webhooks.breaker_pause", "Seconds for which it is left alone at first; twice as long each time.", 30.0),
    Known("webhooks.poll", "Seconds that events wait at most until deliveries are made of them.", 1.0),
    Known("secrets.patterns", "Keys that end with one of these are masked where parameters are shown.",
          DEFAULT_PATTERNS),
    Known("log.format", "How the log is written: `console` for people, `json` for one object a line.", "console",
          "--log-format", in_file=False),
    Known("log.level", "The least level of what is logged.", "info", "--log-level", in_file=False),
    Known("token", "The token with which commands call a server.", secret=True, in_file=False),
    Known("profile", "The server and token of `~/.config/penstock/profiles.toml` that commands use.", None, "--profile",
          in_file=False),
    Known("retention.archive", "A folder to which jobs are written before retention deletes them.", None, None,
          "PENSTOCK_ARCHIVE"),
)  # fmt: skip
"""All of them, in the order in which they are shown."""

BY_NAME = {each.name: each for each in SETTINGS}


@dataclass(frozen=True, slots=True)
class Shown:
    """A setting with the value that holds, and where that comes from; secrets are masked."""

    known: Known
    value: Any
    source: str


def shown(given: Mapping[str, Any], sources: Mapping[str, str]) -> list[Shown]:
    """Return every setting with its current or default value, with secrets hidden."""
    return [
        Shown(known, _masked(known, given.get(known.name, known.default)), sources.get(known.name, DEFAULT))
        for known in SETTINGS
    ]


def from_environment(environment: Mapping[str, str]) -> dict[str, Given]:
    """What the environment says, by the name of the setting; a variable that is empty says nothing."""
    found: dict[str, Given] = {}
    for known in SETTINGS:
        if isinstance(known.default, dict):
            continue
        variable, text = known.environment, environment.get(known.environment)
        if not text and known.secret:
            variable = f"{known.environment}_FILE"
            text = _content(variable, environment[variable]) if environment.get(variable) else None
        if text:
            found[known.name] = Given(known.read(text, variable), variable)
    return found


def _masked(known: Known, value: Any) -> Any:
    if not known.secret or not isinstance(value, str):
        return value
    return masked(value) if known.name == "store" else "***"


def _content(variable: str, path: str) -> str:
    """A secret from a file; it is never shown."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(_LONGEST).strip()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise InvalidInput(f"{variable} names {path!r:.200}, which cannot be read: {type(error).__name__}.") from None
    if not text:
        raise InvalidInput(f"{variable} names {path!r:.200}, which is empty.")
    return text
