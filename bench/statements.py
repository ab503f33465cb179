"""Which statements a database was given and how long they took, by the names that the store has for them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Self

import psycopg

from penstock.storage.postgres.store import _NOW
from penstock.storage.sqlite.trigger_programs import call
from penstock.storage.statements import Catalogue, read
from tests.services import PostgresServer

_LINE = re.compile(r"^\S+ \S+ \S+ \[\d+\] (\w+): +(.*)$")
_TIMED = re.compile(r"duration: ([\d.]+) ms  (parse|bind|execute|statement)(?: [^:]+)?: (.*)", re.DOTALL)
_VALUE = re.compile(r"%\(\w+\)s|\$\d+")
_LONGEST = 70


@dataclass(slots=True)
class Asked:
    """How often a statement was run, and for how long in all."""

    calls: int = 0
    seconds: float = 0.0


class StatementLog:
    """What is asked of one database from now on, as its server logs it, in sessions that begin from now on."""

    def __init__(self, server: PostgresServer, url: str) -> None:
        self._file = server.log
        self._begin = 0
        name = url.rpartition("/")[2]
        with psycopg.connect(url, autocommit=True) as connection:
            for setting in ("log_min_duration_statement", "log_parameter_max_length"):
                connection.execute(f'ALTER DATABASE "{name}" SET {setting} = 0')

    def restart(self) -> Self:
        """Forget what was asked so far."""
        self._begin = self._file.stat().st_size
        return self

    def asked(self) -> dict[str, Asked]:
        """By name, those that took longest first; parsing and binding are part of the time."""
        found: dict[str, Asked] = defaultdict(Asked)
        for line in self._lines():
            timed = _TIMED.match(line)
            if timed is not None:
                each = found[named("postgres", timed[3])]
                each.seconds += float(timed[1]) / 1000
                each.calls += timed[2] in ("execute", "statement")
        return _longest_first(found)

    def _lines(self) -> Iterator[str]:
        """What was logged, each with the lines that belong to it."""
        with self._file.open(encoding="utf-8", errors="replace") as file:
            file.seek(self._begin)
            current = ""
            for line in file:
                begins = _LINE.match(line)
                if begins is None:
                    current += line
                    continue
                yield current
                current = begins[2] + "\n" if begins[1] == "LOG" else ""
            yield current


def by_name(dialect: str, told: Mapping[str, tuple[int, float]]) -> dict[str, Asked]:
    """Calls and seconds by text as calls and seconds by name."""
    found: dict[str, Asked] = defaultdict(Asked)
    for text, (calls, seconds) in told.items():
        each = found[named(dialect, text)]
        each.calls += calls
        each.seconds += seconds
    return _longest_first(found)


def named(dialect: str, text: str) -> str:
    """What the store calls a statement; of others, and of those that are put together, the beginning."""
    plain = _plain(text)
    return _names(dialect).get(plain, plain if len(plain) <= _LONGEST else plain[:_LONGEST] + "…")


@cache
def _names(dialect: str) -> Mapping[str, str]:
    catalogue = Catalogue(dialect, {"schema": '"penstock"', "now": _NOW} if dialect == "postgres" else {})
    names: dict[str, str] = {}
    for name in read(dialect):
        entry = catalogue[name, (), ""]
        texts = {entry.text, entry.each, *entry.steps, *([call(entry)] if entry.at_once else ())} - {""}
        for text in texts:
            names.setdefault(_plain(text), name)
    return names


def _plain(text: str) -> str:
    """The same for a text with other names of its values and other gaps."""
    return " ".join(_VALUE.sub("?", text).replace("%%", "%").split()).rstrip(";")


def _longest_first(found: Mapping[str, Asked]) -> dict[str, Asked]:
    return dict(sorted(found.items(), key=lambda each: -each[1].seconds))
