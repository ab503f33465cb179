"""The newest version's limits hold for jobs of every version, and a worker looks at them for every version's jobs."""

from __future__ import annotations

from penstock.config.worker_settings import WorkerSettings
from penstock.domain.definition import Definition
from penstock.storage import ports
from penstock.worker.claim_requests import ClaimRequests
from penstock.worker.live_config import LiveConfig
from penstock.worker.pool import Pool
from tests.background.clockwork import TimedStore
from tests.storage.kit import Kit


async def test_jobs_of_an_older_version_run_under_the_limits_of_the_newest(kit: Kit) -> None:
    older = kit.define(version=1)
    waiting = [kit.create(), kit.create()]
    newest = kit.define(version=2, concurrency=1)
    store = TimedStore(kit.store, kit.now)
    controls = LiveConfig(store, ports.admin, WorkerSettings(), lambda: None)
    pool = Pool(slots=10, ahead=0)
    pool.lanes = [older, newest]

    await controls.read(dict.fromkeys(pool.lanes, Definition("work")))
    claimed, _ = await ClaimRequests(store, ports.jobs, controls).take(kit.worker(), pool)

    assert [each.job_id for each in claimed] == waiting[:1]


async def test_jobs_of_an_older_version_lose_the_limits_that_the_newest_has_not(kit: Kit) -> None:
    older = kit.define(version=1, concurrency=1)
    waiting = [kit.create(), kit.create()]
    newest = kit.define(version=2)
    store = TimedStore(kit.store, kit.now)
    controls = LiveConfig(store, ports.admin, WorkerSettings(), lambda: None)
    pool = Pool(slots=10, ahead=5)
    pool.lanes = [older, newest]

    await controls.read(dict.fromkeys(pool.lanes, Definition("work")))
    claimed, _ = await ClaimRequests(store, ports.jobs, controls).take(kit.worker(), pool)

    assert (controls.limited, [each.job_id for each in claimed]) == (set(), waiting)
