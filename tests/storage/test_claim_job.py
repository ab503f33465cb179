"""claim_job: the job that a message names becomes a worker's, if it is ready."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.domain.definition import Pause, RateLimit
from penstock.domain.errors import LeaseLost
from penstock.domain.job import Claimed
from penstock.domain.states import Status
from penstock.storage import ports
from tests.storage.kit import Kit

pytestmark = pytest.mark.usefixtures("sound")


def claim(kit: Kit, job_id: str, worker: str | None = None, lanes: list[int] | None = None) -> list[Claimed]:
    known = [row.lane for row in kit.run(ports.admin.definitions())]
    return kit.run(ports.jobs.claim_job(worker or kit.worker(), job_id, known if lanes is None else lanes))


def test_the_named_job_is_claimed_though_others_rank_before_it(kit: Kit) -> None:
    first, named, last = kit.create(priority=20), kit.create(priority=5), kit.create(priority=1)
    worker = kit.worker()

    (claimed,) = claim(kit, named, worker)

    assert (claimed.job_id, claimed.fence, claimed.attempt) == (named, 1, 1)
    assert kit.job(named).worker_id == worker
    assert [kit.status(each) for each in (first, last)] == [Status.QUEUED] * 2
    assert kit.events(named) == ["job.enqueued", "job.started"]


@pytest.mark.parametrize("status", [each for each in Status if each not in (Status.QUEUED, Status.STALE)])
def test_a_job_that_is_not_queued_is_not_claimed(kit: Kit, status: Status) -> None:
    job_id = kit.job_in(status)
    other = kit.create()

    assert claim(kit, job_id) == []

    assert (kit.status(job_id), kit.status(other)) == (status, Status.QUEUED)


def test_unknown_jobs_and_other_lanes_are_not_claimed(kit: Kit) -> None:
    job_id = kit.create()

    assert claim(kit, kit.new_id()) == []
    assert claim(kit, job_id, lanes=[]) == []
    assert kit.status(job_id) is Status.QUEUED


def test_a_dead_worker_claims_nothing(kit: Kit) -> None:
    job_id, worker = kit.create(), kit.worker(lease=1)
    kit.advance(5)

    with pytest.raises(LeaseLost):
        claim(kit, job_id, worker)

    assert kit.status(job_id) is Status.QUEUED


@pytest.mark.parametrize("key", ["work", "*"])
def test_a_paused_job_is_not_claimed(kit: Kit, key: str) -> None:
    job_id = kit.create()
    kit.run(ports.control.pause(key, Pause("because", "me", kit.now), by="me"))

    assert claim(kit, job_id) == []

    kit.run(ports.control.pause(key, None, by="me"))
    assert [each.job_id for each in claim(kit, job_id)] == [job_id]


LIMITS: list[dict[str, Any]] = [{"concurrency": 2}, {"rate_limit": RateLimit(2, 3600)}]


@pytest.mark.parametrize("limit", LIMITS, ids=["concurrency", "rate"])
def test_limits_hold_for_named_jobs(kit: Kit, limit: dict[str, Any]) -> None:
    kit.define("limited", **limit)
    jobs = [kit.create("limited") for _ in range(4)]

    claimed = [len(claim(kit, each)) for each in reversed(jobs)]

    assert claimed == [1, 1, 0, 0]


def test_a_limit_of_a_concurrency_key_holds_for_named_jobs(kit: Kit) -> None:
    kit.define("keyed", key_concurrency=1)
    one, two = (kit.create("keyed", concurrency_key="a") for _ in range(2))

    assert [len(claim(kit, each)) for each in (one, two)] == [1, 0]
