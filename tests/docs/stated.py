"""What pages state about the code: defaults in tables, numbers in sentences, names between backticks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.docs.markdown import ROOT, WRITTEN

_LEFT_OUT = {"reference", "decisions", "evidence"}
PAGES = [page for page in [*WRITTEN, ROOT / "SECURITY.md"] if not _LEFT_OUT & set(page.parts)]
"""Pages that people write; those of the reference are generated from the code."""

_FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.-])\d[\d,.]*")
_LIMIT = re.compile(
    r"\b(by default|defaults?|at most|up to|at least|no more than|not more than|more than|longer than|not said"
    r"|unless said otherwise)\b",
    re.I,
)


@dataclass(frozen=True)
class Row:
    """One row of a table with a column of defaults or limits."""

    page: str
    line: int
    heading: str
    name: str
    default: str


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def table_rows(page: Path) -> Iterator[Row]:
    """The rows of tables with a column `default` or `limit`, one for each name that a line has."""
    heading, column = "", 0
    lines = page.read_text().splitlines()
    for number, line in enumerate(lines, 1):
        if line.startswith("#"):
            heading = line.lstrip("# ").replace("`", "")
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            column = 0
        elif number < len(lines) and lines[number].startswith("| ---"):
            column = next((n for n, cell in enumerate(cells) if n and cell in ("default", "limit")), 0)
        elif column and not cells[0].startswith("---"):
            names = re.findall(r"`([^`]+)`", cells[0]) or [cells[0]]
            apart = re.split(r", (?![^(]*\))", cells[column])
            defaults = apart if len(apart) == len(names) else [cells[column]] * len(names)
            for name, default in zip(names, defaults, strict=True):
                yield Row(name_of(page), number, heading, name, default)


def limits(page: Path) -> Iterator[tuple[int, str]]:
    """The sentences that state a default or a limit as a number, each with its line."""
    text = _FENCE.sub(lambda block: "\n" * block[0].count("\n"), page.read_text())
    start = 0
    for end in [*(found.end() for found in re.finditer(r"\n\s*\n|\n(?=[-*|]|\d+\. )|(?<=[.;?!])\s", text)), len(text)]:
        sentence = words(text[start:end])
        if states_a_limit(sentence):
            yield text.count("\n", 0, start) + 1, sentence
        start = end


def states_a_limit(sentence: str) -> bool:
    return bool(_NUMBER.search(sentence) and _LIMIT.search(sentence))


def words(text: str) -> str:
    """The text on one line, so that it does not matter where the page breaks it."""
    return " ".join(text.split())


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """The code blocks: their language and their text."""
    for found in _FENCE.finditer(page.read_text()):
        yield found[1], found[2]


def prose(page: Path) -> str:
    return _FENCE.sub("", page.read_text())
