"""Move a SQLite store with its history into an empty schema of PostgreSQL.

Meanwhile the file is locked against writes, and the schema is marked as unfinished, so that no program works with it.
After an interrupted move it stays marked, and the next move starts from the beginning. Before the mark is removed,
every table is read back and compared.

"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from penstock.domain.errors import Conflict, InvalidInput, StoreError
from penstock.storage import migrations
from penstock.storage.commands import admin, feed

if TYPE_CHECKING:
    import apsw
    import psycopg

    from penstock.domain.ports.store import Store
    from penstock.storage.postgres.store import PostgresStore
    from penstock.storage.sqlite.store import SqliteStore

    Connection = psycopg.Connection[tuple[Any, ...]]

Row = tuple[Any, ...]
Tell = Callable[[str, int], None]
"""Called with each table and the number of its rows copied so far."""

_BATCH = 20_000
_EVENTS = 5_000
"""Rows of events in one transaction; a reader of the feed takes such a bundle in one step."""

_LOCK = 0x70656E74
_GROUND = {"access", "control", "feed_horizon", "webhook_feed"}
"""Tables with rows from the migrations."""
_ONLY_SQLITE = {("worker", "boot")}
_ONLY_POSTGRES = {
    ("event", "xid"): None, ("event", "ended"): None, ("event", "begun"): None, ("feed_horizon", "xid"): "0",
}  # fmt: skip
"""The value of a column that SQLite lacks; None: the database's default."""


@dataclass(frozen=True, slots=True)
class MovedTable:
    """One table that was copied and compared."""

    table: str
    rows: int
    checksum: str


@dataclass(frozen=True, slots=True)
class _Table:
    name: str
    columns: tuple[str, ...]
    kinds: tuple[str, ...]
    """The column types in PostgreSQL."""
    numbered: str | None
    """The column that the database numbers."""


def move(source: Store, target: Store, tell: Tell = lambda table, rows: None) -> list[MovedTable]:
    """Copy a SQLite file with its history into an empty PostgreSQL schema; return the tables in order.

    A live worker on the source and a target that is not empty are refused: `Conflict`. If a table differs after the
    copy, that is an error, and the target stays marked as unfinished.

    """
    file, schema = _sqlite(source), _postgres(target)
    from penstock.storage.postgres.errors import translated
    from penstock.storage.sqlite.errors import translated as translated_sqlite

    file.open()
    with translated(schema.place), translated_sqlite(file.place), _held(file) as origin, schema.connect() as connection:
        _refuse_live(file)
        with _alone(connection, schema):
            _clear(connection, schema)
            tables = [_table(origin, connection, schema, name) for name in migrations.tables("sqlite")[1:]]
            return _Copy(origin, connection, schema, tell).run(tables)


