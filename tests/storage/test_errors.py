"""errors: failures that look alike, the newest first, page by page."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from penstock.domain.errors import InvalidInput
from penstock.domain.instant import DAY, HOUR, to_datetime
from penstock.domain.outcome import Failure
from penstock.domain.states import Status, Trigger
from penstock.domain.stats import ErrorGroup, ErrorPage
from penstock.storage.commands import admin, control, stats
from tests.storage.kit import START, Kit


def fail(kit: Kit, mark: str, definition: str = "work", message: str = "broken", **facts: Any) -> str:
    """A job that has failed for good; the id."""
    claimed = kit.running(definition)
    failure = Failure("ValueError", message, "Traceback", mark)
    kit.settle(claimed, Trigger.FAIL, failure=failure, retryable=False, **facts)
    return claimed.job_id


def marks(page: ErrorPage) -> list[str]:
    return [each.fingerprint for each in page.errors]


def test_a_store_without_failures_has_no_errors(kit: Kit) -> None:
    kit.job_in(Status.SUCCEEDED)
    kit.job_in(Status.CANCELLED)

    assert kit.run(admin.errors()) == ErrorPage([], None, capped=False)


def test_failures_that_look_alike_stand_together(kit: Kit) -> None:
    claimed = kit.running()
    kit.settle(claimed, Trigger.FAIL, failure=Failure("ValueError", "first", "Traceback", "a"))
    kit.advance(20)
    kit.run(control.reschedule(claimed.job_id))
    (again,) = kit.claim()
    kit.settle(again, Trigger.FAIL, failure=Failure("ValueError", "second", "Traceback", "a"), retryable=False)
    kit.advance(5)
    other = fail(kit, "a", message="\nthird line\nwith more")

    (group,) = kit.run(admin.errors()).errors

    assert group == ErrorGroup(
        "a", "work", "ValueError", "third line", 2, 3, to_datetime(START), to_datetime(START + 25_000_000), other
    )


def test_the_same_mark_in_two_definitions_is_two_errors(kit: Kit) -> None:
    first = fail(kit, "exit-1", "mail")
    kit.advance(1)
    second = fail(kit, "exit-1", "report")

    page = kit.run(admin.errors())

    assert [(each.definition_key, each.job_id) for each in page.errors] == [("report", second), ("mail", first)]


def test_versions_of_a_definition_count_as_one(kit: Kit) -> None:
    kit.define("work", version=1)
    fail(kit, "a")
    kit.define("work", version=2)
    fail(kit, "a")

    assert [each.jobs for each in kit.run(admin.errors()).errors] == [2]


def test_only_failures_since_an_instant_count(kit: Kit) -> None:
    fail(kit, "old")
    kit.advance(3600)
    at = kit.now
    fail(kit, "new")

    assert marks(kit.run(admin.errors(at))) == ["new"]
    assert marks(kit.run(admin.errors(at - HOUR))) == ["new", "old"]
    assert marks(kit.run(admin.errors(at + 1))) == []


def test_without_an_instant_a_day_is_looked_at(kit: Kit) -> None:
    fail(kit, "old")
    kit.now += DAY
    assert marks(kit.run(admin.errors())) == ["old"]

    kit.now += 1

    assert marks(kit.run(admin.errors())) == []


def test_pages_neither_repeat_nor_skip_when_more_fails_meanwhile(kit: Kit) -> None:
    for mark in ("a", "b", "c", "c2", "d"):
        fail(kit, mark)
        kit.advance(0 if mark == "c" else 1)

    first = kit.run(admin.errors(limit=2))
    kit.advance(1)
    fail(kit, "a")
    fail(kit, "e")
    second = kit.run(admin.errors(limit=2, cursor=first.next_cursor))
    third = kit.run(admin.errors(limit=2, cursor=second.next_cursor))

    assert [marks(page) for page in (first, second, third)] == [["d", "c"], ["c2", "b"], ["a"]]
    assert third.next_cursor is None
    assert third.errors[0].attempts == 1
    assert marks(kit.run(admin.errors(limit=2))) == ["a", "e"]


def test_of_many_failures_the_newest_are_looked_at_and_it_is_said(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "LOOK", 3)
    for mark in ("old", "a", "b"):
        fail(kit, mark)
        kit.advance(1)
    assert kit.run(admin.errors(START + 1)).capped is False
    fail(kit, "a")

    page = kit.run(admin.errors())

    assert page.capped
    assert [(each.fingerprint, each.attempts) for each in page.errors] == [("a", 2), ("b", 1)]


def test_what_is_deleted_is_no_error_any_more(kit: Kit) -> None:
    job_id = fail(kit, "a")

    kit.run(control.delete([job_id]))

    assert kit.run(admin.errors()).errors == []


@pytest.mark.parametrize("limit", [0, 501])
def test_a_page_has_its_limits(kit: Kit, limit: int) -> None:
    with pytest.raises(InvalidInput, match="1 to 500 errors"):
        kit.run(admin.errors(limit=limit))


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "ä", *(base64.urlsafe_b64encode(json.dumps(each).encode()).decode() for each in (
        [], [1, 2], 5, [1, 2, 3, 4, 5], ["1", 2, 3, "a", "b"], [2**70, 2, 3, "a", "b"], [1, 2, 3, "a\x00", "b"],
        [True, 2, 3, "a", "b"],
    ))],
)  # fmt: skip
def test_what_is_no_cursor_is_refused(kit: Kit, cursor: str) -> None:
    with pytest.raises(InvalidInput, match="not a cursor"):
        kit.run(admin.errors(cursor=cursor))
