"""A large store: very many ended jobs, inserted by SQL within the database."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.domain.states import Status
from penstock.storage.statements import fill_states
from tests.storage.tables import connected

_DAY = 86_400_000_000
_AT_ONCE = 1000
_NUMBERS = {
    "sqlite": "WITH RECURSIVE numbers (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {end})",
    "postgres": "WITH numbers (n) AS (SELECT * FROM generate_series({first}::bigint, {end}::bigint - 1))",
}
_IDS = {
    "sqlite": "printf('%08x-%04x-7000-8000-%012x', ({of}) / 1000 >> 16, ({of}) / 1000 & 65535, {n})",
    "postgres": "(lpad(to_hex(({of}) / 1000 >> 16), 8, '0') || '-' || lpad(to_hex(({of}) / 1000 & 65535), 4, '0')"
    " || '-7000-8000-' || lpad(to_hex({n}), 12, '0'))::uuid",
}
_NUMBERED = "{numbers} SELECT {columns} FROM numbers JOIN {s}filled_lane AS served ON served.position = {position}"
_SUCCEEDED, _FAILED, _CANCELLED = (each.code for each in (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED))


@dataclass(frozen=True)
class Kind:
    """What the jobs are like: expressions in SQL over `n`, the number of the job, for any column."""

    position: str = "0"
    """Which of the lanes a job belongs to."""
    job: Mapping[str, str] = field(default_factory=dict)
    detail: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    """The condition under which a job has a tag."""


class Filling:
    """Jobs numbered from 0 on, the last one just now; nobody else may write meanwhile."""

    def __init__(self, store: Any, lanes: Sequence[int], count: int, seconds_apart: float, now: int | None = None):
        self.store = store
        self.lanes = lanes
        self.count = count
        self.now = time.time_ns() // 1000 if now is None else now
        self.apart = round(seconds_apart * 1e6)
        self._dialect: str = store.dialect
        self._postgres = self._dialect == "postgres"
        self._schema = f'"{store.schema}".' if self._postgres else ""
        self.created = f"({self.now} - ({count} - n) * CAST({self.apart} AS bigint))"
        self.took = "(20000 + (n * 2654435761 % 4294967296 % 1000) * (n * 40503 % 65536 % 60) * 60)"
        self.ending = f"CASE WHEN n % 50 = 7 THEN {_FAILED} WHEN n % 200 = 11 THEN {_CANCELLED} ELSE {_SUCCEEDED} END"

    def id(self, n: str = "n") -> str:
        """An expression for the id of the job with this number."""
        of = self.created.replace("- n)", f"- ({n}))")
        return _IDS[self.store.dialect].format(of=of, n=n)

    def add_ended(self, kind: Kind) -> None:
        """Jobs that succeeded, failed or were cancelled, with their attempt and an event each, all of them counted."""
        ended = f"({self.created} + 50000 + {self.took})"
        status = self.ending
        job = {
            "fence": "1", "status": status, "priority": "10", "attempt": "1", "max_attempts": "3",
            "rank": self.created, "due_at": self.created, "created_at": self.created, "updated_at": ended,
            "queued_at": self.created, "started_at": f"{self.created} + 50000", "finished_at": ended,
            "stale_at": f"{self.now + 7 * _DAY}", "retire_at": f"{self.now + 7 * _DAY}", **kind.job,
        }  # fmt: skip
        attempt = {
            "fence": "1", "number": "1", "status": status, "started_at": f"{self.created} + 50000", "ended_at": ended,
            "cause": f"CASE {status} WHEN {_SUCCEEDED} THEN 'returned' WHEN {_FAILED} THEN 'raised'"
            " ELSE 'cancelled' END",
            "result": f"CASE {status} WHEN {_SUCCEEDED} THEN '{{\"value\":' || n || '}}' END",
            "error_type": f"CASE {status} WHEN {_FAILED} THEN 'ValueError' END",
            "error": f"CASE {status} WHEN {_FAILED} THEN 'no such address' END",
            "fingerprint": f"CASE {status} WHEN {_FAILED} THEN 'f' || n % 40 END",
        }  # fmt: skip
        with connected(self.store) as connection:
            self._begin(connection)
            self.insert(connection, kind, job, 0, self.count)
            self._numbered(connection, kind, "attempt", {"job_id": self.id(), **attempt}, 0, self.count)
            self._flow(connection)
            connection.execute("COMMIT")
            self._tell(connection, kind)
            connection.execute("BEGIN")
            self._end(connection)

    def add(self, kind: Kind, job: Mapping[str, str], first: int, end: int) -> None:
        """Jobs with these numbers."""
        with connected(self.store) as connection:
            self._begin(connection)
            self.insert(connection, kind, job, first, end)
            self._end(connection)

    def insert(self, connection: Any, kind: Kind, job: Mapping[str, str], first: int, end: int) -> None:
        columns = {"id": self.id(), "lane": "served.lane", **job}
        self._numbered(connection, kind, "job", columns, first, end)
        detail = {"id": self.id(), "lane": "served.lane", "params": "'{\"value\":' || n || '}'", **kind.detail}
        if schedule := kind.detail.get("schedule"):
            detail["schedule_priority"] = f"CASE WHEN ({schedule}) IS NOT NULL THEN {job['priority']} END"
        self._numbered(connection, kind, "job_detail", detail, first, end)
        for tag, condition in kind.tags.items():
            of_tag = {"tag": f"'{tag}'", "id": self.id(), "priority": job["priority"]}
            self._numbered(connection, kind, "job_tag", of_tag, first, end, f"WHERE {condition}")

    def execute(self, connection: Any, text: str) -> None:
        """A statement of one's own; `{s}` stands in front of each table."""
        connection.execute(fill_states(text, self._dialect).replace("{s}", self._schema))

    def _begin(self, connection: Any) -> None:
        if not self._postgres:
            connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        self.execute(connection, "CREATE TABLE {s}filled_lane (position integer PRIMARY KEY, lane integer NOT NULL)")
        rows = ", ".join(f"({position}, {lane})" for position, lane in enumerate(self.lanes))
        self.execute(connection, f"INSERT INTO {{s}}filled_lane VALUES {rows}")

    def _end(self, connection: Any) -> None:
        self.execute(connection, "DELETE FROM {s}tally")
        self.execute(
            connection,
            "INSERT INTO {s}tally (lane, status, n) SELECT lane, status, count(*) FROM {s}job GROUP BY lane, status",
        )
        self.execute(connection, "DROP TABLE {s}filled_lane")
        connection.execute("COMMIT")
        connection.execute("VACUUM ANALYZE" if self._postgres else "ANALYZE")

    def _numbered(
        self, connection: Any, kind: Kind, table: str, columns: Mapping[str, str], first: int, end: int, more: str = ""
    ) -> None:
        text = _NUMBERED.replace("{numbers}", _NUMBERS[self.store.dialect].format(first=first, end=end))
        text = text.replace("{columns}", ", ".join(columns.values())).replace("{position}", kind.position)
        self.execute(connection, f"INSERT INTO {{s}}{table} ({', '.join(columns)}) {text} {more}")

    def _tell(self, connection: Any, kind: Kind) -> None:
        """An event for each job, a thousand to a transaction: nobody creates more at once."""
        event = {"at": self.created, "job_id": self.id(), "kind": "'job.enqueued'"}
        for first in range(0, self.count, _AT_ONCE):
            self._numbered(connection, kind, "event", event, first, min(first + _AT_ONCE, self.count))

    def _flow(self, connection: Any) -> None:
        """What came and went by minute, by hour and ever; whatever ended was queued and started in the same minute."""
        self.execute(
            connection,
            """CREATE TABLE {s}flow AS
            SELECT lane, finished_at / 60000000 AS minute, status, count(*) AS n, sum(finished_at - started_at) AS took
            FROM {s}job WHERE status IN {ended} GROUP BY 1, 2, 3""",
        )
        self.execute(
            connection,
            """INSERT INTO {s}tally_span (lane, grain, span, status, n, took)
            SELECT lane, grain, CASE grain WHEN 0 THEN 0 ELSE minute - minute % grain END, status, sum(n), sum(took)
            FROM (
                SELECT lane, minute, status, n, took FROM {s}flow UNION ALL
                SELECT lane, minute, arrival, n, 50000 * n
                FROM {s}flow CROSS JOIN (SELECT {queued} AS arrival UNION SELECT {running}) AS arrived
            ) AS came CROSS JOIN (SELECT 0 AS grain UNION SELECT 1 UNION SELECT 60) AS grains GROUP BY 1, 2, 3, 4""",
        )
        self.execute(
            connection,
            """INSERT INTO {s}tally_span (lane, grain, span, status, n, took)
            SELECT 0, grain, span, status, sum(n), sum(took) FROM {s}tally_span WHERE grain > 0 GROUP BY 2, 3, 4""",
        )
        self.execute(
            connection,
            """INSERT INTO {s}tally_length (lane, grain, span, status, bucket, n)
            SELECT lane, grain, span, status, 70, n FROM {s}tally_span
            WHERE status IN ({running}, {succeeded}, {failed}) AND lane > 0""",
        )
        self.execute(connection, "DROP TABLE {s}flow")
