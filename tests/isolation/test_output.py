"""What attempts say: logs, output, progress, events; captured, capped and without secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock import JobHandle
from penstock.domain.attempt import StoredLog
from penstock.isolation.output import MOST_BYTES
from penstock.storage.commands import admin
from penstock.worker.recorder import MOST_EVENTS
from tests.storage.tables import query
from tests.worker.fleet import Stage

pytestmark = pytest.mark.xdist_group("engine-output")

SECRET = "hunter2-and-more"


def all_logs(stage: Stage, job: JobHandle[Any]) -> list[StoredLog]:
    found: list[StoredLog] = []
    while more := stage.app.store.run(admin.logs(job.id, limit=500, after=found[-1].seq if found else 0)):
        found += more
    return found


def highest_memory(pid: int) -> int:
    """The most memory that a process ever had, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def test_every_way_to_say_something_is_captured_with_its_level(shared_stage: Stage) -> None:
    job = shared_stage.enqueue(
        "script",
        [
            ["log", "error", "from the context"],
            ["stdlib_log", "warning", "from logging"],
            ["print", "from stdout"],
            ["complain", "from stderr"],
            ["stdlib_log", "debug", "too small to be kept"],
        ],
    )

    shared_stage.end(job)

    assert {(line.message, line.level, line.phase, line.details_text) for line in shared_stage.logs(job)} == {
        ("from the context", "error", "run", '{"logger":"penstock.job.script"}'),
        ("from logging", "warning", "run", '{"logger":"other"}'),
        ("from stdout", "info", "run", '{"stream":"stdout"}'),
        ("from stderr", "warning", "run", '{"stream":"stderr"}'),
    }


def test_what_is_said_in_a_phase_is_kept_with_the_phase(shared_stage: Stage) -> None:
    script = [["log", "info", "logged"], ["print", "printed"]]
    job = shared_stage.app.enqueue("phased", {"scripts": {"first": script, "second": script}})

    shared_stage.end(job)

    assert [(line.phase, line.message) for line in shared_stage.logs(job) if line.message == "logged"] == [
        ("first", "logged"),
        ("second", "logged"),
    ]
    assert sorted(line.phase or "" for line in shared_stage.logs(job) if line.message == "printed") == [
        "first",
        "second",
    ]


def test_what_was_printed_before_something_was_logged_is_kept_before_it(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("script", [["print", "printed first"], ["log", "info", "logged second"]])

    shared_stage.end(job)

    assert [line.message for line in shared_stage.logs(job)] == ["printed first", "logged second"]


def test_what_an_attempt_printed_before_its_death_is_kept(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("script", [["print", "last words"], ["write_bytes", 1, b"no newline".hex()], ["die", 9]])

    shared_stage.end(job)

    assert [line.message for line in shared_stage.logs(job)] == ["last words", "no newline"]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a\x00b\n", ["a\ufffdb"]),
        (b"\xff\xfe\n", ["\\xff\\xfe"]),
        (b"\xed\xa0\x80\n", ["\\xed\\xa0\\x80"]),
        (b"one\r\n\ntwo", ["one", "", "two"]),
        ("ä🌊\n".encode(), ["ä🌊"]),
        (b"x" * 20_000, ["x" * 8000, "x" * 8000, "x" * 4000]),
    ],
)
def test_any_bytes_can_be_printed(shared_stage: Stage, data: bytes, lines: list[str]) -> None:
    job = shared_stage.enqueue("script", [["write_bytes", 1, data.hex()], ["return", 1]])

    ended = shared_stage.end(job)

    assert (ended.status, ended.result) == ("succeeded", 1)
    assert [line.message for line in shared_stage.logs(job)] == lines


def test_a_hundred_megabytes_are_cut_and_the_cut_is_shown(shared_stage: Stage) -> None:
    before = highest_memory(shared_stage.workers[0].pid)
    job = shared_stage.enqueue("script", [["flood", "stdout", 100], ["complain", "and this"], ["return", 1]])

    ended = shared_stage.end(job, 60)

    lines = all_logs(shared_stage, job)
    kept = [line.message for line in lines if line.details.get("stream") == "stdout"]
    assert ended.result == 1
    assert kept[-1] == f"… {100_000_000 - MOST_BYTES} bytes more were printed and are cut here."
    assert sum(len(line) + 1 for line in kept[:-1]) <= MOST_BYTES + 1
    assert [line.message for line in lines if line.details.get("stream") == "stderr"] == ["and this"]
    assert highest_memory(shared_stage.workers[0].pid) - before < 30_000_000


