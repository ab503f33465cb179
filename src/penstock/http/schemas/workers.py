"""Shapes of workers and their configuration."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from penstock.http.schemas.base import Moment, PatchModel, PayloadObject, RequestModel, ResponseModel

_YEAR = 365 * 86_400
_MOST = 2**53
_AGEING = "Seconds of waiting that raise a job's priority by one; 0: priorities are strict."


class Loaded(ResponseModel):
    """A definition that a worker has loaded."""

    key: str
    version: int


class Duty(ResponseModel):
    """The state of one periodic task of a worker."""

    name: str
    last_success_age: float | None = Field(description="Seconds; null: it never succeeded.")
    errors: int
    last_error: str | None


class Worker(ResponseModel):
    """A worker."""

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


class WorkerList(ResponseModel):
    """The known workers, including those that ended recently."""

    workers: list[Worker]


_Kept = Annotated[float, Field(ge=0, le=100 * _YEAR)]
_Rate = Annotated[float, Field(ge=0, le=1)]
_Window = Annotated[float, Field(ge=60, le=86_400)]
_Count = Annotated[int, Field(ge=1, le=1_000_000)]
_Depth = Annotated[int, Field(ge=0, le=_MOST)]
_Stuck = Annotated[float, Field(ge=0, le=_YEAR)]
_Memory = Annotated[int, Field(ge=10_000_000, le=_MOST)]
_Positive = Annotated[int, Field(ge=1, le=_MOST)]
_Files = Annotated[int, Field(ge=16, le=_MOST)]
_Slots = Annotated[int, Field(ge=1, le=10_000)]
_InlineSlots = Annotated[int, Field(ge=1, le=100_000)]
_Poll = Annotated[float, Field(ge=0.01, le=3600)]
_Lease = Annotated[float, Field(ge=1, le=3600)]
_Heartbeat = Annotated[float, Field(ge=0.1, le=1200)]
_Drain = Annotated[float, Field(ge=0, le=86_400)]
_Ageing = Annotated[float, Field(ge=0, le=_YEAR, description=_AGEING)]
_Custom = Annotated[PayloadObject, Field(description="Handlers see it as `ctx.settings`.")]


class RetentionRequest(RequestModel):
    """How long ended jobs are kept if their definition does not say, in seconds."""

    stale_after: _Kept | None
    delete_after: _Kept | None


class AlertsRequest(RequestModel):
    """Thresholds of alerts; times are in seconds."""

    failure_rate: _Rate
    window: _Window
    least_sample: _Count
    depth: _Depth
    stuck: _Stuck
    endpoint_failures: _Count


class LimitsRequest(RequestModel):
    """Limits of an attempt if its definition does not set them."""

    memory: _Memory | None
    cpu: _Positive | None
    files: _Files | None
    file_size: _Depth | None
    processes: _Positive | None


class WorkerConfigRequest(RequestModel):
    """The configuration of all workers; null: the worker's own setting. Times are in seconds."""

    enabled: bool
    slots: _Slots | None
    inline_slots: _InlineSlots | None
    poll: _Poll | None
    lease: _Lease | None
    heartbeat: _Heartbeat | None
    drain: _Drain | None
    cancel_grace: _Drain | None
    ageing: _Ageing
    retention: RetentionRequest
    alerts: AlertsRequest
    limits: LimitsRequest
    custom: _Custom


class RetentionPatch(PatchModel):
    """Changes of how long ended jobs are kept."""

    stale_after: _Kept | None = None
    delete_after: _Kept | None = None


class AlertsPatch(PatchModel):
    """Changes of the thresholds of alerts."""

    failure_rate: _Rate = 0
    window: _Window = 60
    least_sample: _Count = 1
    depth: _Depth = 0
    stuck: _Stuck = 0
    endpoint_failures: _Count = 1


class LimitsPatch(PatchModel):
    """Changes of the limits of attempts."""

    memory: _Memory | None = None
    cpu: _Positive | None = None
    files: _Files | None = None
    file_size: _Depth | None = None
    processes: _Positive | None = None


class WorkerConfigPatch(PatchModel):
    """Changes of the configuration of all workers; what is left out stays, and `custom` is replaced as a whole."""

    enabled: bool = True
    slots: _Slots | None = None
    inline_slots: _InlineSlots | None = None
    poll: _Poll | None = None
    lease: _Lease | None = None
    heartbeat: _Heartbeat | None = None
    drain: _Drain | None = None
    cancel_grace: _Drain | None = None
    ageing: _Ageing = 0
    retention: RetentionPatch = RetentionPatch()
    alerts: AlertsPatch = AlertsPatch()
    limits: LimitsPatch = LimitsPatch()
    custom: _Custom = Field(default_factory=dict)


class Retention(ResponseModel):
    """How long ended jobs are kept if their definition does not say, in seconds."""

    stale_after: float | None
    delete_after: float | None


class AlertThresholds(ResponseModel):
    """Thresholds of alerts; times are in seconds."""

    failure_rate: float
    window: float
    least_sample: int
    depth: int
    stuck: float
    endpoint_failures: int


class Limits(ResponseModel):
    """Limits of an attempt if its definition does not set them; null: no limit."""

    memory: int | None
    cpu: int | None
    files: int | None
    file_size: int | None
    processes: int | None


class WorkerConfig(ResponseModel):
    """The configuration of all workers; null: the worker's own setting."""

    enabled: bool
    slots: int | None
    inline_slots: int | None
    poll: float | None
    lease: float | None
    heartbeat: float | None
    drain: float | None
    cancel_grace: float | None
    ageing: float = Field(description=_AGEING)
    retention: Retention
    alerts: AlertThresholds
    limits: Limits
    custom: PayloadObject
    revision: int
