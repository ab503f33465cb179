"""Definitions: what they refuse, whoever makes them."""

from typing import Any

import pytest

from penstock.domain.definition import HOOKS, Definition, RateLimit, is_name
from penstock.domain.errors import InvalidDefinition


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ({"hooks": ("on_begin",)}, "work: 'on_begin' is no hook"),
        ({"memory": 9_999_999}, "work: memory must be at least 10000000 bytes, not 9999999"),
        ({"memory": "64MB"}, "work: memory must be at least 10000000 bytes, not '64MB'"),
        ({"memory": 2**63}, "work: memory must be"),
        ({"cpu": True}, "work: cpu must be at least 1 seconds, not True"),
        ({"files": 15}, "work: files must be at least 16, not 15"),
        ({"file_size": -1}, "work: file_size must be at least 0 bytes"),
        ({"processes": 0}, "work: processes must be at least 1, not 0"),
        ({"environment": ("A\x00",)}, "cannot be the name of an environment variable"),
        ({"environment": (5,)}, "work: 5 cannot be the name of an environment variable"),
        ({"isolation": "inline", "cpu": 1}, "work: cpu cannot hold for a job that runs inside its worker"),
        ({"isolation": "inline", "environment": ("HOME",)}, "work: environment cannot hold"),
        ({"concurrency": 2**31}, "work: concurrency must be an integer of at most 2147483647"),
        ({"key_concurrency": 2.5}, "work: key_concurrency must be an integer of at most 2147483647, not 2.5"),
        ({"concurrency": True}, "work: concurrency must be an integer"),
        ({"phases": ()}, "work: phases need names that differ"),
        ({"phases": ("a", "a")}, "work: phases need names that differ"),
    ],
)
def test_what_is_wrong_with_a_definition_is_said(facts: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidDefinition) as raised:
        Definition("work", **facts)

    assert problem in raised.value.message


@pytest.mark.parametrize("count", [0, True, 1.5, 2**31])
def test_the_count_of_a_rate_is_one_that_both_stores_can_keep(count: Any) -> None:
    with pytest.raises(InvalidDefinition, match="count must be an integer of at least 1 and at most 2147483647"):
        RateLimit(count)


def test_the_smallest_limits_are_allowed() -> None:
    Definition("work", memory=10_000_000, cpu=1, files=16, file_size=0, processes=1, hooks=HOOKS)


def test_lists_as_json_has_them_become_what_the_code_writes() -> None:
    read: Any = {"hooks": ["on_end"], "environment": ["HOME"]}

    assert Definition("work", **read) == Definition("work", hooks=("on_end",), environment=("HOME",))


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("a", True),
        ("reports.daily:2/x-y_z", True),
        ("", False),
        ("a b", False),
        (5, False),
        (".", False),
        ("..", False),
    ],
)
def test_names_are_of_one_kind(text: object, fits: bool) -> None:
    assert is_name(text) is fits
