"""Shapes of definitions and of the whole system."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from penstock.http.schemas.base import Moment, Payload, RequestModel, ResponseModel
from penstock.http.schemas.jobs import StatusName

_MOST = 2**31 - 1
_LONGEST = 30 * 86_400
_LATER = "For jobs created later without a value of their own."


class PauseRequest(RequestModel):
    """The reason of a pause, and its end."""

    reason: str = Field(min_length=1, max_length=500)
    until: Moment | None = None


class RateLimitRequest(RequestModel):
    """At most `count` starts in each `period` of seconds; 0: no limit."""

    count: int = Field(ge=0, le=_MOST)
    period: float = Field(1.0, ge=0.001, le=86_400, strict=False)
    per_key: bool = False


class ExponentialBackoff(RequestModel):
    """The pause doubles from `base` seconds up to `max`; a random part of up to `jitter` is added."""

    base: float = Field(5, ge=0, le=_LONGEST, strict=False, description="Seconds of the first pause.")
    max: float = Field(3600, ge=0, le=_LONGEST, strict=False, description="Seconds of the longest pause.")
    jitter: float = Field(0.2, ge=0, le=1, strict=False, description="The random part of a pause, relative to it.")


LogLevel = Literal["debug", "info", "warning", "error"]
_Seconds = Annotated[float, Field(ge=0, le=_LONGEST, strict=False)]
_Pauses = Annotated[list[_Seconds], Field(min_length=1, max_length=1000)]


class OverridesRequest(RequestModel):
    """Overrides of the code's values; null or left out: the code's value. A limit or a timeout of 0: none."""

    concurrency: int | None = Field(None, ge=0, le=_MOST)
    key_concurrency: int | None = Field(None, ge=0, le=_MOST)
    rate_limit: RateLimitRequest | None = None
    priority: int | None = Field(None, ge=0, le=20, description=_LATER)
    max_attempts: int | None = Field(None, ge=1, le=1000, description=_LATER)
    backoff: _Seconds | _Pauses | ExponentialBackoff | None = Field(
        None, description="For later attempts: seconds, a list of seconds for successive pauses, or a doubling pause."
    )
    timeout: float | None = Field(
        None, ge=0, le=10**9, strict=False, description="Seconds, for later attempts; 0: no limit."
    )
    log_level: LogLevel | None = Field(None, description="The lowest level of log lines kept, for later attempts.")


class Pause(ResponseModel):
    """A pause: its reason, its actor, and its end (null: until it is resumed)."""

    reason: str
    by: str
    at: Moment
    until: Moment | None


class Retirement(ResponseModel):
    """Who retired a definition, and when."""

    by: str
    at: Moment


class RateLimit(ResponseModel):
    """At most `count` starts in each `period` of seconds; 0: no limit."""

    count: int
    period: float | None
    per_key: bool


class Overrides(ResponseModel):
    """Overrides of the code's values; null: the code's value. A limit or a timeout of 0: none."""

    concurrency: int | None
    key_concurrency: int | None
    rate_limit: RateLimit | None
    priority: int | None
    max_attempts: int | None
    backoff: dict[str, Any] | None
    timeout: float | None
    log_level: LogLevel | None = Field(description="The lowest level of log lines kept; null: the code's value.")


class DefinitionVersion(ResponseModel):
    """One version of a definition as its code declares it; times are in seconds."""

    version: int
    description: str
    schema_: Payload = Field(alias="schema", description="JSON Schema of the parameters.")
    phases: list[str]
    default_params: Payload
    secret_fields: list[str]
    priority: int
    max_attempts: int
    backoff: dict[str, Any]
    timeout: float | None
    cancel_grace: float
    isolation: Literal["process", "inline"]
    concurrency: int
    concurrency_key: str | None
    key_concurrency: int
    rate_limit: RateLimit | None
    stale_after: float
    delete_after: float
    fingerprint: str
    hooks: list[str]
    memory: int | None
    cpu: int | None
    files: int | None
    file_size: int | None
    processes: int | None
    environment: list[str]
    secret_environment: list[str]
    reach: Literal["own", "any"] = Field(description="Which other jobs its code may read and cancel.")
    log_level: LogLevel = Field(description="The lowest level of lines kept.")
    handler: str = Field(description="Module and function; for several phases, of the first one.")
    source: str = Field(description="The file of the handler.")
    registered_at: Moment
    updated_at: Moment = Field(description="When its declaration last changed.")
    declared_at: Moment = Field(description="When code last declared it, to the hour: at a start, or by a live worker.")
    counts: dict[StatusName, int]
    live_workers: int = Field(description="Number of live workers that have it loaded.")
    error: str | None = Field(description="Why the stored definition cannot be read.")


class Definition(ResponseModel):
    """A definition with all its versions, the newest first, and the settings of operators."""

    key: str
    enabled: bool
    pause: Pause | None
    retired: Retirement | None = Field(description="If set, its jobs cannot be created until code declares it again.")
    overrides: Overrides
    counts: dict[StatusName, int] = Field(description="Its jobs by status; statuses without jobs are left out.")
    live_workers: int = Field(description="Number of live workers that have any version loaded.")
    versions: list[DefinitionVersion]


class DefinitionList(ResponseModel):
    """One page of definitions, by key."""

    definitions: list[Definition]
    next_cursor: str | None


class System(ResponseModel):
    """State that holds for all definitions."""

    pause: Pause | None
    workers_enabled: bool = Field(description="Whether the worker configuration allows workers to take jobs.")
    store: Literal["sqlite", "postgres"]
    now: Moment = Field(description="The store's time.")
    version: str = Field(description="The version of penstock.")
