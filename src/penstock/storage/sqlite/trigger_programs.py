"""Several changes that SQLite carries out in one step: they are the program of a trigger on a view that holds nothing.

Between two steps of a connection other threads may take the interpreter's lock, and keep it for milliseconds. Within a
step nobody waits for it, so that the loop of a worker runs jobs while the changes of others are written.
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
    """How a connection is taught what to do at once, and how it is told to do it."""

    lesson: str
    call: str


def call(entry: Entry) -> str:
    """The statement that has done what an entry has done at once."""
    return _program(entry.name, entry.before, entry.given, entry.at_once).call


def carry_out(on: apsw.Connection | apsw.Cursor, entry: Entry, values: Mapping[str, Any]) -> None:
    """Do what an entry has done at once."""
    program = _program(entry.name, entry.before, entry.given, entry.at_once)
    try:
        on.execute(program.call, values)
    except apsw.SQLError:
        if on.execute("SELECT 1 FROM temp.sqlite_schema WHERE name = ?", [f"do_{entry.name}"]).fetchall():
            raise
        # The first time on this connection.
        on.execute(program.lesson)
        on.execute(program.call, values)


@lru_cache
def _program(name: str, before: tuple[str, ...], given: tuple[str, ...], steps: tuple[str, ...]) -> Program:
    inner = _names(steps)
    outer = [each for each in _names(before + steps) if each not in given]
    lesson = _trigger(f"do_{name}", outer, steps)
    if given:
        # What a query gives is handed to a second trigger together with the values that it needs.
        *changes, query = before
        passed = ", ".join(f"given.{each}" if each in given else f":{each}" for each in inner)
        hand_on = f"INSERT INTO temp.go_on_{name} SELECT {passed} FROM ({query}) AS given"  # noqa: S608 - our own text
        lesson = _trigger(f"go_on_{name}", inner, steps) + _trigger(f"do_{name}", outer, (*changes, hand_on))
    call = f"INSERT INTO temp.do_{name} VALUES ({', '.join(f':{each}' for each in outer)})"  # noqa: S608 - our own names
    return Program(lesson, call)


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
