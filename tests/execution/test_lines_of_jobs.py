"""Log lines: their details, how long something took, and the lowest level that is kept."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worker.fleet import Stage

pytestmark = pytest.mark.xdist_group("engine-log-lines")

LEVELS: list[list[Any]] = [["log", level, level] for level in ("debug", "info", "warning", "error")]


def test_the_details_of_a_line_are_kept_with_it(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("script", [["log_more", "stored", {"rows": 3, "tables": ["a", "b"]}]])

    assert shared_stage.end(job).status == "succeeded"

    (line,) = shared_stage.logs(job)
    logger = "penstock.job.script"
    assert (line.message, line.details) == ("stored", {"rows": 3, "tables": ["a", "b"], "logger": logger})


def test_a_line_whose_details_are_no_json_is_kept_all_the_same(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("script", [["log_strange", "odd"], ["log_more", "long", "x" * 100_000]])

    assert shared_stage.end(job).status == "succeeded"

    odd, long = shared_stage.logs(job)
    assert (odd.message, odd.duration) == ("odd", None)
    assert "object" in str(odd.details["details"])
    assert str(long.details["details"]).endswith("… cut here")


def test_a_timed_block_logs_how_long_it_took(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("script", [["time", "extract", 0.05]])

    assert shared_stage.end(job).status == "succeeded"

    (line,) = shared_stage.logs(job)
    (measured,) = shared_stage.journal(job, "timed")
    assert (line.level, line.message, line.details["rows"]) == ("info", "extract", 3)
    assert line.duration is not None
    assert measured["least"] * 1e6 - 1 <= line.duration <= measured["most"] * 1e6 + 1


def test_a_timed_block_that_fails_says_so_and_lets_the_error_pass(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("script", [["time", "extract", 0, "LookupError"]])

    assert shared_stage.end(job).error_type == "LookupError"

    (line,) = shared_stage.logs(job)
    assert line.duration is not None
    assert line.details["error"] == "LookupError"


@pytest.mark.parametrize("key", ["timed", "inline_timed"])
def test_a_coroutine_times_what_it_awaits(shared_stage: Stage, key: str) -> None:
    job = shared_stage.app.enqueue(key)

    assert shared_stage.end(job).status == "succeeded"

    (line,) = shared_stage.logs(job)
    assert line.message == "awaited"
    assert line.duration, "the time of the wait is part of it"


@pytest.mark.parametrize(
    ("key", "kept"),
    [
        ("script", ["info", "warning", "error"]),
        ("talkative", ["debug", "info", "warning", "error"]),
        ("inline_talkative", ["debug", "info", "warning", "error"]),
        ("taciturn", ["warning", "error"]),
    ],
)
def test_the_definition_says_which_lines_are_kept(shared_stage: Stage, key: str, kept: list[str]) -> None:
    job = shared_stage.enqueue(key, LEVELS)

    assert shared_stage.end(job).status == "succeeded"

    assert [(line.level, line.message) for line in shared_stage.logs(job)] == [(level, level) for level in kept]


@pytest.mark.parametrize("key", ["script", "inline_talkative"])
def test_running_workers_keep_the_lines_that_an_operator_wants(shared_stage: Stage, key: str) -> None:
    def kept() -> list[str]:
        job = shared_stage.enqueue(key, LEVELS)
        assert shared_stage.end(job).status == "succeeded"
        return [line.level for line in shared_stage.logs(job)]

    code = kept()
    shared_stage.app.definitions.override(key, log_level="error", by="ann")
    shared_stage.eventually(lambda: kept() == ["error"], "fewer lines are kept")
    shared_stage.app.definitions.override(key, log_level="debug", by="ann")
    shared_stage.eventually(lambda: kept() == ["debug", "info", "warning", "error"], "more lines are kept")
    shared_stage.app.definitions.override(key, by="ann")

    shared_stage.eventually(lambda: kept() == code, "the lines that the code asks for are kept")
