"""Count words of a private dialect in code, docs and dashboard; called by `make lint`.

The check prints the file and line of each word, and fails above `LIMIT`. The limit may only fall: lower it after words
were replaced. A word with its literal meaning is excused by a pattern in `EXCUSED`, with the reason.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 104
"""The number of words that the tree may contain."""

WORDS = (
    "whoever", "whom", "somebody", "nobody", "anew", "beside", "stands", "lies", "is told", "tells of", "is_listening",
    "speaks of", "so many", "by itself", "in the place of", "behind", "bring down", "brings down", "hurry", "guilt",
    "innocent", "has_expired_workers", "what it has",
)  # fmt: skip
EXCUSED = (
    (r"\bbehind (a|an|the|its|your|another|any) ((reverse|trusted) )?(prox\w+|pooler\w*|firewall|balancer)\b",
     "a position in the network"),
    (r"\bbehind (PgBouncer|proxies|poolers|nginx)\b", "a position in the network"),
    (r"(ahead of|ahead or)\b.*\bbehind\b", "clocks are ahead or behind"),
    (r"\bclock\b.*\bbehind\b", "clocks are ahead or behind"),
    (r"([\"'`])behind\1", "the code of a reason, which is stable"),
    (r"(--user[ =]|\buser |\b65534\b.*)`?nobody\b|\bnobody:nogroup\b|[\"']nobody[\"']", "the name of a Unix user"),
)  # fmt: skip
"""Patterns of literal uses; words inside their matches do not count."""

_FOLDERS = ("src", "docs", "ui/src")
_FILES = ("README.md", "CHANGELOG.md")
_SUFFIXES = frozenset({".css", ".html", ".md", ".py", ".sql", ".svelte", ".ts"})
_LEFT_OUT = ("docs/decisions", "docs/evidence", "docs/word_check.py", "src/penstock/_ui", "ui/src/api/schema.d.ts")
_WORD = re.compile(rf"\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)
_LITERAL = tuple(re.compile(pattern) for pattern, _ in EXCUSED)


@dataclass(frozen=True, slots=True)
class Found:
    """One word at its place."""

    path: str
    line: int
    word: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word}: {self.text.strip()[:120]}"


def words_in(text: str) -> Iterator[tuple[int, str]]:
    """Yield the listed words in a text, each with its line."""
    for number, line in enumerate(text.splitlines(), start=1):
        literal = [match.span() for pattern in _LITERAL for match in pattern.finditer(line)]
        for match in _WORD.finditer(line):
            if not any(start <= match.start() and match.end() <= end for start, end in literal):
                yield number, match.group()


def found_in(root: Path) -> list[Found]:
    """Return the listed words in a tree, in the order of its files."""
    found: list[Found] = []
    for path in sorted(_paths(root)):
        name = path.relative_to(root).as_posix()
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        found += [Found(name, number, word, lines[number - 1]) for number, word in words_in(text)]
    return found


def report(found: Sequence[Found], limit: int) -> int:
    """Print the words if there are more than the limit; return the exit code."""
    if len(found) > limit:
        for each in found:
            print(each)
        print(f"{len(found)} words of the list are used; the limit is {limit}. Replace words that were added.")
        return 1
    lower = "" if len(found) == limit else f" Lower LIMIT in docs/word_check.py to {len(found)}."
    print(f"Words: {len(found)} of the list are used, the limit is {limit}.{lower}")
    return 0


def _paths(root: Path) -> Iterator[Path]:
    for folder in _FOLDERS:
        for path in (root / folder).rglob("*"):
            name = path.relative_to(root).as_posix()
            if path.suffix in _SUFFIXES and path.is_file() and not name.startswith(_LEFT_OUT):
                yield path
    for name in _FILES:
        if (root / name).is_file():
            yield root / name


if __name__ == "__main__":
    sys.exit(report(found_in(ROOT), LIMIT))
