"""Definitions, schedules, workers, status, errors, alerts, webhooks: each command against a server and on a store."""

from __future__ import annotations

import json

import pytest

from penstock.domain.definition import Definition
from penstock.storage.commands import admin
from tests.cli.shell import Place, check_shape


@pytest.fixture
def name(place: Place) -> str:
    """A word that tells one way from the other."""
    return place.flags[0].strip("-")


def test_definitions_are_listed_and_shown(place: Place) -> None:
    listed = place.json("definitions", "list", shape="GET /v1/definitions 200")
    shown = place.json("definitions", "show", "phased", shape="GET /v1/definitions/{key} 200")
    table = place.run("definitions", "ls").out
    text = place.run("definitions", "show", "phased").out

    assert {"script", "phased"} <= {each["key"] for each in listed["definitions"]}
    assert shown["versions"][0]["phases"] == ["first", "second", "third"]
    assert any(line.split()[:3] == ["phased", "v1", "open"] for line in table.splitlines())
    assert "first, second, third" in text
    assert place.refused("definitions", "show", "nobody.knows.it", code=3)["code"] == "not_found"


def test_a_definition_is_paused_resumed_disabled_and_enabled(place: Place) -> None:
    paused = place.json("definitions", "pause", "rated", "--reason", "a test", "--until", "1h",
                        shape="POST /v1/definitions/{key}/pause 200")  # fmt: skip
    resumed = place.json("definitions", "resume", "rated", shape="POST /v1/definitions/{key}/resume 200")
    disabled = place.json("definitions", "disable", "rated", shape="POST /v1/definitions/{key}/disable 200")
    refused = place.refused("enqueue", "rated", "script=[]", code=4)
    enabled = place.run("definitions", "enable", "rated").out

    assert paused["pause"]["reason"] == "a test"
    assert paused["pause"]["until"] is not None
    assert (resumed["pause"], disabled["enabled"]) == (None, False)
    assert refused["code"] == "conflict"
    assert enabled == "rated is open.\n"


def test_a_definition_that_no_code_declares_is_retired_and_removed(place: Place, name: str) -> None:
    key = f"gone.{name}"
    place.app.store.run(admin.register([Definition(key, 1), Definition(key, 2)]))
    waiting = place.waiting(key)

    retired = place.json("definitions", "retire", key, shape="POST /v1/definitions/{key}/retire 200")
    shown = place.run("definitions", "show", key).out
    in_the_way = place.refused("definitions", "remove", key, "--yes", code=4)
    place.run("definitions", "remove", key, "--version", "1", "--yes")
    place.run("jobs", "cancel", waiting)
    removed = place.run("definitions", "remove", key, "--yes").out

    assert retired["retired"]["by"]
    assert "retired" in shown
    assert "1 scheduled" in in_the_way["message"]
    assert "penstock jobs cancel --definition" in in_the_way["hint"]
    assert removed == f"{key} is removed.\n"
    assert place.refused("definitions", "show", key, code=3)["code"] == "not_found"
    assert place.json("jobs", "show", waiting)["status"] == "cancelled"
    assert "has it loaded" in place.refused("definitions", "retire", "script", code=4)["message"]


def test_options_are_set_one_by_one_and_given_back_to_the_code(place: Place) -> None:
    first = place.json("definitions", "set", "single", "--priority", "17", "--max-attempts", "9", "--timeout", "5m")
    second = place.json("definitions", "set", "single", "--backoff", "5s,1m", "--concurrency", "2")
    third = place.json("definitions", "set", "single", "--backoff", "5s..1h", "--timeout", "0")
    fourth = place.json("definitions", "set", "single", "--priority", "code")
    shown = place.run("definitions", "show", "single").out

    assert [first["overrides"][name] for name in ("priority", "maxAttempts", "timeout")] == [17, 9, 300]
    assert second["overrides"]["backoff"] == {"kind": "steps", "seconds": [5, 60]}
    assert third["overrides"]["backoff"] == {"kind": "backoff", "base": 5, "max": 3600, "jitter": 0.2}
    assert fourth["overrides"] == third["overrides"] | {"priority": None}
    fifth = place.json("definitions", "set", "single", "--log-level", "debug")
    assert "maxAttempts" in shown
    assert fifth["overrides"] == fourth["overrides"] | {"logLevel": "debug"}
    for wrong in (
        ("--priority", "21"),
        ("--max-attempts", "0"),
        ("--backoff", "soon"),
        ("--timeout", "never"),
        ("--log-level", "loud"),
    ):
        assert place.refused("definitions", "set", "single", *wrong, code=2)
    back = place.json("definitions", "set", "single", *(
        word
        for name in ("max-attempts", "backoff", "timeout", "concurrency", "log-level") for word in (f"--{name}", "code")
    ))  # fmt: skip
    assert set(back["overrides"].values()) == {None}


