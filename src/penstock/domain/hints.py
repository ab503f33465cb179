"""What to do about an error, in the words of the reader: Python names a call, HTTP a field, the CLI a command."""

from __future__ import annotations

from typing import Literal

Reader = Literal["python", "http", "cli"]


class Hint(str):
    """A hint for callers in Python, with the same said to readers of HTTP answers and of the command line."""

    cli: str
    http: str

    def __new__(cls, python: str, *, cli: str, http: str) -> Hint:
        made = super().__new__(cls, python)
        made.cli = cli
        made.http = http
        return made

    def __reduce__(self) -> tuple[object, ...]:
        return _remade, (str(self), self.cli, self.http)


def hint_for(reader: Reader, hint: str) -> str:
    """A hint in the words of a reader; a plain text is the same for all."""
    if not isinstance(hint, Hint):
        return hint
    return {"python": str(hint), "http": hint.http, "cli": hint.cli}[reader]


def _remade(python: str, cli: str, http: str) -> Hint:
    return Hint(python, cli=cli, http=http)
