"""count: how many jobs a filter speaks of."""

from __future__ import annotations

import pytest

from penstock.core.errors import InvalidInput
from penstock.core.job import Count, JobFilter
from penstock.core.transitions import Status
from penstock.stores.verbs import admin
from tests.stores.kit import Kit


def test_an_empty_store_has_no_jobs(kit: Kit) -> None:
    assert kit.run(admin.count(JobFilter())) == Count(0, capped=False)


def test_only_what_the_filter_speaks_of_is_counted(kit: Kit) -> None:
    for _ in range(3):
        kit.create(tags=("red",))
    kit.create("other", tags=("red",))
    kit.job_in(Status.SCHEDULED)

    assert kit.run(admin.count(JobFilter())) == Count(5, capped=False)
    assert kit.run(admin.count(JobFilter(tag="red"))) == Count(4, capped=False)
    assert kit.run(admin.count(JobFilter(tag="red", definition="work"))) == Count(3, capped=False)
    assert kit.run(admin.count(JobFilter(status=(Status.SCHEDULED,)))) == Count(1, capped=False)
    assert kit.run(admin.count(JobFilter(definition="unknown"))) == Count(0, capped=False)


@pytest.mark.parametrize(("cap", "answer"), [(2, Count(2, True)), (3, Count(3, False)), (4, Count(3, False))])
def test_counting_ends_at_the_cap_and_says_so(kit: Kit, cap: int, answer: Count) -> None:
    for _ in range(3):
        kit.create()

    assert kit.run(admin.count(JobFilter(), cap=cap)) == answer


def test_a_cap_is_at_least_one(kit: Kit) -> None:
    with pytest.raises(InvalidInput, match="at least 1"):
        kit.run(admin.count(JobFilter(), cap=0))
