"""A store that has been in use for long: very many ended jobs, written past the verbs to be quick."""

from __future__ import annotations

import time

from penstock import Penstock
from penstock.stores.verbs import admin
from tests.stores.tables import connected

_NUMBERS = "WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < :count)"
_CREATED = ":now - (:count - n) * :apart"
_ID = f"""printf('%08x-%04x-7000-8000-%012x', ({_CREATED}) / 1000 >> 16, ({_CREATED}) / 1000 & 65535, n)"""
_TOOK = "(20000 + (n * 2654435761 % 4294967296 % 1000) * (n * 40503 % 65536 % 60) * 60)"
_STATUS = "CASE WHEN n % 50 = 7 THEN 6 WHEN n % 200 = 11 THEN 7 ELSE 5 END"
_STATEMENTS = (
    f"""INSERT INTO job (id, lane, fence, status, priority, attempt, max_attempts, rank, due_at, created_at, updated_at,
        queued_at, started_at, finished_at, stale_at, retire_at)
    {_NUMBERS}
    SELECT {_ID}, :lane, 1, {_STATUS}, 10, 1, 3, {_CREATED}, {_CREATED}, {_CREATED}, {_CREATED} + 900000, {_CREATED},
        {_CREATED} + 50000, {_CREATED} + 50000 + {_TOOK}, :now + 600000000000, :now + 600000000000
    FROM numbers""",
    f"""INSERT INTO job_detail (id, lane, params)
    {_NUMBERS} SELECT {_ID}, :lane, '{{"value":' || n || '}}' FROM numbers""",
    f"""INSERT INTO attempt (job_id, fence, number, status, started_at, ended_at, cause, result, error_type, error,
        fingerprint)
    {_NUMBERS}
    SELECT {_ID}, 1, 1, {_STATUS}, {_CREATED} + 50000, {_CREATED} + 50000 + {_TOOK},
        CASE {_STATUS} WHEN 5 THEN 'returned' WHEN 6 THEN 'raised' ELSE 'cancelled' END,
        CASE {_STATUS} WHEN 5 THEN '{{"value":' || n || '}}' END, CASE {_STATUS} WHEN 6 THEN 'ValueError' END,
        CASE {_STATUS} WHEN 6 THEN 'no such address' END, CASE {_STATUS} WHEN 6 THEN 'f' || n % 40 END
    FROM numbers""",
    f"""INSERT INTO event (at, job_id, fence, kind)
    {_NUMBERS} SELECT {_CREATED}, {_ID}, NULL, 'job.enqueued' FROM numbers""",
    """INSERT INTO tally (lane, status, n) SELECT lane, status, count(*) FROM job WHERE lane = :lane GROUP BY 1, 2
    ON CONFLICT DO UPDATE SET n = excluded.n""",
    """CREATE TEMP TABLE flow AS
    SELECT lane, finished_at / 60000000 AS minute, status, count(*) AS n, sum(finished_at - started_at) AS took
    FROM job WHERE lane = :lane GROUP BY 1, 2, 3""",
    # Whatever ended was queued and started within the same minute, as good as.
    """INSERT INTO tally_span (lane, grain, span, status, n, took)
    SELECT lane, grain, CASE grain WHEN 0 THEN 0 ELSE minute - minute % grain END, status, sum(n), sum(took) FROM (
        SELECT lane, minute, status, n, took FROM flow UNION ALL
        SELECT lane, minute, arrival, n, 50000 * n FROM flow CROSS JOIN (SELECT 1 AS arrival UNION SELECT 2)
    ) CROSS JOIN (SELECT 0 AS grain UNION SELECT 1 UNION SELECT 60) GROUP BY 1, 2, 3, 4""",
    "DROP TABLE flow",
)


def load(app: Penstock, key: str, count: int, seconds_apart: float = 0.2) -> None:
    """Let a definition have had so many jobs, the last one just now; nobody else may write meanwhile."""
    row = app.store.run(admin.definition(key))
    given = {"lane": row.lane, "count": count, "now": time.time_ns() // 1000, "apart": round(seconds_apart * 1e6)}
    with connected(app.store) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        with connection:
            for statement in _STATEMENTS:
                connection.execute(statement, given)
        connection.execute("ANALYZE")
