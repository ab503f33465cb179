"""What a handler can do beside its work: create, read and cancel jobs, and use resources."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import JobHandle
from tests.worker.fleet import Stage

pytestmark = pytest.mark.xdist_group("engine-inside")


def children(stage: Stage, job: JobHandle[Any]) -> list[str]:
    return [each.id for each in stage.app.jobs.list(parent_id=job.id).jobs]


def test_a_job_that_crashes_after_its_second_child_has_three_children_after_its_retry(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("tried_again", [["enqueue", 3, 2]])

    ended = shared_stage.end(job)

    assert (ended.status, ended.attempts) == ("succeeded", 2)
    assert len(children(shared_stage, job)) == 3
    assert [shared_stage.end(child).status for child in children(shared_stage, job)] == ["succeeded"] * 3


def test_every_way_to_enqueue_makes_a_child_of_its_own(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("script", [["mix_children"]])

    shared_stage.end(job)

    (made,) = shared_stage.journal(job, "children")
    assert len(set(made["ids"])) == 4
    assert sorted(children(shared_stage, job)) == sorted(made["ids"])


def test_an_attempt_that_is_tried_again_gets_the_children_it_had(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("tried_again", [["mix_children"], ["raise_before", 2]])

    shared_stage.end(job)

    first, second = shared_stage.journal(job, "children")
    assert first["ids"] == second["ids"]
    assert len(children(shared_stage, job)) == 4


def test_phases_that_enqueue_the_same_have_children_of_their_own(shared_stage: Stage) -> None:
    script = [["enqueue", 1]]
    job = shared_stage.app.enqueue("phased", {"scripts": {"first": script, "second": script}})

    assert shared_stage.end(job).status == "succeeded"
    assert len(children(shared_stage, job)) == 2


def test_more_than_fits_is_refused_and_the_job_goes_on(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("script", [["enqueue_too_much"]])

    ended = shared_stage.end(job)

    assert ended.error_type == "penstock.InvalidPayload"
    assert "Split it into several calls" in (ended.error or "")
    assert children(shared_stage, job) == []


@pytest.mark.parametrize("definition", ["script", "hooked"])
def test_a_job_does_not_reach_jobs_of_others(shared_stage: Stage, definition: str) -> None:
    other = shared_stage.enqueue("script", [["return", 1]], delay=3600, reference=("order", "2"))
    job = shared_stage.enqueue(definition, [["ask_about", other.id]], reference=("order", "1"))

    ended = shared_stage.end(job)

    assert ended.error_type == "penstock.Forbidden"
    assert f"Job {other.id} cannot be read by job {job.id}" in (ended.error or "")
    assert "reach='any'" in (ended.error or "")
    assert other.refresh().status == "scheduled"


def test_a_job_reads_and_cancels_jobs_of_its_reference(shared_stage: Stage) -> None:
    other = shared_stage.enqueue("tried_again", [["return", 1]], delay=3600, reference=("order", "1"))
    job = shared_stage.enqueue("script", [["ask_about", other.id]], reference=("order", "1"))

    ended = shared_stage.end(job)

    assert ended.status == "succeeded", ended.error
    assert other.refresh().status == "cancelled"


def test_the_worker_checks_parameters_that_code_calls_checked(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("script", [["forge_order", '{"key": 5, "colour": "red"}']])

    ended = shared_stage.end(job)

    assert ended.error_type == "penstock.InvalidPayload"
    assert "Parameters of keyed do not fit" in (ended.error or "")
    assert children(shared_stage, job) == []


def test_a_definition_with_reach_any_reads_and_cancels_other_jobs(shared_stage: Stage) -> None:
    other = shared_stage.enqueue("script", [["return", 1]], delay=3600)
    job = shared_stage.enqueue("reaching", [["ask_about", other.id]])

    ended = shared_stage.end(job)

    (asked,) = shared_stage.journal(job, "asked")
    assert ended.status == "succeeded", ended.error
    assert (asked["before"], asked["after"]) == ("scheduled", "cancelled")
    assert other.refresh().status == "cancelled"


def test_a_job_that_is_not_there_is_an_error_of_the_handler(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("reaching", [["ask_about", "01234567-89ab-7def-8123-456789abcdef"]])

    ended = shared_stage.end(job)

    assert ended.error_type == "penstock.NotFound"
    assert "01234567-89ab-7def-8123-456789abcdef" in (ended.error or "")


def test_the_store_cannot_be_opened_from_inside(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("script", [["touch_store"]])

    ended = shared_stage.end(job)

    assert ended.status == "failed"
    assert (ended.error_type or "").startswith("penstock.")
    assert "inside" in (ended.error or "")


@pytest.mark.parametrize("then", [["return", 1], ["raise", "no good"], ["exit", 3]])
def test_a_resource_is_opened_once_and_closed_at_the_end(shared_stage: Stage, then: list[Any]) -> None:
    job = shared_stage.enqueue("script", [["use", "tool"], ["use", "tool"], then])

    shared_stage.end(job)

    assert [line["what"] for line in shared_stage.journal(job)] == ["begin", "opened", "used", "used", "end", "closed"]
    assert shared_stage.journal(job, "used")[0]["value"] == "a tool"


def test_a_resource_that_nobody_registered_is_a_clear_error(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("script", [["use", "spoon"]])

    ended = shared_stage.end(job)

    assert "There is no resource 'spoon'; registered: sticky, tool." in (ended.error or "")


def test_a_resource_that_cannot_be_closed_spoils_nothing(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("script", [["use", "sticky"], ["return", 1]])

    ended = shared_stage.end(job)

    assert (ended.status, ended.result) == ("succeeded", 1)
    (line,) = shared_stage.logs(job)
    assert (line.level, "it does not come off" in line.message) == ("warning", True)


def test_a_handler_knows_what_its_job_is_about(shared_stage: Stage) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    job = shared_stage.enqueue(
        "script",
        [["facts"]],
        reference=("order", "17"),
        tags=["b", "a"],
        max_attempts=4,
        traceparent=trace,
        tracestate="shop=a b, other=1",
    )

    shared_stage.end(job)

    (facts,) = shared_stage.journal(job, "facts")
    assert {name: facts[name] for name in ("job", "fence", "attempt", "most")} == {
        "job": job.id,
        "fence": 1,
        "attempt": 1,
        "most": 4,
    }
    assert (facts["definition"], facts["phase"], facts["params"]) == ("script", "run", {"script": [["facts"]]})
    assert (facts["reference"], sorted(facts["tags"]), facts["traceparent"]) == (["order", "17"], ["a", "b"], trace)
    assert facts["tracestate"] == "shop=a b,other=1"
    assert (facts["review"], facts["settings"]) == (None, {})


class TestForks:
    """Processes that a handler forks are its own affair: only the attempt's own process speaks for the job."""

    def test_a_fork_that_comes_back_out_of_the_handler_does_not_end_the_attempt(self, shared_stage: Stage) -> None:
        job = shared_stage.enqueue("script", [["use", "tool"], ["fork_and_go_on"], ["return", "from the right one"]])

        ended = shared_stage.end(job)

        assert (ended.status, ended.result) == ("succeeded", "from the right one")
        assert len(shared_stage.attempts(job)) == 1
        assert [line["what"] for line in shared_stage.journal(job)].count("closed") == 1

    def test_a_fork_can_log_but_not_speak_for_the_job(self, shared_stage: Stage) -> None:
        job = shared_stage.enqueue("script", [["speak_below"], ["return", 1]])

        ended = shared_stage.end(job)

        assert ended.status == "succeeded"
        assert [line.message for line in shared_stage.logs(job)] == ["from below"]
        assert "cannot report for the job" in shared_stage.journal(job, "refused")[0]["error"]

    def test_a_pool_of_processes_works_and_says_nothing_at_its_end(self, shared_stage: Stage) -> None:
        job = shared_stage.enqueue("script", [["pool", 2], ["return", 1]])

        ended = shared_stage.end(job)

        assert (ended.status, ended.error) == ("succeeded", None)
        assert shared_stage.journal(job, "pool")[0]["total"] == 5050
        assert shared_stage.logs(job) == []

    def test_a_fork_that_is_asked_to_end_does_so_however_young_it_is(self, shared_stage: Stage) -> None:
        job = shared_stage.enqueue("script", [["end_forks", 200], ["return", 1]])

        ended = shared_stage.end(job)

        assert ended.status == "succeeded"
        assert shared_stage.journal(job, "ended")[0]["forks"] == 200
