"""The log of a process: one event, one line, the job beside it, nothing of what jobs are given."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from penstock import InvalidInput, Penstock
from penstock.config import logging as logs
from penstock.domain.job import Held
from penstock.runtime.log_lines import JOB, about, logger
from penstock.testing import TestApp

NASTY = "first\nFATAL second\x1b]0;title\x07\u202e\u2028"


class Written:
    """What was logged, as text and as the objects of the JSON format."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    @property
    def lines(self) -> list[str]:
        return self.stream.getvalue().rstrip("\n").split("\n")

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


@pytest.fixture
def written() -> Iterator[Written]:
    """A place to log to; the loggers are as before afterwards."""
    root, attempts = logging.getLogger(), logging.getLogger("penstock.jobs")
    handlers, levels = list(root.handlers), (root.level, attempts.level)
    yield Written()
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    attempts.setLevel(levels[1])


@pytest.mark.parametrize("name", ["httpx", "httpcore", "httpx2", "httpcore2", "asyncio", "psycopg.pool"])
def test_libraries_write_no_line_for_each_step_at_any_level(written: Written, name: str) -> None:
    logs.configure("json", "debug", stream=written.stream)

    logging.getLogger(f"{name}.connection").debug("receive_response_headers.started")
    logging.getLogger(name).info("HTTP Request")
    logging.getLogger(name).error("broken")

    assert [each["message"] for each in written.objects] == ["broken"]


def test_an_outage_is_not_said_for_each_connection_that_is_tried(written: Written) -> None:
    logs.configure("json", "debug", stream=written.stream)

    for _ in range(20):
        logging.getLogger("psycopg.pool").warning("error connecting in 'penstock': connection refused")
    logger("penstock.worker").warning("claim: the store does not answer")

    assert [each["message"] for each in written.objects] == ["claim: the store does not answer"]


def test_a_line_of_json_says_when_who_and_what(written: Written) -> None:
    logs.configure("json", stream=written.stream)

    logger("penstock.tests").warning("%d of %s", 2, "three")

    (told,) = written.objects
    assert told.pop("time").endswith("Z")
    assert told == {"level": "warning", "logger": "penstock.tests", "message": "2 of three"}


@pytest.mark.parametrize("form", ["console", "json"])
def test_no_text_from_outside_makes_a_line_of_its_own_or_steers_a_terminal(form: Any, written: Written) -> None:
    logs.configure(form, stream=written.stream)

    logging.getLogger("somebody.else").error("it said %s", NASTY)
    logging.getLogger("somebody.else").error(NASTY)

    assert len(written.lines) == 2
    assert all(line.isprintable() and line.isascii() for line in written.lines)


def test_a_traceback_is_part_of_its_line_of_json(written: Written) -> None:
    logs.configure("json", stream=written.stream)

    try:
        raise ValueError(NASTY)
    except ValueError:
        logging.getLogger("somebody.else").exception("it went wrong")

    (told,) = written.objects
    assert told["message"] == "it went wrong"
    assert told["traceback"][-2] == "ValueError: first"
    assert all(line.isprintable() for line in told["traceback"])


def test_on_a_console_a_traceback_is_set_in(written: Written) -> None:
    logs.configure("console", stream=written.stream)

    try:
        raise ValueError(NASTY)
    except ValueError:
        logging.getLogger("somebody.else").exception("it went wrong")

    assert written.lines[0].endswith(" ERROR it went wrong")
    assert all(line.startswith("  ") for line in written.lines[1:])


def test_the_job_is_the_one_that_is_named_or_else_the_one_in_hand(written: Written) -> None:
    logs.configure("json", stream=written.stream)

    token = JOB.set(Held("in-hand", 1, "worker"))
    logging.getLogger("somebody.else").warning("busy")
    logger("penstock.tests").warning("about another", extra=about("another"))
    JOB.reset(token)
    logging.getLogger("somebody.else").warning("idle")

    assert [told.get("jobId") for told in written.objects] == ["in-hand", "another", None]


def test_attempts_are_told_when_asked_for_without_what_they_were_given(written: Written) -> None:
    app = Penstock("sqlite://")

    @app.job("mail.send", max_attempts=2, backoff=5)
    def send(to: str) -> str:
        raise ValueError(f"no mail to {to}")

    logs.configure("json", attempts=True, stream=written.stream)
    with TestApp(app) as kit:
        job = send.enqueue("canary@example.com")
        kit.drain()
        kit.advance(5)
        kit.drain()

    told = [each for each in written.objects if each["logger"] == "penstock.jobs"]
    assert [each["jobId"] for each in told] == [job.id, job.id]
    assert "attempt 1 of 2 raised (ValueError) -> scheduled, again in 5.0 s" in told[0]["message"]
    assert told[1]["message"].endswith("-> failed")
    assert "canary" not in written.stream.getvalue()


def test_attempts_are_not_told_by_default(written: Written) -> None:
    logs.configure("json", stream=written.stream)

    logging.getLogger("penstock.jobs").info("an attempt")

    assert written.stream.getvalue() == ""


def test_a_second_call_replaces_the_first(written: Written) -> None:
    logs.configure("console", stream=io.StringIO())
    logs.configure("json", stream=written.stream)

    logging.getLogger("somebody.else").warning("once")

    assert [told["message"] for told in written.objects] == ["once"]
    ours = [each for each in logging.getLogger().handlers if isinstance(each.formatter, logs.ConsoleLines)]
    assert ours == []


def test_unknown_formats_and_levels_are_refused() -> None:
    with pytest.raises(InvalidInput, match="no log format 'xml'"):
        logs.configure("xml")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="no log level 'loud'"):
        logs.configure(level="loud")  # type: ignore[arg-type]
