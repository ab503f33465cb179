"""The PostgreSQL server of a store: NOTIFY, autovacuum, bloat and old transactions."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.domain.maintenance import Finding, Level, error, fine, warning
from penstock.maintenance.doctor.host import Limits
from penstock.storage import POOLER_HINT, migrations

if TYPE_CHECKING:
    from penstock.storage.postgres.session import Connection

_HEARD_WITHIN = 2.0


def with_pooler_hints(found: list[Finding], store: Any) -> list[Finding]:
    """Replace findings that a pooler caused."""
    return [
        error("postgres.pooler", f"A pooler refuses the connection: {each.message}", POOLER_HINT)
        if "unsupported startup parameter" in each.message
        else each
        for each in found
    ]


def server_findings(store: Any, limits: Limits) -> list[Finding]:
    from penstock.storage.postgres.errors import translated

    with translated(store.place), store.connect() as connection:
        return [
            _listen(store, connection),
            *_autovacuum(connection, store.schema),
            *_bloat(connection, store.schema, limits),
            *_old_transactions(connection, limits),
        ]


@contextmanager
def reachable_store(store: Any, found: list[Finding]) -> Iterator[Any]:
    """Return the store for further checks; if NOTIFY does not work, with the settings for a pooler."""
    if not any(each.check == "postgres.listen" and each.level is not Level.OK for each in found):
        yield store
        return
    pooled = type(store)(store.url, schema=store.schema, pooler=True)
    try:
        yield pooled
    finally:
        pooled.close()


def _listen(store: Any, connection: Connection) -> Finding:
    if store.pooled:
        return fine("postgres.listen", "With a pooler workers are not notified; they poll for jobs.")
    channel = f"penstock_doctor_{secrets.token_hex(8)}"
    with store.connect() as listener:
        listener.execute(f"LISTEN {channel}".encode())
        connection.execute("SELECT pg_notify(%s, '')", (channel,))
        heard = any(True for _ in listener.notifies(timeout=_HEARD_WITHIN, stop_after=1))
    if not heard:
        message = "NOTIFY does not arrive: the connection goes through a pooler in transaction mode."
        return warning("postgres.listen", message, POOLER_HINT)
    return fine("postgres.listen", "NOTIFY arrives.")


def _autovacuum(connection: Connection, schema: str) -> list[Finding]:
    found = []
    for name in ("autovacuum", "track_counts"):
        (value,) = connection.execute("SELECT current_setting(%s)", (name,)).fetchone() or ("on",)
        if value != "on":
            hint = f"Run: ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf();"
            found.append(error("postgres.autovacuum", f"{name} is off: tables grow without end.", hint))
    text = (
        "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s)::oid AND relkind = 'r' "
        "AND 'autovacuum_enabled=false' = ANY(reloptions) ORDER BY 1"
    )
    quoted = migrations.quoted(schema)
    found += [
        error(
            "postgres.autovacuum",
            f"Autovacuum is switched off for the table {name!r}.",
            f"Run: ALTER TABLE {quoted}.{migrations.quoted(name)} RESET (autovacuum_enabled);",
        )
        for (name,) in connection.execute(text, (quoted,)).fetchall()
    ]
    return found or [fine("postgres.autovacuum", "Autovacuum is on.")]


def _bloat(connection: Connection, schema: str, limits: Limits) -> list[Finding]:
    text = (
        "SELECT relname, n_dead_tup, n_live_tup, coalesce(greatest(last_autovacuum, last_vacuum)::text, 'never') "
        "FROM pg_stat_user_tables WHERE schemaname = %s AND n_dead_tup > %s AND n_dead_tup > n_live_tup ORDER BY 1"
    )
    return [
        warning(
            "postgres.bloat",
            f"The table {name!r} has {dead:,} dead rows and {live:,} live ones; last vacuumed: {when}.",
            f"Look for old transactions, then run: VACUUM (ANALYZE) {migrations.quoted(schema)}.{name};",
        )
        for name, dead, live, when in connection.execute(text, (schema, limits.dead_rows)).fetchall()
    ] or [fine("postgres.bloat", "No table is full of dead rows.")]


def _old_transactions(connection: Connection, limits: Limits) -> list[Finding]:
    """Report transactions that prevent vacuum from removing dead rows."""
    active = (
        "SELECT pid, coalesce(nullif(application_name, ''), usename, ''), coalesce(state, ''), "
        "extract(epoch FROM clock_timestamp() - xact_start)::float8 FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend' "
        "AND xact_start < clock_timestamp() - make_interval(secs => %s) ORDER BY xact_start LIMIT 5"
    )
    prepared = (
        "SELECT gid, extract(epoch FROM clock_timestamp() - prepared)::float8 FROM pg_prepared_xacts "
        "WHERE database = current_database() AND prepared < clock_timestamp() - make_interval(secs => %s) "
        "ORDER BY prepared LIMIT 5"
    )
    found = [
        warning(
            "postgres.old_transactions",
            f"Process {pid} ({name}, {state}) has had a transaction open for {age / 60:,.1f} min: "
            "vacuum cannot remove what died since.",
            f"End it in its program, or run: SELECT pg_terminate_backend({pid});",
        )
        for pid, name, state, age in connection.execute(active, (limits.transaction,)).fetchall()
    ]
    found += [
        warning(
            "postgres.old_transactions",
            f"The prepared transaction {gid!r} has waited for {age / 60:,.1f} min to be committed.",
            f"Run COMMIT PREPARED or ROLLBACK PREPARED {gid!r}.",
        )
        for gid, age in connection.execute(prepared, (limits.transaction,)).fetchall()
    ]
    return found or [fine("postgres.old_transactions", "No transaction has been open for long.")]
