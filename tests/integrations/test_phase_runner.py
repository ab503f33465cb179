"""The phase runner without a store: what is kept is not done again, and every ending is an outcome."""

from __future__ import annotations

import pytest

from penstock import Context, Fail, InvalidDefinition, NeedsReview, Retry
from penstock.domain.states import Trigger
from penstock.integrations import phase_runner


def test_the_result_is_that_of_the_last_phase_and_all_are_kept() -> None:
    kept: dict[str, str] = {}

    outcome = phase_runner.run(
        [("one", lambda number: number + 1), ("two", lambda ctx: ctx.results)], {"number": 1}, kept=kept
    )

    assert outcome.trigger is Trigger.SUCCEED
    assert (outcome.result, kept) == ('{"one":2}', {"one": "2", "two": '{"one":2}'})


def test_what_is_kept_is_not_done_again() -> None:
    def first() -> None:
        raise AssertionError("it was done again")

    def second(ctx: Context) -> str:
        return f"after {ctx.results['first']}"

    assert phase_runner.run([first, second], kept={"first": '"earlier"'}).result == '"after earlier"'


def test_phases_may_be_coroutines() -> None:
    async def wait() -> int:
        return 7

    assert phase_runner.run([wait]).result == "7"


@pytest.mark.parametrize(
    ("error", "trigger", "retryable", "delay"),
    [
        (ValueError("no"), Trigger.FAIL, True, None),
        (Fail("no"), Trigger.FAIL, False, None),
        (Retry(after=2), Trigger.FAIL, True, 2_000_000),
        (NeedsReview("look"), Trigger.ASK_REVIEW, True, None),
    ],
)
def test_whatever_is_raised_is_an_outcome(
    error: Exception, trigger: Trigger, retryable: bool, delay: int | None
) -> None:
    def fails() -> None:
        raise error

    outcome = phase_runner.run([fails])

    assert (outcome.trigger, outcome.retryable, outcome.delay) == (trigger, retryable, delay)


def test_progress_is_that_of_the_whole() -> None:
    heard: list[tuple[float, str | None, str]] = []

    def first(ctx: Context) -> None:
        ctx.progress(50, "half")

    def second(ctx: Context) -> None:
        ctx.progress(50)

    phase_runner.run([first, second], progress=lambda *told: heard.append(told))

    assert heard == [(25.0, "half", "first"), (75.0, None, "second")]


def test_there_are_no_jobs_without_a_store() -> None:
    def first(ctx: Context) -> None:
        ctx.enqueue("another")

    failure = phase_runner.run([first]).failure

    assert failure is not None
    assert "no store" in failure.message


def test_two_phases_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidDefinition, match="two phases are called 'one'"):
        phase_runner.run([("one", print_nothing), ("one", print_nothing)])


def print_nothing() -> None: ...
