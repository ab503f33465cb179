"""Workers and their configuration on the wire."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from penstock.web.shapes.base import Asked, Moment, PayloadObject, Told

_YEAR = 365 * 86_400
_MOST = 2**53


class Loaded(Told):
    """A definition that a worker has loaded."""

    key: str
    version: int


class Duty(Told):
    """How it goes with one thing that a worker does again and again."""

    name: str
    last_success_age: float | None = Field(description="Seconds; null: it never went well.")
    errors: int
    last_error: str | None


class Worker(Told):
    """A worker as the store sees it."""

    worker_id: str
    name: str
    host: str
    pid: int
    slots: int
    code_version: str
    definitions: list[Loaded]
    started_at: Moment
    heartbeat_at: Moment
    lease_expires_at: Moment | None
    live: bool
    ended: Literal["stopped", "lost"] | None
    duties: list[Duty]


class WorkerList(Told):
    """The workers that the store knows, those that ended not long ago included."""

    workers: list[Worker]


class RetentionAsked(Asked):
    """How long ended jobs are kept where their definition says nothing, in seconds."""

    stale_after: float | None = Field(default=None, ge=0, le=100 * _YEAR)
    delete_after: float | None = Field(default=None, ge=0, le=100 * _YEAR)


class AlertsAsked(Asked):
    """From when on something is worth an alert; times are in seconds."""

    failure_rate: float = Field(default=0.1, ge=0, le=1)
    window: float = Field(default=900.0, ge=60, le=86_400)
    least_sample: int = Field(default=20, ge=1, le=1_000_000)
    depth: int = Field(default=100, ge=0, le=_MOST)
    stuck: float = Field(default=300.0, ge=0, le=_YEAR)
    endpoint_failures: int = Field(default=5, ge=1, le=1_000_000)


class LimitsAsked(Asked):
    """What an attempt may use where its definition says nothing."""

    memory: int | None = Field(default=None, ge=10_000_000, le=_MOST)
    cpu: int | None = Field(default=None, ge=1, le=_MOST)
    files: int | None = Field(default=None, ge=16, le=_MOST)
    file_size: int | None = Field(default=None, ge=0, le=_MOST)
    processes: int | None = Field(default=None, ge=1, le=_MOST)


class WorkerConfigAsked(Asked):
    """What shall hold for every worker; null or left out: the worker's own setting. Times are in seconds."""

    enabled: bool = True
    slots: int | None = Field(default=None, ge=1, le=10_000)
    inline_slots: int | None = Field(default=None, ge=1, le=100_000)
    poll: float | None = Field(default=None, ge=0.01, le=3600)
    lease: float | None = Field(default=None, ge=1, le=3600)
    heartbeat: float | None = Field(default=None, ge=0.1, le=1200)
    drain: float | None = Field(default=None, ge=0, le=86_400)
    retention: RetentionAsked = RetentionAsked()
    alerts: AlertsAsked = AlertsAsked()
    limits: LimitsAsked = LimitsAsked()
    custom: PayloadObject = Field(default_factory=dict, description="Handlers see it as `ctx.settings`.")


class Retention(Told):
    stale_after: float | None
    delete_after: float | None


class AlertThresholds(Told):
    failure_rate: float
    window: float
    least_sample: int
    depth: int
    stuck: float
    endpoint_failures: int


class Limits(Told):
    memory: int | None
    cpu: int | None
    files: int | None
    file_size: int | None
    processes: int | None


class WorkerConfig(Told):
    """What holds for every worker; null: the worker's own setting."""

    enabled: bool
    slots: int | None
    inline_slots: int | None
    poll: float | None
    lease: float | None
    heartbeat: float | None
    drain: float | None
    retention: Retention
    alerts: AlertThresholds
    limits: Limits
    custom: PayloadObject
    revision: int
