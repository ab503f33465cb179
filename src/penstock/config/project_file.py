"""What a project says once instead of with every command: `penstock.toml`, and the environment in front of it."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from penstock.config import settings
from penstock.config.settings import FILE as FILE
from penstock.config.store_address import Address
from penstock.config.worker_settings import WorkerSettings
from penstock.domain.errors import InvalidInput, refuse_unknown
from penstock.domain.secrets.policy import DEFAULT_PATTERNS, SecretPolicy
from penstock.domain.webhook.settings import WebhookSettings

_TEXTS = ("name", "app", "store", "schema", "jobs", "server", "queue")
_TRUTHS = ("pooler", "migrate")
_TABLES = ("resources", "worker", "secrets", "webhooks", "web", "retention")
_WORKER = tuple(each.name for each in fields(WorkerSettings) if each.name not in ("own_process", "secrets"))


@dataclass(frozen=True, slots=True)
class Config:
    """A project's own words; what it leaves out is None or empty."""

    folder: Path
    """Where the file is; paths in it are seen from there."""
    name: str | None = None
    """Distinguishes the schedules of these job files from those of others on the same store."""
    app: str | None = None
    store: str | None = field(default=None, repr=False)
    schema: str = "penstock"
    pooler: bool = False
    migrate: bool = False
    jobs: str | None = None
    queue: str | None = None
    """What makes the queue adapter, as `module:name`; None: the store is the queue."""
    server: str | None = field(default=None, repr=False)
    """The server that commands such as `penstock jobs` use instead of the store."""
    resources: Mapping[str, str] = field(default_factory=dict)
    worker: Mapping[str, Any] = field(default_factory=dict)
    secret_patterns: tuple[str, ...] = DEFAULT_PATTERNS
    """Keys that end with one of these are masked where parameters are shown; `[secrets] patterns` in the file."""
    webhooks: WebhookSettings = field(default_factory=WebhookSettings)
    """How webhooks are sent: `[webhooks]` in the file, with the secret from the environment."""
    web: Mapping[str, Any] = field(default_factory=dict)
    """How `penstock serve` answers: `[web]` in the file; only the names are checked here."""
    archive: str | None = None
    """A folder to which jobs are written before retention deletes them: `archive` of `[retention]` in the file."""
    given: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Every setting that was given, by its name in `penstock.config.settings`."""
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Where each of them was given: the file, or the variable of the environment."""

    @property
    def address(self) -> dict[str, Any]:
        """How to open the store; its URL must have been said somewhere."""
        if self.store is None:
            raise InvalidInput("No store was named.", hint=f'Say --store sqlite:///jobs.db, or store = "…" in {FILE}.')
        address = Address(store=self.store, schema=self.schema, pooler=self.pooler, migrate=self.migrate)
        if self.queue is not None:
            address["queue"] = self.queue
        return address


def load(folder: str | Path = ".", environment: Mapping[str, str] | None = None) -> Config:
    """What the file in a folder says, and the environment instead where it says something."""
    folder = Path(folder).absolute()
    path = folder / FILE
    told = _read(path) if path.exists() else {}
    refuse_unknown(told, (*_TEXTS, *_TRUTHS, *_TABLES), f"a setting of {FILE}")
    given = dict(_flat(told))
    sources = dict.fromkeys(given, FILE)
    for setting, found in settings.from_environment(os.environ if environment is None else environment).items():
        given[setting], sources[setting] = found.value, found.variable
        _put(told, setting, found.value)
    for name in (*_TEXTS, *_TRUTHS):
        wanted: type = str if name in _TEXTS else bool
        if name in told and not isinstance(told[name], wanted):
            kind = "a text" if wanted is str else "true or false"
            raise InvalidInput(f"{FILE}: {name} must be {kind}.")
    if told.get("jobs"):
        told["jobs"] = str(folder / told["jobs"])
    patterns = _secret_patterns(told.pop("secrets", {}))
    webhooks = _webhooks(told.pop("webhooks", {}))
    archive = _archive(told.pop("retention", {}))
    return Config(
        folder=folder,
        **{
            **told,
            "resources": _resources(told.get("resources", {})),
            "worker": _worker(told.get("worker", {})),
            "secret_patterns": patterns,
            "webhooks": webhooks,
            "web": _web(told.get("web", {})),
            "archive": None if archive is None else str(folder / archive),
            "given": given,
            "sources": sources,
        },
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}.") from None


