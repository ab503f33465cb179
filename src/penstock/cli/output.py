"""Output of commands: the answer on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO

from penstock.cli.exit_codes import ApiError
from penstock.cli.formatting import mark, style
from penstock.domain.errors import InvalidInput, PenstockError, hint_for
from penstock.domain.secrets.policy import neutralise

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from penstock.cli.connection import Answer

Cell = str | tuple[str, str]
"""A text, or a text with its colour."""
_FORCING = frozenset({"FORCE_COLOR", "TTY_COMPATIBLE"})
"""Environment variables that force terminal output."""


class Output:
    """Prints for people or, with `--json`, exactly one document for programs."""

    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json

    @cached_property
    def console(self) -> Console:
        """The console of stdout."""
        return _console(stderr=False)

    @cached_property
    def stderr_console(self) -> Console:
        """The console of stderr."""
        return _console(stderr=True)

    @property
    def shown(self) -> Console:
        """The console for moving output; with `--json` not the one of the document."""
        return self.stderr_console if self.as_json else self.console

    @cached_property
    def is_terminal(self) -> bool:
        """Whether stdout supports colours."""
        return _may_be_terminal(sys.stdout) and self.console.is_terminal

    @property
    def animated(self) -> bool:
        """Whether output may move."""
        stream = sys.stderr if self.as_json else sys.stdout
        return (
            _may_be_terminal(stream)
            and self.shown.is_terminal
            and not self.shown.is_dumb_terminal
            and not os.environ.get("CI")
        )

    @property
    def ascii_only(self) -> bool:
        return not self.shown.encoding.startswith("utf")

    def document(self, text: str) -> None:
        """Print the document of `--json`."""
        write(text)

    def line(self, text: str, colour: str = "") -> None:
        """Print one line of the answer, without control characters."""
        if self.is_terminal:
            self.console.print(_text((neutralise(text), colour)), soft_wrap=True)
        else:
            write(neutralise(text))

    def block(self, text: str) -> None:
        """Print several lines of the answer."""
        for each in text.split("\n"):
            self.line(each)

    def note(self, text: str) -> None:
        """Print a remark on stderr."""
        sys.stdout.flush()
        print(neutralise(text), file=sys.stderr, flush=True)

    def table(self, headings: Sequence[str], rows: Iterable[Sequence[Cell]], *, none: str) -> None:
        """Print rows with headings; `none` is printed on stderr if there are no rows."""
        cells = [[_clean(each) for each in row] for row in rows]
        if not cells:
            self.note(none)
        elif self.is_terminal:
            self._draw(headings, cells)
        else:
            for each in aligned([list(headings), *([text for text, _ in row] for row in cells)]):
                write(each)

    def page(
        self,
        answer: Answer,
        name: str,
        headings: Sequence[str],
        row: Callable[[Mapping[str, Any]], Sequence[Cell]],
        *,
        none: str,
    ) -> None:
        """Print a page of the API: unchanged with `--json`, else a row for each entry of `name`."""
        if self.as_json:
            self.document(answer.text)
            return
        data = answer.data
        self.table(headings, map(row, data[name]), none=none)
        self.more(data.get("nextCursor"))

    def more(self, cursor: str | None) -> None:
        """Print how to get the next page, if there is one."""
        if cursor is not None:
            self.note(f"There are more; continue with --cursor {cursor}")

    def facts(self, pairs: Mapping[str, Cell | None]) -> None:
        """Print names and values, one a line; empty values are left out."""
        data = {name: _clean(value) for name, value in pairs.items() if value not in (None, "")}
        width = max(map(len, data), default=0)
        for name, (text, colour) in data.items():
            if self.is_terminal:
                line = _text((f"{name:<{width}}  ", "bold")).append_text(_text((text, colour)))
                self.console.print(line, soft_wrap=True)
            else:
                write(f"{name:<{width}}  {text}")

    def status(self, status: str) -> Cell:
        """Return a status as a cell, with its symbol on a terminal."""
        if not self.is_terminal:
            return status
        return f"{mark(status, self.ascii_only)} {status}", style(status)

    def ask(self, question: str, *, yes: bool) -> None:
        """Ask for confirmation; end the command without it."""
        if yes:
            return
        if not sys.stdin.isatty():
            raise InvalidInput(f"{question} Confirmation needs a terminal.", hint="Add --yes to confirm.")
        sys.stdout.flush()
        print(f"{neutralise(question)} Continue? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise SystemExit(_declined())

    def _draw(self, headings: Sequence[str], cells: list[list[tuple[str, str]]]) -> None:
        from rich.table import Table

        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", expand=False)
        for position, heading in enumerate(headings):
            table.add_column(heading, no_wrap=True, overflow="ellipsis" if position == len(headings) - 1 else "fold")
        for row in cells:
            table.add_row(*map(_text, row))
        self.console.print(table)


def write(text: str) -> None:
    """Print a line on stdout unchanged."""
    print(text)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def problem(error: PenstockError) -> dict[str, Any]:
    """Return an error in the API's shape."""
    details = error.details if isinstance(error, ApiError) else {}
    return {
        "error": {"code": error.code, "message": error.message, "hint": hint_for("cli", error.hint), "details": details}
    }


def print_error(error: PenstockError, as_json: bool) -> None:
    """Print an error on stderr."""
    if as_json:
        print(json.dumps(problem(error), ensure_ascii=False), file=sys.stderr)
        return
    # Errors in user code have several lines.
    text = "\n".join(neutralise(line) for line in error.message.split("\n"))
    print(f"error: {text}", file=sys.stderr)
    if hint := hint_for("cli", error.hint):
        print(f"hint: {neutralise(hint)}", file=sys.stderr)


def one_line(value: object) -> str:
    """Return a JSON value on one line."""
    return json.dumps(value, ensure_ascii=False)


def _declined() -> int:
    print("Nothing was done.", file=sys.stderr)
    return 1


def _clean(cell: Cell | None) -> tuple[str, str]:
    text, colour = cell if isinstance(cell, tuple) else (cell or "", "")
    return neutralise(text), colour


def _text(cell: tuple[str, str]) -> Text:
    from rich.text import Text

    return Text(cell[0], style=cell[1])


def _may_be_terminal(stream: TextIO) -> bool:
    """Return whether the console, which is slow to load, is needed."""
    return stream.isatty() or not _FORCING.isdisjoint(os.environ)


def _console(*, stderr: bool) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)
