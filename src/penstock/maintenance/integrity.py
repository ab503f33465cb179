"""Integrity of a store: its version, tables and indexes, pages and rows. Nothing is changed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.domain.errors import PenstockError, SchemaError, StoreError, hint_for
from penstock.domain.maintenance import Finding, Level, error, fine, warning
from penstock.storage import migrations
from penstock.storage.commands import admin
from penstock.storage.statements import fill

if TYPE_CHECKING:
    import apsw

    from penstock.domain.ports.store import Store
    from penstock.storage.postgres.session import Connection
    from penstock.storage.postgres.store import PostgresStore

_MIGRATE = "Run `penstock db migrate`."
_PATIENCE = 3600.0


def check_store(store: Store) -> list[Finding]:
    """Check schema, integrity and soundness; what depends on something broken is skipped."""
    found = schema(store)
    if any(each.level is Level.ERROR and each.check in ("store.reachable", "store.schema") for each in found):
        return found
    found += integrity(store)
    if any(each.level is Level.ERROR and each.check == "store.integrity" for each in found):
        return found
    return [*found, *soundness(store)]


def schema(store: Store) -> list[Finding]:
    """Check that the store exists, has this code's version, and matches its migrations."""
    try:
        if store.dialect == "postgres":
            return _postgres_schema(store)  # type: ignore[arg-type]
        return _sqlite_schema(store)
    except SchemaError as problem:
        return [error("store.schema", problem.message, hint_for("cli", problem.hint) or _MIGRATE)]
    except PenstockError as problem:
        return [
            error(
                "store.reachable",
                problem.message,
                hint_for("cli", problem.hint) or "Check that it exists and is reachable.",
            )
        ]


def integrity(store: Store) -> list[Finding]:
    """Check that the data on the disk is readable."""
    if store.dialect == "postgres":
        return _postgres_integrity(store)  # type: ignore[arg-type]
    if store.memory:  # type: ignore[attr-defined]
        return []
    restore = "Stop everything that uses the file, keep a copy of it, and restore a backup."
    try:
        with _looking(store) as connection:
            problems = [str(text) for (text,) in connection.execute("PRAGMA integrity_check(10)") if text != "ok"]
            problems += [
                f"a row of {row[0]} refers to nothing" for row in connection.execute("PRAGMA foreign_key_check")
            ]
    except StoreError as problem:
        problems = [problem.message]
    if problems:
        return [error("store.integrity", f"{store.place} is damaged: {'; '.join(problems[:10])}.", restore)]
    return [fine("store.integrity", "Every page of the file can be read.")]


def soundness(store: Store) -> list[Finding]:
    """Check that the rows are consistent."""
    # It reads everything, which may take longer than a statement of everyday may.
    patient = store.reserve(_PATIENCE)
    try:
        broken = patient.run(admin.check_integrity())
    finally:
        patient.close()
    hint = "Please report this; keep a copy made with `penstock db backup`."
    return [
        error("store.soundness", f"This does not hold: {each.rule} See {', '.join(each.rows[:5])}.", hint)
        for each in broken
    ] or [fine("store.soundness", "The rows are consistent.")]


def applied_migrations(store: Any) -> dict[int, str]:
    """Return the checksums of applied migrations by version; none if there is no store."""
    if store.dialect == "sqlite":
        if store.memory or not os.path.exists(store.path):
            return {}
        with _looking(store) as connection:
            migrations.refuse_foreign(connection, store.place)
            return _sqlite_applied(connection)
    with store.connect() as connection:
        return _postgres_applied(connection, store.schema)


@contextmanager
def _looking(store: Any) -> Iterator[apsw.Connection]:
    """Return a connection to the file that creates and migrates nothing."""
    from penstock.storage.sqlite import files
    from penstock.storage.sqlite.errors import translated

    with translated(store.place):
        connection = files.connect(store.path, files.READ_WRITE)
        try:
            connection.set_busy_timeout(10_000)
            yield connection
        finally:
            connection.close()


def _sqlite_schema(store: Any) -> list[Finding]:
    if store.memory:
        return [fine("store.schema", "A SQLite store in memory is created each time.")]
    if not os.path.exists(store.path):
        hint = "It is created on first use; if it should exist, check the path."
        return [error("store.reachable", f"There is no file {store.path}.", hint)]
    with _looking(store) as connection:
        migrations.refuse_foreign(connection, store.place)
        verdict = _version("sqlite", _sqlite_applied(connection), store.place)
        if verdict.level is not Level.OK:
            return [verdict]
        return [verdict, *_compared(_made(connection), _expected_sqlite())]


def _postgres_schema(store: PostgresStore) -> list[Finding]:
    from penstock.storage.postgres.errors import translated

    with store.connect() as connection, translated(store.place):
        applied = _postgres_applied(connection, store.schema)
        verdict = _version("postgres", applied, store.place)
        if verdict.level is not Level.OK:
            return [verdict]
        return [verdict, *_postgres_parts(connection, store.schema)]


