"""Shapes of schedules."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from penstock.http.schemas.base import (
    Moment,
    PatchModel,
    Payload,
    PayloadObject,
    RequestModel,
    ResponseModel,
    Seconds,
    integer,
)
from penstock.http.schemas.definitions import Pause

KindName = Literal["once", "interval", "cron"]
MissedName = Literal["skip", "latest", "all"]
OverlapName = Literal["allow", "skip", "queue_one"]
PreviewCount = Annotated[int, Field(ge=1, le=100), BeforeValidator(integer)]
"""The number of ticks of a preview, in a query."""
_EXPRESSION = "cron: `0 3 * * *`; interval: `90s`, `1h30m`, `7d from 2027-01-04T08:00:00Z`; once: an instant."


class ScheduleReplacement(RequestModel):
    """All fields of a schedule; what is left out gets its default."""

    definition_key: str
    definition_version: int | None = None
    kind: KindName
    expression: str = Field(description=_EXPRESSION)
    params: PayloadObject = Field(default_factory=dict)
    priority: int | None = None
    concurrency_key: str | None = None
    timezone: str = "UTC"
    missed: MissedName = "latest"
    missed_max: int = 100
    missed_window: Seconds | None = None
    overlap: OverlapName = "allow"
    jitter: Seconds = 0.0
    enabled: bool = True


class ScheduleRequest(ScheduleReplacement):
    """A schedule to create."""

    key: str


class SchedulePatch(PatchModel):
    """Fields to change; what is left out stays. Another kind needs another expression."""

    definition_version: int | None = None
    kind: KindName | None = None
    expression: str | None = Field(None, description=_EXPRESSION)
    params: PayloadObject = Field(default_factory=dict)
    priority: int | None = None
    concurrency_key: str | None = None
    timezone: str = "UTC"
    missed: MissedName = "latest"
    missed_max: int = 100
    missed_window: Seconds | None = None
    overlap: OverlapName = "allow"
    jitter: Seconds = 0.0
    enabled: bool = True


class PreviewRequest(RequestModel):
    """An expression to preview."""

    kind: KindName
    expression: str = Field(description=_EXPRESSION)
    timezone: str = "UTC"
    count: int = Field(10, ge=1, le=100)


class Schedule(ResponseModel):
    """A schedule; times are in seconds."""

    key: str
    definition_key: str
    definition_version: int | None
    kind: KindName
    expression: str
    params: Payload
    priority: int | None
    concurrency_key: str | None
    timezone: str
    missed: MissedName
    missed_max: int
    missed_window: float | None
    overlap: OverlapName
    jitter: float
    enabled: bool
    owner: Literal["code", "operator"]
    origin: str
    next_run_at: Moment | None
    last_scheduled_at: Moment | None
    pause: Pause | None
    created_at: Moment
    updated_at: Moment
    revision: int
    error: str | None = Field(description="Why the stored schedule cannot be read.")


class ScheduleList(ResponseModel):
    """One page of schedules, by key."""

    schedules: list[Schedule]
    next_cursor: str | None


class Fire(ResponseModel):
    """One future tick."""

    at: Moment
    local: str = Field(description="The local time in the schedule's zone.")
    relative: str = Field(description="The time from now, in words.")


class Preview(ResponseModel):
    """The next ticks of a schedule, and its expression in English."""

    sentence: str
    fires: list[Fire]


class Tick(ResponseModel):
    """The result of one tick of a schedule."""

    scheduled_for: Moment
    verdict: Literal["made", "skipped", "missed"]
    passed_over: int
    job_id: str | None
    at: Moment


class TickList(ResponseModel):
    """The newest ticks first."""

    ticks: list[Tick]
