"""Reads the pages of docs/internals: numbered lists of functions, each with what leads to it.

A line of such a list is ``12. `worker.attempt.Attempt.run` (from 9, by a task): what it does.`` Without `from`, the
function is called by the one on the line before. Without `by`, the source of the caller names it.
"""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tests.docs.markdown import ROOT

PAGES = sorted((ROOT / "docs" / "internals").glob("*.md"))
SOURCE = ROOT / "src" / "penstock"
MOST = 40
"""Functions from the creation of a job to its ending, and from a cancel to its effect."""

LINKS = (
    "a callback", "a datagram", "a future", "a generator", "a return", "a service", "a signal", "a socket", "a task",
    "a thread", "an exception",
)  # fmt: skip
"""What a caller may use that does not name the function."""

_LIST = re.compile(r"(?:^\d+\. .*\n(?:^ {2,}.*\n)*)+", re.MULTILINE)
_STEP = re.compile(r"^(\d+)\. `([\w.]+)`(?: \(([^)]*)\))?: ")
_FROM = re.compile(r"from (\d+)")
_BY = re.compile(r"by (an? [a-z]+)")
_KINDS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Step:
    """One line of a list: a function, the number of the line that leads to it, and by what, unless by a call."""

    number: int
    name: str
    caller: int
    by: str | None


def lists(page: Path) -> list[list[Step]]:
    """The numbered lists of a page that name functions."""
    found = []
    for block in _LIST.findall(page.read_text(encoding="utf-8")):
        steps = [_step(line) for line in block.splitlines() if re.match(r"\d", line)]
        if any(steps):
            assert all(steps), f"{page.name}: each line of a list names a function, or none does:\n{block}"
            found.append([each for each in steps if each])
    return found


def _step(line: str) -> Step | None:
    found = _STEP.match(line)
    if found is None:
        return None
    number, how = int(found[1]), found[3] or ""
    caller, by = _FROM.search(how), _BY.search(how)
    return Step(number, found[2], int(caller[1]) if caller else number - 1, by[1] if by else None)


@lru_cache
def source_of(name: str) -> str | None:
    """The source of a function or class, `room.module.Class.function`; None: there is none of that name."""
    parts = name.split(".")
    for split in range(len(parts) - 1, 0, -1):
        for file in (
            SOURCE.joinpath(*parts[:split]).with_suffix(".py"),
            SOURCE.joinpath(*parts[:split], "__init__.py"),
        ):
            if file.exists():
                return _within(file.read_text(encoding="utf-8"), parts[split:])
    return None


def _within(text: str, qualified: list[str]) -> str | None:
    node: ast.AST = ast.parse(text)
    for part in qualified:
        inner = [each for each in ast.iter_child_nodes(node) if isinstance(each, _KINDS) and each.name == part]
        if not inner:
            return None
        # Of overloads the last one has the code.
        node = inner[-1]
    return ast.get_source_segment(text, node)


def names(caller: str, name: str) -> bool:
    """Whether the code of a caller names a function; `__init__` and `__call__` go by the name of their class."""
    parts = name.split(".")
    return (parts[-2] if parts[-1] in ("__init__", "__call__") else parts[-1]) in _named_in(caller)


@lru_cache
def _named_in(name: str) -> frozenset[str]:
    """The names in the code of a function, its own and those in strings and comments left out."""
    nodes = list(ast.walk(ast.parse(textwrap.dedent(source_of(name) or ""))))
    plain = {each.id for each in nodes if isinstance(each, ast.Name)}
    return frozenset(plain | {each.attr for each in nodes if isinstance(each, ast.Attribute)})
