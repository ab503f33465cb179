"""`app.schedules`: when jobs are created without a caller."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Protocol, TypedDict, Unpack

from penstock.domain.instant import Duration
from penstock.domain.job import Created
from penstock.domain.schedule.preview import Preview
from penstock.domain.schedule.schedule import Schedule, ScheduleRow
from penstock.surface.job_handle import JobHandle
from penstock.surface.jobs import Jobs
from penstock.surface.session import PYTHON, Operation, Session


class ScheduleFacts(TypedDict, total=False):
    """What may be said of a schedule, by name."""

    cron: str | None
    every: Duration | str | None
    at: datetime | None
    start: datetime | None
    params: Mapping[str, Any] | None
    definition_version: int | None
    priority: int | None
    concurrency_key: str | None
    timezone: str
    missed: str
    missed_max: int
    missed_window: Duration | None
    overlap: str
    jitter: Duration
    enabled: bool


class KeyedDefinition(Protocol):
    """A definition as code holds it."""

    @property
    def key(self) -> str: ...


@dataclass(frozen=True, slots=True)
class DeclareSchedule(Operation[Schedule]):
    call: ClassVar[str] = "schedules.declare"
    key: str
    definition: KeyedDefinition | str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DeclaredSchedules(Operation[list[Schedule]]):
    call: ClassVar[str] = "schedules.declared"


@dataclass(frozen=True, slots=True)
class ListSchedules(Operation[list[ScheduleRow]]):
    call: ClassVar[str] = "schedules.list"


@dataclass(frozen=True, slots=True)
class GetSchedule(Operation[ScheduleRow]):
    call: ClassVar[str] = "schedules.get"
    key: str


@dataclass(frozen=True, slots=True)
class SaveSchedule(Operation[ScheduleRow]):
    call: ClassVar[str] = "schedules.save"
    key: str
    definition: KeyedDefinition | str
    facts: ScheduleFacts
    revision: int | None
    by: str


@dataclass(frozen=True, slots=True)
class ChangeSchedule(Operation[ScheduleRow]):
    call: ClassVar[str] = "schedules.change"
    key: str
    changes: ScheduleFacts
    revision: int | None
    by: str


@dataclass(frozen=True, slots=True)
class DeleteSchedule(Operation[None]):
    call: ClassVar[str] = "schedules.delete"
    key: str
    revision: int | None
    by: str


@dataclass(frozen=True, slots=True)
class PauseSchedule(Operation[None]):
    call: ClassVar[str] = "schedules.pause"
    key: str
    reason: str
    until: datetime | None
    by: str


@dataclass(frozen=True, slots=True)
class ResumeSchedule(Operation[None]):
    call: ClassVar[str] = "schedules.resume"
    key: str
    by: str


@dataclass(frozen=True, slots=True)
class TriggerSchedule(Operation[Created]):
    call: ClassVar[str] = "schedules.trigger"
    key: str
    by: str | None


@dataclass(frozen=True, slots=True)
class ReadTicks(Operation[list[dict[str, Any]]]):
    call: ClassVar[str] = "schedules.ticks"
    key: str
    limit: int


@dataclass(frozen=True, slots=True)
class PreviewSchedule(Operation[Preview]):
    call: ClassVar[str] = "schedules.preview"
    key: str
    count: int


@dataclass(frozen=True, slots=True)
class PreviewUnsaved(Operation[Preview]):
    call: ClassVar[str] = "schedules.preview_unsaved"
    count: int
    facts: ScheduleFacts


class Schedules:
    """When jobs are created without a caller; each call has a twin with an `a` in front, for event loops."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def declared(self) -> builtins.list[Schedule]:
        """The schedules that this application's code declares."""
        return self._session.do(DeclaredSchedules())

    def declare(
        self,
        key: str,
        definition: KeyedDefinition | str,
        *,
        cron: str | None = None,
        every: Duration | str | None = None,
        at: datetime | None = None,
        start: datetime | None = None,
        params: Mapping[str, Any] | None = None,
        definition_version: int | None = None,
        priority: int | None = None,
        concurrency_key: str | None = None,
        timezone: str = "UTC",
        missed: str = "latest",
        missed_max: int = 100,
        missed_window: Duration | None = None,
        overlap: str = "allow",
        jitter: Duration = 0,
        enabled: bool = True,
    ) -> Schedule:
        """Declare a schedule in code; workers make it known, and remove it when the code does not declare it any more.

        One of `cron`, `every` (with a first instant `start`, if you like) or `at` says when. What an operator paused
        stays paused, and what an operator changed stays as it is.
        """
        facts = {
            "cron": cron, "every": every, "at": at, "start": start, "params": params,
            "definition_version": definition_version, "priority": priority, "concurrency_key": concurrency_key,
            "timezone": timezone, "missed": missed, "missed_max": missed_max, "missed_window": missed_window,
            "overlap": overlap, "jitter": jitter, "enabled": enabled,
        }  # fmt: skip
        return self._session.do(DeclareSchedule(key, definition, facts))

    def list(self) -> builtins.list[ScheduleRow]:
        """All schedules of the store, by key."""
        return self._session.do(ListSchedules())

    async def alist(self) -> builtins.list[ScheduleRow]:
        return await self._session.ado(ListSchedules())

    def get(self, key: str) -> ScheduleRow:
        """A schedule by its key; `NotFound` when there is none.

        One that the store has and cannot read comes with an `error`, as in `list()`; it never ticks. Saving it again
        or deleting it repairs that.
        """
        return self._session.do(GetSchedule(key))

    async def aget(self, key: str) -> ScheduleRow:
        return await self._session.ado(GetSchedule(key))

    def save(
        self,
        key: str,
        definition: KeyedDefinition | str,
        *,
        revision: int | None = None,
        by: str = PYTHON,
        **facts: Unpack[ScheduleFacts],
    ) -> ScheduleRow:
        """Create a schedule, or replace all its facts; they are those of `declare()`.

        It belongs to operators then: code that declares one of the same key leaves it alone. A pause stays. With a
        `revision` it must be the stored one (0: none yet): `RevisionConflict`.
        """
        return self._session.do(SaveSchedule(key, definition, facts, revision, by))

    async def asave(
        self,
        key: str,
        definition: KeyedDefinition | str,
        *,
        revision: int | None = None,
        by: str = PYTHON,
        **facts: Unpack[ScheduleFacts],
    ) -> ScheduleRow:
        return await self._session.ado(SaveSchedule(key, definition, facts, revision, by))

    def change(
        self, key: str, *, revision: int | None = None, by: str = PYTHON, **changes: Unpack[ScheduleFacts]
    ) -> ScheduleRow:
        """Change some facts of a schedule; with a `revision`, only if it is still the one that was read.

        It belongs to operators then, also if code declared it.
        """
        return self._session.do(ChangeSchedule(key, changes, revision, by))

    async def achange(
        self, key: str, *, revision: int | None = None, by: str = PYTHON, **changes: Unpack[ScheduleFacts]
    ) -> ScheduleRow:
        return await self._session.ado(ChangeSchedule(key, changes, revision, by))

    def delete(self, key: str, *, revision: int | None = None, by: str = PYTHON) -> None:
        """Delete a schedule; its jobs stay. With a `revision`, only if it is still the one that was read."""
        return self._session.do(DeleteSchedule(key, revision, by))

    async def adelete(self, key: str, *, revision: int | None = None, by: str = PYTHON) -> None:
        return await self._session.ado(DeleteSchedule(key, revision, by))

    def pause(self, key: str, reason: str, *, until: datetime | None = None, by: str = PYTHON) -> None:
        """Make no job of a schedule until it is resumed, or until a time; ticks meanwhile are passed over."""
        return self._session.do(PauseSchedule(key, reason, until, by))

    async def apause(self, key: str, reason: str, *, until: datetime | None = None, by: str = PYTHON) -> None:
        return await self._session.ado(PauseSchedule(key, reason, until, by))

    def resume(self, key: str, *, by: str = PYTHON) -> None:
        """Let a paused schedule go on with its next tick; ticks within the pause are recorded as missed."""
        return self._session.do(ResumeSchedule(key, by))

    async def aresume(self, key: str, *, by: str = PYTHON) -> None:
        return await self._session.ado(ResumeSchedule(key, by))

    def trigger(self, key: str, *, by: str | None = None) -> JobHandle[Any]:
        """Make a job of a schedule now, apart from its ticks."""
        return JobHandle(Jobs(self._session), self._session.do(TriggerSchedule(key, by)))

    async def atrigger(self, key: str, *, by: str | None = None) -> JobHandle[Any]:
        return JobHandle(Jobs(self._session), await self._session.ado(TriggerSchedule(key, by)))

    def ticks(self, key: str, limit: int = 50) -> builtins.list[dict[str, Any]]:
        """The newest ticks of a schedule, and whether each was made, skipped or missed."""
        return self._session.do(ReadTicks(key, limit))

    async def aticks(self, key: str, limit: int = 50) -> builtins.list[dict[str, Any]]:
        return await self._session.ado(ReadTicks(key, limit))

    def preview(self, key: str, count: int = 10) -> Preview:
        """When a schedule will tick next: a sentence, and the next instants in its zone, in UTC, and from now."""
        return self._session.do(PreviewSchedule(key, count))

    async def apreview(self, key: str, count: int = 10) -> Preview:
        return await self._session.ado(PreviewSchedule(key, count))

    def preview_unsaved(self, count: int = 10, **facts: Unpack[ScheduleFacts]) -> Preview:
        """When a schedule with these facts would tick, before it is saved."""
        return self._session.do(PreviewUnsaved(count, facts))

    async def apreview_unsaved(self, count: int = 10, **facts: Unpack[ScheduleFacts]) -> Preview:
        return await self._session.ado(PreviewUnsaved(count, facts))
