"""All processes of a store share what waiting is worth against priority."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import InvalidInput, Penstock
from penstock.domain.ids import IdSource
from penstock.domain.worker import WorkerInfo
from penstock.storage.commands import jobs
from tests.applications import NewApp


@pytest.mark.parametrize(("ageing", "first"), [(0, "urgent"), (0.000001, "waiting"), (None, "urgent")])
def test_one_process_sets_what_waiting_is_worth_and_another_creates_by_it(
    new_app: NewApp, ageing: float | None, first: str
) -> None:
    operator, app = new_app(), new_app()
    if ageing is not None:
        operator.workers.configure({"ageing": ageing})

    @app.job("work")
    def work() -> None: ...

    # The moment between the two outweighs ten steps of a microsecond each, and none of ten minutes.
    old = work.options(priority=0).enqueue()
    urgent = work.options(priority=10).enqueue()

    assert _claimed_first(app) == {"waiting": old.id, "urgent": urgent.id}[first]


@pytest.mark.parametrize("wrong", [-1, None, "ten", True, 10**9])
def test_an_impossible_ageing_is_refused_by_its_name(app: Penstock, wrong: Any) -> None:
    with pytest.raises(InvalidInput, match=r"ageing of the worker configuration must be a number from 0 to 31536000"):
        app.workers.configure({"ageing": wrong})


def _claimed_first(app: Penstock) -> str:
    (lane,) = app.definitions.register().values()
    ids = IdSource(lambda: 0, lambda count: b"x" * count)
    me = WorkerInfo(id=ids.new_id(), name="test", host="here", pid=1, lanes=(lane,))
    app.store.run(jobs.register_worker(me, 60_000_000))
    return app.store.run(jobs.claim(me.id, [lane], 1))[0].job_id
