"""list: pages of jobs."""

from __future__ import annotations

import base64
import itertools
import json
from typing import Any

import pytest

from penstock.domain.errors import InvalidInput
from penstock.domain.job import Job
from penstock.domain.job_list import JobFilter
from penstock.domain.states import Status, Trigger
from penstock.storage.commands import admin, control
from tests.storage.kit import Kit

ALL = JobFilter()
SORTS = [sign + field for field in ("createdAt", "finishedAt", "priority") for sign in ("", "-")]


def pages(kit: Kit, which: JobFilter = ALL, **options: Any) -> list[list[Job]]:
    """Every page of a list, from the first to the last."""
    found = []
    cursor = None
    while True:
        page = kit.run(admin.page(which, cursor=cursor, **options))
        found.append(page.jobs)
        cursor = page.next_cursor
        if cursor is None:
            return found


def ids(kit: Kit, which: JobFilter = ALL, **options: Any) -> list[str]:
    return [job.id for page in pages(kit, which, **options) for job in page]


def ended_jobs(kit: Kit, n: int) -> list[str]:
    """Jobs that ended one after the other, the ones created last first."""
    kit.define()
    created = [kit.create(priority=position % 3) for position in range(n)]
    claimed = {each.job_id: each for each in kit.claim(limit=n)}
    for job_id in reversed(created):
        kit.advance(1)
        kit.settle(claimed[job_id])
    return created


def test_the_newest_come_first_unless_asked_otherwise(kit: Kit) -> None:
    created = [kit.create() for _ in range(3)]

    assert ids(kit) == created[::-1]
    assert ids(kit, sort="createdAt") == created


def test_a_listed_job_is_the_job_that_get_gives(kit: Kit) -> None:
    for status in (Status.SUCCEEDED, Status.FAILED, Status.REVIEW_NEEDED, Status.SCHEDULED):
        kit.job_in(status, tags=("red",), reference_type="order", reference_id="1")

    ((*listed,),) = pages(kit)

    assert listed == kit.run(admin.get([job.id for job in listed]))