def test_ten_thousand_calls_of_progress_are_few_writes(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("script", [["progress", 10_000], ["note", "said"]])

    ended = shared_stage.end(job)

    (begun,), (said,) = shared_stage.journal(job, "begin"), shared_stage.journal(job, "said")
    written = [event for event in shared_stage.events(job) if event.type == "job.progress"]
    assert (ended.progress, ended.progress_message) == (100.0, "step 9999")
    assert len(written) <= (said["at"] - begun["at"]) * 4 + 3


@pytest.mark.parametrize("definition", ["script", "inline"])
@pytest.mark.parametrize(("count", "size", "kept"), [(MOST_EVENTS + 300, 0, MOST_EVENTS), (25, 900_000, 17)])
def test_a_flood_of_events_is_cut_and_the_cut_is_shown(
    shared_stage: Stage, definition: str, count: int, size: int, kept: int
) -> None:
    job = shared_stage.enqueue(definition, [["event_flood", count, size], ["return", 1]])

    ended = shared_stage.end(job, 60)

    rows = query(
        shared_stage.app.store, f"SELECT data FROM {{s}}event WHERE job_id = '{job.id}' AND kind = 'flood' ORDER BY seq"
    )
    told = [json.loads(str(data))["n"] for (data,) in rows]
    assert (ended.status, ended.result) == ("succeeded", 1)
    assert told == list(range(kept))
    assert [line.message for line in all_logs(shared_stage, job)] == [
        f"… {count - kept} events more were emitted and are cut here."
    ]


def test_a_handlers_own_events_are_kept_with_their_data(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("script", [["event", "invoice.sent", {"number": 7}], ["return", 1]])

    shared_stage.end(job)

    assert shared_stage.kinds(job) == ["job.enqueued", "job.started", "invoice.sent", "job.succeeded"]
    (own,) = [event for event in shared_stage.events(job) if event.type == "invoice.sent"]
    assert own.data == {"number": 7}


def test_an_event_that_looks_like_one_of_ours_is_refused(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("script", [["event", "job.succeeded", {}]])

    assert shared_stage.end(job).error_type == "penstock.InvalidInput"


class TestSecrets:
    """The values of secret parameters are shown nowhere."""

    def run(self, shared_stage: Stage, *script: list[Any]) -> JobHandle[Any]:
        job = shared_stage.app.enqueue("secretive", {"token": SECRET, "script": [list(step) for step in script]})
        shared_stage.end(job)
        return job

    def test_not_in_logs_and_output(self, shared_stage: Stage) -> None:
        job = self.run(
            shared_stage,
            ["print", "it is {token}!"],
            ["complain", "{token}"],
            ["log", "info", "log {token}"],
            ["stdlib_log", "error", "logging {token}"],
        )

        assert {line.message for line in shared_stage.logs(job)} == {"it is ***!", "***", "log ***", "logging ***"}

    def test_not_in_an_error_and_its_traceback(self, shared_stage: Stage) -> None:
        job = self.run(shared_stage, ["raise", "bad {token}"])

        (attempt,) = shared_stage.attempts(job)
        assert (attempt.error, job.job.error) == ("bad ***", "bad ***")
        assert "ValueError: bad ***" in (attempt.traceback or "")

    def test_not_in_the_traceback_of_a_log_line(self, shared_stage: Stage) -> None:
        job = self.run(shared_stage, ["log_exception", "bad {token}"])

        (line,) = shared_stage.logs(job)
        assert "bad ***" in (line.details_text or "")
        assert SECRET not in (line.details_text or "")

    def test_not_in_the_words_of_an_exit_or_a_progress(self, shared_stage: Stage) -> None:
        job = self.run(shared_stage, ["say_progress", 5, "with {token}"], ["exit", "bye {token}"])

        assert job.job.progress_message == "with ***"
        assert SECRET not in (job.job.error or "")
        assert "bye ***" in (job.job.error or "")

    def test_not_where_a_long_line_is_cut(self, shared_stage: Stage) -> None:
        padding = "x" * (8000 - 8)
        job = self.run(shared_stage, ["print", padding + "{token}"], ["log", "info", "y" * 7995 + "{token}"])

        said = "".join(line.message for line in shared_stage.logs(job))
        assert SECRET[:8] not in said

    def test_not_in_any_event(self, shared_stage: Stage) -> None:
        job = self.run(shared_stage, ["raise", "bad {token}"])

        assert SECRET not in "".join(event.data_text or "" for event in shared_stage.events(job))
