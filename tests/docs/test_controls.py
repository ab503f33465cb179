"""The page of controls names tests that exist, and a reason where there is none."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "controls.md"
ROW = re.compile(r"^\| (E\d\d) \| (.+?) \| (.+) \|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::([\w:]+)`")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def rows() -> dict[str, str]:
    return {each[1]: each[3] for each in ROW.finditer(PAGE.read_text(encoding="utf-8"))}


@lru_cache
def names_of(path: str) -> frozenset[str]:
    """The tests of a file, those of a class with its name in front."""
    found = set()
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        if isinstance(node, _FUNCTIONS):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{each.name}" for each in node.body if isinstance(each, _FUNCTIONS)}
    return frozenset(found)


def test_every_control_has_its_row() -> None:
    assert list(rows()) == [f"E{number:02d}" for number in range(1, 50)]


@pytest.mark.parametrize("control", [f"E{number:02d}" for number in range(1, 50)])
def test_every_control_names_tests_that_exist_or_a_reason(control: str) -> None:
    cell = rows()[control]

    named = TEST.findall(cell)
    missing = [f"{path}::{name}" for path, name in named if not (ROOT / path).exists() or name not in names_of(path)]
    assert missing == []
    assert named or re.match(r"Not [^:.]+: \w.{20,}\.$", cell), cell


def test_every_path_in_the_page_names_a_test() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert text.count("`tests/") == len(TEST.findall(text))


def test_the_guide_says_what_a_process_does_not_protect_from() -> None:
    guide = (ROOT / "docs" / "guide" / "isolation.md").read_text(encoding="utf-8")

    _, _, limits = guide.partition("## What it does not protect from")
    assert "A process is not a sandbox." in limits
    for name in ("**Hostile code.**", "**The same user.**", "**Jobs from each other.**", "**The disk.**"):
        assert name in limits


def test_the_security_page_says_how_to_report_and_what_is_supported() -> None:
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")

    for heading in ("Report a vulnerability", "Supported versions", "What each party can do"):
        assert f"\n## {heading}\n" in page
    assert not re.search(r"[\w.]+@[\w.]+\.\w+", page), "an address may not exist; the host's private reporting does"
