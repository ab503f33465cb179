"""count: how many jobs a filter speaks of."""

from __future__ import annotations

import pytest

from penstock.domain.errors import InvalidInput
from penstock.domain.job_list import Count, JobFilter
from penstock.domain.states import Status
from penstock.storage.commands import admin, listing
from tests.storage.kit import Kit


def test_an_empty_store_has_no_jobs(kit: Kit) -> None:
    assert kit.run(admin.count(JobFilter())) == Count(0, capped=False)


def test_only_what_the_filter_speaks_of_is_counted(kit: Kit) -> None:
    for _ in range(3):
        kit.create(tags=("red",))
    kit.create("other", tags=("red",))
    kit.job_in(Status.SCHEDULED)

    assert kit.run(admin.count(JobFilter())) == Count(5, capped=False)
    assert kit.run(admin.count(JobFilter(tag="red"))) == Count(4, capped=False)
    assert kit.run(admin.count(JobFilter(tag="red", definition_key="work"))) == Count(3, capped=False)
    assert kit.run(admin.count(JobFilter(status=(Status.SCHEDULED,)))) == Count(1, capped=False)
    assert kit.run(admin.count(JobFilter(definition_key="unknown"))) == Count(0, capped=False)


@pytest.mark.parametrize(("cap", "answer"), [(2, Count(2, True)), (3, Count(3, False)), (4, Count(3, False))])
def test_counting_ends_at_the_cap_and_says_so(kit: Kit, cap: int, answer: Count) -> None:
    for _ in range(3):
        kit.create()

    assert kit.run(admin.count(JobFilter(), cap=cap)) == answer


@pytest.mark.parametrize(("cap", "answer"), [(20, Count(20, True)), (21, Count(21, False)), (22, Count(21, False))])
def test_the_cap_is_kept_although_a_few_more_are_looked_at(kit: Kit, cap: int, answer: Count) -> None:
    for _ in range(21):
        kit.create()

    assert kit.run(admin.count(JobFilter(), cap=cap)) == answer


@pytest.mark.parametrize(("cap", "answer"), [(2, Count(0, True)), (4, Count(1, True)), (5, Count(1, False))])
def test_a_count_that_has_looked_at_enough_says_that_there_may_be_more(kit: Kit, cap: int, answer: Count) -> None:
    for _ in range(4):
        kit.create(tags=("red",))
        kit.create("other")
    kit.create("other", tags=("red",))

    assert kit.run(admin.count(JobFilter(tag="red", definition_key="other"), cap=cap)) == answer


@pytest.mark.parametrize(("cap", "answer"), [(3, Count(2, True)), (4, Count(2, True)), (12, Count(3, False))])
def test_a_count_looks_at_fewer_where_more_has_to_be_looked_up(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, cap: int, answer: Count
) -> None:
    monkeypatch.setattr(listing, "LOOKED_UP", 2)
    for _ in range(3):
        kit.create(tags=("red",), reference_type="order", reference_id="1")
    kit.create(reference_type="order", reference_id="1")

    assert kit.run(admin.count(JobFilter(tag="red", reference_type="order"), cap=cap)) == answer


def test_a_cap_is_at_least_one(kit: Kit) -> None:
    with pytest.raises(InvalidInput, match="at least 1"):
        kit.run(admin.count(JobFilter(), cap=0))
