"""Phases over HTTP: a job shows all of them, in its own answer and wherever it goes out."""

from __future__ import annotations

import pytest

from penstock import Penstock
from penstock.domain.outcome import Failure
from penstock.http.schemas.jobs import AttemptList, JobDetail
from penstock.http.schemas.monitoring import EventList
from penstock.storage.commands import jobs
from tests.http.asgi_api import WebApi, told
from tests.operations.hand import Hand
from tests.storage.tables import change


def fetch() -> None: ...


def store() -> None: ...


@pytest.fixture(autouse=True)
def definitions(app: Penstock) -> None:
    app.pipeline("both", fetch, store)
    app.job("plain")(fetch)


@pytest.mark.parametrize(("key", "names"), [("both", ["fetch", "store"]), ("plain", ["run"])])
def test_a_job_shows_all_its_phases_from_the_moment_it_is_created(site: WebApi, key: str, names: list[str]) -> None:
    job = told(site.post("/v1/jobs", json={"definitionKey": key}), 201)["jobId"]

    answer = site.get(f"/v1/jobs/{job}")

    JobDetail.model_validate_json(answer.text)
    phases = told(answer)["phases"]
    assert [(each["name"], each["position"], each["status"]) for each in phases] == [
        (name, position, "pending") for position, name in enumerate(names)
    ]
    assert {(each["progress"], each["startedAt"], each["fence"]) for each in phases} == {(0.0, None, 0)}


@pytest.mark.parametrize("key", ["both", "plain"])
def test_the_job_of_an_event_has_the_phases_that_the_job_itself_has(site: WebApi, key: str) -> None:
    job = told(site.post("/v1/jobs", json={"definitionKey": key}), 201)["jobId"]

    answer = site.get("/v1/events")

    EventList.model_validate_json(answer.text)
    (event,) = told(answer)["events"]
    assert event["job"]["phases"] == told(site.get(f"/v1/jobs/{job}"))["phases"] != []


def test_each_attempt_shows_the_phases_that_it_began(site: WebApi, app: Penstock) -> None:
    job = told(site.post("/v1/jobs", json={"definitionKey": "both"}), 201)["jobId"]
    hand = Hand(app)
    claimed = hand.claim_one(job)
    hand.complete(claimed, "fetch")
    app.store.run(
        jobs.save_phase(hand.held(claimed), "store", 1, "failed", progress=30, message="at work", error="no room")
    )
    hand.end(claimed, hand.failing(Failure("OSError", "no room")))

    answer = site.get(f"/v1/jobs/{job}/attempts")

    AttemptList.model_validate_json(answer.text)
    (attempt,) = told(answer)["attempts"]
    done, failed = attempt["phases"]
    assert (done["name"], done["status"], done["completedAt"]) == ("fetch", "completed", done["finishedAt"])
    assert failed | {"startedAt": None, "finishedAt": None} == {
        "name": "store", "position": 1, "status": "failed", "progress": 30.0, "message": "at work", "startedAt": None,
        "completedAt": None, "finishedAt": None, "error": "no room", "fence": 1,
    }  # fmt: skip
    assert failed["finishedAt"] is not None


def test_the_attempts_of_a_definition_that_cannot_be_read_are_shown(site: WebApi, app: Penstock) -> None:
    job = told(site.post("/v1/jobs", json={"definitionKey": "plain"}), 201)["jobId"]
    Hand(app).succeed(job)
    change(app.store, "UPDATE {s}definition SET body = 'broken'")

    (attempt,) = told(site.get(f"/v1/jobs/{job}/attempts"))["attempts"]

    assert [(each["name"], each["status"]) for each in attempt["phases"]] == [("run", "completed")]


def test_a_job_that_was_cancelled_before_it_began_never_had_a_phase(site: WebApi) -> None:
    job = told(site.post("/v1/jobs", json={"definitionKey": "plain"}), 201)["jobId"]

    told(site.post(f"/v1/jobs/{job}/cancel"), 202)

    found = told(site.get(f"/v1/jobs/{job}"))
    assert ([each["status"] for each in found["phases"]], found["duration"]) == (["pending"], None)
