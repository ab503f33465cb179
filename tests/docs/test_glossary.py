"""The glossary explains words that the code uses, each in the room that it names."""

from __future__ import annotations

import re
from functools import lru_cache

import pytest

from tests.docs.markdown import ROOT

PAGE = ROOT / "docs" / "glossary.md"
SOURCE = ROOT / "src" / "penstock"
ROWS = re.findall(r"^\| \*\*(.+?)\*\* \| .+ \| `(\w+)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@lru_cache
def text_of(room: str) -> str:
    """Everything that is written in a room: Python and SQL, in lower case."""
    files = [file for suffix in ("py", "sql") for file in (SOURCE / room).rglob(f"*.{suffix}")]
    return "\n".join(file.read_text(encoding="utf-8").lower() for file in files)


def occurs(word: str, text: str) -> bool:
    """Whether a word, or its plural, is in a text, also as a part of a name: `_` counts as a space."""
    pattern = r"[\s_]+".join(re.escape(part) for part in word.split())
    return re.search(rf"(?<![a-z]){pattern}(s|es)?(?![a-z])", text) is not None


@pytest.mark.parametrize(("word", "room"), ROWS, ids=[word for word, _ in ROWS])
def test_a_word_of_the_glossary_occurs_in_its_room(word: str, room: str) -> None:
    assert occurs(word, text_of(room)), f"nothing in src/penstock/{room} says {word!r}: correct docs/glossary.md"


def test_every_row_of_the_glossary_is_compared_and_no_word_is_explained_twice() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| **")]
    words = [word for word, _ in ROWS]

    assert len(ROWS) == len(rows) > 50
    assert sorted(words) == sorted(set(words))


def test_a_word_that_nothing_says_is_found_out() -> None:
    assert not occurs("tombstone", text_of("storage"))
    assert not occurs("age", "ageing and pages")
    assert occurs("concurrency key", "the concurrency_keys of")


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_the_glossary_can_be_found(page: str) -> None:
    assert "(docs/glossary.md)" in (ROOT / page).read_text(encoding="utf-8")
