"""Every route that changes something leaves one row in the audit: made from the document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock import Penstock
from penstock.domain import worker_config as rules
from penstock.domain.definition import Definition
from penstock.domain.outcome import Failure
from penstock.storage.commands import admin
from tests.http.asgi_api import REQUEST_ID, WebApi, told
from tests.http.document import operations
from tests.http.streams import define, ended_job, enqueue
from tests.operations.hand import Hand

URL = "https://receiver.example.org/hook"
NO_CHANGE = {
    "POST /v1/jobs": "A creation is not audited; its event has the actor.",
    "POST /v1/jobs/batch": "A creation, too.",
    "POST /v1/jobs/trigger": "It does what the workers would do anyway.",
    "POST /v1/schedules/preview": "It only reckons.",
    "POST /v1/jobs/{jobId}/rerun": "A creation: the new job has the actor, and the old one stays as it was.",
    "POST /v1/schedules/{key}/trigger": "A creation: the schedule stays as it was.",
}
CHANGING = {str(each): each for each in operations() if each.changes and str(each) not in NO_CHANGE}

Scene = Callable[[WebApi, Penstock], tuple[dict[str, str], Any]]
"""Prepares what a route changes: the names for its path, and its body."""


def _failed(app: Penstock) -> str:
    job = enqueue(app)
    Hand(app).fail(job, Failure("ValueError", "no"))
    return job


def _reviewed(app: Penstock) -> str:
    job = enqueue(app)
    Hand(app).ask_review(job)
    return job


def _schedule(app: Penstock, paused: bool = False) -> dict[str, str]:
    app.schedules.save("nightly", "work", cron="0 3 * * *", params={"text": "x"})
    if paused:
        app.schedules.pause("nightly", "x")
    return {"key": "nightly"}


def _webhook(app: Penstock) -> dict[str, str]:
    return {"webhookId": app.webhooks.save(URL).endpoint.id}


def _delivery(app: Penstock) -> dict[str, str]:
    made = app.webhooks.test(_webhook(app)["webhookId"])
    return {"deliveryId": getattr(made, "id", None) or made.delivery.id}


def _paused(app: Penstock) -> dict[str, str]:
    app.definitions.pause("work", "x")
    return {"key": "work"}


def _all_paused(app: Penstock) -> dict[str, str]:
    app.definitions.pause_all("x")
    return {}


def _undeclared(app: Penstock) -> dict[str, str]:
    app.store.run(admin.register([Definition("gone")]))
    return {"key": "gone"}


def _disabled(app: Penstock) -> dict[str, str]:
    app.definitions.disable("work")
    return {"key": "work"}


PLAN = {"definitionKey": "work", "kind": "cron", "expression": "0 4 * * *", "params": {"text": "y"}}
SCENES: dict[str, Scene] = {
    "POST /v1/jobs/bulk": lambda _, app: ({}, {"action": "cancel", "filter": {"jobId": [enqueue(app)]}}),
    "PATCH /v1/jobs/{jobId}": lambda _, app: ({"jobId": enqueue(app)}, {"priority": 3}),
    "DELETE /v1/jobs/{jobId}": lambda _, app: ({"jobId": ended_job(app)}, None),
    "POST /v1/jobs/{jobId}/cancel": lambda _, app: ({"jobId": enqueue(app)}, None),
    "POST /v1/jobs/{jobId}/retry": lambda _, app: ({"jobId": _failed(app)}, None),
    "POST /v1/jobs/{jobId}/approve": lambda _, app: ({"jobId": _reviewed(app)}, {"note": "yes"}),
    "POST /v1/jobs/{jobId}/reject": lambda _, app: ({"jobId": _reviewed(app)}, None),
    "POST /v1/definitions/{key}/pause": lambda *_: ({"key": "work"}, {"reason": "x"}),
    "POST /v1/definitions/{key}/resume": lambda _, app: (_paused(app), None),
    "POST /v1/definitions/{key}/enable": lambda _, app: (_disabled(app), None),
    "POST /v1/definitions/{key}/disable": lambda *_: ({"key": "work"}, None),
    "POST /v1/definitions/{key}/retire": lambda _, app: (_undeclared(app), None),
    "DELETE /v1/definitions/{key}": lambda _, app: (_undeclared(app), None),
    "PUT /v1/definitions/{key}/overrides": lambda *_: ({"key": "work"}, {"concurrency": 2}),
    "POST /v1/system/pause": lambda *_: ({}, {"reason": "x"}),
    "POST /v1/system/resume": lambda _, app: (_all_paused(app), None),
    "POST /v1/schedules": lambda *_: ({}, {"key": "nightly", **PLAN}),
    "PUT /v1/schedules/{key}": lambda _, app: (_schedule(app), PLAN),
    "PATCH /v1/schedules/{key}": lambda _, app: (_schedule(app), {"expression": "0 5 * * *"}),
    "DELETE /v1/schedules/{key}": lambda _, app: (_schedule(app), None),
    "POST /v1/schedules/{key}/pause": lambda _, app: (_schedule(app), {"reason": "x"}),
    "POST /v1/schedules/{key}/resume": lambda _, app: (_schedule(app, paused=True), None),
    "PUT /v1/worker/config": lambda *_: ({}, rules.as_json(rules.WorkerConfig()) | {"custom": {"a": 1}}),
    "PATCH /v1/worker/config": lambda *_: ({}, {"custom": {"a": 1}}),
    "POST /v1/tokens": lambda *_: ({}, {"name": "ci", "role": "viewer"}),
    "DELETE /v1/tokens/{tokenId}": lambda _, app: ({"tokenId": app.tokens.create("x", "viewer").token.id}, None),
    "POST /v1/session": lambda _, app: ({}, {"token": app.tokens.create("browser", "admin").text}),
    "DELETE /v1/session": lambda *_: ({}, None),
    "POST /v1/webhooks": lambda *_: ({}, {"url": URL}),
    "PUT /v1/webhooks/{webhookId}": lambda _, app: (_webhook(app), {"url": URL, "description": "new"}),
    "PATCH /v1/webhooks/{webhookId}": lambda _, app: (_webhook(app), {"enabled": False}),
    "DELETE /v1/webhooks/{webhookId}": lambda _, app: (_webhook(app), None),
    "POST /v1/webhooks/{webhookId}/rotate": lambda _, app: (_webhook(app), None),
    "POST /v1/webhooks/{webhookId}/test": lambda _, app: (_webhook(app), None),
    "POST /v1/webhooks/deliveries/{deliveryId}/redeliver": lambda _, app: (_delivery(app), None),
}


def test_every_route_that_changes_something_is_tried() -> None:
    assert SCENES.keys() == CHANGING.keys()


def test_each_change_leaves_one_row_with_who_and_by_which_request(site: WebApi, app: Penstock) -> None:
    wrong = {}
    for name, scene in SCENES.items():
        define(app)
        names, body = scene(site, app)
        headers = {}
        actor = "token:a super_admin"
        if "/v1/session" in name:
            text, _ = app.tokens.open_session(app.tokens.create("browser", "admin").text)
            actor = "token:browser"
            headers = {"Cookie": f"penstock_session={text}", "Authorization": ""} if name.startswith("DELETE") else {}
        before = len(app.audit.list(limit=1000))

        operation = CHANGING[name]
        with site.as_("super_admin"):
            before += 1
            if headers:
                site._token, headers = None, {"Cookie": headers["Cookie"], "Sec-Fetch-Site": "same-origin"}
            answer = site.request(operation.method, operation.at(**names), json=body, headers=headers)

        rows = app.audit.list(limit=1000)[: len(app.audit.list(limit=1000)) - before]
        found = [(each.actor, each.request_id) for each in rows]
        if not answer.is_success or found != [(actor, REQUEST_ID)]:
            wrong[name] = (answer.status_code, answer.text[:200], [(each.action, each.actor) for each in rows])
        _clear(app)
    assert wrong == {}


def _clear(app: Penstock) -> None:
    """What one scene leaves behind shall not stand in another's way."""
    for each in app.schedules.list():
        app.schedules.delete(each.schedule.key)
    app.definitions.resume_all()
    app.definitions.resume("work")
    app.definitions.enable("work")
    app.definitions.override("work")


def test_who_makes_a_job_stands_in_the_job(site: WebApi, app: Penstock) -> None:
    define(app)
    key = _schedule(app)["key"]
    old = ended_job(app)
    wanted = {"definitionKey": "work", "params": {"text": "x"}}

    with site.as_("super_admin"):
        made = [
            site.post("/v1/jobs", wanted),
            site.post(f"/v1/jobs/{old}/rerun"),
            site.post(f"/v1/schedules/{key}/trigger"),
        ]

    for answer in made:
        assert app.jobs.read(told(answer, 201)["jobId"]).actor == "token:a super_admin"


@pytest.mark.parametrize("name", [each for each in SCENES if "{" in each])
def test_a_change_that_is_refused_leaves_none(site: WebApi, app: Penstock, name: str) -> None:
    define(app)
    operation = CHANGING[name]
    body = {"PATCH": {"enabled": True}, "PUT": {"url": URL}}.get(operation.method)

    with site.as_("super_admin"):
        before = len(app.audit.list(limit=1000))
        answer = site.request(operation.method, operation.at(), json=body)

    assert answer.status_code in (404, 409, 415, 422), answer.text
    assert len(app.audit.list(limit=1000)) == before