class _Copy:
    """One move, from the first table to the last."""

    def __init__(self, origin: apsw.Connection, connection: Connection, schema: PostgresStore, tell: Tell) -> None:
        self._origin = origin
        self._connection = connection
        self._schema = schema
        self._tell = tell
        self._cursor: str | None = None
        """The cursor of webhooks in the target."""

    def run(self, tables: Sequence[_Table]) -> list[MovedTable]:
        written = {table.name: self._copy(table) for table in tables}
        for table in tables:
            if self._read_back(table) != written[table.name]:
                raise StoreError(
                    f"Table {table.name!r} of {self._schema.place} differs from the copied rows.",
                    hint="Stop other programs that write to it, and repeat the move.",
                )
        self._finish(tables)
        return [MovedTable(table.name, *written[table.name].summary) for table in tables]

    def _copy(self, table: _Table) -> _Digest:
        digest, done = _Digest(), 0
        for batch in self._batches(table):
            rows = [self._converted(table, row) for row in batch]
            self._write(table, rows)
            digest.add(rows)
            done += len(rows)
            self._tell(table.name, done)
        if not done:
            self._tell(table.name, 0)
        return digest

    def _batches(self, table: _Table) -> Iterator[list[Row]]:
        names = ", ".join(table.columns)
        if table.name != "event":
            order = " ORDER BY seq" if "seq" in table.columns else ""
            rows = self._origin.execute(f"SELECT {names} FROM {table.name}{order}")  # noqa: S608 - from our own schema
            yield from _in_batches(rows, _BATCH)
            return
        # The webhooks' cursor must be at the end of a transaction, so that a snapshot can express it. If it is inside a
        # bundle, that bundle is split there.
        seen, revision = self._webhooks_seen()
        row, place = divmod(seen + 1, feed.NUMBERS)
        text = f"SELECT {names} FROM event WHERE seq >= ? AND seq < ? ORDER BY seq"  # noqa: S608
        yield from _in_batches(self._origin.execute(text, (0, row)), _EVENTS)
        before = self._moment()
        yield from _in_batches(self._origin.execute(text, (row, row + 1)), _EVENTS)
        if revision is not None:
            self._cursor = f"{revision}@{before}/{self._moment()}/{seen}" if place else f"{revision}@{before}"
        yield from _in_batches(self._origin.execute(text, (row + 1, 2**62)), _EVENTS)

    def _moment(self) -> str:
        ((moment,),) = self._connection.execute("SELECT pg_current_snapshot()::text").fetchall()
        return str(moment)

    def _webhooks_seen(self) -> tuple[int, int | None]:
        """Return the last event with webhooks, and the revision of that cursor; None: there is no cursor."""
        ((cursor,),) = self._origin.execute("SELECT cursor FROM webhook_feed").fetchall()
        try:
            return feed.seen_until(str(cursor))
        except InvalidInput:
            return -1, None

    def _converted(self, table: _Table, row: Row) -> Row:
        """Return a row as PostgreSQL has it."""
        if "boolean" in table.kinds:
            row = tuple(
                bool(value) if kind == "boolean" and value is not None else value
                for value, kind in zip(row, table.kinds, strict=True)
            )
        if "ARRAY" in table.kinds:
            row = tuple(
                json.loads(value) if kind == "ARRAY" and value is not None else value
                for value, kind in zip(row, table.kinds, strict=True)
            )
        if table.name == "worker":
            # A lease is relative to the boot of a host, and no worker is live.
            facts = dict(zip(table.columns, row, strict=True))
            row = tuple(({**facts, "lease_until": facts["heartbeat_at"]}).values())
        elif table.name == "webhook_feed":
            facts = dict(zip(table.columns, row, strict=True))
            row = tuple({**facts, "cursor": self._cursor}.values())
        return row

    def _write(self, table: _Table, rows: Sequence[Row]) -> None:
        extra = {name: value for (of, name), value in _ONLY_POSTGRES.items() if of == table.name and value is not None}
        names = ", ".join((*table.columns, *extra))
        text = f"COPY {self._name(table.name)} ({names}) FROM STDIN".encode()
        with self._transaction(), self._connection.cursor() as cursor, cursor.copy(text) as copy:
            for row in rows:
                copy.write_row((*row, *extra.values()))

    def _read_back(self, table: _Table) -> _Digest:
        digest = _Digest()
        columns = ", ".join(map(_readable, table.columns, table.kinds))
        text = f"SELECT {columns} FROM {self._name(table.name)}"  # noqa: S608
        with self._transaction(), self._connection.cursor(name="moved") as cursor:
            cursor.itersize = _BATCH
            cursor.execute(text.encode())
            for batch in _in_batches(cursor, _BATCH):
                digest.add(batch)
        return digest

    def _finish(self, tables: Sequence[_Table]) -> None:
        """Continue the numbering of the file, and mark the schema as complete."""
        used: dict[Any, Any] = dict(self._origin.execute("SELECT name, seq FROM sqlite_sequence").fetchall())  # type: ignore[arg-type]
        with self._transaction():
            for table in tables:
                if table.numbered is not None:
                    ((most,),) = self._origin.execute(f"SELECT max({table.numbered}) FROM {table.name}")  # noqa: S608
                    last = max(most or 0, used.get(table.name, 0))
                    self._connection.execute(
                        "SELECT setval(pg_get_serial_sequence(%s, %s), %s, %s)",
                        (self._name(table.name), table.numbered, max(last, 1), last > 0),
                    )
            record = f"DELETE FROM {_escaped(self._name('migration'))} WHERE version = %s"  # noqa: S608
            self._connection.execute(record.encode(), (migrations.UNFINISHED_MOVE,))
        for table in tables:
            self._connection.execute(f"ANALYZE {self._name(table.name)}".encode())

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._connection.transaction():
            self._connection.execute("SET LOCAL statement_timeout = 0; SET LOCAL enable_seqscan = on")
            yield

    def _name(self, table: str) -> str:
        return f"{migrations.quoted(self._schema.schema)}.{table}"


class _Digest:
    """A checksum over rows that is independent of their order."""

    def __init__(self) -> None:
        self._rows = 0
        self._sum = 0

    @property
    def summary(self) -> tuple[int, str]:
        return self._rows, f"{self._sum:016x}"

    def add(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self._rows += 1
            self._sum += int.from_bytes(hashlib.blake2b(repr(row).encode(), digest_size=8).digest())
        self._sum %= 2**64

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Digest) and self.summary == other.summary

    __hash__ = None  # type: ignore[assignment]


def _sqlite(store: Store) -> SqliteStore:
    from penstock.storage.sqlite.store import SqliteStore

    if not isinstance(store, SqliteStore) or store.memory:
        raise InvalidInput(f"{store.place} is no SQLite file, and only such a one can be moved.")
    return store


def _postgres(store: Store) -> PostgresStore:
    if store.dialect != "postgres":
        raise InvalidInput(
            f"{store.place} is not PostgreSQL.", hint="Name a target such as postgresql://host/database."
        )
    schema: PostgresStore = store  # type: ignore[assignment]
    if schema.pooled:
        raise InvalidInput("A move needs a direct connection.", hint="Give the URL of the database, not of its pooler.")
    return schema


