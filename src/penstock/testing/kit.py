"""The test kit: an application whose jobs a test runs when it wants to."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from penstock.app import Penstock
from penstock.definitions.handles import DefinitionHandle
from penstock.domain.errors import Conflict, InvalidInput
from penstock.domain.ids import IdSource
from penstock.domain.instant import DAY, Duration, from_datetime, microseconds, to_datetime
from penstock.domain.job import Claimed, Job
from penstock.domain.ports.store import Store
from penstock.domain.states import PENDING, Status
from penstock.domain.worker import WorkerInfo
from penstock.execution.handlers import Handle
from penstock.operations.job_requests import StoreErrands
from penstock.storage import ports
from penstock.storage.sqlite.clock import ManualClock
from penstock.storage.sqlite.memory import SharedMemoryStore
from penstock.storage.sqlite.store import SqliteStore
from penstock.testing.attempts import Crashes, Runner, When
from penstock.testing.enqueued import Wanted
from penstock.testing.timed import Timed

Which = DefinitionHandle[Any, Any] | str

_LEASE = 100 * 365 * DAY
_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Drained:
    """The jobs that `drain` ran, in the order of their first attempts."""

    succeeded: tuple[Job, ...]
    failed: tuple[Job, ...]
    cancelled: tuple[Job, ...]
    review_needed: tuple[Job, ...]
    waiting: tuple[Job, ...]
    """All waiting jobs, including those that were not run: due later, paused, or held by a limit."""
    attempts: int
    more: bool
    """The limit was reached, and jobs are still queued."""


class TestApp:
    """An application on an empty store in memory, whose clock only moves on request.

    `with TestApp(app) as kit:` replaces the store, and restores the application's own at the end. The clock starts at
    `now`, by default the present; handlers get `settings` as `ctx.settings`.

    """

    __test__ = False  # for pytest, which would take it for a test because of its name

    def __init__(
        self, app: Penstock, *, now: datetime | None = None, settings: Mapping[str, Any] | None = None
    ) -> None:
        wall = time.time_ns() // 1000 if now is None else from_datetime(now, "now")
        self.app = app
        self._clock = ManualClock(wall=wall)
        self._settings = dict(settings or {})
        self._crashes = Crashes()
        self._stack = ExitStack()
        self._worker = ""
        self._cursor = ""
        self._timed: Timed | None = None

    @property
    def now(self) -> datetime:
        """The store's current time."""
        return to_datetime(self._clock.wall)

    def drain(self, limit: int = 1000) -> Drained:
        """Run all due jobs, one after the other, until none is left or `limit` attempts were made.

        Jobs that these create and retries without a delay are run too; jobs that are due later wait for `advance`.
        Hooks and listeners are called.

        """
        _refuse_in_a_loop()
        store = self._opened()
        ran: dict[str, None] = {}
        attempts = 0
        # Another application on the same store handles requests of jobs: inside a job, the user's has no store.
        errands = StoreErrands(Penstock(store))
        with asyncio.Runner() as loop:
            handles = self._handles()
            runner = Runner(self.app, store, self._worker, errands, self._crashes, self._settings, loop)
            runner.call_hooks(handles)
            while attempts < limit and (claimed := self._claim(list(handles))):
                attempts += 1
                ran[claimed.job_id] = None
                runner.attempt(claimed, handles[claimed.lane])
                runner.call_hooks(handles)
        self._tell_listeners()
        return self._drained(list(ran), attempts, attempts >= limit)

    async def adrain(self, limit: int = 1000) -> Drained:
        """Do the same for async tests; jobs run in another thread."""
        return await asyncio.to_thread(self.drain, limit)

    def advance(self, seconds: Duration) -> None:
        """Move the clock, tick schedules on the way, and queue jobs that become due; `drain` runs them.

        Retention announces and deletes ended jobs whose time is over.

        """
        self._opened()
        duration = microseconds(seconds, "seconds")
        if self._timed is not None:
            self._timed.advance(duration)
        self._promote()
        self._tell_listeners()

    def crash_at(self, definition: Which, phase: str | None = None, times: int = 1) -> None:
        """Crash attempts when they reach a phase, as if their worker had died; the job runs again a second later."""
        self._plan_crash(definition, phase, When.BEGUN, times)

    def crash_after(self, definition: Which, phase: str | None = None, times: int = 1) -> None:
        """Crash attempts once the result of a phase is stored; for a plain job, once its handler has returned."""
        self._plan_crash(definition, phase, When.KEPT, times)

    def jobs(self, definition: Which | None = None, **which: Any) -> list[Job]:
        """Return all jobs, the oldest first; the filters are those of `app.jobs()`."""
        self._opened()
        key = None if definition is None else _key(definition)
        return list(self.app.iter_jobs(sort="createdAt", definition_key=key, **which))

    def assert_enqueued(
        self, definition: Which, params: Mapping[str, Any] | None = None, *, count: int | None = None, **options: Any
    ) -> list[Job]:
        """Fail unless there are jobs of a definition, in any status; return those jobs.

        They have the given parameters (and may have more) and the given options, which are those of `options()` and
        `status`. Without `count` there must be at least one.

        """
        __tracebackhide__ = True
        jobs, wanted = self.jobs(), Wanted(_key(definition), params, options)
        found = wanted.among(jobs)
        if len(found) != count if count is not None else not found:
            expected = "A job" if count is None else f"{count} job(s)"
            raise AssertionError(
                f"{expected} {wanted.described()} should have been enqueued, and there are {len(found)}.\n"
                + wanted.listing(jobs, self._secrets())
            )
        return found

    def assert_not_enqueued(self, definition: Which, params: Mapping[str, Any] | None = None, **options: Any) -> None:
        """Fail if there are such jobs."""
        __tracebackhide__ = True
        self.assert_enqueued(definition, params, count=0, **options)

    def __enter__(self) -> Self:
        if self._worker:
            raise Conflict("This test kit is in use already.", hint="Make another: TestApp(app).")
        store = SqliteStore(":memory:", clock=self._clock)
        self._stack.callback(store.close)
        # Closing the application meanwhile must not close the store: its data is in memory.
        self._stack.enter_context(self.app._on_store(SharedMemoryStore(store)))
        self._worker = IdSource(lambda: time.time_ns() // 1_000_000, os.urandom).new_id()
        info = WorkerInfo(id=self._worker, name="test kit", host="", pid=os.getpid(), lanes=())
        store.run(ports.jobs.register_worker(info, _LEASE))
        self._cursor = store.run(ports.feed.tip())
        self._timed = Timed(self.app, self._clock, self._tell_listeners)
        self._timed.declare()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker, self._timed = "", None
        self._stack.close()

    def _opened(self) -> Store:
        if not self._worker:
            raise Conflict("The test kit is not in use.", hint="Write `with TestApp(app) as kit:` around it.")
        return self.app.store

    def _handles(self) -> dict[int, Handle]:
        """Return the definitions by lane, including those that were declared since."""
        lanes = self.app.register()
        handles: dict[int, Handle] = {lanes[each.key, each.definition.version]: each for each in self.app.definitions}
        self.app.store.run(ports.jobs.heartbeat(self._worker, _LEASE, lanes=sorted(handles)))
        return handles

    def _claim(self, lanes: list[int]) -> Claimed | None:
        """Return the next job to run, if there is one."""
        queued = -1
        while True:
            self._promote()
            if claimed := self.app.store.run(ports.jobs.claim(self._worker, lanes, 1, limited=lanes)):
                return claimed[0]
            # The claim may only have delayed a job at its rate limit; other jobs may follow it.
            if queued == (queued := self._queued()):
                return None

    def _queued(self) -> int:
        counts = self.app.store.run(ports.admin.counts())
        return sum(each.get(Status.QUEUED, 0) for each in counts.values())

    def _promote(self) -> None:
        while len(self.app.store.run(ports.jobs.promote(_BATCH))) == _BATCH:
            pass

    def _tell_listeners(self) -> None:
        more = True
        while more:
            news = self.app.store.run(ports.feed.read(self._cursor))
            self._cursor, more = news.cursor, news.more
            for event in news.events:
                self.app._listeners.tell(event)

    def _drained(self, ran: list[str], attempts: int, stopped: bool) -> Drained:
        found = {job.id: job for job in self.app.store.run(ports.admin.get(ran))}
        jobs = [found[each] for each in ran if each in found]
        waiting = tuple(self.jobs(status=sorted(PENDING)))

        def ended(status: Status) -> tuple[Job, ...]:
            return tuple(job for job in jobs if status in (job.status, job.outcome))

        return Drained(
            succeeded=ended(Status.SUCCEEDED),
            failed=ended(Status.FAILED),
            cancelled=ended(Status.CANCELLED),
            review_needed=ended(Status.REVIEW_NEEDED),
            waiting=waiting,
            attempts=attempts,
            more=stopped and any(job.status is Status.QUEUED for job in waiting),
        )

    def _plan_crash(self, definition: Which, phase: str | None, when: When, times: int) -> None:
        key = _key(definition)
        handles = [each for each in self.app.definitions if each.key == key]
        if not handles:
            known = ", ".join(sorted({each.key for each in self.app.definitions})) or "none"
            raise InvalidInput(f"The application has no definition {key!r:.80}.", hint=f"There are: {known}.")
        names = list(dict.fromkeys(step.name for each in handles for step in each.steps))
        if phase is None and len(names) == 1:
            phase = names[0]
        if phase not in names:
            raise InvalidInput(f"{key} has no phase {phase!r:.80}.", hint=f"There are: {', '.join(names)}.")
        if isinstance(times, bool) or not isinstance(times, int) or times < 0:
            raise InvalidInput(f"`times` must be a number of attempts, not {times!r:.80}.")
        self._crashes.plan(key, phase, when, times)

    def _secrets(self) -> dict[str, tuple[str, ...]]:
        return {each.key: each.definition.secret_fields for each in self.app.definitions}


def run(app: Penstock, *, now: datetime | None = None, settings: Mapping[str, Any] | None = None) -> TestApp:
    """Return the test kit of an application, for a fixture: `with testing.run(app) as kit: yield kit`."""
    return TestApp(app, now=now, settings=settings)


def _key(definition: Which) -> str:
    key = definition.key if isinstance(definition, DefinitionHandle) else definition
    if not isinstance(key, str):
        raise InvalidInput(f"A definition is given as itself or by its key, not as {definition!r:.80}.")
    return key


def _refuse_in_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise Conflict("drain() cannot run jobs inside a running event loop.", hint="Write `await kit.adrain()`.")
