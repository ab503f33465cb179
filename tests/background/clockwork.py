"""An application and its schedulers at a moment that only moves when told, on any store."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from penstock import Penstock
from penstock.background.scheduler import Scheduler
from penstock.domain.instant import DAY, to_datetime
from penstock.domain.plan import Plan, Statement, Steps
from penstock.domain.ports.store import Store
from penstock.storage import open_store, ports
from penstock.storage.sqlite.memory import SharedMemoryStore

T = TypeVar("T")

KINDS = ("sqlite-memory", "sqlite-file", "postgres")
SHARED_KINDS = ("sqlite-file", "postgres")
START = 1_800_000_000_000_000 // DAY * DAY
"""Midnight of some day in UTC."""
_numbers = itertools.count()


class TimedStore(SharedMemoryStore):
    """A store whose present is given; it counts the statements that are run on it, by name."""

    def __init__(self, host: Store, now: int = START) -> None:
        super().__init__(host)
        self.now = now
        self.statements: Counter[str] = Counter()

    def run(self, plan: Plan[T], *, now: int | None = None) -> T:
        return super().run(self._counted(plan), now=self.now if now is None else now)

    async def arun(self, plan: Plan[T], *, now: int | None = None) -> T:
        return await super().arun(self._counted(plan), now=self.now if now is None else now)

    def _counted(self, plan: Plan[T]) -> Plan[T]:
        return Plan(plan.name, lambda: self._count(plan.steps()), plan.writes, plan.repeatable)

    def _count(self, steps: Steps[T]) -> Steps[T]:
        rows: Any = None
        while True:
            try:
                statement: Statement = steps.send(rows)
            except StopIteration as end:
                return end.value
            self.statements[statement.name] += 1
            rows = yield statement


class Clockwork:
    """A definition `work`, an application and a scheduler; time stands still between the calls."""

    def __init__(self, store: Store) -> None:
        self.host = store
        self.store = TimedStore(store)
        self.app = Penstock(self.store)
        self.app.job("work")(work)
        self.app.register()
        self._tip = self.store.run(ports.feed.tip())
        self.made: list[str] = []
        self.steady = 0.0
        self.scheduler = self.new_scheduler()
        self._loop = asyncio.Runner()

    @property
    def now(self) -> int:
        return self.store.now

    @now.setter
    def now(self, instant: int) -> None:
        # What an application has read of definitions is good for a second.
        self.app._forget_what_was_read()
        self.store.now = instant

    def new_scheduler(self) -> Scheduler:
        async def draft(schedule: Any, instant: int) -> Any:
            return await self.app._ado(self.app._tick_draft(schedule, instant))

        return Scheduler(self.store, ports.schedules, ports.admin, draft, self.made.extend, steady=lambda: self.steady)

    def tick(self, now: int | None = None) -> float:
        """One look of the scheduler; the time it wants to sleep."""
        if now is not None:
            self.now = now
        self.steady += 1e-6
        return self._loop.run(self.scheduler.tick(self.now))

    def settle(self) -> None:
        """Look until nothing more is due."""
        while self.tick() == 0.0:
            pass

    def instants(self, key: str) -> list[int]:
        """For which instants there are jobs of a schedule, the earliest first."""
        jobs = self.app.iter_jobs(sort="createdAt", schedule_id=key)
        return sorted(micros(job.scheduled_for) for job in jobs if job.scheduled_for)

    def verdicts(self, key: str) -> list[tuple[int, str, int]]:
        """The newest ticks of a schedule, the earliest first: instant, verdict, how many were passed over."""
        ticks = self.app.schedule_ticks(key, limit=1000)
        return [(micros(each["scheduledFor"]), each["verdict"], each["passedOver"]) for each in reversed(ticks)]

    def events(self, kind: str) -> list[str]:
        """The subjects of all events of a kind."""
        found: list[str] = []
        cursor, more = self._tip, True
        while more:
            news = self.store.run(ports.feed.read(cursor))
            found += [event.subject or "" for event in news.events if event.type == kind]
            cursor, more = news.cursor, news.more
        return found

    def close(self) -> None:
        self._loop.run(self.host.aclose())
        self._loop.close()
        self.app.close()
        self.host.close()


def work(x: int = 0) -> None:
    """What the schedules run."""


def micros(moment: Any) -> int:
    """A datetime as microseconds since 1970."""
    return (moment - to_datetime(0)) // (to_datetime(1) - to_datetime(0))


def new_store(kind: str, request: pytest.FixtureRequest, folder: Path) -> Store:
    """A store of that kind; of those that can be shared, the same one for each call with one folder."""
    if kind == "sqlite-memory":
        return open_store("sqlite://")
    if kind == "sqlite-file":
        return open_store(f"sqlite:///{folder}/jobs.db")
    schema = folder.name.replace("-", "_")[:40].lower()
    return open_store(request.getfixturevalue("engine_database"), schema=f"{schema}_{_number(folder)}", migrate=True)


def opened(kind: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[Clockwork]:
    """A clockwork on an empty store of that kind."""
    clockwork = Clockwork(new_store(kind, request, folder))
    yield clockwork
    clockwork.close()


_known: dict[Path, int] = {}


def _number(folder: Path) -> int:
    return _known.setdefault(folder, next(_numbers))