@contextmanager
def _held(file: SqliteStore) -> Iterator[apsw.Connection]:
    """Return a connection that blocks all writers."""
    from penstock.storage.sqlite import files

    connection = files.connect(file.path, files.READ_WRITE)
    connection.set_busy_timeout(10_000)
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield connection
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.close()


def _refuse_live(file: SqliteStore) -> None:
    live = [worker for worker in file.run(admin.workers()) if worker.live]
    if live:
        names = ", ".join(f"{worker.name} (process {worker.pid})" for worker in live[:5])
        raise Conflict(
            f"Workers live on {file.place}: {names}.", hint="Stop them, and other programs that use the file."
        )


@contextmanager
def _alone(connection: Connection, schema: PostgresStore) -> Iterator[None]:
    """Lock the schema against another move, whose rows this one would not see."""
    key = (_LOCK, zlib.crc32(schema.schema.encode()) - 2**31)
    (free,) = connection.execute("SELECT pg_try_advisory_lock(%s, %s)", key).fetchone() or (False,)
    if not free:
        raise Conflict(f"Another move into {schema.place} is running.", hint="Wait until it is done.")
    yield


def _clear(connection: Connection, schema: PostgresStore) -> None:
    """Migrate and empty the target, and mark it as unfinished."""
    name = migrations.quoted(schema.schema)
    tables = [f"{name}.{table}" for table in migrations.tables("postgres")[1:]]
    if _is_unfinished(connection, schema):
        with connection.transaction():
            connection.execute(f"TRUNCATE {', '.join(tables)}".encode())
        return
    schema.migrate()
    _refuse_full(connection, schema, tables)
    with connection.transaction():
        record = f"INSERT INTO {_escaped(name)}.migration (version, name, checksum) VALUES (%s, 'move', 'unfinished')"  # noqa: S608
        connection.execute(record.encode(), (migrations.UNFINISHED_MOVE,))
        connection.execute(f"TRUNCATE {', '.join(tables)}".encode())


def _is_unfinished(connection: Connection, schema: PostgresStore) -> bool:
    name = migrations.quoted(schema.schema)
    there = connection.execute("SELECT to_regclass(%s)", (f"{name}.migration",)).fetchone()
    if there is None or there[0] is None:
        return False
    found = connection.execute(f"SELECT version, checksum FROM {name}.migration".encode()).fetchall()  # noqa: S608
    applied: dict[int, str] = dict(found)
    if applied.pop(migrations.UNFINISHED_MOVE, None) is None:
        return False
    if migrations.missing("postgres", applied, schema.place):
        raise Conflict(
            f"{schema.place} is unfinished, from a move by an older penstock.",
            hint=f"Drop the schema {schema.schema!r}.",
        )
    return True


def _refuse_full(connection: Connection, schema: PostgresStore, tables: Sequence[str]) -> None:
    for name in tables:
        table = name.rpartition(".")[2]
        if table in _GROUND - {"control"}:
            continue
        where = " WHERE key <> '*'" if table == "control" else ""
        if connection.execute(f"SELECT 1 FROM {name}{where} LIMIT 1".encode()).fetchone() is not None:  # noqa: S608
            raise Conflict(
                f"{schema.place} is not empty: there are rows in {table!r}.",
                hint="Name another schema, postgresql://…?schema=NAME, or remove what is there.",
            )


def _table(origin: apsw.Connection, connection: Connection, schema: PostgresStore, name: str) -> _Table:
    """Return the columns of both databases; an unknown difference would lose data."""
    text = (
        "SELECT column_name, data_type, is_identity FROM information_schema.columns "
        "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position"
    )
    found = connection.execute(text, (schema.schema, name)).fetchall()
    theirs: dict[str, str] = {column: kind for column, kind, _ in found}
    numbered = next((column for column, _, identity in found if identity == "YES"), None)
    ours = [row[1] for row in origin.execute(f"PRAGMA table_info({name})")]
    shared = [column for column in ours if (name, column) not in _ONLY_SQLITE]
    if set(shared) != {column for column in theirs if (name, column) not in _ONLY_POSTGRES}:
        raise StoreError(f"Table {name!r} has other columns in PostgreSQL than in SQLite; it cannot be moved.")
    return _Table(name, tuple(shared), tuple(theirs[column] for column in shared), numbered)


def _readable(name: str, kind: str) -> str:
    """Return a column in its written form: ids as text, lists as lists of them."""
    return {"uuid": f"{name}::text", "ARRAY": f"to_json({name})"}.get(kind, name)


def _in_batches(rows: Iterable[Any], size: int) -> Iterator[list[Row]]:
    remaining = iter(rows)
    while batch := list(islice(remaining, size)):
        yield batch


def _escaped(name: str) -> str:
    """Escape the driver's placeholders in names."""
    return name.replace("%", "%%")
