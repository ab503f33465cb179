"""page and count: a text in errors, and values of parameters."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.domain.errors import InvalidInput
from penstock.domain.job_list import Count, JobFilter
from penstock.domain.outcome import Failure
from penstock.domain.states import Status, Trigger
from penstock.storage.commands import admin, control, list_planner, search
from tests.storage.kit import Kit


def _found(kit: Kit, **conditions: Any) -> list[str]:
    return [job.id for job in kit.run(admin.page(JobFilter(**conditions))).jobs]


def _failed(kit: Kit, message: str, kind: str = "ValueError", **options: Any) -> str:
    claimed = kit.running(**options)
    kit.settle(claimed, Trigger.FAIL, failure=Failure(kind, message), retryable=False)
    return claimed.job_id


def _with(kit: Kit, params: object, definition: str = "work", **options: Any) -> str:
    return kit.create(definition, params=json.dumps(params, separators=(",", ":"), ensure_ascii=False), **options)


def test_a_text_in_the_error_finds_the_jobs_whose_error_has_it(kit: Kit) -> None:
    first = _failed(kit, "Order 7 is locked")
    _failed(kit, "Order 8 is gone")
    kit.create("other")
    last = _failed(kit, "everything is locked")

    assert _found(kit, error="is locked") == [last, first]
    assert _found(kit, error="Order 7") == [first]
    assert _found(kit, error="nothing") == []


def test_the_type_of_an_error_is_looked_through_as_well_and_case_does_not_matter(kit: Kit) -> None:
    job_id = _failed(kit, "Order 7", kind="LockError")

    assert _found(kit, error="lockerror: order") == [job_id]
    assert _found(kit, error="LOCKERROR") == [job_id]


def test_a_text_is_taken_to_the_letter(kit: Kit) -> None:
    wanted = _failed(kit, "100 % of 'a_b' \\ Größe")
    _failed(kit, "100 of aXb")

    for text in ("100 %", "a_b", "\\", "'a", "Größe"):
        assert _found(kit, error=text) == [wanted], text


def test_an_error_that_a_later_attempt_left_behind_is_not_found(kit: Kit) -> None:
    claimed = kit.running()
    kit.settle(claimed, Trigger.FAIL, failure=Failure("ValueError", "too early"))
    assert _found(kit, error="too early") == [claimed.job_id]

    kit.advance(3600)
    kit.run(control.cancel([claimed.job_id]))
    kit.run(control.retry([claimed.job_id]))
    (again,) = kit.claim()
    kit.settle(again, Trigger.SUCCEED)

    assert _found(kit, error="too early") == []


def test_what_somebody_said_when_rejecting_a_job_is_found(kit: Kit) -> None:
    job_id = kit.job_in(Status.REVIEW_NEEDED)
    kit.run(control.reject(job_id, by="ada", note="The total is wrong"))

    assert _found(kit, error="total is") == [job_id]
    assert _found(kit, error="rejected:") == [job_id]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "7"), ("7", "7"), (-2.5, "-2.5"), (7.0, "7.0"), (2**63 - 1, "9223372036854775807"), (True, "true"),
        (False, "false"), (None, "null"), ("true", "true"), ("", ""), ("Größe \"a\" \\ {b}", "Größe \"a\" \\ {b}"),
    ],
)  # fmt: skip
def test_a_parameter_is_found_by_its_value(kit: Kit, value: object, text: str) -> None:
    wanted = _with(kit, {"other": "x", "orderId": value})
    _with(kit, {"other": text, "orderId": "another"})
    _with(kit, {"other": text})
    _with(kit, {"inner": {"orderId": value}})

    assert _found(kit, params=(("orderId", text),)) == [wanted]


@pytest.mark.parametrize("name", ["a.b", "with space", 'a"b', "a\\b", "$", "größe", "0", ""])
def test_the_name_of_a_parameter_is_taken_to_the_letter(kit: Kit, name: str) -> None:
    wanted = _with(kit, {name: 1})
    _with(kit, {"a": {"b": 1}, "other": 1})

    assert _found(kit, params=((name, "1"),)) == [wanted]


def test_objects_and_lists_are_not_compared(kit: Kit) -> None:
    """A secret may lie within one of them."""
    _with(kit, {"a": {"b": 1}, "c": [1]})

    assert _found(kit, params=(("a", '{"b":1}'),)) == []
    assert _found(kit, params=(("c", "[1]"),)) == []


def test_several_conditions_all_hold(kit: Kit) -> None:
    wanted = _failed(kit, "locked", params='{"a":1,"b":2}', tags=("red",))
    _failed(kit, "locked", params='{"a":1,"b":3}', tags=("red",))
    _failed(kit, "locked", params='{"a":1,"b":2}')
    _failed(kit, "gone", params='{"a":1,"b":2}', tags=("red",))

    assert _found(kit, error="locked", params=(("a", "1"), ("b", "2")), tag="red") == [wanted]


@pytest.mark.parametrize("sort", ["createdAt", "-createdAt"])
def test_pages_of_a_search_neither_repeat_nor_skip_a_job(kit: Kit, sort: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "PART", 3)
    created = [_with(kit, {"n": n % 2}) for n in range(20)]
    wanted = created[1::2] if sort == "createdAt" else created[1::2][::-1]

    found: list[str] = []
    cursor = None
    while True:
        page = kit.run(admin.page(JobFilter(params=(("n", "1"),)), limit=4, sort=sort, cursor=cursor))
        found += [job.id for job in page.jobs]
        cursor = page.next_cursor
        if cursor is None:
            break

    assert found == wanted


def test_a_search_says_how_many_jobs_it_looked_through_and_goes_on_after_them(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST", 5)
    monkeypatch.setattr(search, "PART", 2)
    oldest = _with(kit, {"n": 1})
    for _ in range(7):
        _with(kit, {"n": 2})
    which = JobFilter(params=(("n", "1"),))

    first = kit.run(admin.page(which))
    second = kit.run(admin.page(which, cursor=first.next_cursor))

    assert (first.jobs, first.searched) == ([], 5)
    assert first.next_cursor is not None
    assert ([job.id for job in second.jobs], second.searched, second.next_cursor) == ([oldest], 3, None)
    assert kit.run(admin.count(which)) == Count(0, capped=True)
    assert kit.run(admin.count(JobFilter(params=(("n", "2"),)))) == Count(5, capped=True)


def test_only_jobs_that_the_other_conditions_leave_are_looked_through(kit: Kit) -> None:
    wanted = _with(kit, {"n": 1}, tags=("red",))
    for _ in range(4):
        _with(kit, {"n": 1}, "other")

    page = kit.run(admin.page(JobFilter(tag="red", params=(("n", "1"),))))

    assert ([job.id for job in page.jobs], page.searched, page.next_cursor) == ([wanted], 1, None)


def test_a_search_passes_only_so_many_jobs_that_its_other_conditions_leave_out(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST_PASSED", 4)
    monkeypatch.setattr(search, "PART", 2)
    monkeypatch.setattr(list_planner, "LITTLE", 0)
    wanted = _failed(kit, "gone", params='{"n":1}')
    for _ in range(5):
        kit.job_in(Status.SUCCEEDED)
    kit.job_in(Status.FAILED)
    which = JobFilter(status=(Status.FAILED, Status.STALE), error="gone")

    first = kit.run(admin.page(which))
    second = kit.run(admin.page(which, cursor=first.next_cursor))

    assert (first.jobs, first.searched) == ([], 1)
    assert ([job.id for job in second.jobs], second.searched, second.next_cursor) == ([wanted], 1, None)


def test_a_search_ends_after_so_many_bytes(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "PART", 2)
    monkeypatch.setattr(search, "MOST_BYTES", 100)
    for _ in range(8):
        _with(kit, {"text": "x" * 30})

    page = kit.run(admin.page(JobFilter(params=(("text", "y"),))))

    assert page.searched == 4
    assert page.next_cursor is not None


def test_a_search_for_a_text_in_errors_does_not_count_parameters(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "PART", 2)
    monkeypatch.setattr(search, "MOST_BYTES", 100)
    for _ in range(8):
        _with(kit, {"text": "x" * 400})

    page = kit.run(admin.page(JobFilter(error="y")))

    assert (page.searched, page.next_cursor) == (8, None)


@pytest.mark.parametrize("sort", ["finishedAt", "-priority"])
def test_a_search_goes_in_order_of_creation_only(kit: Kit, sort: str) -> None:
    with pytest.raises(InvalidInput, match="order of creation"):
        kit.run(admin.page(JobFilter(error="x"), sort=sort))


def test_a_search_is_refused_where_jobs_are_changed_in_bulk(kit: Kit) -> None:
    with pytest.raises(InvalidInput, match="cannot search"):
        kit.run(control.select(JobFilter(error="x"), 10))
