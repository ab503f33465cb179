"""Reads our Markdown: Python blocks, headings, links."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
WRITTEN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(r"^```(\w*)\s*$")
_MARKER = re.compile(r"^<!-- example: (\w+) -->$")
_LINK = re.compile(r"\[[^\]\[]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One Python block: the line of the page on which its code begins, and its code."""

    line: int
    code: str
    kind: str


def python_blocks(page: Path) -> list[Block]:
    """The Python blocks of a page; a comment `<!-- example: kind -->` above one says what it needs."""
    blocks: list[Block] = []
    kind, language, start, lines = "sqlite", None, 0, list[str]()
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if language is None and (marker := _MARKER.match(line)):
            kind = marker.group(1)
        elif fence := _FENCE.match(line):
            if language is None:
                language, start, lines = fence.group(1), number + 1, []
                continue
            if language == "python":
                blocks.append(Block(start, "\n".join(lines), kind))
            language, kind = None, "sqlite"
        elif language is not None:
            lines.append(line)
    return blocks


def program(blocks: list[Block]) -> str:
    """The blocks as one program in which every line has the number it has on the page."""
    lines: list[str] = []
    for block in blocks:
        lines += [""] * (block.line - 1 - len(lines))
        lines += block.code.splitlines()
    return "\n".join(lines) + "\n"


def announced(blocks: list[Block]) -> list[str]:
    """What the blocks say they print: the comments behind their calls of `print`."""
    said = re.compile(r"^\s*print\(.*\)  # (.+)$", re.MULTILINE)
    return [text for block in blocks for text in said.findall(block.code)]


def links(page: Path) -> list[str]:
    """The targets of a page's links, those in code blocks left out."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return _LINK.findall(text)


def anchors(page: Path) -> set[str]:
    """What `#…` may name on a page: its headings as GitHub writes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return {_slug(heading) for heading in _HEADING.findall(text)}


def _slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