def _flat(told: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What the file says, by the names that settings have."""
    for name, value in told.items():
        if name in settings.BY_NAME:
            yield name, value
        elif isinstance(value, dict):
            for inner, each in value.items():
                yield f"{name}.{inner}", tuple(each) if isinstance(each, list) else each


def _put(told: dict[str, Any], name: str, value: Any) -> None:
    """Put a value at its place in the file's tables; a table that is not one is refused later."""
    table, dot, inner = name.partition(".")
    if not dot:
        if settings.BY_NAME[name].in_file:
            told[name] = value
    elif table in _TABLES and isinstance(told.setdefault(table, {}), dict):
        told[table] = {**told[table], inner: value}


def _resources(told: object) -> dict[str, str]:
    if not isinstance(told, dict) or not all(isinstance(each, str) and ":" in each for each in told.values()):
        raise InvalidInput(f'{FILE}: [resources] holds lines like db = "myapp.db:connect".')
    return dict(told)


def _worker(told: object) -> dict[str, Any]:
    if not isinstance(told, dict):
        raise InvalidInput(f"{FILE}: [worker] is a table, not {told!r:.80}.")
    refuse_unknown(told, _WORKER, f"a setting of [worker] in {FILE}")
    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}
    plain = WorkerSettings()
    for name, value in given.items():
        if not is_like(value, getattr(plain, name)):
            raise InvalidInput(f"{FILE}: {value!r:.80} cannot be {name} of [worker].")
    WorkerSettings(**given)
    return given


def _web(told: object) -> dict[str, Any]:
    if not isinstance(told, dict):
        raise InvalidInput(f"{FILE}: [web] is a table, not {told!r:.80}.")
    known = [name.removeprefix("web.") for name in settings.BY_NAME if name.startswith("web.")]
    refuse_unknown(told, known, f"a setting of [web] in {FILE}")
    return {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}


def _archive(told: object) -> str | None:
    if not isinstance(told, dict):
        raise InvalidInput(f"{FILE}: [retention] is a table, not {told!r:.80}.")
    refuse_unknown(told, ("archive",), f"a setting of [retention] in {FILE}")
    archive = told.get("archive")
    if archive is not None and (not isinstance(archive, str) or not archive or "\x00" in archive):
        raise InvalidInput(f'{FILE}: archive of [retention] is a folder such as "archive", not {archive!r:.80}.')
    return archive


def _secret_patterns(told: object) -> tuple[str, ...]:
    if not isinstance(told, dict):
        raise InvalidInput(f"{FILE}: [secrets] is a table, not {told!r:.80}.")
    refuse_unknown(told, ("patterns",), f"a setting of [secrets] in {FILE}")
    patterns = told.get("patterns", list(DEFAULT_PATTERNS))
    if not isinstance(patterns, list | tuple):
        raise InvalidInput(f'{FILE}: patterns of [secrets] is a list such as ["api_key"], not {patterns!r:.80}.')
    return SecretPolicy(tuple(patterns)).patterns


def _webhooks(told: object) -> WebhookSettings:
    if not isinstance(told, dict):
        raise InvalidInput(f"{FILE}: [webhooks] is a table, not {told!r:.80}.")
    known = tuple(each.name for each in fields(WebhookSettings))
    refuse_unknown(told, known, f"a setting of [webhooks] in {FILE}")
    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}
    plain = WebhookSettings()
    for name, value in given.items():
        example = getattr(plain, name)
        fits = isinstance(value, tuple) if isinstance(example, tuple) else is_like(value, example)
        if not fits:
            raise InvalidInput(f"{FILE}: this cannot be {name} of [webhooks].")
    return WebhookSettings(**given)


def is_like(value: object, example: object) -> bool:
    """Whether a value is of the kind that a setting has; those without a value are texts."""
    if isinstance(example, float):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(example, tuple):
        return isinstance(value, tuple) and all(isinstance(each, str) for each in value)
    return type(value) is (str if example is None else type(example))
