"""Definitions of jobs: options, limits, and the overrides of operators."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.domain.errors import InvalidDefinition, InvalidInput
from penstock.domain.instant import DAY
from penstock.domain.retry import Backoff, RetryPolicy, from_json

HIGHEST_PRIORITY = 20
DEFAULT_PRIORITY = 10
REACHES = ("own", "any")
"""Which jobs the code of a job may read and cancel: its descendants and those of its reference, or all."""
LOG_LEVELS = ("debug", "info", "warning", "error")
HOOKS = (
    "on_start", "on_success", "on_fail", "on_end", "on_retry", "on_cancel", "on_stale", "on_delete",
)  # fmt: skip
"""Hooks that a definition may declare; each is called after a change of the job's state is committed."""

_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}\Z")
_LEAST = {"memory": 10_000_000, "cpu": 1, "files": 16, "file_size": 0, "processes": 1}
_UNITS = {"memory": " bytes", "cpu": " seconds", "files": "", "file_size": " bytes", "processes": ""}
_MOST = 2**63 - 1
_MOST_JOBS = 2**31 - 1
"""The largest limit of a number of jobs that both stores can keep."""


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Up to `count` starts in a burst, and one more each `period / count` seconds, fleet-wide.

    `per_key` counts each concurrency key apart.
    """

    count: int
    period: float = 1.0
    per_key: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int) or not 1 <= self.count <= _MOST_JOBS:
            raise InvalidDefinition(
                f"A rate limit's count must be an integer of at least 1 and at most {_MOST_JOBS}, not {self.count!r}."
            )
        if not isinstance(self.period, int | float) or not 0.001 <= self.period <= 86_400:
            raise InvalidDefinition(f"A rate limit's period must be 1 ms to one day, not {self.period!r} seconds.")


@dataclass(frozen=True, slots=True)
class Definition:
    """A kind of job as code declares it: key and version, input schema and options."""

    key: str
    version: int = 1
    description: str = ""
    schema: str = "{}"
    """JSON Schema of the parameters, as text, so that a server without the code can validate."""
    phases: tuple[str, ...] = ("run",)
    default_params: str = "{}"
    secret_fields: tuple[str, ...] = ()
    priority: int = DEFAULT_PRIORITY
    max_attempts: int = 3
    backoff: RetryPolicy = field(default_factory=Backoff)
    timeout: int | None = 3_600_000_000
    cancel_grace: int = 10_000_000
    isolation: str = "process"
    concurrency: int = 0
    concurrency_key: str | None = None
    """The parameter whose value is the concurrency key; empty: only the code can compute it; None: there is no key."""
    key_concurrency: int = 0
    """How many jobs of one concurrency key may run concurrently; 0: no limit."""
    rate_limit: RateLimit | None = None
    stale_after: int = 7 * DAY
    delete_after: int = 7 * DAY
    fingerprint: str = ""
    hooks: tuple[str, ...] = ()
    """The hooks that the code has, so that no process is started to call a missing one."""
    memory: int | None = None
    """Bytes that all processes of an attempt may use together; None here and below: no limit."""
    cpu: int | None = None
    """Seconds of processor time that an attempt may use."""
    files: int | None = None
    """How many files a process of an attempt may have open."""
    file_size: int | None = None
    """Bytes of the largest file that an attempt may write."""
    processes: int | None = None
    """How many processes an attempt may have."""
    environment: tuple[str, ...] = ()
    """Names of environment variables that jobs may see, in addition to those that every process needs."""
    secret_environment: tuple[str, ...] = ()
    """Names of such variables whose values are secret."""
    reach: str = "own"
    """Which other jobs its code may read and cancel, one of `REACHES`."""
    log_level: str = "info"
    """The lowest level of log lines that are kept, one of `LOG_LEVELS`."""
    handler: str = ""
    """Module and function of the handler; of a pipeline those of its first phase."""
    source: str = ""
    """The file that the handler is in; relative to the folder in which its process was started, if it is below it."""

    def __post_init__(self) -> None:
        # As JSON they are lists.
        object.__setattr__(self, "hooks", tuple(self.hooks))
        object.__setattr__(self, "environment", tuple(self.environment))
        object.__setattr__(self, "secret_environment", tuple(self.secret_environment))
        check_key(self.key)
        if isinstance(self.version, bool) or not 1 <= self.version <= 2**31 - 1:
            raise InvalidDefinition(f"{self.key}: version must be a positive integer, not {self.version!r}.")
        check_priority(self.priority, self.key)
        if not 1 <= self.max_attempts <= 1000:
            raise InvalidDefinition(f"{self.key}: max_attempts must be 1 to 1000, not {self.max_attempts!r}.")
        for name in ("concurrency", "key_concurrency"):
            limit = getattr(self, name)
            if isinstance(limit, bool) or not isinstance(limit, int) or limit > _MOST_JOBS:
                raise InvalidDefinition(
                    f"{self.key}: {name} must be an integer of at most {_MOST_JOBS}, not {limit!r}. 0 means no limit."
                )
            if limit < 0:
                raise InvalidDefinition(f"{self.key}: {name} must not be negative. 0 means no limit.")
        if self.isolation not in ("process", "inline"):
            raise InvalidDefinition(f"{self.key}: isolation is 'process' or 'inline', not {self.isolation!r}.")
        if self.reach not in REACHES:
            raise InvalidDefinition(f"{self.key}: reach is 'own' or 'any', not {self.reach!r:.80}.")
        if self.log_level not in LOG_LEVELS:
            raise InvalidDefinition(
                f"{self.key}: {self.log_level!r:.80} is no log_level.", hint=f"There are: {', '.join(LOG_LEVELS)}."
            )
        if len(set(self.phases)) != len(self.phases) or not self.phases:
            raise InvalidDefinition(f"{self.key}: phases need names that differ, not {list(self.phases)!r}.")
        if unknown := [name for name in self.hooks if name not in HOOKS]:
            raise InvalidDefinition(f"{self.key}: {unknown[0]!r} is no hook.", hint=f"There are: {', '.join(HOOKS)}.")
        self._check_limits()

    @property
    def visible(self) -> tuple[str, ...]:
        """Names of all environment variables that it gives to its jobs."""
        return (*self.environment, *self.secret_environment)

    def _check_limits(self) -> None:
        for name, least in _LEAST.items():
            limit = getattr(self, name)
            if limit is None:
                continue
            if isinstance(limit, bool) or not isinstance(limit, int) or not least <= limit <= _MOST:
                raise InvalidDefinition(
                    f"{self.key}: {name} must be at least {least}{_UNITS[name]}, not {limit!r}.",
                    hint='A size may be a text: "512MB", "1.5GiB".' if "bytes" in _UNITS[name] else "",
                )
            if self.isolation == "inline":
                raise self._not_inline(name)
        for name in self.visible:
            if not isinstance(name, str) or not name or "=" in name or "\x00" in name:
                raise InvalidDefinition(f"{self.key}: {name!r} cannot be the name of an environment variable.")
        if self.visible and self.isolation == "inline":
            raise self._not_inline("environment" if self.environment else "secret_environment")

    def _not_inline(self, name: str) -> InvalidDefinition:
        return InvalidDefinition(
            f"{self.key}: {name} cannot hold for a job that runs inside its worker.", hint="Use isolation='process'."
        )


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause: reason, operator, begin, and end (None: until it is resumed)."""

    reason: str
    by: str
    at: int
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Retirement:
    """Which operator retired a definition, and when."""

    by: str
    at: int


