"""Parameters, results and what events say are values in Python, the same on a store and over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from penstock import Client, Event, Penstock
from penstock.domain import job_json
from penstock.domain.attempt import LogLine
from penstock.storage.commands import admin, jobs
from tests.definitions import shapes
from tests.http.raw import RawServer
from tests.operations.hand import Hand
from tests.waiting import wait_until


@pytest.fixture(params=["library", "client"])
def reader(request: pytest.FixtureRequest, app: Penstock) -> Iterator[Penstock | Client]:
    """The application itself, and a client of its server: what is read is the same."""
    if request.param == "library":
        yield app
        return
    server = RawServer(app)
    with Client(f"http://127.0.0.1:{server.address[1]}") as client:
        yield client
    server.stop()


def test_params_and_result_of_a_job_are_values(app: Penstock, reader: Penstock | Client) -> None:
    work = app.job("work")(shapes.plain)
    done, waiting = work.enqueue("ada", 2), work.enqueue("bob")
    Hand(app).succeed(done.id, '{"sum":3,"of":[1,2.5,null]}')

    job = reader.read_job(done.id)

    assert job.params == {"to": "ada", "copies": 2}
    assert job.result == {"sum": 3, "of": [1, 2.5, None]}
    assert reader.read_job(waiting.id).result is None
    assert reader.jobs(sort="createdAt").jobs[0].params["to"] == "ada"


def test_a_value_that_is_changed_changes_nothing_else(app: Penstock) -> None:
    job = app.job("work")(shapes.plain).enqueue("ada").job

    job.params["to"] = "bob"

    assert job.params == {"to": "ada"}
    assert job.params is not job.params


def test_what_an_event_says_is_an_object(app: Penstock) -> None:
    heard: list[Event] = []
    job = app.job("work")(shapes.plain).enqueue("ada")
    app.on("order.*", heard.append)
    hand = Hand(app)
    claimed = hand.claim_one(job.id)
    app.store.run(jobs.emit(hand.held(claimed), "order.sent", '{"phase":"load","rows":[1]}'))
    app.store.run(jobs.emit(hand.held(claimed), "order.seen", None))
    wait_until(lambda: len(heard) == 2, "the listener has heard both")

    said = {event.type: event.data for event in app.events(job_id=job.id, timeout=0)}

    assert said["order.sent"]["phase"] == "load"
    assert said["order.sent"] == {"phase": "load", "rows": [1]}
    assert said["order.seen"] == said["job.started"] == {}
    assert [event.data for event in heard] == [said["order.sent"], {}]
    app.close()


def test_phases_attempts_and_log_lines_hold_values(app: Penstock, reader: Penstock | Client) -> None:
    job = app.pipeline("work", shapes.plain, ("second", lambda ctx: None)).enqueue("ada")
    hand = Hand(app)
    claimed = hand.claim_one(job.id)
    hand.complete(claimed, "plain")
    lines = [LogLine("info", "read", details='{"rows":7}'), LogLine("info", "no more")]
    app.store.run(jobs.save_logs(hand.held(claimed), lines))
    hand.end(claimed, hand.succeeding("[1]"))

    assert reader.phases(job.id)[0].result == "plain"
    assert [each.result for each in reader.attempts(job.id)] == [[1]]
    assert [line.details for line in reader.logs(job.id)] == [{"rows": 7}, {}]


def test_what_a_review_was_asked_with_is_a_value(app: Penstock) -> None:
    job = app.job("work")(shapes.plain).enqueue("ada")
    Hand(app).ask_review(job.id, '{"draft":[1]}')

    (review,) = app.store.run(admin.reviews(job.id))

    assert review.data == review.result == {"draft": [1]}


def test_the_params_of_a_schedule_are_a_value(app: Penstock) -> None:
    app.job("work")(shapes.plain)
    app.register()

    row: Any = app.save_schedule("nightly", "work", cron="0 3 * * *", params={"to": "ada"})

    assert row.schedule.params == app.get_schedule("nightly").schedule.params == {"to": "ada"}


def test_a_text_that_nobody_reads_as_a_value_is_passed_on_as_it_is(app: Penstock) -> None:
    job = replace(app.job("work")(shapes.plain).enqueue("ada").job, params_text="{no JSON", result_text="1.0e0")

    assert '"params":{no JSON,"result":1.0e0' in job_json.job_text(job)
