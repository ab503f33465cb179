"""Every way in which an attempt can end by itself, on both stores."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import Any

import pytest

from penstock import Retry
from tests.worker.fleet import Stage

pytestmark = pytest.mark.xdist_group("engine-endings")

SUCCESS = ["on_end", "on_start", "on_success"]
FAILURE = ["on_end", "on_fail", "on_start"]


@dataclass(frozen=True)
class Ending:
    """A script, and what has to come of it."""

    script: list[list[Any]]
    cause: str
    error: str
    says: str
    definition: str = "hooked"
    code: int | None = None
    signal: int | None = None


ENDINGS = {
    "exception": Ending([["raise", "no good"]], "raised", "ValueError", "no good", code=0),
    "own exception": Ending([["cancel_self"]], "raised", "penstock.Cancelled", "by myself", code=0),
    "exception in a coroutine": Ending(
        [["sleep", 0.01], ["raise", "no good"]], "raised", "ValueError", "no good", "hooked_coroutine", code=0
    ),
    "exception without a text": Ending(
        [["raise_strange"]], "raised", "tests.worker.scripted_steps.Strange", "its text cannot be read", code=0
    ),
    "non-JSON result": Ending(
        [["return_made", "object"]], "raised", "penstock.InvalidPayload", "cannot be kept as JSON", code=0
    ),
    "oversized result": Ending(
        [["return_made", "large"]], "raised", "penstock.InvalidPayload", "larger than 1048576 bytes", code=0
    ),
    "sys.exit(0)": Ending([["exit", 0]], "exited", "SystemExit", "sys.exit(0)", code=0),
    "sys.exit(3)": Ending([["exit", 3]], "exited", "SystemExit", "sys.exit(3)", code=3),
    "sys.exit(text)": Ending([["exit", "enough"]], "exited", "SystemExit", "sys.exit('enough')", code=1),
    "os._exit(0)": Ending([["_exit", 0]], "exited", "Exit", "exit code 0 and gave no result", code=0),
    "os._exit(7)": Ending([["_exit", 7]], "exited", "Exit", "exit code 7 and gave no result", code=7),
    "closed line": Ending([["close_line"]], "exited", "Exit", "exit code 1 and gave no result", code=1),
    "segmentation fault": Ending([["segfault"]], "signalled", "Signal", "SIGSEGV", signal=signal.SIGSEGV),
    "SIGKILL": Ending([["die", 9]], "signalled", "Killed", "SIGKILL", signal=signal.SIGKILL),
    "another signal": Ending(
        [["ignore"], ["die", signal.SIGUSR1]], "signalled", "Signal", "SIGUSR1", signal=signal.SIGUSR1
    ),
    "memory limit": Ending(
        [["allocate", 200]], "out_of_memory", "MemoryError",
        "No memory was left for an allocation of the handler. ", "hooked_small", code=0,
    ),
    "words before the end": Ending(
        [["complain", "out of luck"], ["_exit", 1]], "exited", "Exit",
        "exit code 1 and gave no result. Its last line on stderr: out of luck", code=1,
    ),
    "memory limit of the tree": Ending(
        [["allocate_below", 160]], "out_of_memory", "OutOfMemory", "are allowed", "hooked_small", signal=signal.SIGKILL
    ),
    "CPU limit": Ending([["spin", 30]], "signalled", "CpuLimit", "SIGXCPU", "hooked_busy", signal=signal.SIGXCPU),
    "timeout in a sleep": Ending(
        [["sleep", 30]], "timed_out", "Timeout", "took longer than 1 s.", "hooked_short", code=0
    ),
    "timeout in C": Ending(
        [["c_sleep", 30]], "timed_out", "Timeout", "took longer than 1 s.", "hooked_short", code=0
    ),
    "timeout while ignoring the request": Ending(
        [["ignore"], ["sleep", 30]], "timed_out", "Timeout", "was killed", "hooked_short", signal=signal.SIGKILL
    ),
    "fork bomb": Ending(
        [["fork_bomb"]], "signalled", "TooManyProcesses", "are allowed", "hooked_few", signal=signal.SIGKILL
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDINGS)
def test_an_attempt_that_fails_is_recorded_as_what_it_was(shared_stage: Stage, name: str) -> None:
    ending = ENDINGS[name]
    job = shared_stage.enqueue(ending.definition, ending.script)

    ended = shared_stage.end(job)

    (attempt,) = shared_stage.attempts(job)
    assert (ended.status, ended.error_type, ended.attempts) == ("failed", ending.error, 1)
    assert (attempt.cause, attempt.exit_code, attempt.signal) == (ending.cause, ending.code, ending.signal)
    assert ending.says in (attempt.error or "")
    assert attempt.error == ended.error
    assert (attempt.peak_memory or 0) > 1_000_000
    assert attempt.cpu_seconds is not None
    assert shared_stage.kinds(job) == ["job.enqueued", "job.started", "job.failed"]
    assert shared_stage.hooks(job, *FAILURE) == FAILURE
    assert shared_stage.workers[0].alive


@pytest.mark.parametrize(
    ("definition", "script", "result"),
    [
        ("hooked", [["return", {"a": [1, "ä"]}]], {"a": [1, "ä"]}),
        ("hooked", [], None),
        ("hooked", [["return_made", "date"]], "2026-01-02T00:00:00Z"),
        ("hooked", [["return_made", "set"]], [1]),
        ("hooked", [["close_output"], ["return", 1]], 1),
        ("hooked_coroutine", [["sleep", 0.01], ["return", 5]], 5),
    ],
)
def test_an_attempt_that_returns_succeeds_with_what_it_gave(
    shared_stage: Stage, definition: str, script: list[list[Any]], result: object
) -> None:
    job = shared_stage.enqueue(definition, script)

    ended = shared_stage.end(job)

    (attempt,) = shared_stage.attempts(job)
    assert (ended.status, ended.result, ended.error) == ("succeeded", result, None)
    assert (attempt.cause, attempt.exit_code, attempt.signal) == ("returned", 0, None)
    assert (attempt.peak_memory or 0) > 1_000_000
    assert attempt.cpu_seconds is not None
    assert shared_stage.kinds(job) == ["job.enqueued", "job.started", "job.succeeded"]
    assert shared_stage.hooks(job, *SUCCESS) == SUCCESS


def test_what_is_returned_after_the_time_was_over_does_not_count(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("hooked_short", [["catch_cancel", 30], ["return", "late"]])

    ended = shared_stage.end(job)

    assert (ended.status, ended.result, ended.error_type) == ("failed", None, "Timeout")


def test_large_parameters_and_results_come_through(shared_stage: Stage) -> None:
    text = "ä" * 500_000
    job = shared_stage.enqueue("script", [["return", text]])

    assert job.result(30) == text


@pytest.mark.skipif(os.getuid() != 0, reason="for others the kernel counts the dead as well")
def test_dead_processes_that_nobody_reaped_do_not_count_as_processes(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("few_processes", [["zombies", 60], ["return", 1]])

    assert shared_stage.end(job).result == 1


def test_cpu_seconds_and_memory_are_what_was_used(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("script", [["spin", 0.5], ["allocate", 150, 0]])

    shared_stage.end(job)

    (attempt,) = shared_stage.attempts(job)
    assert 0.5 <= (attempt.cpu_seconds or 0) < 5
    assert 150_000_000 < (attempt.peak_memory or 0) < 600_000_000


def test_a_traceback_shows_the_handlers_lines_and_not_ours(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("script", [["raise", "where am I"]])

    shared_stage.end(job)

    (attempt,) = shared_stage.attempts(job)
    assert "in _raise\n    raise ValueError(text)" in (attempt.traceback or "")
    assert "penstock/engine" not in (attempt.traceback or "")


def test_errors_that_python_raises_for_signals_are_raised(shared_stage: Stage) -> None:
    pipe = shared_stage.enqueue("script", [["break_pipe"]])
    file = shared_stage.enqueue("few_files", [["grow", 3]])

    assert shared_stage.end(pipe).error_type == "BrokenPipeError"
    assert shared_stage.end(file).error_type == "OSError"


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ([["write_line", b"\x00\x00\x00\x05hello".hex()], ["sleep", 30]], "no JSON"),
        ([["write_line", b"\x00\x00\x00\x02[]".hex()], ["sleep", 30]], "no object"),
        ([["write_line", b"\x7f\xff\xff\xff".hex()], ["sleep", 30]], "2147483647 bytes"),
        ([["write_line", b"x".hex(), 100_000], ["sleep", 30]], "bytes"),
        ([["write_line", b"\x00\x01\x00\x00{".hex()], ["return", 5]], "last frame is incomplete"),
        ([["forge", '{"say": "nonsense"}']], "nonsense"),
        ([["forge", '{"say": "progress"}']], "message"),
        ([["forge", '{"say": "progress", "percent": NaN, "message": null, "phase": "run"}']], "percentage"),
        ([["forge", '{"say": "phase", "name": "x", "position": 1000000000000000000000000}']], "position"),
        ([["forge", '{"say": "event", "kind": "own", "data": "{"}']], "JSON"),
        ([["forge", '{"say": "outcome", "trigger": "cancel", "failure": null}']], "cancel"),
    ],
)
def test_what_is_no_frame_ends_the_attempt_and_not_the_worker(
    shared_stage: Stage, script: list[list[Any]], says: str
) -> None:
    job = shared_stage.enqueue("hooked", script)

    ended = shared_stage.end(job)

    assert (ended.status, ended.error_type) == ("failed", "ProtocolError")
    assert says in (ended.error or "")
    assert shared_stage.hooks(job, *FAILURE) == FAILURE
    assert shared_stage.end(shared_stage.enqueue("script", [["return", 1]])).result == 1


class TestVerdicts:
    """What a handler may raise to say how its attempt shall end."""

    def test_retry_tries_again_after_the_time_it_names(self, shared_stage: Stage) -> None:
        job = shared_stage.enqueue("hooked_again", [["retry", 0.2]])

        ended = shared_stage.end(job)

        assert (ended.status, ended.attempts) == ("failed", 3)
        first, second, third = shared_stage.attempts(job)
        assert {first.cause, second.cause, third.cause} == {"raised"}
        begun = [line["at"] for line in shared_stage.journal(job, "begin")]
        assert begun[1] - begun[0] >= 0.2
        assert begun[2] - begun[1] >= 0.2
        assert shared_stage.kinds(job) == [
            "job.enqueued",
            *("job.started", "job.retrying") * 2,
            "job.started",
            "job.failed",
        ]
        shared_stage.noted(job, "on_retry", 2)
        shared_stage.noted(job, "on_start", 3)
        assert shared_stage.hooks(job, *FAILURE) == ["on_end", "on_fail", "on_retry", "on_retry", *["on_start"] * 3]
        assert Retry.__name__ in (first.error_type or "")

    def test_fail_gives_up_at_once(self, shared_stage: Stage) -> None:
        job = shared_stage.enqueue("hooked_again", [["fail", "hopeless"]])

        ended = shared_stage.end(job)

        assert (ended.status, ended.attempts, ended.error) == ("failed", 1, "hopeless")
        assert shared_stage.kinds(job) == ["job.enqueued", "job.started", "job.failed"]

    def test_snooze_comes_back_and_costs_no_attempt(self, shared_stage: Stage) -> None:
        job = shared_stage.enqueue("script", [["snooze_before", 3], ["return", "awake"]])

        ended = shared_stage.end(job)

        assert (ended.status, ended.result, ended.attempts, ended.fence) == ("succeeded", "awake", 1, 3)
        assert [each.cause for each in shared_stage.attempts(job)] == ["snoozed", "snoozed", "returned"]
        assert shared_stage.kinds(job).count("job.snoozed") == 2

    @pytest.mark.parametrize(
        ("definition", "error", "attempts"),
        [
            ("picky", "KeyError", 2),
            ("picky", "ConnectionError", 2),
            ("picky", "ValueError", 1),
            ("squeamish", "KeyError", 1),
            ("squeamish", "ValueError", 2),
        ],
    )
    def test_only_errors_that_may_pass_are_tried_again(
        self, shared_stage: Stage, definition: str, error: str, attempts: int
    ) -> None:
        job = shared_stage.enqueue(definition, [["raise_named", error]])

        assert shared_stage.end(job).attempts == attempts

    def test_the_backoff_of_the_definition_is_kept(self, shared_stage: Stage) -> None:
        job = shared_stage.enqueue("patient", [["raise"]])

        shared_stage.end(job)

        begun = [line["at"] for line in shared_stage.journal(job, "begin")]
        assert len(begun) == 3
        assert begun[1] - begun[0] >= 0.2
        assert begun[2] - begun[1] >= 0.5

    def test_an_error_that_passes_is_forgotten(self, shared_stage: Stage) -> None:
        job = shared_stage.enqueue("tried_again", [["raise_before", 3], ["return", "at last"]])

        ended = shared_stage.end(job)

        assert (ended.status, ended.result, ended.attempts) == ("succeeded", "at last", 3)
