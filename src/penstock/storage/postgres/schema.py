"""Creates, migrates and checks the schema of a PostgreSQL store."""

from __future__ import annotations

import zlib
from typing import Any

import psycopg

from penstock.domain.errors import SchemaError
from penstock.storage import migrations
from penstock.storage.postgres.errors import MIGRATE
from penstock.storage.statements import fill

Connection = psycopg.Connection[tuple[Any, ...]]


def migrate(connection: Connection, schema: str, place: str) -> list[int]:
    """Apply missing migrations in one transaction, under an advisory lock of the schema; return their versions."""
    name = migrations.quoted(schema)
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", (0x70656E73, zlib.crc32(schema.encode()) - 2**31))
        if not _has_table(connection, schema):
            if not _has_schema(connection, schema):
                # The right to create one is asked for also where it is there, and its owner need not have that.
                connection.execute(f"CREATE SCHEMA IF NOT EXISTS {name}".encode())
            connection.execute(fill(migrations.POSTGRES_RECORD, {"schema": name}).encode())
        todo = migrations.missing("postgres", _applied(connection, name), place)
        for each in todo:
            connection.execute(fill(each.text, {"schema": name}).encode())
            # The driver looks for its placeholders in names, too.
            insert = f"INSERT INTO {name.replace('%', '%%')}.migration (version, name, checksum) VALUES (%s, %s, %s)"  # noqa: S608 - quoted
            connection.execute(insert.encode(), (each.version, each.name, each.checksum))
    return [each.version for each in todo]


def check(connection: Connection, schema: str, place: str) -> None:
    """Raise unless the schema is exactly the one this code knows."""
    applied = _applied(connection, migrations.quoted(schema)) if _has_table(connection, schema) else {}
    if migrations.missing("postgres", applied, place):
        state = f"is at version {max(applied)}" if applied else "is not set up"
        raise SchemaError(
            f"{place} {state}, this penstock needs version {migrations.newest('postgres')}.",
            hint=MIGRATE,
        )


def _has_schema(connection: Connection, schema: str) -> bool:
    return connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone() is not None


def _has_table(connection: Connection, schema: str) -> bool:
    query = "SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = 'migration'"
    return connection.execute(query, (schema,)).fetchone() is not None


def _applied(connection: Connection, name: str) -> dict[int, str]:
    query = f"SELECT version, checksum FROM {name}.migration"  # noqa: S608 - quoted
    return dict(connection.execute(query.encode()).fetchall())