def test_pages_of_any_size_hold_each_job_once_and_in_order(kit: Kit) -> None:
    created = ended_jobs(kit, 5)
    by_id = {job.id: job for job in kit.run(admin.get(created))}
    keys = {
        "createdAt": lambda job_id: job_id,
        "finishedAt": lambda job_id: (by_id[job_id].finished_at, job_id),
        "priority": lambda job_id: (by_id[job_id].priority, job_id),
    }

    for sort, limit in itertools.product(SORTS, (1, 2, 5, 6, 50)):
        found = pages(kit, sort=sort, limit=limit)

        expected = sorted(created, key=keys[sort.removeprefix("-")], reverse=sort.startswith("-"))
        assert [job.id for page in found for job in page] == expected
        assert [len(page) <= limit for page in found] == [True] * -(-5 // limit)


def test_jobs_that_have_not_ended_are_left_out_of_lists_by_end(kit: Kit) -> None:
    ended = kit.job_in(Status.SUCCEEDED)
    kit.create("other")

    assert ids(kit, sort="finishedAt") == ids(kit, sort="-finishedAt") == [ended]


@pytest.mark.parametrize("sort", SORTS)
def test_a_cursor_survives_jobs_that_come_and_go(kit: Kit, sort: str) -> None:
    created = ended_jobs(kit, 6)
    first = kit.run(admin.page(ALL, sort=sort, limit=3))
    last = first.jobs[-1].id
    rest = [job_id for job_id in ids(kit, sort=sort) if job_id not in {job.id for job in first.jobs}]

    kit.run(control.delete([last, rest[0]]))
    kit.create("other")
    second = kit.run(admin.page(ALL, sort=sort, limit=50, cursor=first.next_cursor))

    assert [job.id for job in second.jobs if job.id in created] == rest[1:]
    assert not {job.id for job in first.jobs} & {job.id for job in second.jobs}


def test_the_last_page_has_no_cursor_even_when_it_is_full(kit: Kit) -> None:
    for _ in range(4):
        kit.create()

    first = kit.run(admin.page(ALL, limit=2))
    assert first.next_cursor is not None
    assert kit.run(admin.page(ALL, limit=2, cursor=first.next_cursor)).next_cursor is None


def test_an_empty_store_has_one_empty_page(kit: Kit) -> None:
    assert pages(kit) == [[]]


def test_a_page_holds_1_to_500_jobs(kit: Kit) -> None:
    for limit in (0, -1, 501):
        with pytest.raises(InvalidInput, match="1 to 500"):
            kit.run(admin.page(ALL, limit=limit))


def test_an_unknown_sort_is_refused_and_the_known_ones_are_named(kit: Kit) -> None:
    for sort in ("", "-", "status", "--createdAt", "createdat", "createdAt;", "+createdAt"):
        with pytest.raises(InvalidInput, match="cannot be sorted") as refusal:
            kit.run(admin.page(ALL, sort=sort))

        assert "createdAt, finishedAt, priority" in refusal.value.hint


def test_the_cursor_of_another_sort_is_refused(kit: Kit) -> None:
    ended_jobs(kit, 2)
    cursors = {sort: kit.run(admin.page(ALL, sort=sort, limit=1)).next_cursor for sort in SORTS}

    for sort, other in itertools.permutations(SORTS, 2):
        with pytest.raises(InvalidInput, match=f"sorted by {other}, not by {sort}"):
            kit.run(admin.page(ALL, sort=sort, cursor=cursors[other]))


def _packed(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


NO_CURSORS = (
    "", "x", "ä", "%%%%", "AAAA", "bnVsbA", _packed({}), _packed([]), _packed(["-createdAt"]), _packed("[" * 5000),
    _packed(["-createdAt", None]), _packed(["-createdAt", None, "no id"]), _packed(["-createdAt", None, 7]),
    _packed(["-createdAt", 5, "01890a5d-ac96-774b-bcce-b302099a8057"]), _packed(["status", None, "x"]),
    _packed([None, None, None]), _packed([[], [], []]),
)  # fmt: skip


def test_what_is_not_a_cursor_is_refused_by_name(kit: Kit) -> None:
    for cursor in NO_CURSORS:
        with pytest.raises(InvalidInput, match="is not a cursor") as refusal:
            kit.run(admin.page(ALL, cursor=cursor))

        assert cursor[:100] in refusal.value.message


def test_a_cursor_whose_place_is_none_is_refused(kit: Kit) -> None:
    for key in (None, "5", 1.5, True, 2**70):
        with pytest.raises(InvalidInput, match="is not a cursor"):
            kit.run(admin.page(ALL, sort="priority", cursor=_packed(["priority", key, kit.new_id()])))


def test_filters_and_pages_go_together(kit: Kit) -> None:
    wanted = []
    for n in range(6):
        wanted.append(kit.create("work", tags=("red",), reference_type="order", reference_id="1"))
        kit.create("work", tags=("blue",))
        kit.create("other", reference_type="order", reference_id=str(n + 2))

    for which in (
        JobFilter(tag="red"),
        JobFilter(reference_type="order", reference_id="1"),
        JobFilter(definition_key="work", reference_type="order"),
        JobFilter(job_id=tuple(wanted)),
        JobFilter(tag="red", status=(Status.QUEUED,), definition_key="work"),
    ):
        assert ids(kit, which, limit=4, sort="createdAt") == wanted
        assert ids(kit, which, limit=4, sort="-priority") == wanted[::-1]


def test_a_status_lists_the_jobs_that_read_as_it(kit: Kit) -> None:
    wanted = {Status.STALE: kit.job_in(Status.STALE)}
    wanted |= {status: kit.job_in(status, f"in-{status}") for status in Status if status is not Status.STALE}

    for status, job_id in wanted.items():
        assert ids(kit, JobFilter(status=(status,))) == [job_id]


def test_jobs_are_found_by_the_way_they_failed(kit: Kit) -> None:
    claimed = kit.running()
    kit.settle(claimed, Trigger.FAIL, retryable=False)
    kit.create("other")

    assert ids(kit, JobFilter(fingerprint="fingerprint")) == [claimed.job_id]
    assert ids(kit, JobFilter(fingerprint="other")) == []