@dataclass(frozen=True, slots=True)
class DefinitionRow:
    """A stored definition: what code registered, and what operators changed."""

    lane: int
    """The lane: the store's number for (key, version). Jobs refer to it, and workers claim by it."""
    definition: Definition
    enabled: bool
    pause: Pause | None
    overrides: dict[str, object]
    registered_at: int
    error: str | None = None
    """Why the stored row is unreadable; then `definition` has the key, the version and defaults."""
    retired: Retirement | None = None
    """No job of it can be created until code declares it again, or an operator enables it."""
    declared_at: int = 0
    """When code last declared it: at a start, or while a worker had it loaded, to the hour."""
    removed: bool = False
    """This version is no longer listed; it is known because ended jobs of it can be read."""


@dataclass(frozen=True, slots=True)
class Routed:
    """The part of a definition that creating a job needs."""

    lane: int
    key: str
    version: int
    priority: int
    max_attempts: int


def is_name(text: object) -> bool:
    """Whether this can name a definition, a phase or a resource."""
    return isinstance(text, str) and _KEY.match(text) is not None


def check_key(key: str) -> None:
    if not is_name(key):
        raise InvalidDefinition(
            f"{key!r} cannot be a definition's key.",
            hint="Use letters, digits and _ . : / - (200 at most, beginning with a letter, digit or _).",
        )


def check_priority(priority: int, what: str) -> None:
    if isinstance(priority, bool) or not isinstance(priority, int) or not 0 <= priority <= HIGHEST_PRIORITY:
        raise InvalidDefinition(f"{what}: priority must be an integer from 0 to 20, not {priority!r}.")


FOR_JOBS = ("priority", "max_attempts")
"""Overrides for jobs created later without their own value."""
FOR_ATTEMPTS = ("backoff", "timeout", "log_level")
"""Overrides for attempts that begin later; a timeout is in microseconds, 0: no limit."""

_RANGES = {"priority": (0, HIGHEST_PRIORITY), "max_attempts": (1, 1000), "timeout": (0, 2**53)}


def check_override(key: str, name: str, value: object) -> None:
    """Refuse an override that is out of range."""
    if name == "backoff":
        try:
            from_json(value)
        except InvalidInput as error:
            raise InvalidInput(f"{key}: backoff: {error.message}", hint=error.hint) from None
        return
    if name == "log_level":
        if value not in LOG_LEVELS:
            raise InvalidInput(f"{key}: {value!r:.80} is no log_level.", hint=f"There are: {', '.join(LOG_LEVELS)}.")
        return
    least, most = _RANGES[name]
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidInput(f"{key}: {name} must be an integer from {least} to {most}, not {value!r:.80}.")


def with_overrides(definition: Definition, overrides: Mapping[str, Any]) -> Definition:
    """Return a definition with an operator's overrides for attempts applied."""
    found: dict[str, Any] = {}
    if "backoff" in overrides:
        found["backoff"] = from_json(overrides["backoff"])
    if "timeout" in overrides:
        found["timeout"] = overrides["timeout"] or None
    if "log_level" in overrides:
        found["log_level"] = overrides["log_level"]
    return replace(definition, **found) if found else definition
