"""Writes the generated pages of the documentation: `make docs`, or `python -m docs.generate`.

`python -m docs.generate --check` writes nothing and fails when a page is out of date.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from docs.writers import (
    cli_page,
    errors_page,
    events_page,
    modules_table,
    protocol_page,
    python_page,
    schedule_rules,
    settings_page,
)
from penstock.domain import states

FOLDER = Path(__file__).parent
NOTICE = "<!-- Written by `make docs` from the source. Do not edit. -->"
_BLOCK = "<!-- generated: {name} -->\n{text}\n<!-- end generated -->"


def pages() -> dict[Path, str]:
    """Every generated page with the text it should have now."""
    written = {
        "reference/protocol.md": protocol_page.write(),
        "reference/errors.md": errors_page.write(),
        "reference/python.md": python_page.write(),
        "reference/events.md": events_page.write(),
        "reference/settings.md": settings_page.write(),
        "reference/cli.md": cli_page.write(),
    }
    wanted = {FOLDER / name: f"{NOTICE}\n\n{text.strip()}\n" for name, text in written.items()}
    concepts = FOLDER / "concepts.md"
    wanted[concepts] = _filled(concepts.read_text(encoding="utf-8"), "states", f"```mermaid\n{states.mermaid()}\n```")
    schedules = FOLDER / "guide" / "schedules.md"
    wanted[schedules] = _filled(schedules.read_text(encoding="utf-8"), schedule_rules.BLOCK, schedule_rules.write())
    contributing = FOLDER.parent / "CONTRIBUTING.md"
    wanted[contributing] = _filled(contributing.read_text(encoding="utf-8"), modules_table.BLOCK, modules_table.write())
    return wanted


def stale() -> list[Path]:
    """The pages whose files differ from what they should be."""
    return [path for path, text in pages().items() if not path.exists() or path.read_text(encoding="utf-8") != text]


def main(arguments: list[str]) -> int:
    wanted = pages()
    outdated = stale()
    names = ", ".join(str(path.relative_to(FOLDER.parent)) for path in outdated)
    if "--check" in arguments:
        if outdated:
            print(f"Out of date: {names}. Run `make docs`.", file=sys.stderr)
        return 1 if outdated else 0
    for path in outdated:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path], encoding="utf-8")
    print(f"Written: {names}." if outdated else "Every page is up to date.")
    return 0


def _filled(page: str, name: str, text: str) -> str:
    """Return the page with the text between the markers of `name` replaced."""
    block = re.compile(rf"<!-- generated: {name} -->\n.*?<!-- end generated -->", re.DOTALL)
    if len(block.findall(page)) != 1:
        raise ValueError(f"the page needs exactly one pair of markers for {name!r}")
    return block.sub(lambda _: _BLOCK.format(name=name, text=text), page)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