def _version(dialect: str, applied: Mapping[int, str], place: str) -> Finding:
    newest = migrations.newest(dialect)
    if migrations.missing(dialect, applied, place):
        state = f"is at version {max(applied)}" if applied else "is not set up"
        return error("store.schema", f"{place} {state}, this penstock needs version {newest}.", _MIGRATE)
    return fine("store.schema", f"{place} is at version {newest}.")


def _compared(made: Mapping[str, str], expected: Mapping[str, str]) -> list[Finding]:
    """Return what is missing, or differs from the migrations."""
    found = [
        error("store.indexes", f"{_kind(text)} {name!r} is missing.", f"Stop everything and run: {text};")
        for name, text in expected.items()
        if name not in made
    ]
    found += [
        warning("store.indexes", f"{_kind(text)} {name!r} is not as penstock created it.", f"It should be: {text};")
        for name, text in expected.items()
        if name in made and made[name] != text
    ]
    return found or [fine("store.indexes", "Every table and index exists.")]


def _kind(text: str) -> str:
    return "The table" if text.startswith("CREATE TABLE") else "The index"


def _made(connection: apsw.Connection) -> dict[str, str]:
    text = "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
    return {str(name): str(sql) for name, sql in connection.execute(text)}


def _expected_sqlite() -> dict[str, str]:
    from penstock.storage.sqlite import files

    connection = files.connect(":memory:")
    try:
        for each in migrations.all_of("sqlite"):
            connection.execute(each.text)
        return _made(connection)
    finally:
        connection.close()


def _postgres_parts(connection: Connection, name: str) -> list[Finding]:
    tables = {each for (each,) in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (name,))}
    text = (
        "SELECT relname, indisvalid FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid "
        "WHERE relnamespace = to_regnamespace(%s)::oid"
    )
    indexes: dict[str, bool] = dict(connection.execute(text, (migrations.quoted(name),)).fetchall())
    found = [
        error("store.indexes", f"The table {each!r} is missing.", "Restore a backup; its rows are lost.")
        for each in migrations.tables("postgres")
        if each not in tables
    ]
    found += [
        error("store.indexes", f"The index {each!r} is missing.", f"Run: {_definition(each, name)};")
        for each in migrations.indexes("postgres")
        if each not in indexes
    ]
    found += [
        error(
            "store.indexes",
            f"The index {each!r} is not valid, so queries do not use it.",
            f"Run: REINDEX INDEX CONCURRENTLY {migrations.quoted(name)}.{migrations.quoted(each)};",
        )
        for each, valid in indexes.items()
        if not valid
    ]
    return found or [fine("store.indexes", "Every table and index exists.")]


def _definition(index: str, schema_name: str) -> str:
    """Return the statement that creates an index."""
    texts = "\n".join(each.text for each in migrations.all_of("postgres"))
    found = re.search(rf"CREATE (?:UNIQUE )?INDEX {index} [^;]+", texts)
    return fill(found.group(), {"schema": migrations.quoted(schema_name)}) if found else f"CREATE INDEX {index} …"


def _postgres_integrity(store: PostgresStore) -> list[Finding]:
    text = "SELECT coalesce(checksum_failures, 0) FROM pg_stat_database WHERE datname = current_database()"
    with store.connect() as connection:
        (failures,) = connection.execute(text).fetchone() or (0,)
        unchecked = connection.execute(
            "SELECT conname FROM pg_constraint WHERE connamespace = to_regnamespace(%s)::oid AND NOT convalidated",
            (migrations.quoted(store.schema),),
        ).fetchall()
    found = []
    if failures:
        hint = "The disk or the memory of its host is failing: restore a backup on another one."
        found.append(error("store.integrity", f"PostgreSQL has met {failures} damaged page(s).", hint))
    if unchecked:
        names = ", ".join(name for (name,) in unchecked)
        found.append(
            error("store.integrity", f"Rows may break these rules: {names}.", "Run ALTER TABLE … VALIDATE CONSTRAINT.")
        )
    return found or [fine("store.integrity", "PostgreSQL has met no damaged page.")]


def _sqlite_applied(connection: apsw.Connection) -> dict[int, str]:
    if not list(connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'migration'")):
        return {}
    return dict(connection.execute("SELECT version, checksum FROM migration").fetchall())  # type: ignore[arg-type]


def _postgres_applied(connection: Connection, name: str) -> dict[int, str]:
    quoted = migrations.quoted(name)
    there = connection.execute("SELECT to_regclass(%s)", (f"{quoted}.migration",)).fetchone()
    if there is None or there[0] is None:
        return {}
    return dict(connection.execute(f"SELECT version, checksum FROM {quoted}.migration".encode()).fetchall())  # noqa: S608
