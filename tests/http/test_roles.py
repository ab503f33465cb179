"""Every route with every role, and with tokens that open nothing: made from the document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import schemathesis

from penstock import Penstock
from penstock.domain.access import Role
from penstock.storage.commands import admin
from tests.http.asgi_api import WebApi, refused, told
from tests.http.conftest import NewSite
from tests.http.document import operations, served
from tests.waiting import wait_until

OPERATIONS = operations()
OF_THE_FRAMEWORK = {("GET", "/openapi.json"), ("HEAD", "/openapi.json")}
REFUSED = (401, 403)


@pytest.fixture(params=[(), ("https://ops.example.org",)], ids=["fast-path", "framework"])
def closed(request: pytest.FixtureRequest, new_site: NewSite) -> WebApi:
    """A server for which there is a token; with origins, no route leaves the framework."""
    site = new_site(failed_tokens=100_000, origins=request.param)
    site.token("super_admin")
    return site


def answers(site: WebApi, token: str | None) -> dict[str, int]:
    """What each operation answers to a request that has this token and nothing else to it."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    found = site.requests((each.method, each.at(), {"headers": headers}) for each in OPERATIONS)
    return {str(each): answer.status_code for each, answer in zip(OPERATIONS, found, strict=True)}


def expected(verdict: Callable[[Role], bool], refusal: int) -> dict[str, int | None]:
    """The refusal of each operation whose role has this verdict; None: it is not refused."""
    return {str(each): refusal if each.role is not None and verdict(each.role) else None for each in OPERATIONS}


def refusals(found: dict[str, int]) -> dict[str, int | None]:
    return {name: status if status in REFUSED else None for name, status in found.items()}


def test_without_a_token_nothing_is_done_but_what_everybody_may(closed: WebApi) -> None:
    assert refusals(answers(closed, None)) == expected(lambda _: True, 401)


@pytest.mark.parametrize("wrong", ["pst_wrong", "pst_AAAAAAAAAAA_" + "A" * 43 + "_AAAAAA", "x" * 400])
def test_a_wrong_token_opens_nothing(closed: WebApi, wrong: str) -> None:
    assert refusals(answers(closed, wrong)) == expected(lambda _: True, 401)


def test_an_expired_token_opens_nothing_whatever_its_role_was(closed: WebApi, app: Penstock) -> None:
    text = closed.token("super_admin", "short", expires_in=0.001)
    wait_until(lambda: app.tokens.count_usable() == 1, "the token has expired")

    assert refusals(answers(closed, text)) == expected(lambda _: True, 401)


def test_a_revoked_token_opens_nothing_whatever_its_role_was(closed: WebApi, app: Penstock) -> None:
    made = app.tokens.create("gone", "super_admin")
    app.tokens.revoke(made.token.id)

    assert refusals(answers(closed, made.text)) == expected(lambda _: True, 401)


def test_a_server_stays_closed_when_its_last_token_has_ended_and_retention_has_removed_it(
    app: Penstock, new_site: NewSite
) -> None:
    app.tokens.revoke(app.tokens.create("gone", "super_admin").token.id)
    refused(new_site().get("/v1/jobs"), 401, "unauthenticated")

    wait_until(lambda: app.store.run(admin.tidy(0)) == 0 and not app.tokens.list(), "retention has removed the token")

    site = new_site()
    refused(site.get("/v1/jobs"), 401, "unauthenticated")
    refused(site.post("/v1/tokens", {"name": "mine", "role": "super_admin"}), 401, "unauthenticated")
    assert told(site.get("/v1/session"))["closed"] is True


@pytest.mark.parametrize("role", list(Role))
def test_a_role_opens_what_it_covers_and_nothing_else(closed: WebApi, role: Role) -> None:
    found = answers(closed, closed.token(role))

    assert refusals(found) == expected(lambda needed: not role.covers(needed), 403)
    assert all(status < 500 for status in found.values()), found


def test_each_role_has_something_that_the_one_below_it_may_not() -> None:
    assert {each.role for each in OPERATIONS} == {None, *Role}


def test_what_is_served_is_what_the_document_tells(site: WebApi) -> None:
    told = {(each.method, each.path) for each in OPERATIONS}

    assert set(served(site.web)) == told | OF_THE_FRAMEWORK


def test_a_method_that_the_document_does_not_tell_is_refused_everywhere(site: WebApi) -> None:
    paths = sorted({each.at() for each in OPERATIONS})

    found = site.requests((method, path, {}) for path in paths for method in ("TRACE", "PROPFIND", "HEAD", "OPTIONS"))

    for answer in found:
        assert answer.status_code == 405, (answer.request.method, answer.request.url.path)


def test_the_document_is_a_valid_one(site: WebApi) -> None:
    sent: dict[str, Any] = site.get("/openapi.json").json()

    assert sent["paths"].keys() == {each.path for each in OPERATIONS}
    assert sent["openapi"].startswith("3.1.")
    schemathesis.openapi.from_dict(sent).validate()
