"""`GET /v1/jobs?count=true`: how many there are, beside one page of them."""

from __future__ import annotations

import pytest

from penstock import Penstock
from penstock.http import answers
from tests.http.asgi_api import WebApi, told
from tests.operations.hand import Hand


@pytest.fixture
def hand(app: Penstock) -> Hand:
    @app.job("work")
    def work(n: int = 0) -> None: ...

    app.definitions.register()
    return Hand(app)


def _counted(site: WebApi, query: str) -> tuple[int, bool, int]:
    found = told(site.get(f"/v1/jobs?count=true&{query}"))
    return found["count"], found["countCapped"], len(found["jobs"])


@pytest.mark.parametrize("cap", [1, 10_000])
def test_a_page_that_holds_everything_is_counted_whatever_the_cap(
    site: WebApi, hand: Hand, monkeypatch: pytest.MonkeyPatch, cap: int
) -> None:
    monkeypatch.setattr(answers, "_MOST_COUNTED", cap)
    for _ in range(3):
        site.app.enqueue("work", tags=["red"])

    assert _counted(site, "tag=red&definitionKey=work") == (3, False, 3)
    assert _counted(site, "tag=blue") == (0, False, 0)


def test_a_list_by_end_is_counted_with_what_has_not_ended(site: WebApi, hand: Hand) -> None:
    hand.succeed(site.app.enqueue("work").id)
    site.app.enqueue("work")

    assert _counted(site, "sort=-finishedAt") == (2, False, 1)


def test_the_last_page_is_not_taken_for_all_of_them(site: WebApi, hand: Hand) -> None:
    for _ in range(3):
        site.app.enqueue("work")
    cursor = told(site.get("/v1/jobs?limit=2"))["nextCursor"]

    assert _counted(site, f"limit=2&cursor={cursor}") == (3, False, 1)


def test_a_count_that_ends_early_says_so_and_is_not_below_what_the_page_shows(
    site: WebApi, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "_MOST_COUNTED", 1)
    for _ in range(4):
        site.app.enqueue("work")

    assert _counted(site, "limit=3") == (3, True, 3)
