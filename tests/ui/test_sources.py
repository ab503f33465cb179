"""The dashboard's sources: texts of jobs reach a page as text only."""

from __future__ import annotations

import re
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "ui"
RAW = re.compile(
    r"\{@html|innerHTML|outerHTML|insertAdjacentHTML|setHTMLUnsafe|createContextualFragment|document\.write|srcdoc|"
    r"\beval\(|new Function\(|javascript:"
)


def test_no_source_of_the_dashboard_makes_markup_of_a_text() -> None:
    files = [
        SOURCES / "index.html",
        *(each for each in (SOURCES / "src").rglob("*") if each.suffix in (".svelte", ".ts")),
    ]

    found = [f"{file.name}: {match.group()}" for file in files for match in RAW.finditer(file.read_text("utf-8"))]

    assert len(files) > 20
    assert found == []


def test_the_check_of_sources_finds_markup() -> None:
    for text in ("{@html job.error}", "element.innerHTML = text", 'href="javascript:alert(1)"'):
        assert RAW.search(text)
