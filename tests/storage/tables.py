"""Direct access to a store's tables, and the check of the rules between rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import apsw
import psycopg

from penstock.storage.migrations import quoted
from penstock.storage.statements import fill_states

Rows = list[tuple[Any, ...]]


@contextlib.contextmanager
def connected(store: Any) -> Iterator[Any]:
    """A connection to the store's database that is not one of the store's own (in memory there is only that)."""
    if store.dialect == "postgres":
        with psycopg.connect(store.url, autocommit=True) as session:
            yield session
    elif store.memory:
        yield store._writer()
    else:
        connection = apsw.Connection(store.path)
        connection.set_busy_timeout(10_000)
        try:
            yield connection
        finally:
            connection.close()


def query(store: Any, text: str) -> Rows:
    """The rows of a statement; `{s}` is in front of each table, and states are named as in `.sql` files."""
    with connected(store) as connection:
        return _fetch(store, connection, text)


def change(store: Any, text: str) -> None:
    """Carry out a statement that is none of the store's."""
    with connected(store) as connection:
        connection.execute(_filled(store, text))


def dump(store: Any) -> dict[str, list[str]]:
    """Everything that is written in the store's tables."""
    with connected(store) as connection:
        return {
            name: sorted(map(repr, _fetch(store, connection, f'SELECT * FROM {{s}}"{name}"')))
            for name in _tables(store, connection)
        }


def check_soundness(store: Any) -> None:
    """What must hold whenever nobody is in the middle of something."""
    with connected(store) as connection:
        for sentence, text in _NEVER.items():
            assert _fetch(store, connection, text) == [], sentence
        stand = _fetch(store, connection, "SELECT lane * 10 + status, count(*) FROM {s}job GROUP BY 1 ORDER BY 1")
        told = [(key, n) for key, n in _fetch(store, connection, _COUNTED) if n != 0]
        assert told == stand, "the counts (folded and deltas) are those of the rows"


def statuses(store: Any) -> dict[int, int]:
    """How many jobs stand in each stored status."""
    return dict(query(store, "SELECT status, count(*) FROM {s}job GROUP BY status"))


ATTEMPTS = """(
    SELECT job_id, fence, number, status, cause, worker, started_at, ended_at, result FROM {s}attempt
    UNION ALL
    SELECT id, fence, attempt, status, 'returned', done_by, started_at, finished_at, 'null' FROM {s}job
    WHERE done_by IS NOT NULL
) AS attempt"""
"""All attempts that have ended, those included that a job's own row tells of."""

_COUNTED = """
SELECT lane * 10 + status, CAST(sum(n) AS integer) FROM (
    SELECT lane, status, n FROM {s}tally UNION ALL SELECT lane, status, n FROM {s}tally_delta
) AS counted GROUP BY 1 ORDER BY 1
"""

_NEVER = {
    "every job has its details": (
        "SELECT job.id FROM {s}job LEFT JOIN {s}job_detail AS detail ON detail.id = job.id WHERE detail.id IS NULL"
    ),
    "details, tags, attempts and the rest belong to a job that is there": """
        SELECT id FROM (
            SELECT id FROM {s}job_detail UNION SELECT id FROM {s}job_tag UNION SELECT job_id FROM {s}attempt
            UNION SELECT job_id FROM {s}progress UNION SELECT job_id FROM {s}phase UNION SELECT job_id FROM {s}review
            UNION SELECT job_id FROM {s}log
        ) AS child WHERE id NOT IN (SELECT id FROM {s}job)
    """,
    "what lists of a tag or a schedule are sorted by is the job's own priority": """
        SELECT job.id FROM {s}job JOIN {s}job_tag AS tagged ON tagged.id = job.id WHERE tagged.priority <> job.priority
        UNION ALL
        SELECT job.id FROM {s}job JOIN {s}job_detail AS detail ON detail.id = job.id
        WHERE CASE WHEN detail.schedule IS NOT NULL THEN job.priority END IS DISTINCT FROM detail.schedule_priority
    """,
    "an attempt that still runs has no ending on record": """
        SELECT job.id FROM {s}job JOIN {s}attempt ON attempt.job_id = job.id AND attempt.fence = job.fence
        WHERE job.status IN {live}
    """,
    "an attempt that its job's own row tells of has no other": """
        SELECT job.id FROM {s}job JOIN {s}attempt ON attempt.job_id = job.id AND attempt.fence = job.fence
        WHERE job.done_by IS NOT NULL
    """,
    "no fence is on record that was never given": """
        SELECT job.id FROM {s}job JOIN {s}attempt ON attempt.job_id = job.id AND attempt.fence > job.fence
        UNION ALL
        SELECT job.id FROM {s}job JOIN {s}phase ON phase.job_id = job.id AND phase.fence > job.fence
    """,
    "nothing is blocked while its key has room": """
        SELECT job.id FROM {s}job JOIN {s}definition ON definition.lane = job.lane
        JOIN {s}control ON control.key = definition.key
        WHERE blocked AND (key_concurrency = 0 OR key_concurrency > (
            SELECT count(*) FROM {s}job AS other WHERE other.limit_key = job.limit_key AND NOT blocked
            AND (status IN {queued_or_live} OR status = {scheduled} AND rate_paid)
        )) AND NOT (rate_per_key AND rate_count > 0 AND EXISTS (
            SELECT 1 FROM {s}job AS other WHERE other.limit_key = job.limit_key AND NOT blocked
            AND (status = {queued} OR status = {scheduled} AND rate_paid)
        ))
    """,
    "no session has outlived the right of its token": """
        SELECT session.id FROM {s}session JOIN {s}token ON token.id = session.token_id
        WHERE revoked_at IS NOT NULL OR session.expires_at > token.expires_at
    """,
    "whatever happened to a token is on record": """
        SELECT id FROM {s}token WHERE id NOT IN (SELECT target FROM {s}audit WHERE action = 'token.create')
        OR (revoked_at IS NOT NULL AND id NOT IN (SELECT target FROM {s}audit WHERE action = 'token.revoke'))
    """,
}


def _tables(store: Any, connection: Any) -> list[str]:
    if store.dialect == "postgres":
        text = "SELECT tablename FROM pg_tables WHERE schemaname = %s ORDER BY 1"
        return [name for (name,) in connection.execute(text, (store.schema,))]
    text = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY 1"
    return [name for (name,) in connection.execute(text)]


def _fetch(store: Any, connection: Any, text: str) -> Rows:
    return [tuple(row) for row in connection.execute(_filled(store, text)).fetchall()]


def _filled(store: Any, text: str) -> str:
    return fill_states(text, store.dialect).replace(
        "{s}", f"{quoted(store.schema)}." if store.dialect == "postgres" else ""
    )