def test_limits_are_set_one_by_one_and_given_back_to_the_code(place: Place) -> None:
    first = place.json("definitions", "set", "single", "--concurrency", "5", "--rate-limit", "100/10m",
                       shape="PUT /v1/definitions/{key}/overrides 200")  # fmt: skip
    second = place.json("definitions", "set", "single", "--concurrency", "code")
    third = place.json("definitions", "set", "single", "--rate-limit", "code")

    assert first["overrides"]["concurrency"] == 5
    assert first["overrides"]["rateLimit"] == {"count": 100, "period": 600, "perKey": False}
    assert second["overrides"]["concurrency"] is None
    assert second["overrides"]["rateLimit"]["count"] == 100
    assert set(third["overrides"].values()) == {None}
    assert place.refused("definitions", "set", "single", "--concurrency", "many", code=2)
    assert place.refused("definitions", "set", "single", code=2)


def test_a_schedule_is_made_changed_paused_triggered_and_deleted(place: Place, name: str) -> None:
    key = f"nightly-{name}"

    made = place.json("schedules", "create", key, "script", "script=[]", "--cron", "0 3 * * *", "--timezone",
                      "Europe/Berlin", "--overlap", "skip", shape="POST /v1/schedules 201")  # fmt: skip
    changed = place.json("schedules", "edit", key, 'script=[["return", 1]]', "--jitter", "1m", "--priority", "12",
                         shape="PATCH /v1/schedules/{key} 200")  # fmt: skip
    paused = place.json("schedules", "pause", key, "--reason", "a test", shape="POST /v1/schedules/{key}/pause 200")
    resumed = place.json("schedules", "resume", key, shape="POST /v1/schedules/{key}/resume 200")
    started = place.json("schedules", "trigger", key, shape="POST /v1/schedules/{key}/trigger 201")
    ticks = place.json("schedules", "ticks", key, shape="GET /v1/schedules/{key}/ticks 200")
    listed = place.json("schedules", "list", shape="GET /v1/schedules 200")
    shown = place.json("schedules", "show", key, shape="GET /v1/schedules/{key} 200")
    text = place.run("schedules", "show", key).out + place.run("schedules", "ls").out
    unasked = place.refused("schedules", "delete", key, code=2)
    deleted = place.run("schedules", "delete", key, "--yes").out

    assert (made["kind"], made["expression"], made["overlap"]) == ("cron", "0 3 * * *", "skip")
    assert (changed["params"], changed["jitter"], changed["priority"]) == ({"script": [["return", 1]]}, 60, 12)
    assert paused["pause"]["reason"] == "a test"
    assert resumed["pause"] is None
    assert place.app.jobs.read(started["jobId"]).schedule_id == key
    assert isinstance(ticks["ticks"], list)
    assert key in [each["key"] for each in listed["schedules"]]
    assert shown["key"] == key
    assert "0 3 * * *" in text
    assert "--yes" in unasked["hint"]
    assert deleted == f"{key} is deleted.\n"
    assert place.refused("schedules", "show", key, code=3)


def test_a_mask_does_not_take_the_place_of_the_secret_when_another_parameter_is_changed(
    place: Place, name: str
) -> None:
    key = f"secretive-{name}"
    place.run("schedules", "create", key, "secretive", "token=open-sesame", "script=[]", "--every", "1h")

    refused = place.refused("schedules", "edit", key, 'script=[["return", 1]]', code=2)
    before = place.app.schedules.get(key).schedule.params
    place.run("schedules", "edit", key, 'script=[["return", 1]]', "token=shut-sesame")
    after = place.app.schedules.get(key).schedule.params

    assert "token" in refused["message"]
    assert before == {"token": "open-sesame", "script": []}
    assert after == {"token": "shut-sesame", "script": [["return", 1]]}


def test_the_next_ticks_are_shown_before_and_after_a_schedule_is_made(place: Place, name: str) -> None:
    key = f"hourly-{name}"

    before = place.json("schedules", "preview", "--cron", "30 2 * * *", "--timezone", "Europe/Berlin", "--count", "3",
                        shape="POST /v1/schedules/preview 200")  # fmt: skip
    place.run("schedules", "create", key, "noop", "--every", "1h")
    after = place.json("schedules", "preview", key, "--count", "2", shape="GET /v1/schedules/{key}/preview 200")
    text = place.run("schedules", "preview", "--cron", "30 2 * * *").out

    assert (len(before["fires"]), len(after["fires"])) == (3, 2)
    assert text.splitlines()[1].split() == ["LOCAL", "UTC", "FROM", "NOW"]
    assert place.refused("schedules", "preview", "--cron", "61 * * * *", code=2)["code"] == "invalid_schedule"
    assert place.refused("schedules", "create", key, "noop", "--every", "1h", code=4)["code"] == "conflict"
    assert "--timezone" in place.refused("schedules", "preview", key, "--timezone", "Europe/Berlin", code=2)["hint"]
    assert place.refused("schedules", "create", "other", "noop", code=2)
    assert place.refused("schedules", "edit", key, code=2)


