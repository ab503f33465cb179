"""Searches through `penstock.Client` and a real server: a text in errors, values of parameters, secrets, cursors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock import Client, InvalidInput, Penstock
from penstock.domain.outcome import Failure
from penstock.storage.commands import search
from tests.applications import NewApp
from tests.client.calls import Calls
from tests.http.streams import StreamServer
from tests.operations.hand import Hand


@pytest.fixture
def app(new_app: NewApp) -> Penstock:
    made = new_app()

    @made.job("ship", secret=["pin"])
    def ship(
        order_id: int | str | None = None, urgent: bool = False, region: str = "", pin: str = "", access_token: str = ""
    ) -> None: ...

    @made.job("mail")
    def mail(order_id: int = 0, pin: str = "") -> None: ...

    made.definitions.register()
    return made


@pytest.fixture
def client(app: Penstock, new_app: NewApp) -> Iterator[Client]:
    server = StreamServer(new_app())
    with Client(server.url) as made:
        yield made
    server.stop()


@pytest.fixture(params=["plain", "async"])
def calls(request: pytest.FixtureRequest, client: Client) -> Calls:
    return Calls(client, request.param == "async")


def ship(app: Penstock, **params: Any) -> str:
    return app.enqueue("ship", params).id


@pytest.mark.parametrize("value", [7, "7"])
def test_jobs_are_found_by_the_value_of_a_parameter(calls: Calls, app: Penstock, value: object) -> None:
    wanted = [ship(app, order_id=7), ship(app, order_id="7")]
    ship(app, order_id=8)

    page = calls.jobs.list(params={"order_id": value})

    assert [job.id for job in page.jobs] == wanted[::-1]
    assert (page.searched, page.next_cursor) == (3, None)


@pytest.mark.parametrize(
    "params",
    [{"urgent": True}, {"order_id": None, "region": "Köln & co = 1/2 #3+4%20"}, {"region": "", "urgent": True}],
    ids=str,
)
def test_a_value_reaches_the_server_as_it_is(calls: Calls, app: Penstock, params: dict[str, Any]) -> None:
    wanted = ship(app, **params)
    ship(app, order_id=1, urgent=False, region="Köln")

    assert [job.id for job in calls.jobs.list(params=params).jobs] == [wanted]


def test_jobs_are_found_by_a_text_in_their_error(calls: Calls, app: Penstock) -> None:
    hand = Hand(app)
    failed = [ship(app, order_id=number) for number in (7, 8)]
    claimed = {each.job_id: each for each in hand.claim()}
    for each in failed:
        hand.end(claimed[each], hand.failing(Failure("ValueError", "The order is locked")))
    ship(app, order_id=7)

    both = calls.jobs.list(error="IS locked")
    one = calls.jobs.list(error="valueerror: the", params={"order_id": 7}, status="failed")

    assert {job.id for job in both.jobs} == set(failed)
    assert ([job.id for job in one.jobs], one.searched) == ([failed[0]], 2)
    assert calls.jobs.list(error="is open").jobs == []
    assert calls.jobs.list().searched is None


def test_a_search_goes_on_after_its_cursor(calls: Calls, app: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST", 2)
    wanted = [ship(app, order_id=number % 4) for number in range(9)][3::4]

    first = calls.jobs.list(params={"order_id": 3})
    second = calls.jobs.list(params={"order_id": 3}, cursor=first.next_cursor)

    assert ([job.id for job in first.jobs], first.searched) == ([wanted[1]], 2)
    assert ([job.id for job in second.jobs], second.searched) == ([], 2)
    assert second.next_cursor is not None
    assert calls.all_jobs(params={"order_id": 3}) == wanted[::-1]


@pytest.mark.parametrize("within", [{}, {"definition_key": "ship"}], ids=str)
def test_a_secret_parameter_is_not_searched(calls: Calls, app: Penstock, within: dict[str, str]) -> None:
    ship(app, pin="1234")

    with pytest.raises(InvalidInput, match="'pin' is a secret parameter of ship") as refused:
        calls.jobs.list(params={"pin": "1234"}, **within)

    assert "definition_key=" in str(refused.value.hint)
    with pytest.raises(InvalidInput, match="secret parameter of ship"):
        calls.all_jobs(params={"pin": "1234"}, **within)
    with pytest.raises(InvalidInput, match="name of a secret"):
        calls.jobs.list(params={"access_token": "1234"}, **within)


def test_a_parameter_that_is_secret_elsewhere_is_searched_within_a_definition(calls: Calls, app: Penstock) -> None:
    wanted = app.enqueue("mail", {"pin": "1234"}).id
    ship(app, pin="1234")

    assert [job.id for job in calls.jobs.list(definition_key="mail", params={"pin": "1234"}).jobs] == [wanted]


def test_a_search_by_something_else_than_a_value_or_in_bulk_is_refused(calls: Calls) -> None:
    with pytest.raises(InvalidInput, match="not list"):
        calls.jobs.list(params={"order_id": [7]})
    with pytest.raises(InvalidInput, match="order of creation"):
        calls.jobs.list(error="x", sort="-priority")
    with pytest.raises(InvalidInput, match="bulk changes cannot search"):
        calls.jobs.bulk("cancel", dry_run=True, params={"order_id": 7})
