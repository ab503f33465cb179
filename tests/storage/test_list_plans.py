"""list and count: whichever index is walked along, the same jobs come in the same order."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from penstock.domain.job import Job
from penstock.domain.job_list import Count, JobFilter
from penstock.domain.states import Status
from penstock.storage.commands import admin, control, list_planner, search
from tests.storage.kit import Kit

SORTS: dict[str, Callable[[Job], Any]] = {
    "createdAt": lambda job: job.id,
    "finishedAt": lambda job: (job.finished_at, job.id),
    "priority": lambda job: (job.priority, job.id),
}
HOUR = 3600


def _history(kit: Kit) -> list[str]:
    """Jobs in every status, of two definitions, one of them in two versions, over some hours; some are stale."""
    kit.define("mail")
    parent = kit.create("parent")
    created = [parent]
    for n, status in enumerate((*Status, *Status, *Status)):
        if n == 2 * len(Status):
            kit.define("mail", version=2)
        facts: dict[str, Any] = {"priority": n % 4, "tags": (f"t{n % 2}", f"s{n % 5}")[: 1 + n % 2]}
        if n % 3 == 0:
            facts |= {"reference_type": "order", "reference_id": str(n % 2)}
        if n % 4 == 1:
            facts |= {"schedule": f"every{n % 3}", "scheduled_for": kit.now + n}
        if n % 5 == 2:
            facts["parent"] = parent
        kit.advance(HOUR / 4)
        definition = "mail" if n % 2 else f"only{n}"
        created.append(kit.job_in(status if status is not Status.STALE else Status.SUCCEEDED, definition, **facts))
        # Whatever waits is cancelled or stays as it is: the next one of its lane must be the only one that is ready.
        if status is Status.QUEUED and definition == "mail":
            kit.run(control.cancel([created[-1]]))
        if n == 12:
            kit.advance(8 * 24 * HOUR)
            kit.run(admin.retire(3))
    return created


def _expected(jobs: list[Job], which: JobFilter, fingerprints: set[str]) -> list[Job]:
    def fits(job: Job) -> bool:
        created = round(job.created_at.timestamp() * 1_000_000)
        return all(
            (
                which.status is None or job.status in which.status,
                which.definition_key is None or job.definition_key == which.definition_key,
                which.tag is None or which.tag in job.tags,
                which.reference_type is None or job.reference_type == which.reference_type,
                which.reference_id is None or job.reference_id == which.reference_id,
                which.schedule_id is None or job.schedule_id == which.schedule_id,
                which.parent_id is None or job.parent_id == which.parent_id,
                which.fingerprint is None or job.id in fingerprints,
                which.created_from is None or created >= which.created_from,
                which.created_to is None or created < which.created_to,
            )
        )

    return [job for job in jobs if fits(job)]


def _filters(kit: Kit, jobs: list[Job]) -> list[JobFilter]:
    middle = round(sorted(job.created_at for job in jobs)[len(jobs) // 2].timestamp() * 1_000_000)
    ones: list[dict[str, Any]] = [
        {"definition_key": "mail"}, {"definition_key": "only4"}, {"definition_key": "unknown"}, {"tag": "t0"},
        {"tag": "s3"}, {"reference_type": "order"}, {"reference_type": "order", "reference_id": "1"},
        {"schedule_id": "every1"}, {"parent_id": jobs[0].id}, {"fingerprint": "fingerprint"}, {"created_from": middle},
        {"created_to": middle},
        {"created_from": middle - 3600 * 1_000_000, "created_to": middle + 1},
        *({"status": (each,)} for each in Status),
        {"status": (Status.QUEUED, Status.FAILED, Status.STALE)}, {"status": (Status.STALE, Status.SUCCEEDED)},
        {"status": (Status.RUNNING, Status.SCHEDULED, Status.QUEUED)},
    ]  # fmt: skip
    pairs = [first | second for first, second in itertools.combinations(ones, 2) if not first.keys() & second.keys()]
    return [JobFilter(), *(JobFilter(**each) for each in ones), *(JobFilter(**each) for each in pairs)]


@pytest.mark.parametrize("little", [0, 4, 10_000])
def test_every_filter_in_every_order_lists_and_counts_what_fits(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, little: int
) -> None:
    created = _history(kit)
    jobs = kit.run(admin.get(created))
    failed = {job.id for job in jobs if kit.run(admin.attempts(job.id)) and job.error is not None}
    assert {job.status for job in jobs} == set(Status)
    monkeypatch.setattr(list_planner, "LITTLE", little)

    for which in _filters(kit, jobs):
        fitting = _expected(jobs, which, failed)
        assert kit.run(admin.count(which)) == Count(len(fitting), capped=False), which
        for field, key in SORTS.items():
            wanted = [job for job in fitting if field != "finishedAt" or job.finished_at is not None]
            wanted.sort(key=key)
            for sort in (field, f"-{field}"):
                assert [job.id for job in _all(kit, which, sort)] == [job.id for job in wanted], (which, sort)
                wanted.reverse()


@pytest.mark.parametrize("little", [0, 10_000])
def test_every_filter_with_a_search_finds_what_fits(kit: Kit, monkeypatch: pytest.MonkeyPatch, little: int) -> None:
    created = _history(kit)
    jobs = kit.run(admin.get(created))
    failed = {job.id for job in jobs if kit.run(admin.attempts(job.id)) and job.error is not None}
    monkeypatch.setattr(list_planner, "LITTLE", little)
    monkeypatch.setattr(search, "PART", 2)

    for plain in _filters(kit, jobs):
        which = replace(plain, error="broken")
        wanted = [job.id for job in _expected(jobs, plain, failed) if "broken" in (job.error or "")]
        assert kit.run(admin.count(which)) == Count(len(wanted), capped=False), which
        for sort, fitting in (("createdAt", sorted(wanted)), ("-createdAt", sorted(wanted, reverse=True))):
            assert [job.id for job in _all(kit, which, sort)] == fitting, (which, sort)


def _all(kit: Kit, which: JobFilter, sort: str) -> list[Job]:
    found: list[Job] = []
    cursor = None
    while True:
        page = kit.run(admin.page(which, limit=7, sort=sort, cursor=cursor))
        found += page.jobs
        if (cursor := page.next_cursor) is None:
            return found
