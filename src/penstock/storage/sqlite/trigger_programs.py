"""Several changes in one SQLite step: they are the program of a trigger on an empty view.

Between two steps of a connection other threads may take the interpreter's lock for milliseconds. Within a step it is
free, so that the event loop of a worker runs jobs while changes are written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import apsw

from penstock.storage.statements import Entry

_VALUE = re.compile(r"(?<![:\w]):([a-z_]+)")
_CHANGED = re.compile(r"\b(INSERT INTO|UPDATE|DELETE FROM) temp\.")


class Program(NamedTuple):
    """The script that defines a program on a connection, and the statement that calls it."""

    definition: str
    call: str


def call(entry: Entry) -> str:
    """Return the statement that calls the program of an entry."""
    return _program(entry.name, entry.before, entry.given, entry.at_once).call


def carry_out(on: apsw.Connection | apsw.Cursor, entry: Entry, values: Mapping[str, Any]) -> None:
    """Carry out the program of an entry; define it at the first use on a connection."""
    program = _program(entry.name, entry.before, entry.given, entry.at_once)
    try:
        on.execute(program.call, values)
    except apsw.SQLError:
        if on.execute("SELECT 1 FROM temp.sqlite_schema WHERE name = ?", [f"do_{entry.name}"]).fetchall():
            raise
        # The first time on this connection.
        on.execute(program.definition)
        on.execute(program.call, values)


@lru_cache
def _program(name: str, before: tuple[str, ...], given: tuple[str, ...], steps: tuple[str, ...]) -> Program:
    inner = _names(steps)
    outer = [each for each in _names(before + steps) if each not in given]
    definition = _trigger(f"do_{name}", outer, steps)
    if given:
        # What a query gives is handed to a second trigger together with the values that it needs.
        *changes, query = before
        passed = ", ".join(f"given.{each}" if each in given else f":{each}" for each in inner)
        hand_on = f"INSERT INTO temp.go_on_{name} SELECT {passed} FROM ({query}) AS given"  # noqa: S608 - our own text
        definition = _trigger(f"go_on_{name}", inner, steps) + _trigger(f"do_{name}", outer, (*changes, hand_on))
    call = f"INSERT INTO temp.do_{name} VALUES ({', '.join(f':{each}' for each in outer)})"  # noqa: S608 - our own names
    return Program(definition, call)


def _trigger(view: str, names: Sequence[str], steps: Sequence[str]) -> str:
    """In it, values are columns of the new row, and what is changed has no schema in front of its name."""
    columns = ", ".join(f'NULL AS "{name}"' for name in names)
    body = "; ".join(_CHANGED.sub(r"\1 ", _VALUE.sub(r'NEW."\1"', step)) for step in steps)
    return (
        f"CREATE VIEW temp.{view} AS SELECT {columns};\n"
        f"CREATE TRIGGER temp.{view}_now INSTEAD OF INSERT ON {view} BEGIN {body}; END;\n"
    )


def _names(steps: Sequence[str]) -> list[str]:
    """The values that statements ask for."""
    return list(dict.fromkeys(_VALUE.findall("\n".join(steps))))
