"""The pages about the inside of penstock name functions that exist and that lead to each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.internals import LINKS, MOST, PAGES, Step, lists, names, source_of

NAMES = [page.name for page in PAGES]


def problems(steps: list[Step]) -> list[str]:
    """What is wrong with a list."""
    by_number = {each.number: each for each in steps}
    found = [f"{each.number}. {each.name} does not exist" for each in steps if source_of(each.name) is None]
    for each in steps[1:]:
        caller = by_number.get(each.caller)
        if caller is None or caller.number >= each.number:
            found.append(f"{each.number}. {each.name} is said to come from {each.caller}, which is no earlier line")
        elif each.by is None and not names(caller.name, each.name):
            found.append(
                f"{each.number}. {each.name}: {caller.name} does not name it; give the line that does (from …), or say "
                f"by what it is reached (by …)"
            )
        elif each.by is not None and each.by not in LINKS:
            found.append(
                f"{each.number}. {each.name}: nothing is reached by {each.by}; it is one of {', '.join(LINKS)}"
            )
    return found


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_the_functions_of_a_page_exist_and_lead_to_each_other(page: Path) -> None:
    (steps,) = lists(page)

    assert problems(steps) == []


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_the_way_that_a_page_describes_is_short(page: Path) -> None:
    (steps,) = lists(page)

    assert [each.number for each in steps] == list(range(1, len(steps) + 1))
    assert 10 < len(steps) <= MOST


def test_both_ways_are_described() -> None:
    assert NAMES == ["cancel.md", "one-job.md"]


def test_a_function_that_does_not_exist_is_found_out() -> None:
    (told,) = problems([Step(1, "worker.attempt.Attempt.dance", 0, None)])

    assert told == "1. worker.attempt.Attempt.dance does not exist"


def test_functions_that_do_not_lead_to_each_other_are_found_out() -> None:
    run, dumps = Step(1, "runtime.service.Service.run", 0, None), "domain.payload.encode"

    assert "does not name it" in problems([run, Step(2, dumps, 1, None)])[0]
    assert problems([run, Step(2, dumps, 1, "a socket")]) == []
    assert "nothing is reached by a miracle" in problems([run, Step(2, dumps, 1, "a miracle")])[0]
    assert "no earlier line" in problems([run, Step(2, dumps, 7, None)])[0]
