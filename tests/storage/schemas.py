"""PostgreSQL schemas for tests: created once, emptied after each test and reused."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any

import psycopg
from psycopg import sql

from penstock.storage.postgres.store import PostgresStore

_numbers = itertools.count()
_spare: dict[str, list[Schema]] = defaultdict(list)


class Schema:
    """One schema of ours in a database, and what stands in it when it is new."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.name = f"test_{next(_numbers)}"
        PostgresStore(url, schema=self.name).migrate()
        with psycopg.connect(url) as connection:
            self._ground = {table: _rows(connection, self.name, table) for table in _tables(connection, self.name)}

    def empty(self) -> None:
        """Bring it back to what it was when it was new; whoever still holds a lock there is not waited for."""
        with psycopg.connect(self.url) as connection:
            # No foreign key is checked meanwhile, so that the order does not matter.
            connection.execute("SET lock_timeout = '2s'; SET session_replication_role = 'replica'")
            if _tables(connection, self.name) != list(self._ground):
                raise RuntimeError(f"a test changed the tables of {self.name}")
            for table in self._ground:
                name = sql.Identifier(self.name, table)
                connection.execute(sql.SQL("DELETE FROM {}").format(name))
            for table, rows in self._ground.items():
                for row in rows:
                    name = sql.Identifier(self.name, table)
                    marks = sql.SQL(", ").join([sql.Placeholder()] * len(row))
                    connection.execute(sql.SQL("INSERT INTO {} VALUES ({})").format(name, marks), row)


def lend(url: str) -> Schema:
    """An empty schema in this database."""
    return _spare[url].pop() if _spare[url] else Schema(url)


def give_back(schema: Schema) -> None:
    """A test is done with a schema; one that cannot be emptied is not used again."""
    try:
        schema.empty()
    except (psycopg.Error, RuntimeError):
        return
    _spare[schema.url].append(schema)


def _tables(connection: psycopg.Connection[Any], schema: str) -> list[str]:
    text = "SELECT tablename FROM pg_tables WHERE schemaname = %s ORDER BY 1"
    return [name for (name,) in connection.execute(text, (schema,))]


def _rows(connection: psycopg.Connection[Any], schema: str, table: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(schema, table))).fetchall()
