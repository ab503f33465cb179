"""Jobs of several phases: which functions run, in which order, and what of the parameters each gets."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from penstock import InvalidDefinition, Penstock
from penstock.domain.errors import Conflict
from penstock.storage.commands import admin, jobs
from tests.operations.hand import Hand


def download(ctx: Any, url: str) -> str:
    return f"{ctx} got {url}"


def process(size: int = 3) -> int:
    return size


def upload(ctx: Any, url: str, size: int = 1, day: date | None = None) -> tuple[Any, ...]:
    return ctx, url, size, day


async def rest(**everything: Any) -> dict[str, Any]:
    return everything


def generate() -> Any:
    yield 1


def test_a_plain_job_has_one_phase_called_run(memory_app: Penstock) -> None:
    handle = memory_app.job("video")(upload)

    (step,) = handle.steps

    assert handle.definition.phases == ("run",)
    assert (step.name, step.function, step.takes_context, step.names) == ("run", upload, True, ("url", "size", "day"))
    assert not step.open_ended


def test_the_decorated_function_is_the_last_phase(memory_app: Penstock) -> None:
    handle = memory_app.job("video", phases=[download, ("squeeze", process)])(upload)

    assert handle.definition.phases == ("download", "squeeze", "upload")
    assert [step.function for step in handle.steps] == [download, process, upload]
    assert handle.signature.names == ["url", "size", "day"]
    assert handle.order("x").params == '{"url":"x"}'


def test_a_pipeline_takes_the_parameters_of_its_first_function(memory_app: Penstock) -> None:
    handle = memory_app.pipeline("video", ("fetch", upload), process, download, priority=3)

    assert handle.definition.phases == ("fetch", "process", "download")
    assert handle.definition.priority == 3
    assert handle.definition.description == ""
    assert handle.order(url="x", size=2).params == '{"url":"x","size":2}'


def test_a_pipeline_is_enqueued_and_its_phases_are_kept_by_the_store(app: Penstock) -> None:
    handle = app.pipeline("video", upload, process)

    job = handle.enqueue("x")

    assert job.created
    assert app.store.run(admin.definition("video")).definition.phases == ("upload", "process")


def test_a_pipeline_cannot_be_called(memory_app: Penstock) -> None:
    handle = memory_app.pipeline("video", upload, process)

    with pytest.raises(Conflict, match="video is a pipeline of 2 phases and cannot be called"):
        handle("x")


def test_each_step_gets_what_its_function_takes(memory_app: Penstock) -> None:
    handle = memory_app.job("video", phases=[download, process])(upload)
    arguments = handle.signature.arguments('{"url":"x","size":7,"day":"2026-01-02"}')

    first, second, third = (step.call("ctx", arguments) for step in handle.steps)

    assert first == "ctx got x"
    assert second == 7
    assert third == ("ctx", "x", 7, date(2026, 1, 2))


def test_what_was_not_given_is_the_same_for_all_phases(memory_app: Penstock) -> None:
    handle = memory_app.job("video", phases=[process])(upload)

    first, second = (step.call("ctx", handle.signature.arguments('{"url":"x"}')) for step in handle.steps)

    assert first == 1
    assert second == ("ctx", "x", 1, None)


async def test_a_phase_that_takes_anything_gets_everything(memory_app: Penstock) -> None:
    handle = memory_app.job("video", phases=[rest])(upload)

    got = await handle.steps[0].call("ctx", {"url": "x", "size": 7})

    assert got == {"url": "x", "size": 7, "day": None}


def test_a_job_that_takes_anything_has_phases_that_take_anything(memory_app: Penstock) -> None:
    handle = memory_app.pipeline("open", rest, process, download)

    assert handle.steps[1].call(None, {"size": 5, "other": 1}) == 5


@pytest.mark.parametrize(
    ("phases", "problem", "hint"),
    [
        ([lambda other: other], "'<lambda>' cannot be the name of a phase", "(name, function)"),
        ([("x", lambda other: other)], "phase 'x' takes 'other', which is no parameter of the job", "url, size"),
        ([("x", lambda *rest: rest)], "phase 'x': parameter 'rest' cannot be given by name", ""),
        ([process, process], "two phases are called 'process'", "(name, function)"),
        ([upload], "two phases are called 'upload'", ""),
        ([("", process)], "'' cannot be the name of a phase", ""),
        ([(5, process)], "5 cannot be the name of a phase", ""),
        (["download"], "a phase needs a function, not 'download'", ""),
        ([generate], "generate is a generator", ""),
        ("download", "phases must be a list of functions, not 'download'", ""),
        (download, "phases must be a list of functions", ""),
    ],
)
def test_phases_that_are_wrong_are_refused(memory_app: Penstock, phases: Any, problem: str, hint: str) -> None:
    with pytest.raises(InvalidDefinition) as raised:
        memory_app.job("video", phases=phases)(upload)

    assert problem in raised.value.message
    assert hint in raised.value.hint
    assert memory_app.definitions.declared == []


def test_a_pipeline_needs_phases_and_takes_no_others(memory_app: Penstock) -> None:
    with pytest.raises(InvalidDefinition, match="video: a pipeline needs at least one phase"):
        memory_app.pipeline("video")
    with pytest.raises(InvalidDefinition, match=r"'phases' is not an option of app\.pipeline"):
        memory_app.pipeline("video", upload, phases=[process])


def test_every_phase_of_an_inline_job_must_be_async(memory_app: Penstock) -> None:
    memory_app.pipeline("fine", rest, ("again", rest), isolation="inline")

    with pytest.raises(InvalidDefinition, match="needs an async def, and process is none"):
        memory_app.pipeline("video", rest, process, isolation="inline")


def test_a_key_stands_for_the_same_phases_only(memory_app: Penstock) -> None:
    memory_app.pipeline("video", upload, process)
    memory_app.pipeline("video", upload, process)

    with pytest.raises(InvalidDefinition, match="'video' version 1 is defined twice"):
        memory_app.pipeline("video", upload, download)
    with pytest.raises(InvalidDefinition, match="'video' version 1 is defined twice"):
        memory_app.pipeline("video", upload)


def test_a_running_phase_tells_how_far_it_is_and_the_others_keep_what_they_had(app: Penstock) -> None:
    handle = app.pipeline("video", upload, process)
    job = handle.enqueue("x")
    hand = Hand(app)
    claimed = hand.claim_one(job.id)
    hand.complete(claimed, "upload")
    app.store.run(jobs.save_phase(hand.held(claimed), "process", 1, "running"))

    app.store.run(jobs.save_progress([(hand.held(claimed), 70.0, "frame 4", "process")]))

    first, second = app.jobs.phases(job.id)
    assert (first.status, first.message) == ("completed", None)
    assert (second.status, second.progress, second.message) == ("running", 40.0, "frame 4")


def test_a_phase_of_which_nothing_was_told_yet_is_at_its_beginning(app: Penstock) -> None:
    handle = app.pipeline("video", upload, process)
    job = handle.enqueue("x")
    hand = Hand(app)
    claimed = hand.claim_one(job.id)
    app.store.run(jobs.save_phase(hand.held(claimed), "upload", 0, "running"))

    phase, later = app.jobs.phases(job.id)

    assert (phase.status, phase.progress, phase.message) == ("running", 0.0, None)
    assert (later.status, later.progress) == ("pending", 0.0)
