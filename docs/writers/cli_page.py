"""The page of the command line: what `--help` of every command says, and what exit codes mean."""

from __future__ import annotations

import io
from collections.abc import Iterator

from cyclopts import App
from rich.console import Console

from docs.writers.inspected import code
from penstock.cli import app
from penstock.cli.exit_codes import MEANINGS

_WIDTH = 100


def write() -> str:
    rows = [f"| {each.value} | {meaning} |" for each, meaning in MEANINGS.items()]
    parts = [
        "# Command line",
        "How commands find a server or a store, how they name jobs and what they print: "
        "see [the guide](../guide/command-line.md).",
        "## Exit codes",
        "\n".join(["| code | meaning |", "| --- | --- |", *rows]),
        "## penstock",
        code(help_text([]), "text"),
    ]
    for words in commands():
        parts += [f"## penstock {' '.join(words)}", code(help_text(words), "text")]
    return "\n\n".join(parts)


def commands(within: App = app, words: tuple[str, ...] = ()) -> Iterator[list[str]]:
    """The words of every command there is, those of groups included."""
    seen: set[int] = set()
    for name in within:
        found = within[name]
        # Flags such as --help stand among the commands, and a second name is the same command.
        if name.startswith("-") or id(found) in seen or not found.show:
            continue
        seen.add(id(found))
        yield [*words, name]
        yield from commands(found, (*words, name))


def help_text(words: list[str]) -> str:
    """What `--help` of a command prints, on paper."""
    file = io.StringIO()
    console = Console(file=file, width=_WIDTH, no_color=True, force_terminal=False, highlight=False)
    app.help_print(words, console=console)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()).strip()
