"""Numbered migrations, forward only, each applied once under a lock and recorded with its checksum.

The files name states and sets of states (`storage/statements.py`). The checksum is that of a file, names included.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from penstock.domain.errors import SchemaError, SchemaNewer
from penstock.storage.statements import fill, fill_states

if TYPE_CHECKING:
    import apsw

APPLICATION_ID = 0x70656E73
"""Written into every SQLite file of ours ("pens"), so that no other database is taken for one."""

UNFINISHED_MOVE = 1_000_000
"""A migration of this number on record says that a move into the database has not come to its end."""

SQLITE_RECORD = """CREATE TABLE IF NOT EXISTS migration (
    version INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at INTEGER NOT NULL
) STRICT"""
POSTGRES_RECORD = """CREATE TABLE {schema}.migration (
    version integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)"""
"""Where it is written down which migrations were applied."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema."""

    version: int
    name: str
    source: str
    """The files as they are."""
    text: str
    """The same with the codes of states."""

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.source.encode()).hexdigest()


@cache
def all_of(dialect: str) -> tuple[Migration, ...]:
    """The migrations of a dialect in their order; files with the same number are parts of one migration."""
    folder = resources.files("penstock.storage.migrations") / dialect
    found: dict[int, Migration] = {}
    for file in sorted(folder.iterdir(), key=lambda each: each.name):
        digits, _, name = file.name.removesuffix(".sql").partition("_")
        number, source = int(digits), file.read_text(encoding="utf-8")
        first = found.get(number) or Migration(number, name, "", "")
        text = first.text + fill_states(source, dialect)
        found[number] = replace(first, source=first.source + source, text=text)
    return tuple(found.values())


def newest(dialect: str) -> int:
    return all_of(dialect)[-1].version


def missing(dialect: str, applied: Mapping[int, str], place: str) -> list[Migration]:
    """Return the migrations to apply; raise when the database and this code do not fit."""
    known = {each.version: each for each in all_of(dialect)}
    if UNFINISHED_MOVE in applied:
        raise SchemaError(
            f"{place} holds a part of what `penstock db move` copies: it is under way, or was broken off.",
            hint="Wait for it, or repeat it; it starts from the beginning.",
        )
    for version, checksum in sorted(applied.items()):
        if version not in known:
            raise SchemaNewer(place, max(applied), max(known))
        if known[version].checksum != checksum:
            raise SchemaError(
                f"Migration {version} of {place} is not the one this penstock has (checksums differ).",
                hint="Restore the file that was applied; migrations are never edited.",
            )
    return [each for version, each in known.items() if version not in applied]


def script(dialect: str, schema: str = "penstock") -> str:
    """Return all migrations of an empty database as one script, to be applied by hand."""
    name = quoted(schema)
    parts = [_BEGIN[dialect], *(fill(each.text, {"schema": name}) + _record(dialect, each) for each in all_of(dialect))]
    return fill("\n".join([*parts, "COMMIT;\n"]), {"schema": name})


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    if not name or "\x00" in name or len(name.encode()) > 63:
        raise SchemaError(f"{name!r} cannot be a schema's name.", hint="Use 1 to 63 bytes.")
    text = name.replace('"', '""')
    if "{" in text:
        # Our statements use {names} as placeholders.
        return 'U&"' + text.replace("\\", "\\\\").replace("{", "\\007B") + '"'
    return f'"{text}"'


def migrate_sqlite(connection: apsw.Connection, place: str) -> None:
    """Bring a SQLite file up to date; any number of processes may try concurrently."""
    if _is_current(connection, place):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(SQLITE_RECORD)
        for each in missing("sqlite", _applied(connection), place):
            connection.execute(each.text)
            connection.execute(
                "INSERT INTO migration VALUES (?, ?, ?, unixepoch() * 1000000)",
                (each.version, each.name, each.checksum),
            )
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def refuse_foreign(connection: apsw.Connection, place: str) -> None:
    """Raise when a SQLite file belongs to another program; nothing is written to it."""
    # In this order: a process that sets the file up meanwhile marks it before its tables exist.
    shared = _tables(connection) & set(tables("sqlite"))
    mark = connection.pragma("application_id")
    if mark not in (0, APPLICATION_ID):
        raise SchemaError(
            f"{place} is a file of another program (its application id is {mark:#x}).", hint="Name another file."
        )
    if mark == 0 and shared:
        raise SchemaError(
            f"{place} has tables of another program with names that penstock uses: {', '.join(sorted(shared))}.",
            hint="Name another file; penstock can share a file only with tables of other names.",
        )


def _is_current(connection: apsw.Connection, place: str) -> bool:
    refuse_foreign(connection, place)
    return "migration" in _tables(connection) and not missing("sqlite", _applied(connection), place)


def _tables(connection: apsw.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}


def tables(dialect: str) -> list[str]:
    """Return our tables in order of creation: each comes after those that it refers to."""
    pattern = re.compile(r"CREATE TABLE (?:\{schema\}\.)?(\w+)")
    return ["migration", *(name for each in all_of(dialect) for name in pattern.findall(each.text))]


def indexes(dialect: str) -> list[str]:
    """Our indexes, those apart that belong to a constraint."""
    pattern = re.compile(r"CREATE (?:UNIQUE )?INDEX (\w+)")
    return [name for each in all_of(dialect) for name in pattern.findall(each.text)]


def _applied(connection: apsw.Connection) -> dict[int, str]:
    return dict(connection.execute("SELECT version, checksum FROM migration"))


def _record(dialect: str, each: Migration) -> str:
    columns = f"{each.version}, '{each.name}', '{each.checksum}'"
    if dialect == "sqlite":
        return f"INSERT INTO migration VALUES ({columns}, unixepoch() * 1000000);\n"  # noqa: S608 - from our own files
    return f"INSERT INTO {{schema}}.migration (version, name, checksum) VALUES ({columns});\n"  # noqa: S608


_BEGIN = {
    "sqlite": f"""BEGIN IMMEDIATE;
PRAGMA application_id = {APPLICATION_ID};
{SQLITE_RECORD};
""",
    "postgres": f"""BEGIN;
CREATE SCHEMA IF NOT EXISTS {{schema}};
{POSTGRES_RECORD};
""",
}
