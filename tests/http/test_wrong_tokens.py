"""How many wrong tokens are answered: of each network and of all together, and never at the cost of valid ones."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import Penstock
from tests.http.asgi_api import WebApi, refused, told
from tests.http.conftest import NewSite

WRONG = {"Authorization": "Bearer pst_wrong"}


def refusals(site: WebApi, *clients: str) -> list[int]:
    """The statuses of requests with a wrong token from these addresses, one after the other."""
    return [site.get("/v1/jobs", headers=WRONG, client=client).status_code for client in clients]


def test_addresses_of_one_ipv6_network_share_their_wrong_tokens(new_site: NewSite) -> None:
    site = new_site(failed_tokens=3)
    site.token("viewer")

    assert refusals(site, *(f"2001:db8:0:1::{number:x}" for number in range(1, 6))) == [401] * 3 + [429] * 2

    assert refusals(site, "2001:db8:0:2::1", "192.0.2.1", "unix") == [401] * 3


def test_an_ipv4_address_written_as_ipv6_is_the_same_address(new_site: NewSite) -> None:
    site = new_site(failed_tokens=2)
    site.token("viewer")

    assert refusals(site, "192.0.2.1", "::ffff:192.0.2.1", "::ffff:192.0.2.1", "192.0.2.1") == [401, 401, 429, 429]

    assert refusals(site, "::ffff:192.0.2.2", "192.0.2.3") == [401, 401]


def test_wrong_tokens_of_all_addresses_together_are_limited_and_valid_ones_are_not(new_site: NewSite) -> None:
    site = new_site(failed_tokens=2, failed_tokens_total=5)
    valid = site.token("viewer")

    found = refusals(site, *(f"192.0.2.{number}" for number in range(8)))

    assert found == [401] * 5 + [429] * 3
    answer = site.get("/v1/jobs", headers=WRONG, client="198.51.100.1")
    refused(answer, 429, "rate_limited")
    assert 1 <= int(answer.headers["retry-after"]) <= 61
    for address in ("192.0.2.7", "198.51.100.1"):
        told(site.get("/v1/jobs", headers={"Authorization": f"Bearer {valid}"}, client=address))
        told(site.post("/v1/session", {"token": valid}, client=address), 201)


def test_a_browser_whose_session_is_over_can_sign_in_however_many_wrong_tokens_came(new_site: NewSite) -> None:
    site = new_site(failed_tokens=2, failed_tokens_total=3)
    valid = site.token("viewer")
    assert refusals(site, "192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2") == [401, 401, 429, 429]
    browser = {"Cookie": "penstock_session=pss_over", "Sec-Fetch-Site": "same-origin"}

    for address in ("192.0.2.1", "192.0.2.9"):
        assert told(site.get("/v1/session", headers=browser, client=address))["role"] is None
        told(site.post("/v1/session", {"token": valid}, headers=browser, client=address), 201)
        told(site.get("/healthz", headers=browser, client=address))
        refused(site.get("/v1/session", headers=WRONG, client=address), 429, "rate_limited")


@pytest.mark.parametrize("batch", [False, True])
def test_addresses_of_one_ipv6_network_share_one_creation_limit(new_site: NewSite, app: Penstock, batch: bool) -> None:
    app.job("any")(_any)
    app.definitions.register()
    site = new_site(anonymous_create=True, creation_limit=2, creation_period=600)
    site.token("viewer")
    path: str = "/v1/jobs"
    body: dict[str, Any] = {"definitionKey": "any", "params": {}}
    if batch:
        path, body = "/v1/jobs/batch", {"jobs": [body]}

    found = [site.post(path, body, client=f"2001:db8:0:1::{number}").status_code for number in range(1, 5)]

    assert found == [201, 201, 429, 429]
    told(site.post(path, body, client="2001:db8:0:2::1"), 201)


def test_the_actor_of_a_job_is_the_address_and_not_its_network(new_site: NewSite, app: Penstock) -> None:
    app.job("any")(_any)
    app.definitions.register()
    site = new_site(anonymous_create=True)
    site.token("viewer")

    made = told(site.post("/v1/jobs", {"definitionKey": "any", "params": {}}, client="2001:db8:0:1::9"), 201)

    assert app.jobs.read(made["jobId"]).actor == "anonymous@2001:db8:0:1::9"


def _any() -> None: ...
