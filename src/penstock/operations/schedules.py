"""Schedules: those that an application's code declares, and those that are made while it runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Unpack, cast

from penstock.definitions import enqueue_options as given
from penstock.definitions.handles import PYTHON, DefinitionHandle, JobHandle
from penstock.definitions.orders import EnqueueOptions
from penstock.definitions.schedule_options import ScheduleFacts, changed, naming, schedule_from
from penstock.domain import payload
from penstock.domain.definition import Pause
from penstock.domain.errors import Hint, InvalidInput, InvalidSchedule, NotFound, RevisionConflict
from penstock.domain.instant import Duration, to_datetime
from penstock.domain.job import Draft
from penstock.domain.schedule import due_ticks
from penstock.domain.schedule.preview import Preview, preview
from penstock.domain.schedule.schedule import Kind, Schedule, ScheduleRow
from penstock.operations.session import Conversation, Talk
from penstock.storage.commands import admin, schedules

if TYPE_CHECKING:
    from penstock.app import Penstock

_CODE = "code"
_MOST_TICKS = 1000


@dataclass(slots=True)
class Applied:
    """What came of the schedules that code declares: the keys written and removed, and what was left as it is."""

    saved: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class Scheduling(Conversation):
    """When jobs run by themselves."""

    _declared_schedules: dict[str, Schedule]

    @property
    def declared_schedules(self) -> list[Schedule]:
        """The schedules that this application's code declares."""
        return list(self._declared_schedules.values())

    def schedule(
        self,
        key: str,
        definition: DefinitionHandle[Any, Any] | str,
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
        made = replace(schedule_from(key, definition, facts), owner=_CODE)
        handle = (
            definition
            if isinstance(definition, DefinitionHandle)
            else self._app._own_handle(definition, definition_version)
        )
        if handle is not None:
            with naming(key):
                order = handle._order_from((), dict(params or {}))
            own_key = made.concurrency_key or order.options.concurrency_key
            made = replace(made, params_text=order.params, concurrency_key=own_key)
        due_ticks.check(made)
        known = self._declared_schedules.get(key)
        if known is not None and known != made:
            raise InvalidSchedule(f"Schedule {key!r} is declared twice.", hint="Give one of them another key.")
        self._declared_schedules[key] = made
        return made

    def save_schedule(
        self,
        key: str,
        definition: DefinitionHandle[Any, Any] | str,
        *,
        revision: int | None = None,
        by: str = PYTHON,
        **facts: Unpack[ScheduleFacts],
    ) -> ScheduleRow:
        """Create a schedule, or replace what it says; the facts are those of `schedule()`.

        It is an operator's then: code that declares one of the same key leaves it alone. A pause stays. With a
        `revision` it must be the stored one (0: none yet): `RevisionConflict`.
        """
        return self._do(self._save_schedule(key, definition, facts, revision, by))

    async def asave_schedule(
        self,
        key: str,
        definition: DefinitionHandle[Any, Any] | str,
        *,
        revision: int | None = None,
        by: str = PYTHON,
        **facts: Unpack[ScheduleFacts],
    ) -> ScheduleRow:
        return await self._ado(self._save_schedule(key, definition, facts, revision, by))

    def change_schedule(
        self, key: str, *, revision: int | None = None, by: str = PYTHON, **changes: Unpack[ScheduleFacts]
    ) -> ScheduleRow:
        """Change some facts of a schedule; with a `revision`, only if it is still the one that was read.

        It is an operator's then, also if code declared it.
        """
        return self._do(self._change_schedule(key, changes, revision, by))

    async def achange_schedule(
        self, key: str, *, revision: int | None = None, by: str = PYTHON, **changes: Unpack[ScheduleFacts]
    ) -> ScheduleRow:
        return await self._ado(self._change_schedule(key, changes, revision, by))

    def get_schedule(self, key: str) -> ScheduleRow:
        """A schedule by its key; `NotFound` when there is none.

        What the store has and cannot read comes with an `error`, and so it does in `schedules()`; it never ticks.
        Saving it anew or deleting it repairs that.
        """
        return self._do(self._get_schedule(key))

    async def aget_schedule(self, key: str) -> ScheduleRow:
        return await self._ado(self._get_schedule(key))

    def schedules(self) -> list[ScheduleRow]:
        """All schedules of the store, by key."""
        return self._do(self._schedules())

    async def aschedules(self) -> list[ScheduleRow]:
        return await self._ado(self._schedules())

    def delete_schedule(self, key: str, *, revision: int | None = None, by: str = PYTHON) -> None:
        """Forget a schedule; its jobs stay. With a `revision`, only if it is still the one that was read."""
        return self._do(self._delete_schedule(key, revision, by))

    async def adelete_schedule(self, key: str, *, revision: int | None = None, by: str = PYTHON) -> None:
        return await self._ado(self._delete_schedule(key, revision, by))

    def pause_schedule(self, key: str, reason: str, *, until: datetime | None = None, by: str = PYTHON) -> None:
        """Make no job of a schedule until it is resumed, or until a time; ticks meanwhile are passed over."""
        return self._do(self._pause_schedule(key, reason, until, by))

    async def apause_schedule(self, key: str, reason: str, *, until: datetime | None = None, by: str = PYTHON) -> None:
        return await self._ado(self._pause_schedule(key, reason, until, by))

    def resume_schedule(self, key: str, *, by: str = PYTHON) -> None:
        """Let a paused schedule go on with its next tick; what fell into the pause is recorded as missed."""
        return self._do(self._resume_schedule(key, by))

    async def aresume_schedule(self, key: str, *, by: str = PYTHON) -> None:
        return await self._ado(self._resume_schedule(key, by))

    def trigger_schedule(self, key: str, *, by: str | None = None) -> JobHandle[Any]:
        """Make a job of a schedule now, beside its ticks."""
        return self._do(self._trigger_schedule(key, by))

    async def atrigger_schedule(self, key: str, *, by: str | None = None) -> JobHandle[Any]:
        return await self._ado(self._trigger_schedule(key, by))

    def schedule_ticks(self, key: str, limit: int = 50) -> list[dict[str, Any]]:
        """What became of the newest ticks of a schedule: made, skipped, missed."""
        return self._do(self._schedule_ticks(key, limit))

    async def aschedule_ticks(self, key: str, limit: int = 50) -> list[dict[str, Any]]:
        return await self._ado(self._schedule_ticks(key, limit))

    def preview_schedule(self, key: str, count: int = 10) -> Preview:
        """When a schedule will tick next: a sentence, and the next instants in its zone, in UTC, and from now."""
        return self._do(self._preview_schedule(key, count))

    async def apreview_schedule(self, key: str, count: int = 10) -> Preview:
        return await self._ado(self._preview_schedule(key, count))

    def preview_facts(self, count: int = 10, **facts: Unpack[ScheduleFacts]) -> Preview:
        """When a schedule with these facts would tick, before it is saved."""
        return self._do(self._preview_facts(count, facts))

    async def apreview_facts(self, count: int = 10, **facts: Unpack[ScheduleFacts]) -> Preview:
        return await self._ado(self._preview_facts(count, facts))

    def _save_schedule(
        self,
        key: str,
        definition: DefinitionHandle[Any, Any] | str,
        facts: ScheduleFacts,
        revision: int | None,
        by: str,
    ) -> Talk[ScheduleRow]:
        made = yield from self._with_order(schedule_from(key, definition, facts))
        stored = yield from self._maybe_schedule(key)
        return (yield from self._keep_schedule(made, stored, revision, by))

    def _change_schedule(self, key: str, changes: ScheduleFacts, revision: int | None, by: str) -> Talk[ScheduleRow]:
        if not changes:
            raise InvalidInput(
                f"Nothing of schedule {key!r} is to be changed.",
                hint=Hint(
                    "Give facts, as in priority=3.",
                    cli="`penstock schedules edit --help` lists what can be changed.",
                    http="Send a field, such as `priority`.",
                ),
            )
        while True:
            stored = yield from self._readable_schedule(key)
            made = replace(changed(stored.schedule, changes), owner="operator", origin="")
            if "at" in changes and "enabled" not in changes and stored.schedule.next_run_at is None:
                made = replace(made, enabled=True)
            if "params" in changes and "concurrency_key" not in changes:
                made = replace(made, concurrency_key=None)
            if {"params", "definition_version", "concurrency_key"} & changes.keys():
                made = yield from self._with_order(made)
            known = stored.revision if revision is None else revision
            try:
                return (yield from self._keep_schedule(made, stored, known, by))
            except RevisionConflict:
                if revision is not None:
                    raise

    def _with_order(self, made: Schedule) -> Talk[Schedule]:
        """The schedule with parameters that fit its definition."""
        params: Any = payload.load(made.params_text)
        with naming(made.key):
            options = EnqueueOptions(concurrency_key=made.concurrency_key)
            order = yield from self._app._order(made.definition_key, params, made.definition_version, options)
        return replace(made, params_text=order.params, concurrency_key=order.options.concurrency_key)

    def _keep_schedule(
        self, made: Schedule, stored: ScheduleRow | None, revision: int | None, by: str
    ) -> Talk[ScheduleRow]:
        due_ticks.check(made)
        now: int = yield admin.clock()
        wanted = _with_next(made, stored, now)
        if made.kind is Kind.ONCE and made.enabled and wanted.next_run_at is None:
            raise InvalidSchedule(f"Schedule {made.key!r}: {made.expression} is over.", hint="Give an instant to come.")
        kept: ScheduleRow = yield schedules.save(wanted, by=_who(by), revision=revision)
        self._ring()
        return kept

    def _maybe_schedule(self, key: str) -> Talk[ScheduleRow | None]:
        try:
            found: ScheduleRow = yield schedules.get(key)
        except NotFound:
            return None
        return found

    def _get_schedule(self, key: str) -> Talk[ScheduleRow]:
        found: ScheduleRow = yield schedules.get(key)
        return found

    def _readable_schedule(self, key: str) -> Talk[ScheduleRow]:
        found: ScheduleRow = yield schedules.get(key)
        if found.error is not None:
            raise InvalidSchedule(
                f"Schedule {key!r} cannot be read: {found.error}.", hint="Save it anew, or delete it."
            )
        return found

    def _schedules(self) -> Talk[list[ScheduleRow]]:
        found: list[ScheduleRow] = yield schedules.all()
        return found

    def _delete_schedule(self, key: str, revision: int | None, by: str) -> Talk[None]:
        yield schedules.remove(key, by=_who(by), revision=revision)

    def _pause_schedule(self, key: str, reason: str, until: datetime | None, by: str) -> Talk[None]:
        text = given.short_text(reason, "reason")
        if text is None:
            raise InvalidInput("A pause needs a reason.", hint="Others will ask why nothing runs.")
        end = given.instant(until, "until")
        now: int = yield admin.clock()
        if end is not None and end <= now:
            raise InvalidInput(f"A pause of schedule {key!r} until {to_datetime(end)} is over already.")
        yield schedules.pause(key, Pause(text, _who(by), now, end), by=_who(by))
        self._ring()

    def _resume_schedule(self, key: str, by: str) -> Talk[None]:
        stored: ScheduleRow = yield schedules.get(key)
        if stored.pause is not None and stored.error is None:
            now: int = yield admin.clock()
            end = now if stored.pause.until is None else min(now, stored.pause.until)
            with naming(key):
                turn = due_ticks.passed_over(stored, end)
            if turn is not None:
                yield schedules.tick(turn.tick, None, stored.schedule.overlap)
        yield schedules.pause(key, None, by=_who(by))
        self._ring()

    def _trigger_schedule(self, key: str, by: str | None) -> Talk[JobHandle[Any]]:
        stored = yield from self._readable_schedule(key)
        order = yield from self._app._schedule_order(stored.schedule, None)
        (created,) = yield from self._app._create([order], schedule=key, actor=given.actor(by))
        return JobHandle(self._app, created)

    def _schedule_ticks(self, key: str, limit: int) -> Talk[list[dict[str, Any]]]:
        if not 1 <= given.integer(limit, "limit") <= _MOST_TICKS:
            raise InvalidInput(f"limit must be 1 to {_MOST_TICKS}, not {limit}.")
        yield schedules.get(key)
        found: list[dict[str, Any]] = yield schedules.ticks(key, limit)
        return found

    def _preview_schedule(self, key: str, count: int) -> Talk[Preview]:
        stored = yield from self._readable_schedule(key)
        now: int = yield admin.clock()
        return preview(stored.schedule, now, count)

    def _preview_facts(self, count: int, facts: ScheduleFacts) -> Talk[Preview]:
        made = schedule_from("preview", "preview", facts)
        due_ticks.check(made)
        now: int = yield admin.clock()
        return preview(made, now, count)

    def _apply_schedules(self, wanted: Sequence[Schedule], origin: str, unread: Collection[str] = ()) -> Talk[Applied]:
        """Make known what the code of an origin declares, and remove what it does not declare any more.

        Those whose key fits a pattern in `unread` are not removed: nobody knows what code declares that cannot be read.
        """
        now: int = yield admin.clock()
        known: list[ScheduleRow] = yield schedules.all()
        stored = {row.schedule.key: row for row in known}
        applied = Applied()
        for each in wanted:
            mine = replace(each, owner=_CODE, origin=origin)
            yield from self._apply(mine, stored.pop(each.key, None), now, applied)
        for row in stored.values():
            if _is_of(row, origin) and not any(fnmatchcase(row.schedule.key, each) for each in unread):
                yield from self._remove_undeclared(row.schedule.key, origin, applied)
        if applied.saved or applied.removed:
            self._ring()
        return applied

    def _apply(self, mine: Schedule, row: ScheduleRow | None, now: int, applied: Applied) -> Talk[None]:
        """Write what code declares, unless it stands so already or is somebody else's."""
        while row is None or _is_of(row, mine.origin) or _is_unreadable(row):
            try:
                wanted = _with_next(mine, row, now)
                if row is None or row.schedule != _ended(wanted):
                    yield schedules.save(wanted, by=_CODE, revision=0 if row is None else row.revision)
                    applied.saved.append(mine.key)
            except RevisionConflict:
                row = yield from self._maybe_schedule(mine.key)
            except InvalidInput as error:
                applied.warnings.append(f"Schedule {mine.key!r} was left as it is: {error}")
                return
            else:
                return
        whose = "an operator's" if row.schedule.owner != _CODE else f"declared by {row.schedule.origin or 'other code'}"
        applied.warnings.append(
            f"Schedule {mine.key!r} is {whose}: what {mine.origin} declares does not count. "
            f"To change that, delete it: app.delete_schedule({mine.key!r})."
        )

    def _remove_undeclared(self, key: str, origin: str, applied: Applied) -> Talk[None]:
        row = yield from self._maybe_schedule(key)
        if row is None or not _is_of(row, origin):
            return
        try:
            yield schedules.remove(key, by=_CODE)
        except NotFound:
            return
        applied.removed.append(key)

    def _tick_draft(self, schedule: Schedule, instant: int) -> Talk[Draft]:
        """The job of one tick."""
        order = yield from self._app._schedule_order(schedule, due_ticks.due_at(schedule, instant))
        yield from self._app._route([order], self._app._routes, None)
        route = self._app._routes[order.key, order.version]
        return given.draft(order, route, self._app._ids.new_id(), schedule=schedule.key)

    @property
    def _app(self) -> Penstock:
        return cast("Penstock", self)


def _with_next(made: Schedule, stored: ScheduleRow | None, now: int) -> Schedule:
    """The schedule with its next tick; one that is stored and cannot be read any more does not count."""
    try:
        return due_ticks.with_next_tick(made, stored, now)
    except InvalidSchedule:
        return replace(made, next_run_at=due_ticks.next_tick_after(made, now))


def _ended(schedule: Schedule) -> Schedule:
    """As the store keeps it: disabled when its one tick is over."""
    return replace(schedule, enabled=schedule.enabled and not (schedule.kind is Kind.ONCE and not schedule.next_run_at))


def _is_of(row: ScheduleRow, origin: str) -> bool:
    return row.schedule.owner == _CODE and row.schedule.origin == origin


def _is_unreadable(row: ScheduleRow) -> bool:
    """Whether code declared it and nobody can say which: whoever declares it again repairs it."""
    return row.schedule.owner == _CODE and row.error is not None


def _who(by: str) -> str:
    return given.actor(by) or PYTHON
