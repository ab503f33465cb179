"""With ageing a job that has waited for long overtakes a more important one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from penstock import InvalidInput, Penstock
from penstock.core.ids import IdSource
from penstock.core.worker import WorkerInfo
from penstock.stores.verbs import jobs
from tests.app.conftest import NewApp


@pytest.mark.parametrize(("ageing", "first"), [(None, "urgent"), (0.000001, "waiting"), (timedelta(hours=1), "urgent")])
def test_ageing_decides_whether_waiting_outweighs_priority(new_app: NewApp, ageing: Any, first: str) -> None:
    plain = new_app()
    app = Penstock(**{**(plain.address or {}), "ageing": ageing})

    @app.job("work")
    def work() -> None: ...

    # The moment between the two outweighs ten steps of a microsecond each, and none of an hour.
    old = work.options(priority=0).enqueue()
    urgent = work.options(priority=10).enqueue()

    assert _claimed_first(app) == {"waiting": old.id, "urgent": urgent.id}[first]
    app.close()


def test_an_ageing_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidInput, match="ageing must be more than 0"):
        Penstock("sqlite://", ageing=0)


def _claimed_first(app: Penstock) -> str:
    (lane,) = app.register().values()
    ids = IdSource(lambda: 0, lambda count: b"x" * count)
    me = WorkerInfo(id=ids.new_id(), name="test", host="here", pid=1, lanes=(lane,))
    app.store.run(jobs.register_worker(me, 60_000_000))
    return app.store.run(jobs.claim(me.id, [lane], 1))[0].job_id
