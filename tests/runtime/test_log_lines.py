"""Our own log lines: one event, one line, whatever is filled in."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from penstock.runtime.log_lines import logger


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What a logger of ours writes."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    log = logger("penstock.tests")
    log.addHandler(handler)
    yield stream
    log.removeHandler(handler)


def test_what_is_filled_in_cannot_end_the_line_or_steer_a_terminal(written: io.StringIO) -> None:
    logger("penstock.tests").warning("schedule %s fails %d times: %s", "a\nFATAL b", 2, ValueError("\x1b]0;\u202e\x85"))

    assert written.getvalue() == "WARNING schedule a\\nFATAL b fails 2 times: \\x1b]0;\\u202e\\x85\n"


def test_no_line_of_a_traceback_looks_like_a_line_of_the_log(written: io.StringIO) -> None:
    try:
        raise ValueError("first\nFATAL second\rFATAL third")
    except ValueError:
        logger("penstock.tests").exception("it went wrong")

    first, *others = written.getvalue().rstrip("\n").split("\n")
    assert first == "ERROR it went wrong"
    assert all(line.startswith("  ") for line in others)
    assert others[-2:] == ["  ValueError: first", "  FATAL second\\rFATAL third"]


def test_a_logger_that_is_asked_for_again_is_not_filtered_twice() -> None:
    assert len(logger("penstock.tests").filters) == len(logger("penstock.tests").filters) == 1
