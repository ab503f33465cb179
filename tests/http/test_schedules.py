"""`/v1/schedules`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock import Penstock
from penstock.domain.schedule.schedule import Tick
from penstock.storage.commands import admin, schedules
from tests.http.asgi_api import WebApi, refused, told
from tests.storage.tables import change

NIGHTLY: dict[str, Any] = {"definitionKey": "report", "kind": "cron", "expression": "0 3 * * *"}
SECRET = "canary-7f3a"


@pytest.fixture
def site(site: WebApi, app: Penstock) -> WebApi:
    @app.job("report", secret=["magic"])
    def report(of: str = "all", magic: str = "") -> None: ...

    app.definitions.register()
    return site


def make(site: WebApi, key: str = "nightly", **facts: Any) -> dict[str, Any]:
    found: dict[str, Any] = told(site.post("/v1/schedules", {**NIGHTLY, "key": key, **facts}), 201)
    return found


def test_a_schedule_is_made_once_and_says_where_it_is(site: WebApi) -> None:
    answer = site.post("/v1/schedules", {**NIGHTLY, "key": "nightly", "timezone": "Europe/Berlin", "priority": 3})

    made = told(answer, 201)
    assert (answer.headers["location"], answer.headers["etag"]) == ("/v1/schedules/nightly", '"1"')
    assert (made["revision"], made["owner"], made["timezone"], made["priority"]) == (1, "operator", "Europe/Berlin", 3)
    assert told(site.get(answer.headers["location"])) == made
    assert site.newest_audit("schedule.create").target == "nightly"
    refused(site.post("/v1/schedules", {**NIGHTLY, "key": "nightly"}), 409, "conflict")


@pytest.mark.parametrize(
    ("kind", "expression"),
    [("interval", "1h30m"), ("interval", "7d from 2027-01-04T08:00:00Z"), ("once", "2036-01-15T08:00:00+01:00")],
)
def test_what_is_read_can_be_written_again(site: WebApi, kind: str, expression: str) -> None:
    made = make(site, kind=kind, expression=expression, jitter=5, missedWindow=60, overlap="skip", missed="all")
    names = (
        "definitionKey", "kind", "expression", "params", "timezone", "missed", "missedMax", "missedWindow", "overlap",
        "jitter", "enabled",
    )  # fmt: skip

    again = told(site.put("/v1/schedules/nightly", {name: made[name] for name in names}))

    assert again == made


@pytest.mark.parametrize("key", ["a/preview", "a/b/ticks", "ünï code", "100%2F", "a?b#c", "preview"])
def test_any_key_can_be_named_in_a_path(site: WebApi, key: str) -> None:
    answer = site.post("/v1/schedules", {**NIGHTLY, "key": key})
    place = answer.headers["location"]

    assert told(site.get(place))["key"] == key
    assert told(site.get(f"{place}/preview?count=1"))["fires"]
    assert told(site.post(f"{place}/pause", {"reason": "x"}))["key"] == key
    assert told(site.delete(place), 204) is None
    refused(site.get(place), 404, "not_found")


def test_schedules_come_in_pages_by_key(site: WebApi) -> None:
    for key in ("c", "a", "b"):
        make(site, key)

    first = told(site.get("/v1/schedules?limit=2"))
    second = told(site.get(f"/v1/schedules?limit=2&cursor={first['nextCursor']}"))

    assert [each["key"] for each in first["schedules"] + second["schedules"]] == ["a", "b", "c"]
    assert second["nextCursor"] is None


def test_put_makes_or_replaces(site: WebApi) -> None:
    told(site.put("/v1/schedules/nightly", {**NIGHTLY, "priority": 7}), 201)

    answer = site.put("/v1/schedules/nightly", {**NIGHTLY, "expression": "0 4 * * *"})

    replaced = told(answer)
    assert (replaced["expression"], replaced["priority"], answer.headers["etag"]) == ("0 4 * * *", None, '"2"')
    site.newest_audit("schedule.replace")


def test_a_patch_changes_only_what_it_names(site: WebApi) -> None:
    make(site, priority=7, params={"of": "sales"})

    changed = told(site.patch("/v1/schedules/nightly", {"expression": "0 5 * * *", "enabled": False}))

    assert (changed["expression"], changed["enabled"], changed["priority"]) == ("0 5 * * *", False, 7)
    assert changed["params"] == {"of": "sales"}
    assert told(site.patch("/v1/schedules/nightly", {"priority": None}))["priority"] is None
    refused(site.patch("/v1/schedules/nightly", {}), 422, "invalid_request")
    refused(site.patch("/v1/schedules/nightly", {"kind": "interval"}), 422, "invalid_schedule")


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_of_two_operators_the_second_does_not_overwrite_the_first(site: WebApi, method: str) -> None:
    make(site)
    read = site.get("/v1/schedules/nightly").headers["etag"]
    told(site.patch("/v1/schedules/nightly", {"priority": 1}, headers={"If-Match": read}))
    body = {"PUT": {**NIGHTLY, "priority": 2}, "PATCH": {"priority": 2}, "DELETE": None}[method]

    late = site.request(method, "/v1/schedules/nightly", json=body, headers={"If-Match": read})

    refused(late, 412, "revision_conflict")
    now = site.get("/v1/schedules/nightly")
    assert now.json()["priority"] == 1
    again = site.request(method, "/v1/schedules/nightly", json=body, headers={"If-Match": now.headers["etag"]})
    assert again.status_code in (200, 204)


@pytest.mark.parametrize("tag", ["1", '"x"', 'W/"1"', '"1", "2"', '"-1"', '"1234567890123456789"', ""])
def test_a_malformed_if_match_is_refused(site: WebApi, tag: str) -> None:
    make(site)

    refused(site.patch("/v1/schedules/nightly", {"priority": 2}, headers={"If-Match": tag}), 400, "malformed")


def test_any_revision_will_do_for_a_star(site: WebApi) -> None:
    make(site)

    told(site.patch("/v1/schedules/nightly", {"priority": 2}, headers={"If-Match": "*"}))


def test_a_pause_ends_by_resume_and_both_are_audited(site: WebApi) -> None:
    make(site)
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()

    paused = told(site.post("/v1/schedules/nightly/pause", {"reason": "holidays", "until": until}))

    assert (paused["pause"]["reason"], paused["pause"]["by"]) == ("holidays", "local")
    site.newest_audit("schedule.pause")
    assert told(site.post("/v1/schedules/nightly/resume"))["pause"] is None
    site.newest_audit("schedule.resume")
    over = {"reason": "x", "until": "2020-01-01T00:00:00Z"}
    refused(site.post("/v1/schedules/nightly/pause", over), 422, "invalid_request")


def test_a_trigger_makes_a_job_now(site: WebApi) -> None:
    make(site, params={"of": "sales"})

    answer = site.post("/v1/schedules/nightly/trigger")

    job = told(site.get(answer.headers["location"]))
    assert (job["jobId"], job["scheduleId"], job["actor"]) == (told(answer, 201)["jobId"], "nightly", "local")
    assert job["params"]["of"] == "sales"


def test_a_preview_tells_the_next_ticks_of_what_is_saved_and_of_what_is_not(site: WebApi) -> None:
    make(site)

    saved = told(site.get("/v1/schedules/nightly/preview?count=3"))
    asked = {"kind": "cron", "expression": "0 3 * * *", "count": 3}
    unsaved = told(site.post("/v1/schedules/preview", asked))

    assert [each["at"] for each in saved["fires"]] == [each["at"] for each in unsaved["fires"]]
    assert len(saved["fires"]) == 3
    assert saved["sentence"] == unsaved["sentence"] == "At 03:00 every day, UTC time."
    assert told(site.get("/v1/schedules"))["schedules"][0]["key"] == "nightly"


def test_ticks_tell_what_became_of_them(site: WebApi) -> None:
    made = make(site)
    now = site.app.store.run(admin.clock())
    site.app.store.run(schedules.tick(Tick("nightly", made["revision"], now, now + 10**9), None, "allow"))

    (tick,) = told(site.get("/v1/schedules/nightly/ticks"))["ticks"]

    assert (tick["verdict"], tick["jobId"], tick["passedOver"]) == ("missed", None, 0)


def test_secret_parameters_are_masked_wherever_a_schedule_is_shown(site: WebApi) -> None:
    answer = site.post("/v1/schedules", {**NIGHTLY, "key": "nightly", "params": {"magic": SECRET}})
    shown = [answer, site.get("/v1/schedules/nightly"), site.get("/v1/schedules")]
    shown += [site.patch("/v1/schedules/nightly", {"priority": 2}), site.put("/v1/schedules/other", NIGHTLY)]
    job = site.post("/v1/schedules/nightly/trigger").json()["jobId"]
    shown += [site.get(f"/v1/jobs/{job}"), site.get("/v1/audit"), site.delete("/v1/schedules/nightly")]
    shown += [site.get("/v1/audit?action=schedule.remove")]

    assert shown[0].json()["params"] == {"magic": "***"}
    assert SECRET not in "".join(each.text for each in shown)
    assert SECRET in site.app.jobs.read(job).params_text


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"expression": "61 * * * *"}, "invalid_schedule"),
        ({"kind": "interval", "expression": "never"}, "invalid_schedule"),
        ({"kind": "once", "expression": "tomorrow"}, "invalid_schedule"),
        ({"kind": "once", "expression": "2020-01-01T00:00:00Z"}, "invalid_schedule"),
        ({"kind": "once", "expression": "2036-01-01T00:00:00"}, "invalid_schedule"),
        ({"timezone": "Mars/Olympus"}, "invalid_schedule"),
        ({"timezone": "../../etc/passwd"}, "invalid_schedule"),
        ({"missedMax": 0}, "invalid_schedule"),
        ({"jitter": 1e9}, "invalid_schedule"),
        ({"priority": 21}, "invalid_schedule"),
        ({"params": {"of": 3}}, "invalid_schedule"),
        ({"params": []}, "invalid_request"),
        ({"jitter": -1}, "invalid_request"),
        ({"enabled": "yes"}, "invalid_request"),
        ({"overlap": "maybe"}, "invalid_request"),
        ({"key": ""}, "invalid_request"),
        ({"key": "x" * 201}, "invalid_request"),
        ({"key": "."}, "invalid_schedule"),
        ({"key": ".."}, "invalid_schedule"),
        ({"cron": "0 3 * * *"}, "invalid_request"),
    ],
)
def test_a_schedule_that_cannot_work_is_refused(site: WebApi, facts: dict[str, Any], code: str) -> None:
    refused(site.post("/v1/schedules", {**NIGHTLY, "key": "nightly", **facts}), 422, code)

    assert told(site.get("/v1/schedules"))["schedules"] == []


def test_a_schedule_of_an_unknown_definition_is_refused(site: WebApi) -> None:
    error = refused(site.post("/v1/schedules", {**NIGHTLY, "key": "x", "definitionKey": "nobody"}), 404, "not_found")

    assert error["details"]["kind"] == "definition"


@pytest.mark.parametrize("path", ["", "/preview", "/ticks"])
def test_a_schedule_that_is_not_there_is_not_found(site: WebApi, path: str) -> None:
    refused(site.get(f"/v1/schedules/nobody{path}"), 404, "not_found")
    refused(site.patch("/v1/schedules/nobody", {"priority": 2}), 404, "not_found")
    refused(site.delete("/v1/schedules/nobody"), 404, "not_found")


def test_a_schedule_that_the_store_cannot_read_is_shown_with_its_error_and_can_be_repaired(site: WebApi) -> None:
    make(site)
    change(site.app.store, "UPDATE {s}schedule SET body = 'broken'")

    assert "JSONDecodeError" in told(site.get("/v1/schedules/nightly"))["error"]
    refused(site.post("/v1/schedules/nightly/trigger"), 422, "invalid_schedule")
    assert told(site.put("/v1/schedules/nightly", NIGHTLY))["error"] is None


def test_viewers_see_schedules_and_admins_change_them(site: WebApi) -> None:
    make(site)

    with site.as_("creator"):
        told(site.get("/v1/schedules/nightly"))
        told(site.post("/v1/schedules/preview", {"kind": "cron", "expression": "* * * * *"}))
        refused(site.post("/v1/schedules", {**NIGHTLY, "key": "x"}), 403, "forbidden")
        refused(site.post("/v1/schedules/nightly/trigger"), 403, "forbidden")
