"""`GET /v1/jobs?error=…&params.orderId=7`: searches, what they say of themselves, and what they refuse."""

from __future__ import annotations

import pytest

from penstock import Penstock
from penstock.config.server_settings import WebSettings
from penstock.domain.outcome import Failure
from penstock.domain.secrets.policy import SecretPolicy
from penstock.storage.commands import search
from tests.http.asgi_api import WebApi, refused, told
from tests.operations.hand import Hand


@pytest.fixture
def hand(app: Penstock) -> Hand:
    @app.job("ship", secret=["pin"])
    def ship(orderId: int = 0, region: str = "", pin: str = "", access_token: str = "") -> None: ...

    app.definitions.register()
    return Hand(app)


def test_jobs_are_found_by_error_and_parameters(site: WebApi, hand: Hand) -> None:
    ids = [site.app.enqueue("ship", {"orderId": 7, "region": each}).id for each in ("north", "south")]
    other = site.app.enqueue("ship", {"orderId": 8}).id
    claimed = {each.job_id: each for each in hand.claim()}
    for each in (ids[0], other):
        hand.end(claimed[each], hand.failing(Failure("ValueError", "The order is locked")))

    both = told(site.get("/v1/jobs?params.orderId=7&error=IS%20locked&count=true"))
    one = told(site.get("/v1/jobs?params.orderId=7&params.region=south"))
    none = told(site.get("/v1/jobs"))

    assert ([each["jobId"] for each in both["jobs"]], both["count"], both["countCapped"]) == ([ids[0]], 1, False)
    assert both["searched"] == 3
    assert [each["jobId"] for each in one["jobs"]] == [ids[1]]
    assert none["searched"] is None


def test_a_search_that_has_looked_through_enough_has_a_cursor_and_a_capped_count(
    site: WebApi, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST", 2)
    wanted = site.app.enqueue("ship", {"orderId": 7}).id
    for _ in range(3):
        site.app.enqueue("ship", {"orderId": 8})

    first = told(site.get("/v1/jobs?params.orderId=7&count=true"))
    second = told(site.get(f"/v1/jobs?params.orderId=7&cursor={first['nextCursor']}"))

    assert (first["jobs"], first["searched"], first["count"], first["countCapped"]) == ([], 2, 0, True)
    assert ([each["jobId"] for each in second["jobs"]], second["searched"]) == ([wanted], 2)


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("params.pin=1", "secret parameter of ship"), ("params.access_token=1", "name of a secret"),
        ("params.=1", "unknown here"), ("params=1", "unknown here"), ("params.a=1&params.a=2", "more than once"),
        ("error=", "1 to 500 characters"), ("error=x&sort=-priority", "order of creation"), ("eror=x", "unknown here"),
    ],
)  # fmt: skip
def test_what_cannot_be_searched_is_refused_with_the_reason(site: WebApi, hand: Hand, query: str, problem: str) -> None:
    error = refused(site.get(f"/v1/jobs?{query}"), 422, "invalid_request")

    assert problem in error["message"]
    if "eror" in query:
        assert "'error'" in error["hint"]


@pytest.mark.parametrize("which", [{"error": "x"}, {"params": {"orderId": "7"}}, {"params.orderId": "7"}])
def test_a_change_in_bulk_cannot_search(site: WebApi, hand: Hand, which: dict[str, object]) -> None:
    answer = site.post("/v1/jobs/bulk", {"action": "cancel", "filter": which, "dryRun": True})

    error = refused(answer, 422, "invalid_request")
    assert "send their ids as jobId" in str(error)


def test_names_of_secrets_are_those_that_the_server_was_configured_with(
    app: Penstock, hand: Hand, portal: object
) -> None:
    site = WebApi(app, portal, WebSettings(secrets=SecretPolicy(("region",))))

    refused(site.get("/v1/jobs?params.region=north"), 422, "invalid_request")
    told(site.get("/v1/jobs?params.access_token=1"))
