"""`jobs watch` and `jobs wait`: live bars on a terminal, lines elsewhere, and an exit code that tells the outcome."""

from __future__ import annotations

import json
import re
import select
import signal
import subprocess

import pytest

from tests.cli.shell import Place, check_shape
from tests.waiting import wait_until
from tests.worker.fleet import PATIENCE

SCRIPTS = {
    "first": [["print", "hello from the first"], ["say_progress", 40, "almost"], ["sleep", 1.5]],
    "second": [["log", "warning", "\x1b[31mcareful"]],
    "third": [["return", {"made": 3}]],
}


@pytest.mark.parametrize(
    ("script", "code"),
    [([["return", 1]], 0), ([["raise", "no"]], 1)],
)
def test_the_exit_code_tells_how_a_job_ended(place: Place, script: list, code: int) -> None:
    found = place.start(*script)

    told = place.json("jobs", "wait", found, code=code, shape="GET /v1/jobs/{jobId} 200")

    assert told["jobId"] == found
    place.run("jobs", "watch", found, code=code)


def test_a_cancelled_job_has_an_exit_code_of_its_own(place: Place) -> None:
    found = place.waiting()
    place.app.jobs.cancel(found)

    place.run("jobs", "wait", found, code=8)


def test_a_wait_ends_with_its_time_and_the_job_goes_on(place: Place) -> None:
    found = place.waiting()

    problem = place.refused("jobs", "wait", found, "--timeout", "500ms", code=7)

    assert problem["code"] == "timed_out"
    assert place.app.jobs.read(found).status == "scheduled"


def test_a_job_is_waited_for_where_it_is_started(place: Place) -> None:
    told = place.json("enqueue", "script", 'script=[["return", 7]]', "--wait", shape="GET /v1/jobs/{jobId} 200")
    place.run("enqueue", "script", 'script=[["raise", "no"]]', "--watch", code=1)

    assert told["result"] == 7


def test_a_wait_says_immediately_and_again_why_nothing_happens(place: Place) -> None:
    place.app.definitions.pause("noop", "The disk is full.")
    waited = subprocess.Popen(
        place.line("enqueue", "noop", "--wait"), cwd=place.folder, env=place.environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert waited.stderr is not None

    first = [waited.stderr.readline() for _ in range(3)]
    job_id = first[0].split()[1]
    place.app.definitions.resume("noop")
    rest = waited.communicate(timeout=PATIENCE)[1]

    reasons = [line for line in [*first, *rest.splitlines()] if f"{job_id[-8:]} waits: " in line]
    assert len(reasons) >= 2
    assert all("The disk is full." in line for line in reasons[:2])
    assert waited.returncode == 0


def test_a_wait_for_a_job_of_later_says_when_it_is_due(place: Place) -> None:
    found = place.waiting()

    done = place.run("jobs", "wait", found, "--timeout", "500ms", code=7)

    assert f"{found[-8:]} waits: It is not due before" in done.err


def test_a_wait_with_json_keeps_stderr_for_the_error(place: Place) -> None:
    assert place.refused("jobs", "wait", place.waiting(), "--timeout", "500ms", code=7)["code"] == "timed_out"


def test_several_jobs_are_waited_for_together(remote: Place) -> None:
    good, bad = remote.start(["return", 1]), remote.start(["raise", "no"])

    done = remote.run("jobs", "wait", good, bad, "--json", code=9)

    told = json.loads(done.out)
    assert [each["status"] for each in told] == ["succeeded", "failed"]
    for each in told:
        check_shape("GET /v1/jobs/{jobId} 200", each)


def test_every_change_is_a_line_where_there_is_no_terminal(place: Place) -> None:
    found = place.app.enqueue("phased", {"scripts": SCRIPTS}).id

    lines = place.run("jobs", "watch", found).out.splitlines()

    said = [line.partition(" ")[2] for line in lines]
    assert said.index("started") < said.index("phase first 13% almost")
    assert [each for each in said if each.startswith("phase.completed")] == [
        "phase.completed  phase first", "phase.completed  phase second", "phase.completed  phase third"
    ]  # fmt: skip
    assert any("hello from the first" in each for each in said)
    assert any(r"\x1b[31mcareful" in each for each in said)
    assert re.fullmatch(r'✓ succeeded in \S+ \(1 attempt\)  result \{"made": 3\}', said[-1])
    assert "\x1b" not in "\n".join(lines)


def test_a_terminal_shows_phases_as_bars_that_move(place: Place) -> None:
    place.app.definitions.pause("phased", "until somebody watches")
    found = place.app.enqueue("phased", {"scripts": SCRIPTS}).id

    terminal = place.terminal("jobs", "watch", found)
    terminal.until("queued")
    place.app.definitions.resume("phased")
    terminal.until("40% almost")
    code = terminal.end()

    assert code == 0
    assert re.search(r"◐ first +\S+ +━+╸?╺?━* +40% almost", terminal.plain)
    assert re.search(r"· second", terminal.plain)
    last = terminal.plain[terminal.plain.rindex("phased …") :]
    assert re.findall(r"✓ (\w+) +\S+ +━+ +100%", last) == ["first", "second", "third"]
    assert "hello from the first" in terminal.plain
    assert r"\x1b[31mcareful" in terminal.plain
    assert "✓ succeeded in" in last
    assert '{"made": 3}' in last
    # The cursor is there again.
    assert terminal.shown.rindex("\x1b[?25h") > terminal.shown.rindex("\x1b[?25l")


def test_with_json_the_bars_stay_off_stdout(remote: Place) -> None:
    found = remote.start(["print", "hello"], ["return", 1])

    done = remote.run("jobs", "watch", found, "--json")

    check_shape("GET /v1/jobs/{jobId} 200", json.loads(done.out))
    assert "hello" in done.err


def test_control_c_stops_looking_and_cancels_nothing(place: Place) -> None:
    place.app.definitions.pause("script", "until nobody watches any more")
    found = place.start(["return", "whole"])

    terminal = place.terminal("jobs", "watch", found)
    terminal.until("queued")
    terminal.interrupt()
    code = terminal.end()
    place.app.definitions.resume("script")

    assert code == 130
    assert "detached; the jobs continue: penstock jobs watch" in terminal.plain
    assert place.app.get(found).result(PATIENCE) == "whole"


def test_events_are_printed_as_they_happen_until_control_c(place: Place) -> None:
    with subprocess.Popen(
        place.line("events", "tail", "--ndjson", "--definition-key", "tried_again"),
        cwd=place.folder, env=place.environment, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        wait_until(
            lambda: place.start(["return", 1], key="tried_again") and _readable(process), "an event came", PATIENCE
        )
        event = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        code = process.wait(PATIENCE)

    assert code == 130
    assert event["type"].startswith("job.")
    assert event["job"]["definitionKey"] == "tried_again"


def test_events_that_are_kept_are_one_document(place: Place) -> None:
    found = place.ended(["return", 1])

    told = place.json("events", "tail", "--job-id", found, "--after", "origin", "--type", "job.*", "--limit", "500",
                      shape="GET /v1/events 200")  # fmt: skip

    assert [each["type"] for each in told["events"]] == ["job.enqueued", "job.started", "job.succeeded"]


def _readable(process: subprocess.Popen[str]) -> bool:
    assert process.stdout is not None
    return bool(select.select([process.stdout], [], [], 0.3)[0])
