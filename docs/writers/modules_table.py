"""The table of modules for CONTRIBUTING.md, from the layers in pyproject.toml and the first sentences of docstrings."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from docs.writers.inspected import table

BLOCK = "modules"
"""The name of its place in CONTRIBUTING.md."""
_ROOT = Path(__file__).parents[2]
_PACKAGE = _ROOT / "src" / "penstock"
_SENTENCE = re.compile(r".*?\.(?=\s|$)")


def write() -> str:
    """One row a room, the upper rooms first."""
    rows = [(f"`{name}`", _first_sentence(name)) for layer in layers() for name in layer]
    return table(("room, from top to bottom", "what is in it"), rows)


def layers() -> Iterator[list[str]]:
    """The rooms of each row, the uppermost first; neighbours in the order of the alphabet."""
    settings = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = [each for each in settings["tool"]["importlinter"]["contracts"] if each["type"] == "layers"]
    for layer in contract["layers"]:
        yield sorted(re.findall(r"\w+", layer))


def _first_sentence(name: str) -> str:
    found = _PACKAGE / name / "__init__.py"
    text = (found if found.exists() else _PACKAGE / f"{name}.py").read_text(encoding="utf-8")
    sentence = _SENTENCE.match(" ".join((ast.get_docstring(ast.parse(text)) or "").split()))
    if sentence is None:
        raise ValueError(f"{name} has no docstring whose first sentence ends")
    return sentence.group()