def test_workers_and_status_tell_how_it_goes(place: Place) -> None:
    workers = place.json("workers", "list", shape="GET /v1/workers 200")
    table = place.run("workers", "ls", "--all").out
    told = place.json("status", code=0)
    lines = place.run("status").out.splitlines()

    assert [each["live"] for each in workers["workers"]] == [True]
    assert table.splitlines()[1].split()[2] == "live"
    for noun in ("system", "stats", "workers", "alerts"):
        check_shape(f"GET /v1/{noun} 200", told[noun])
    assert lines[0].startswith("ok   penstock ")
    assert lines[1].startswith("ok   1 live worker, ")


def test_a_warning_counts_when_it_is_asked_to(place: Place) -> None:
    system = place.json("definitions", "pause", "--all", "--reason", "a test", shape="POST /v1/system/pause 200")
    try:
        kind = place.run("status", code=None)
        strict = place.run("status", "--strict", code=1)
        alerts = place.json("alerts", "list", shape="GET /v1/alerts 200")
    finally:
        resumed = place.run("definitions", "resume", "--all").out
    history = place.json("alerts", "history", shape="GET /v1/alerts/history 200")

    assert system["pause"]["reason"] == "a test"
    assert resumed == "Everything is resumed.\n"
    assert isinstance(history["alerts"], list)
    assert "everything is paused by" in kind.out
    assert "a test" in strict.out
    assert isinstance(alerts["alerts"], list)
    assert place.run("alerts", "ls").code == 0


def test_failures_that_look_alike_are_one_line(place: Place, name: str) -> None:
    for _ in range(2):
        place.ended(["raise", f"always the same by {name}"])

    told = place.json("errors", "list", "--since", "1h", shape="GET /v1/errors 200")
    table = place.run("errors", "ls").out
    found = next(each for each in told["errors"] if name in each["message"])
    jobs = place.json("jobs", "list", "--fingerprint", found["fingerprint"])["jobs"]

    assert found["jobs"] >= 2
    assert found["fingerprint"] in table
    assert len(jobs) >= 2


def test_a_webhook_is_made_changed_tested_rotated_and_deleted(place: Place) -> None:
    made = place.json("webhooks", "add", "https://hooks.example.org/a", "--event", "onFail", "--description", "a test",
                      shape="POST /v1/webhooks 201")  # fmt: skip
    id = made["webhookId"]
    listed = place.json("webhooks", "list", shape="GET /v1/webhooks 200")
    table = place.run("webhooks", "ls").out
    changed = place.json("webhooks", "edit", id, "--event", "job.*", "--definition-key", "script",
                         shape="PATCH /v1/webhooks/{webhookId} 200")  # fmt: skip
    rotated = place.run("webhooks", "rotate", id, "--overlap", "1h")
    tested = place.json("webhooks", "test", id, shape="POST /v1/webhooks/{webhookId}/test 202")
    deliveries = place.json("webhooks", "deliveries", id, shape="GET /v1/webhooks/deliveries 200")
    again = place.run("webhooks", "redeliver", tested["deliveryId"], "--json", code=None)
    off = place.json("webhooks", "edit", id, "--no-enabled")
    place.run("webhooks", "delete", id, "--yes")

    assert made["secret"].startswith("whsec_")
    assert id in [each["webhookId"] for each in listed["webhooks"]]
    assert made["secret"] not in table
    assert (changed["events"], changed["definitionKeys"]) == (["job.*"], ["script"])
    assert rotated.out.startswith("whsec_")
    assert rotated.out.strip() != made["secret"]
    assert [each["deliveryId"] for each in deliveries["deliveries"]] == [tested["deliveryId"]]
    if again.code == 0:
        check_shape("POST /v1/webhooks/deliveries/{deliveryId}/redeliver 202", json.loads(again.out))
    else:
        assert (again.code, json.loads(again.err)["error"]["code"]) == (4, "conflict")
    assert off["enabled"] is False
    assert place.refused("webhooks", "test", id, code=3)["code"] == "not_found"
