"""`/v1/definitions` and `/v1/system`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from penstock import Penstock
from penstock.domain.definition import Definition
from penstock.storage.commands import admin
from tests.http.asgi_api import WebApi, refused, told
from tests.operations.hand import Hand
from tests.storage.tables import change

KEYS = ("plain", "module.function", "a/b.c:d-e", "x/pause", "x/pause/pause")


class Account(BaseModel):
    user: str = "ann"
    api_key: str = "hunter23"


ANN = Account(api_key="hunter25")


@pytest.fixture
def definitions(app: Penstock) -> Penstock:
    @app.job("mail/send", secret=["password"], default_params={"password": "hunter22", "n": 1})
    def send(n: int, password: str) -> None:
        """Send one."""

    app.definitions.register()
    return app


def test_a_definition_shows_its_handler_its_source_file_and_when_it_was_updated(
    site: WebApi, definitions: Penstock
) -> None:
    (version,) = told(site.get("/v1/definitions/mail/send"))["versions"]

    assert version["handler"] == "tests.http.test_definitions:definitions.<locals>.send"
    assert version["source"].endswith("tests/http/test_definitions.py")
    assert version["updatedAt"] == version["registeredAt"]
    definitions.definitions.register()
    (again,) = told(site.get("/v1/definitions/mail/send"))["versions"]
    assert again["updatedAt"] == version["updatedAt"], "the same again is no update"


# A path that ends in an action is that of the action: keys that do are quoted.
@pytest.mark.parametrize(
    ("key", "quoted"),
    [(key, quoted) for key in KEYS for quoted in (False, True) if quoted or not key.endswith("/pause")],
)
def test_a_key_with_slashes_dots_and_colons_is_found_quoted_or_not(site: WebApi, key: str, quoted: bool) -> None:
    site.app.store.run(admin.register([Definition(each) for each in KEYS]))
    path = key.replace("/", "%2F").replace(":", "%3A") if quoted else key

    assert told(site.get(f"/v1/definitions/{path}"))["key"] == key
    assert told(site.post(f"/v1/definitions/{path}/disable"))["key"] == key
    disabled = [each["key"] for each in told(site.get("/v1/definitions"))["definitions"] if not each["enabled"]]
    assert disabled == [key]


def test_a_definition_tells_its_versions_options_counts_and_workers(site: WebApi, definitions: Penstock) -> None:
    newer = Definition(
        "mail/send", 2, description="Newer.", schema='{"type":"object","maxProperties":12345678901234567}'
    )
    site.app.store.run(admin.register([newer]))
    definitions.enqueue("mail/send", {"n": 1}, definition_version=1)
    Hand(definitions)

    found = told(site.get("/v1/definitions/mail/send"))

    assert [each["version"] for each in found["versions"]] == [2, 1]
    assert (found["enabled"], found["pause"], found["liveWorkers"], found["counts"]) == (True, None, 1, {"queued": 1})
    second, first = found["versions"]
    assert second["schema"]["maxProperties"] == 12345678901234567
    assert (first["counts"], first["liveWorkers"], second["counts"]) == ({"queued": 1}, 1, {})
    assert (first["maxAttempts"], first["timeout"], first["description"]) == (3, 3600, "Send one.")


def test_secret_defaults_are_masked(site: WebApi, definitions: Penstock) -> None:
    answer = site.get("/v1/definitions/mail/send")

    assert answer.json()["versions"][0]["defaultParams"] == {"password": "***", "n": 1}
    assert "hunter22" not in answer.text + site.get("/v1/definitions").text


def test_secret_defaults_of_a_signature_are_left_out(site: WebApi, app: Penstock) -> None:
    @app.job("mail/fetch", secret=["pin"])
    def fetch(n: int = 3, pin: str = "hunter22", access_token: str = "hunter24", account: Account = ANN) -> None: ...

    app.definitions.register()

    answer = site.get("/v1/definitions/mail/fetch")

    schema = answer.json()["versions"][0]["schema"]
    assert "hunter2" not in answer.text + site.get("/v1/definitions").text
    assert schema["properties"]["n"]["default"] == 3
    assert schema["properties"]["pin"] == {"title": "Pin", "type": "string"}
    assert schema["properties"]["account"]["default"] == {"user": "ann", "api_key": "***"}
    assert schema["$defs"]["Account"]["properties"]["user"]["default"] == "ann"


def test_definitions_come_in_pages_by_key(site: WebApi) -> None:
    site.app.store.run(admin.register([Definition(f"d{number}") for number in range(5)]))

    first = told(site.get("/v1/definitions?limit=2"))
    second = told(site.get(f"/v1/definitions?limit=2&cursor={first['nextCursor']}"))
    third = told(site.get(f"/v1/definitions?limit=2&cursor={second['nextCursor']}"))

    pages = [[each["key"] for each in page["definitions"]] for page in (first, second, third)]
    assert pages == [["d0", "d1"], ["d2", "d3"], ["d4"]]
    assert third["nextCursor"] is None


def test_a_pause_tells_why_by_whom_and_until_when_and_ends_by_resume(site: WebApi, definitions: Penstock) -> None:
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    asked = {"reason": "mail server is down", "until": until.isoformat()}

    pause = told(site.post("/v1/definitions/mail/send/pause", asked))["pause"]

    assert (pause["reason"], pause["by"]) == ("mail server is down", "local")
    assert datetime.fromisoformat(pause["until"]) == until
    assert site.newest_audit("definition.pause").target == "mail/send"

    assert told(site.post("/v1/definitions/mail/send/resume"))["pause"] is None
    assert site.newest_audit("definition.resume").actor == "local"


def test_a_disabled_definition_takes_no_jobs(site: WebApi, definitions: Penstock) -> None:
    assert told(site.post("/v1/definitions/mail/send/disable"))["enabled"] is False
    site.newest_audit("definition.disable")
    refused(site.post("/v1/jobs", {"definitionKey": "mail/send"}), 409, "conflict")

    assert told(site.post("/v1/definitions/mail/send/enable"))["enabled"] is True
    site.newest_audit("definition.enable")
    told(site.post("/v1/jobs", {"definitionKey": "mail/send"}), 201)


def test_a_definition_that_no_code_declares_is_retired_and_removed_and_code_brings_it_back(
    site: WebApi, definitions: Penstock
) -> None:
    job = told(site.post("/v1/jobs", {"definitionKey": "mail/send", "params": {"password": "hunter26"}}), 201)

    retired = told(site.post("/v1/definitions/mail/send/retire"))["retired"]
    site.newest_audit("definition.retire")

    assert retired["by"] == "local"
    assert (
        "was retired by local"
        in refused(site.post("/v1/jobs", {"definitionKey": "mail/send"}), 409, "conflict")["message"]
    )
    waiting = refused(site.delete("/v1/definitions/mail/send"), 409, "conflict")
    assert "it has jobs that have not ended (1 queued)" in waiting["message"]
    assert "POST /v1/jobs/bulk" in waiting["hint"]
    site.post(f"/v1/jobs/{job['jobId']}/cancel")
    assert site.delete("/v1/definitions/mail/send").status_code == 204
    site.newest_audit("definition.remove")
    refused(site.get("/v1/definitions/mail/send"), 404, "not_found")
    refused(site.delete("/v1/definitions/mail/send"), 404, "not_found")
    refused(site.post("/v1/jobs", {"definitionKey": "mail/send"}), 409, "conflict")
    assert told(site.get(f"/v1/jobs/{job['jobId']}"))["params"]["password"] == "***"
    definitions.definitions.register()
    again = told(site.get("/v1/definitions/mail/send"))
    assert (again["retired"], again["counts"]) == (None, {"cancelled": 1})


def test_one_version_of_a_definition_is_removed(site: WebApi, definitions: Penstock) -> None:
    site.app.store.run(admin.register([Definition("mail/send", 2)]))

    assert site.delete("/v1/definitions/mail/send?version=1").status_code == 204

    assert [each["version"] for each in told(site.get("/v1/definitions/mail/send"))["versions"]] == [2]
    refused(site.delete("/v1/definitions/mail/send?version=7"), 404, "not_found")
    refused(site.delete("/v1/definitions/mail/send?version=0"), 422, "invalid_request")
    site.newest_audit("definition.remove")


def test_an_unknown_definition_that_was_removed_is_not_made_known_again_by_a_job(
    site: WebApi, definitions: Penstock
) -> None:
    site.delete("/v1/definitions/mail/send")

    error = refused(site.post("/v1/jobs", {"definitionKey": "mail/send"}), 409, "conflict")

    assert "was removed" in error["message"]
    site.newest_audit("definition.remove")


def test_overrides_hold_until_they_are_left_out(site: WebApi, definitions: Penstock) -> None:
    limits = {"concurrency": 2, "rateLimit": {"count": 5, "period": 60, "perKey": False}}

    found = told(site.put("/v1/definitions/mail/send/overrides", limits))["overrides"]

    assert {name: value for name, value in found.items() if value is not None} == limits
    site.newest_audit("definition.override")
    unlimited = told(site.put("/v1/definitions/mail/send/overrides", {"rateLimit": {"count": 0}}))["overrides"]
    assert unlimited["rateLimit"]["count"] == 0
    nothing = told(site.put("/v1/definitions/mail/send/overrides", {}))["overrides"]
    assert set(nothing.values()) == {None}


@pytest.mark.parametrize(("asked", "kept"), [
    (30, {"kind": "fixed", "seconds": 30}), ([5, 60.5], {"kind": "steps", "seconds": [5, 60.5]}),
    ({"base": 2, "max": 60}, {"kind": "backoff", "base": 2, "max": 60, "jitter": 0.2}),
])  # fmt: skip
def test_options_of_later_jobs_and_attempts_are_overridden(
    site: WebApi, definitions: Penstock, asked: Any, kept: Any
) -> None:
    options = {"priority": 17, "maxAttempts": 9, "timeout": 300, "backoff": asked, "logLevel": "debug"}

    found = told(site.put("/v1/definitions/mail/send/overrides", options))
    job = told(site.post("/v1/jobs", {"definitionKey": "mail/send"}), 201)
    chosen = told(site.post("/v1/jobs", {"definitionKey": "mail/send", "priority": 2}), 201)

    expected = {**options, "backoff": kept}
    assert {name: value for name, value in found["overrides"].items() if value is not None} == expected
    assert [found["versions"][0][name] for name in ("priority", "timeout", "logLevel")] == [10, 3600, "info"]
    jobs = [told(site.get(f"/v1/jobs/{each['jobId']}")) for each in (job, chosen)]
    assert [(each["priority"], each["maxAttempts"]) for each in jobs] == [(17, 9), (2, 9)]
    site.newest_audit("definition.override")


@pytest.mark.parametrize(
    "body",
    [
        {"reason": ""}, {}, {"reason": 3}, {"reason": "x", "until": "tomorrow"}, {"reason": "x", "until": "2026-01-01"},
        {"reason": "x", "why": "y"}, {"reason": "x" * 501}, {"reason": "a\x00b"},
    ],
)  # fmt: skip
def test_a_pause_that_cannot_be_read_is_refused(site: WebApi, definitions: Penstock, body: dict[str, Any]) -> None:
    assert site.post("/v1/definitions/mail/send/pause", body).status_code == 422
    assert told(site.get("/v1/definitions/mail/send"))["pause"] is None


@pytest.mark.parametrize(
    "body",
    [
        {"concurrency": -1}, {"concurrency": 1.5}, {"concurrency": True}, {"concurrency": 2**31}, {"concurency": 1},
        {"rateLimit": 5}, {"rateLimit": {"count": 1, "period": 0}}, {"rateLimit": {"count": 1, "period": 1e9}},
        {"priority": 21}, {"priority": -1}, {"priority": "3"}, {"maxAttempts": 0}, {"maxAttempts": 1001},
        {"timeout": -1}, {"timeout": "5m"}, {"backoff": -1}, {"backoff": []},
        {"backoff": [1, -1]}, {"backoff": {"base": 1, "top": 2}},
        {"logLevel": "loud"},
    ],
)  # fmt: skip
def test_overrides_out_of_range_are_refused(site: WebApi, definitions: Penstock, body: dict[str, Any]) -> None:
    error = refused(site.put("/v1/definitions/mail/send/overrides", body), 422, "invalid_request")

    assert error["details"]["path"].startswith(f"/{next(iter(body))}")


@pytest.mark.parametrize("action", ["pause", "resume", "enable", "disable", "retire"])
def test_an_unknown_definition_is_not_found(site: WebApi, action: str) -> None:
    body = {"reason": "x"} if action == "pause" else None

    error = refused(site.post(f"/v1/definitions/nobody/{action}", body), 404, "not_found")

    assert error["details"] == {"kind": "definition", "name": "nobody"}
    refused(site.get("/v1/definitions/nobody"), 404, "not_found")


def test_a_definition_that_the_store_cannot_read_is_shown_with_its_error(site: WebApi, definitions: Penstock) -> None:
    change(site.app.store, "UPDATE {s}definition SET body = 'broken'")

    (version,) = told(site.get("/v1/definitions/mail/send"))["versions"]

    assert "JSONDecodeError" in version["error"]


def test_the_whole_system_is_paused_and_resumed(site: WebApi) -> None:
    assert told(site.get("/v1/system"))["pause"] is None

    paused = told(site.post("/v1/system/pause", {"reason": "migration"}))
    assert (paused["pause"]["reason"], paused["pause"]["by"]) == ("migration", "local")
    site.newest_audit("system.pause")

    assert told(site.post("/v1/system/resume"))["pause"] is None
    site.newest_audit("system.resume")


def test_viewers_see_and_admins_change(site: WebApi, definitions: Penstock) -> None:
    with site.as_("viewer"):
        told(site.get("/v1/definitions/mail/send"))
        refused(site.post("/v1/definitions/mail/send/disable"), 403, "forbidden")
        refused(site.post("/v1/system/pause", {"reason": "x"}), 403, "forbidden")
    with site.as_("admin"):
        told(site.post("/v1/definitions/mail/send/disable"))
        assert site.newest_audit("definition.disable").actor == "token:a admin"
    refused(site.get("/v1/definitions"), 401, "unauthenticated")
