"""`penstock enqueue` and `penstock jobs`: each command against a server and on a store."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from penstock import Status
from tests.cli.shell import Place, Shell, check_shape
from tests.operations.between import Between


def test_a_job_is_started_and_its_id_stands_alone_on_stdout(place: Place) -> None:
    done = place.run("enqueue", "noop", "--tag", "a", "--tag", "b", "--reference", "order:7", "--priority", "15",
                     "--delay", "1d")  # fmt: skip

    job = place.app.jobs.read(done.out.strip())
    assert (job.definition_key, job.tags, job.priority, job.status) == ("noop", ("a", "b"), 15, Status.SCHEDULED)
    assert (job.reference_type, job.reference_id) == ("order", "7")
    assert "penstock jobs watch" in done.err


def test_a_started_job_is_told_as_the_api_does(place: Place) -> None:
    told = place.json("enqueue", "noop", "--idempotency-key", f"k-{place.flags[0]}", shape="POST /v1/jobs 201")
    again = place.json("enqueue", "noop", "--idempotency-key", f"k-{place.flags[0]}", shape="POST /v1/jobs 200")

    assert (told["created"], again["created"]) == (True, False)
    assert told["jobId"] == again["jobId"]


def test_parameters_are_json_where_they_can_be_and_text_where_the_definition_wants_text(place: Place) -> None:
    found = place.run("enqueue", "keyed", "key=123", 'script=[["return", 5]]').out.strip()

    assert place.app.jobs.read(found).params == {"key": "123", "script": [["return", 5]]}


def test_parameters_come_from_json_a_file_or_stdin(remote: Place) -> None:
    (remote.folder / "params.json").write_text('{"script": [["return", 1]]}')

    by_text = remote.run("enqueue", "script", "--params", '{"script": [["return", 1]]}').out.strip()
    by_file = remote.run("enqueue", "script", "--params", "@params.json").out.strip()
    by_stdin = remote.run("enqueue", "script", "--params", "-", stdin='{"script": [["return", 1]]}').out.strip()

    stored = [remote.app.jobs.read(each).params for each in (by_text, by_file, by_stdin)]
    assert stored == [{"script": [["return", 1]]}] * 3


@pytest.mark.parametrize(
    ("words", "code", "kind"),
    [
        (("enqueue", "noop", "width"), 2, "invalid_request"),
        (("enqueue", "noop", "--params", "[1]"), 2, "invalid_request"),
        (("enqueue", "noop", "--params", "{"), 2, "invalid_request"),
        (("enqueue", "noop", "--params", "@missing.json"), 2, "invalid_request"),
        (("enqueue", "noop", "--run-at", "never"), 2, "invalid_request"),
        (("enqueue", "noop", "--reference", "order"), 2, "invalid_request"),
        (("enqueue", "noop", "--timeout", "1s"), 2, "invalid_request"),
        (("enqueue", "script", "script=5"), 2, "invalid_params"),
        (("enqueue", "nobody.knows.it"), 3, "not_found"),
        (("jobs", "show", "not/an/id"), 2, "invalid_request"),
        (("jobs", "show", "ffffffffffff"), 3, "not_found"),
        (("jobs", "why", "01890a5d-ac96-774b-bcce-b302099a8057"), 3, "not_found"),
        (("jobs", "list", "--limit", "0"), 2, "invalid_request"),
        (("jobs", "list", "--status", "tired"), 2, "invalid_request"),
        (("jobs", "cancel"), 2, "invalid_request"),
        (("jobs", "reschedule", "@last"), 2, "invalid_request"),
        (("jobs", "lst"), 2, "invalid_request"),
        (("jobs", "show"), 2, "invalid_request"),
        (("jobs", "list", "--no-such-flag"), 2, "invalid_request"),
    ],
)
def test_a_wrong_call_has_its_exit_code_and_a_problem_in_the_shape_of_the_api(
    remote: Place, words: tuple[str, ...], code: int, kind: str
) -> None:
    assert remote.refused(*words, code=code)["code"] == kind


@pytest.mark.parametrize(
    "words",
    [
        ("enqueue", "noop", "--params", '{"name": "\\ud800"}'), ("enqueue", "noop", "name=\udcff"),
        ("enqueue", "noop", "width=1e999"), ("enqueue", "\udcff"), ("jobs", "list", "--tag", "\udcff"),
        ("definitions", "show", "\udcff"), ("events", "tail", "--after", "ü"),
        ("events", "tail", "--definition-key", "\udcff"),
    ],
)  # fmt: skip
def test_what_cannot_be_sent_is_refused_with_a_line_and_a_hint(place: Place, words: tuple[str, ...]) -> None:
    done = place.run(*words, code=2)

    assert done.out == ""
    assert [line.partition(":")[0] for line in done.err.splitlines()] == ["error", "hint"]


def test_an_error_is_a_line_and_a_hint(remote: Place) -> None:
    done = remote.run("jobs", "show", "01890a5d-ac96-774b-bcce-b302099a8057", code=3)

    assert done.out == ""
    error, hint = done.err.splitlines()
    assert error.startswith("error: There is no job ")
    assert hint.startswith("hint: ")


def test_jobs_are_listed_by_filter(place: Place) -> None:
    tag = f"list-{place.flags[0]}"
    found = place.waiting(tags=[tag])
    place.waiting(tags=["other"])

    told = place.json(
        "jobs", "list", "--tag", tag, "--status", "scheduled", "--created-from", "1h", shape="GET /v1/jobs 200"
    )
    table = place.run("jobs", "ls", "--tag", tag)
    ids = place.run("jobs", "list", "--tag", tag, "-q").out

    assert [each["jobId"] for each in told["jobs"]] == [found]
    assert table.out.splitlines()[0].split() == ["STATUS", "DEFINITION", "ID", "TRIES", "PROGRESS", "CREATED", "TOOK",
                                                 "ERROR"]  # fmt: skip
    assert table.out.splitlines()[1].split()[:3] == ["scheduled", "noop", found[-8:]]
    assert ids == f"{found}\n"


def test_a_list_goes_on_where_a_page_ended(remote: Place) -> None:
    made = [remote.waiting(tags=["paged"]) for _ in range(3)]

    first = remote.json("jobs", "list", "--tag", "paged", "--limit", "2")
    rest = remote.json("jobs", "list", "--tag", "paged", "--cursor", first["nextCursor"])
    shown = remote.run("jobs", "list", "--tag", "paged", "--limit", "2")

    assert [each["jobId"] for each in [*first["jobs"], *rest["jobs"]]] == made[::-1]
    assert "2 of 3 jobs" in shown.err


def test_all_that_is_known_of_a_job_is_shown(place: Place) -> None:
    found = place.ended(["log", "warning", "careful"], ["raise", "no good"])

    told = place.json("jobs", "show", found, shape="GET /v1/jobs/{jobId} 200")
    shown = place.run("jobs", "show", found).out
    why = place.json("jobs", "why", found, shape="GET /v1/jobs/{jobId}/why 200")
    logs = place.json("jobs", "logs", found, "--level", "warning", shape="GET /v1/jobs/{jobId}/logs 200")
    lines = place.run("jobs", "logs", found, "--follow").out

    assert (told["jobId"], told["status"]) == (found, "failed")
    assert found in shown
    assert "ValueError: no good" in shown
    assert "Traceback" in shown
    assert why["reasons"]
    assert [each["message"] for each in logs["logs"]] == ["careful"]
    assert "WARNING" in lines
    assert "careful" in lines
    assert re.search(r"of script, failed:\n  It ended at \S+: failed\.", place.run("jobs", "why", found).out)


def test_a_job_is_named_by_its_end_or_by_a_word(place: Place) -> None:
    failed = place.ended(["raise", "no"])
    newest = place.waiting()

    assert place.json("jobs", "show", newest[-8:])["jobId"] == newest
    assert place.json("jobs", "show", newest.upper())["jobId"] == newest
    assert place.json("jobs", "show", "@last")["jobId"] == newest
    assert place.json("jobs", "show", "@last-failed")["jobId"] == failed


def test_an_end_that_several_ids_have_is_refused(remote: Place) -> None:
    ends: set[str] = set()
    while (twice := remote.waiting()[-4:]) not in ends:
        ends.add(twice)

    problem = remote.refused("jobs", "show", twice, code=3)

    assert "ids that end with" in problem["message"]


def test_jobs_are_cancelled_retried_and_deleted_by_name(place: Place) -> None:
    found = place.waiting()

    cancelled = place.json("jobs", "cancel", found, shape="POST /v1/jobs/{jobId}/cancel 202")
    again = place.refused("jobs", "cancel", found, code=4)
    retried = place.json("jobs", "retry", found[-8:], "--fresh", shape="POST /v1/jobs/{jobId}/retry 202")
    place.app.jobs.wait(found, 30)
    deleted = place.run("jobs", "delete", found, "--yes").out

    assert (cancelled["status"], retried["status"]) == ("cancelled", "queued")
    assert again["code"] == "conflict"
    assert deleted == f"{found[-8:]}  deleted\n"
    assert place.refused("jobs", "show", found, code=3)["code"] == "not_found"


def test_what_cannot_be_done_to_one_of_several_does_not_keep_the_others_from_it(place: Place) -> None:
    ended, waiting = place.ended(["return", 1]), place.waiting()

    done = place.run("jobs", "cancel", ended, waiting, "--json", code=9)

    refused, cancelled = json.loads(done.out)
    assert refused["error"]["code"] == "conflict"
    check_shape("POST /v1/jobs/{jobId}/cancel 202", cancelled)
    assert place.app.jobs.read(waiting).status == "cancelled"


def test_a_job_is_run_once_more_with_other_parameters(place: Place) -> None:
    found = place.ended(["return", 1])

    told = place.json("jobs", "rerun", found, 'script=[["return", 2]]', shape="POST /v1/jobs/{jobId}/rerun 201")

    assert place.app.jobs.read(told["jobId"]).rerun_of == found
    assert place.app.get(told["jobId"]).result(30) == 2


def test_a_change_is_not_made_twice_when_a_proxy_gave_up_on_its_answer(remote: Place) -> None:
    found = remote.waiting()
    between = Between(urlsplit(remote.server.url).port or 0)
    handed = between._asked

    def give_up(request: bytes) -> bytes:
        handed(request)
        return b"HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 0\r\n\r\n"

    between._asked = give_up  # type: ignore[method-assign]
    shell = Shell(remote.folder, ("--server", between.url))

    problem = shell.refused("jobs", "rerun", found, code=6)
    asked_once = len(between.handed_on)
    shell.refused("jobs", "rerun", found, "--idempotency-key", f"again-{found}", code=6)
    between.close()

    assert "504" in problem["message"]
    assert (asked_once, len(between.handed_on)) == (1, 4)
    assert sum(each.rerun_of == found for each in remote.app.jobs.list(definition_key="noop").jobs) == 2


def test_a_waiting_job_gets_another_time_and_priority(place: Place) -> None:
    found = place.waiting()

    told = place.json("jobs", "reschedule", found, "--delay", "2d", "--priority", "3",
                      shape="PATCH /v1/jobs/{jobId} 200")  # fmt: skip

    job = place.app.jobs.read(found)
    assert (told["status"], job.priority) == ("scheduled", 3)
    assert (job.run_at - job.created_at).days >= 1


def test_a_review_is_approved_or_rejected(place: Place) -> None:
    asked = [place.stage.until(place.stage.enqueue("script", [["review", "is it good?", {}]]), "review_needed").id
             for _ in range(2)]  # fmt: skip

    yes = place.json("jobs", "approve", asked[0], "--note", "fine", "--result", '{"by": "hand"}',
                     shape="POST /v1/jobs/{jobId}/approve 200")  # fmt: skip
    no = place.json("jobs", "reject", asked[1], "--note", "bad", shape="POST /v1/jobs/{jobId}/reject 200")

    assert (yes["status"], no["status"]) == ("succeeded", "failed")
    assert place.app.get(asked[0]).result() == {"by": "hand"}
    assert place.run("jobs", "wait", asked[1], code=10).out.startswith(asked[1][-8:])


def test_what_a_command_changed_is_known_by_who_typed_it(place: Place) -> None:
    found = place.waiting()

    place.run("jobs", "cancel", found)

    actor = place.app.audit.list(limit=1, action="job.cancel")[0].actor
    assert actor == "local" if "--server" in place.flags else actor.startswith("cli")


def test_a_list_is_read_from_another_folder_by_penstock_toml(remote: Place, tmp_path: Path) -> None:
    found = remote.waiting()
    (tmp_path / "penstock.toml").write_text(f'server = "{remote.server.url}"\n')
    by_server = Shell(tmp_path).json("jobs", "show", "@last")
    (tmp_path / "penstock.toml").write_text(f'store = "{remote.stage.url}"\n')
    by_store = Shell(tmp_path).json("jobs", "show", "@last")

    assert by_server["jobId"] == by_store["jobId"] == found


def test_the_attempts_at_a_job_are_listed(place: Place) -> None:
    found, waiting = place.ended(["raise", "no good"]), place.waiting()

    told = place.json("jobs", "attempts", found[-8:], shape="GET /v1/jobs/{jobId}/attempts 200")
    shown = place.run("jobs", "attempts", found).out

    assert [each["status"] for each in told["attempts"]] == ["failed"]
    assert "ValueError: no good" in shown
    assert "No attempt has ended." in place.run("jobs", "attempts", waiting).err


def test_what_each_attempt_did_in_its_phases_is_listed(place: Place) -> None:
    scripts = {"first": [["return", 1]], "second": [["say_progress", 40, "half"], ["raise_before", 2, "no good"]]}
    found = place.app.enqueue("phased", {"scripts": scripts}, max_attempts=2).id
    place.app.jobs.wait(found, 60)

    for command in ("attempts", "show"):
        rows = [line.split() for line in place.run("jobs", command, found).out.splitlines()]
        assert ["1", "second", "failed", "40%"] in [row[:4] for row in rows]
        assert ["2", "second", "completed", "100%"] in [row[:4] for row in rows]
        assert [row[1] for row in rows if row[:1] == ["2"]][-2:] == ["second", "third"]


def test_the_time_of_the_last_attempt_is_not_said_of_a_job_with_several(place: Place) -> None:
    again = place.app.enqueue("phased", {"scripts": {"first": [["raise_before", 2, "no"]]}}, max_attempts=2).id
    place.app.jobs.wait(again, 60)
    once = place.ended(["return", 1])

    assert "(2 attempts, the last took " in place.run("jobs", "wait", again).out
    assert "(the last attempt took " in place.run("jobs", "show", again).out
    assert " (took " in place.run("jobs", "show", once).out


def test_a_job_that_has_written_nothing_has_no_log_line(place: Place) -> None:
    silent, careful = place.ended(["return", 1]), place.ended(["log", "warning", "careful"])

    assert "It has no log line." in place.run("jobs", "logs", silent).err
    assert "It has no such log line." in place.run("jobs", "logs", careful, "--level", "error").err
    assert "no log line" not in place.run("jobs", "logs", careful).err


def test_jobs_of_several_statuses_are_listed_with_commas_in_between(place: Place) -> None:
    failed, waiting = place.ended(["raise", "no"]), place.waiting()
    succeeded = place.ended(["return", 1])

    found = place.run("jobs", "list", "--status", "failed,queued,scheduled", "--quiet").out.split()

    assert {waiting, failed} <= set(found)
    assert succeeded not in found


def test_jobs_are_searched_by_error_and_by_parameters(place: Place) -> None:
    tag = f"searched-{place.flags[0]}"
    failed = place.ended(["raise", f"The gate is stuck {tag}"], tags=[tag], max_attempts=1)
    keyed = place.waiting("keyed", {"key": tag, "script": []}, tags=[tag])

    by_error = place.run("jobs", "list", "--error", f"GATE IS STUCK {tag}", "--tag", tag, "--quiet")
    by_param = place.json("jobs", "list", "--param", f"key={tag}", "--tag", tag, shape="GET /v1/jobs 200")
    nothing = place.run("jobs", "list", "--param", "key=another", "--tag", tag)

    assert by_error.out.split() == [failed]
    assert "2 jobs were searched" in by_error.err
    assert ([each["jobId"] for each in by_param["jobs"]], by_param["searched"]) == ([keyed], 2)
    assert "there are no more" in nothing.err


@pytest.mark.parametrize(
    ("words", "problem", "hint"),
    [
        (("list", "--param", "key"), "not a parameter with a value", "--param NAME=VALUE"),
        (("list", "--param", "a=1", "--param", "a=2"), "more than once", "once"),
        (("list", "--param", "password=x"), "name of a secret", "another parameter"),
        (("cancel", "--error", "x", "--yes"), "cannot select jobs to cancel", "penstock jobs list --quiet"),
    ],
)
def test_what_cannot_be_searched_is_said(place: Place, words: tuple[str, ...], problem: str, hint: str) -> None:
    told = place.refused("jobs", *words, code=2)

    assert problem in told["message"]
    assert hint in told["hint"]
