"""Searches in Python: a text in errors, values of parameters, and what must not be searched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock import InvalidInput, Penstock
from penstock.domain.outcome import Failure
from penstock.storage.commands import search
from tests.operations.hand import Hand


@pytest.fixture
def order(app: Penstock) -> Callable[..., str]:
    @app.job("ship", secret=["pin"])
    def ship(order_id: int | str | None = None, pin: str = "") -> None: ...

    @app.job("mail")
    def mail(order_id: int = 0, pin: str = "") -> None: ...

    app.definitions.register()
    return lambda key="ship", **params: app.enqueue(key, params).id


@pytest.mark.parametrize("value", [7, "7"])
def test_jobs_are_found_by_the_value_of_a_parameter(app: Penstock, order: Callable[..., str], value: object) -> None:
    wanted = [order(order_id=7), order(order_id="7")]
    order(order_id=8)

    page = app.jobs.list(params={"order_id": value})

    assert [job.id for job in page.jobs] == wanted[::-1]
    assert (page.searched, page.next_cursor) == (3, None)
    assert app.jobs.count(params={"order_id": value}).value == 2


def test_jobs_are_found_by_a_text_in_their_error(app: Penstock, order: Callable[..., str]) -> None:
    hand = Hand(app)
    job_id = order()
    hand.fail(job_id, Failure("ValueError", "Order 7 is locked"))
    order()

    assert [job.id for job in app.jobs.list(error="order 7").jobs] == [job_id]
    assert app.jobs.count(error="order 8").value == 0


async def test_all_that_fit_are_read_however_many_pages_a_search_takes(
    app: Penstock, order: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST", 2)
    wanted = [order(order_id=n % 4) for n in range(9)][3::4]

    assert [job.id for job in app.jobs.iterate(params={"order_id": 3})] == wanted[::-1]
    assert [job.id async for job in app.jobs.aiterate(params={"order_id": 3})] == wanted[::-1]
    await app.aclose()


def test_secret_parameters_cannot_be_searched(app: Penstock, order: Callable[..., str]) -> None:
    order(pin="1234")

    within: Any
    for within in ({}, {"definition_key": "ship"}):
        with pytest.raises(InvalidInput, match="'pin' is a secret parameter of ship") as refused:
            app.jobs.list(params={"pin": "1234"}, **within)
        assert "definition_key=" in str(refused.value.hint)
    with pytest.raises(InvalidInput, match="secret"):
        app.jobs.count(params={"pin": "1234"})


def test_what_is_secret_elsewhere_can_be_searched_within_a_definition_where_it_is_not(
    app: Penstock, order: Callable[..., str]
) -> None:
    wanted = order("mail", pin="1234")
    order(pin="1234")

    assert [job.id for job in app.jobs.list(definition_key="mail", params={"pin": "1234"}).jobs] == [wanted]


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({}, "1 to 20 parameters"), ("x", "1 to 20 parameters"), ({str(n): 1 for n in range(21)}, "1 to 20"),
        ({"a": {"b": 1}}, "a text, a number, true, false or null, not dict"), ({"a": [1]}, "not list"),
        ({"a": float("nan")}, "the value of 'a'"), ({"a\x00": 1}, "NUL"), ({5: 1}, "must be a text"),
        ({"a": "x" * 501}, "1 to 500 characters"), ({"": 1}, "1 to 500 characters"),
    ],
)  # fmt: skip
def test_what_cannot_be_searched_for_is_refused(memory_app: Penstock, params: Any, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        memory_app.jobs.list(params=params)


def test_a_change_in_bulk_cannot_search(app: Penstock, order: Callable[..., str]) -> None:
    order(order_id=7)

    for which in ({"params": {"order_id": 7}}, {"error": "x"}):
        with pytest.raises(InvalidInput, match="bulk cannot search") as refused:
            app.jobs.bulk("cancel", dry_run=True, **which)
        assert "job_id=" in str(refused.value.hint)
