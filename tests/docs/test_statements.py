"""Every default, limit and name that the pages state is the code's; one that cannot be compared is found out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.defaults import problem
from tests.docs.limits import IN_WORDS, STATED, WITHOUT_CODE
from tests.docs.markdown import ROOT
from tests.docs.stated import PAGES, Row, limits, name_of, states_a_limit, table_rows, words

LIMITS = "tests/docs/limits.py"
NAMES = [name_of(page) for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_default_in_a_table_is_the_codes(page: Path) -> None:
    wrong = [found for row in table_rows(page) if (found := problem(row)) is not None]

    assert wrong == []


@pytest.mark.parametrize("page", STATED)
def test_every_limit_in_a_sentence_is_the_codes(page: str) -> None:
    text = words((ROOT / page).read_text())
    missing = [
        f"{page} does not say {each!r}, which {LIMITS} makes from the code: correct the page, or the entry if "
        "the sentence was reworded."
        for each in STATED[page]
        if each not in text
    ]

    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_limit_in_a_sentence_is_compared(page: Path) -> None:
    assert _unknown(page, limits(page)) == []


def test_every_number_in_words_is_the_codes() -> None:
    text = words(" ".join((ROOT / page).read_text() for page in {*NAMES, *STATED}))

    assert [said for said, is_so in IN_WORDS.items() if said not in text or not is_so()] == []


def test_words_that_stand_for_no_number_of_the_code_are_in_their_page() -> None:
    pages = dict(zip(NAMES, PAGES, strict=True))

    assert [
        said for page, entries in WITHOUT_CODE.items() for said in entries if said not in words(pages[page].read_text())
    ] == []


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (("docs/guide/enqueue.md", "Options of @app.job", "timeout", "3601"), "the code has 3600: correct the page"),
        (("docs/guide/enqueue.md", "Options of @app.job", "patience", "1"), "does not exist in the code"),
        (("docs/guide/enqueue.md", "Options of @app.job", "timeout", "ages"), "say in WORDS"),
        (("docs/guide/enqueue.md", "Something new", "timeout", "3600"), "say in SOURCES"),
    ],
)
def test_a_default_that_is_wrong_says_what_to_do(row: tuple[str, str, str, str], said: str) -> None:
    page, heading, name, default = row

    assert said in (problem(Row(page, 7, heading, name, default)) or "")


def test_a_new_limit_says_what_to_do() -> None:
    (told,) = _unknown(PAGES[0], [(7, "A name has at most 77 characters.")])

    assert told.startswith(f"{NAMES[0]}:7 states a limit that is not compared: 'A name has at most 77 characters.'")
    assert LIMITS in told


def _unknown(page: Path, found: object) -> list[str]:
    known = [*STATED.get(name_of(page), ()), *WITHOUT_CODE.get(name_of(page), ())]
    unknown = []
    for line, sentence in found:  # type: ignore[attr-defined]
        left = sentence
        for each in known:
            # A sentence may end where an entry goes on.
            for part in (each, *re.split(r"(?<=[.;])\s", each)):
                left = left.replace(part, "")
        if states_a_limit(left) or (left == sentence and states_a_limit(sentence)):
            unknown.append(
                f"{name_of(page)}:{line} states a limit that is not compared: {sentence!r}. Add it to STATED in "
                f"{LIMITS} with the value from the code, or to WITHOUT_CODE with the reason."
            )
    return unknown
