"""`/v1/tokens` and `/v1/session`."""

from __future__ import annotations

from http.cookies import SimpleCookie
from typing import Any

import httpx2
import pytest

from penstock import Penstock
from tests.http.asgi_api import WebApi, refused, told
from tests.http.conftest import NewSite
from tests.storage.tables import dump

SECURE = "https://jobs.example.org"
OURS = {"Sec-Fetch-Site": "same-origin"}
"""What browsers say of a page of the same server."""


def cookie_of(answer: httpx2.Response) -> Any:
    jar: SimpleCookie = SimpleCookie()
    jar.load(answer.headers["set-cookie"])
    ((name, morsel),) = jar.items()
    return name, morsel


def test_the_text_of_a_token_is_told_once_and_opens_the_door(site: WebApi) -> None:
    made = told(site.post("/v1/tokens", {"name": "ci", "role": "super_admin", "expiresIn": 3600}), 201)

    text = made.pop("token")
    assert (made["name"], made["role"], made["createdBy"]) == ("ci", "super_admin", "local")
    assert site.newest_audit("token.create").target == made["tokenId"]
    refused(site.get("/v1/tokens"), 401, "unauthenticated")
    listed = site.get("/v1/tokens", headers={"Authorization": f"Bearer {text}"})
    assert [each["tokenId"] for each in told(listed)["tokens"]] == [made["tokenId"]]
    assert text not in listed.text
    assert text not in str(dump(site.app.store))


def test_a_revoked_token_opens_nothing(site: WebApi) -> None:
    with site.as_("super_admin"):
        made = told(site.post("/v1/tokens", {"name": "gone", "role": "viewer"}), 201)
        told(site.get("/v1/jobs", headers={"Authorization": f"Bearer {made['token']}"}))

        told(site.delete(f"/v1/tokens/{made['tokenId']}"), 204)

        site.newest_audit("token.revoke")
        answer = site.get("/v1/jobs", headers={"Authorization": f"Bearer {made['token']}"})
        refused(answer, 401, "unauthenticated")
        refused(site.delete("/v1/tokens/AAAAAAAAAAA"), 404, "not_found")
        refused(site.delete(f"/v1/tokens/{made['token']}"), 422, "invalid_request")


@pytest.mark.parametrize(
    "body",
    [
        {"name": "x", "role": "root"}, {"name": "", "role": "admin"}, {"role": "admin"},
        {"name": "x", "role": "admin", "expiresIn": 0}, {"name": "x", "role": "admin", "expiresIn": -5},
        {"name": "x", "role": "admin", "expiresIn": 1e30},
    ],
)  # fmt: skip
def test_a_token_that_cannot_be_made_is_refused(site: WebApi, body: dict[str, Any]) -> None:
    refused(site.post("/v1/tokens", body), 422, "invalid_request")


def test_only_super_admins_see_tokens(site: WebApi) -> None:
    with site.as_("admin"):
        refused(site.get("/v1/tokens"), 403, "forbidden")
        refused(site.post("/v1/tokens", {"name": "x", "role": "viewer"}), 403, "forbidden")


def test_a_session_is_begun_with_a_token_and_known_by_a_cookie_that_no_script_reads(site: WebApi) -> None:
    text = site.token("admin")

    answer = site.post("/v1/session", {"token": text})

    assert told(answer, 201)["role"] == "admin"
    name, cookie = cookie_of(answer)
    assert name == "penstock_session"
    assert (cookie["httponly"], cookie["samesite"], cookie["secure"], cookie["path"]) == (True, "strict", "", "/")
    assert text not in answer.text + answer.headers["set-cookie"]
    known = {"Cookie": f"{name}={cookie.value}"}
    assert told(site.get("/v1/session", headers=known)) == told(answer, 201)
    told(site.post("/v1/system/pause", {"reason": "x"}, headers={**known, **OURS}))
    assert site.newest_audit("system.pause").actor == "token:a admin"
    site.newest_audit("session.create")


def test_over_https_the_cookie_belongs_to_this_very_host(site: WebApi) -> None:
    answer = site.post("/v1/session", {"token": site.token("admin")}, base=SECURE)

    name, cookie = cookie_of(answer)
    assert (name, cookie["secure"], cookie["path"], cookie["domain"]) == ("__Host-penstock_session", True, "/", "")
    known = {"Cookie": f"{name}={cookie.value}"}
    assert told(site.get("/v1/session", headers=known, base=SECURE))["role"] == "admin"


def test_a_session_that_was_ended_opens_nothing_and_another_can_begin(site: WebApi) -> None:
    text = site.token("admin")
    name, cookie = cookie_of(site.post("/v1/session", {"token": text}))
    known = {"Cookie": f"{name}={cookie.value}", **OURS}

    ended = site.delete("/v1/session", headers=known)

    told(ended, 204)
    assert cookie_of(ended)[1]["max-age"] == "0"
    site.newest_audit("session.end")
    refused(site.get("/v1/jobs", headers=known), 401, "unauthenticated")
    assert told(site.get("/v1/session", headers=known))["role"] is None
    told(site.post("/v1/session", {"token": text}, headers=known), 201)
    told(site.delete("/v1/session", headers=known), 204)


@pytest.mark.parametrize("origin", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}, {}])
def test_a_session_changes_nothing_where_a_browser_does_not_say_that_the_page_is_ours(
    site: WebApi, origin: dict[str, str]
) -> None:
    name, cookie = cookie_of(site.post("/v1/session", {"token": site.token("admin")}))
    known = {"Cookie": f"{name}={cookie.value}", **origin}

    refused(site.post("/v1/system/pause", {"reason": "x"}, headers=known), 403, "forbidden")
    refused(site.delete("/v1/session", headers=known), 403, "forbidden")
    told(site.get("/v1/jobs", headers={"Cookie": known["Cookie"]}))


def test_a_wrong_token_begins_no_session_and_many_of_them_make_wait(new_site: NewSite) -> None:
    site = new_site(failed_tokens=3)
    good = site.token("admin")

    for _ in range(3):
        refused(site.post("/v1/session", {"token": "pst_wrong"}), 401, "unauthenticated")

    answer = site.post("/v1/session", {"token": "pst_wrong"})
    refused(answer, 429, "rate_limited")
    assert 1 <= int(answer.headers["retry-after"]) <= 61
    # Who shares the address with whoever tried is not shut out.
    told(site.post("/v1/session", {"token": good}), 201)


def test_whoever_asks_is_told_who_they_are(site: WebApi) -> None:
    local = told(site.get("/v1/session"))
    assert (local["role"], local["name"], local["closed"]) == ("super_admin", "local", False)

    with site.as_("viewer"):
        known = told(site.get("/v1/session"))
        assert (known["role"], known["name"], known["closed"]) == ("viewer", "token:a viewer", True)
    assert told(site.get("/v1/session"))["role"] is None
    assert told(site.get("/v1/session", headers={"Authorization": "Bearer nonsense"}))["role"] is None


def test_a_session_ends_with_its_token(site: WebApi, app: Penstock) -> None:
    made = app.tokens.create("short", "viewer")
    name, cookie = cookie_of(site.post("/v1/session", {"token": made.text}))

    app.tokens.revoke(made.token.id)

    refused(site.get("/v1/jobs", headers={"Cookie": f"{name}={cookie.value}"}), 401, "unauthenticated")
