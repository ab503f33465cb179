"""What the databases do with the barest statements of the same kind: the limit that we measure ourselves against."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import apsw
import psycopg

CLAIM = (
    "WITH taken AS MATERIALIZED "
    "(SELECT id FROM raw WHERE status = 1 ORDER BY rank, id LIMIT %s FOR UPDATE SKIP LOCKED) "
    "UPDATE raw SET status = 2, fence = fence + 1 FROM taken WHERE raw.id = taken.id "
    "RETURNING raw.id::text, fence, params"
)
COMPLETE = (
    "UPDATE raw SET status = 5 FROM unnest(%s::uuid[], %s::integer[]) AS input (id, fence) "
    "WHERE raw.id = input.id AND raw.fence = input.fence AND raw.status = 2"
)


class Raw:
    """What both bare tables do alike."""

    insert: str
    _connection: Any

    def _connect(self) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        self._connection.close()

    def single(self, ids: Sequence[str], params: str) -> None:
        for each in ids:
            self._connection.execute(self.insert, (each, params))

    def concurrent(self, groups: Sequence[Sequence[str]], params: str) -> None:
        connections = [self._connect() for _ in groups]
        in_threads(
            [
                lambda connection=connection, group=group: [
                    connection.execute(self.insert, (each, params)) for each in group
                ]
                for connection, group in zip(connections, groups, strict=True)
            ]
        )
        for connection in connections:
            connection.close()


class RawPostgres(Raw):
    """A bare table in PostgreSQL, driven by psycopg with prepared statements."""

    insert = "INSERT INTO raw (id, status, rank, params) VALUES (%s, 1, 1, %s)"

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection = self._connect()
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS raw (id uuid PRIMARY KEY, status smallint NOT NULL, rank bigint NOT NULL, "
            "fence integer NOT NULL DEFAULT 0, params text)"
        )
        self._connection.execute("CREATE INDEX IF NOT EXISTS raw_ready ON raw (rank, id) WHERE status = 1")
        self._connection.execute("TRUNCATE raw")

    def batch(self, ids: Sequence[str], params: str) -> None:
        self._connection.execute(
            "INSERT INTO raw (id, status, rank, params) SELECT id, 1, 1, %s FROM unnest(%s::uuid[]) AS input (id)",
            (params, _array(ids)),
        )

    def claim_and_complete(self, limit: int) -> int:
        taken = self._connection.execute(CLAIM, (limit,)).fetchall()
        if taken:
            ids, fences = _array([row[0] for row in taken]), _array([str(row[1]) for row in taken])
            self._connection.execute(COMPLETE, (ids, fences))
        return len(taken)

    def _connect(self) -> Any:
        return psycopg.connect(
            self._url,
            autocommit=True,
            prepare_threshold=1,
            options="-c jit=off -c enable_seqscan=off -c plan_cache_mode=force_generic_plan",
        )


class RawSqlite(Raw):
    """A bare table in a SQLite file, driven by apsw; WAL, every commit flushed."""

    insert = "INSERT INTO raw (id, status, rank, params) VALUES (?, 1, 1, ?)"

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection = self._connect()
        self._connection.execute(
            "CREATE TABLE raw (id TEXT PRIMARY KEY, status INTEGER NOT NULL, rank INTEGER NOT NULL, "
            "fence INTEGER NOT NULL DEFAULT 0, params TEXT) STRICT, WITHOUT ROWID;"
            "CREATE INDEX raw_ready ON raw (rank, id) WHERE status = 1"
        )

    def batch(self, ids: Sequence[str], params: str) -> None:
        with self._connection:
            rows = [(each, params) for each in ids]
            self._connection.executemany(self.insert, rows)

    def claim_and_complete(self, limit: int) -> int:
        with self._connection:
            taken = self._connection.execute(
                "UPDATE raw SET status = 2, fence = fence + 1 WHERE id IN "
                "(SELECT id FROM raw WHERE status = 1 ORDER BY rank, id LIMIT ?) RETURNING id, fence, params",
                (limit,),
            ).fetchall()
        with self._connection:
            rows = [(row[0], row[1]) for row in taken]
            self._connection.executemany("UPDATE raw SET status = 5 WHERE id = ? AND fence = ? AND status = 2", rows)
        return len(taken)

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(self._path)
        connection.set_busy_timeout(60_000)
        connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536")
        return connection


def in_threads(tasks: Sequence[Callable[[], Any]]) -> None:
    """Run tasks at the same time; raise what one of them raised."""
    failures: list[BaseException] = []

    def guarded(task: Callable[[], Any]) -> None:
        try:
            task()
        except BaseException as error:  # carried to the caller's thread
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def _array(values: Sequence[str]) -> str:
    return "{" + ",".join(values) + "}"
