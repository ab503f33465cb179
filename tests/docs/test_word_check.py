"""The check of words: it finds listed words, and excuses literal ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.word_check import Found, found_in, report, words_in


def _tree(root: Path) -> Path:
    for name, text in {
        "src/a.py": "# fine\n# Whoever reads this, reads it anew.\n",
        "docs/guide.md": "Run it behind a reverse proxy, as `--user nobody`.\n",
        "docs/decisions/0001.md": "Nobody counts this.\n",
        "ui/src/App.svelte": "<p>It stands still.</p>\n",
        "README.md": "So many words.\n",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_listed_words_are_found_with_their_lines(tmp_path: Path) -> None:
    found = found_in(_tree(tmp_path))

    assert [(each.path, each.line, each.word) for each in found] == [
        ("README.md", 1, "So many"),
        ("src/a.py", 2, "Whoever"),
        ("src/a.py", 2, "anew"),
        ("ui/src/App.svelte", 1, "stands"),
    ]


@pytest.mark.parametrize(
    "text",
    ["behind PgBouncer", "behind a proxy", "The clock is 3 s behind.", "code `behind`", "chown nobody:nogroup"],
)
def test_literal_words_are_excused(text: str) -> None:
    assert list(words_in(text)) == []


def test_a_word_is_counted_next_to_an_excused_one() -> None:
    assert list(words_in("Behind a name, or behind a proxy.")) == [(1, "Behind")]


def test_the_check_fails_above_its_limit_only(capsys: pytest.CaptureFixture[str]) -> None:
    found = [Found("src/a.py", 7, "anew", "# read anew")]

    assert report(found, 0) == 1
    assert "src/a.py:7: anew: # read anew" in capsys.readouterr().out
    assert report(found, 1) == 0
    assert report(found, 2) == 0
    assert "Lower LIMIT in docs/word_check.py to 1." in capsys.readouterr().out
