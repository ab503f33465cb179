"""Endings on their way to the store: in parts, and none is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.domain.errors import StoreUnavailable
from penstock.domain.outcome import RETURNED_NOTHING, Settlement
from penstock.domain.plan import Plan
from penstock.domain.states import Status
from penstock.domain.worker import SettleReport
from penstock.storage.commands import jobs
from penstock.worker.settler import Ending, Settler
from tests.storage.kit import Kit
from tests.storage.tables import check_soundness, query
from tests.worker.fleet import Stage

MANY = 1200
WORKER = "01a1e29e-6d80-7000-83be-fdb5f019136c"


class Faltering:
    """A store that does not answer the first of its callers."""

    def __init__(self, store: Any) -> None:
        self.dialect = store.dialect
        self.calls = 0
        self._store = store

    async def arun(self, plan: Plan[Any]) -> Any:
        self.calls += 1
        if self.calls == 1:
            raise StoreUnavailable("It does not answer.")
        return await self._store.arun(plan)


class Desk:
    """A settler, and what it says of what it was given."""

    def __init__(self, store: Any) -> None:
        self.reports: list[SettleReport] = []
        self.done: list[str] = []
        self._awaited: list[asyncio.Task[None]] = []
        self.settler = Settler(
            store, jobs, self._settled, lambda: False,
            lambda work: self._awaited.append(asyncio.ensure_future(work)),
        )  # fmt: skip

    def add(self, job_id: str) -> None:
        ending = Settlement(job_id, 1, RETURNED_NOTHING, Status.SUCCEEDED)
        self.settler.add((WORKER, ending, None))

    def _settled(self, report: SettleReport, endings: Sequence[Ending]) -> None:
        self.reports.append(report)
        self.done += [settlement.job_id for _, settlement, _ in endings]

    async def close(self) -> None:
        await asyncio.gather(*self._awaited)


def test_what_the_store_did_not_take_is_handed_in_again(stage: Stage) -> None:
    kit = Kit(stage.app.store)
    kit.run(jobs.create([kit.draft() for _ in range(MANY)]))
    ids = [each.job_id for each in kit.claim(kit.worker(id=WORKER), limit=MANY)]

    async def settle() -> None:
        desk = Desk(Faltering(stage.app.store))
        for job_id in ids:
            desk.add(job_id)
        with pytest.raises(StoreUnavailable):
            await desk.settler.tick()
        # PostgreSQL was given two parts at once, and has taken the other.
        assert len(desk.done) == (MANY // 2 if stage.app.store.dialect == "postgres" else 0)
        await desk.settler.tick()
        await desk.close()
        assert sorted(desk.done) == sorted(ids)
        assert sorted(job for report in desk.reports for job in report.applied) == sorted(ids)
        await stage.app.store.aclose()

    asyncio.run(settle())
    assert query(stage.app.store, "SELECT status, count(*) FROM {s}job GROUP BY status") == [(5, MANY)]
    check_soundness(stage.app.store)


def test_nothing_is_begun_while_too_much_waits_to_be_settled(quiet_stage: Stage) -> None:
    kit = Kit(quiet_stage.app.store)

    async def settle() -> None:
        desk = Desk(quiet_stage.app.store)
        for _ in range(5000):
            desk.add(kit.new_id())
        assert not desk.settler.is_overloaded
        desk.add(kit.new_id())
        assert desk.settler.is_overloaded
        await desk.settler.tick()
        await desk.close()
        assert not desk.settler.is_overloaded
        assert sum(len(report.refused) for report in desk.reports) == len(desk.done) == 5001

    asyncio.run(settle())
