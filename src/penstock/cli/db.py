"""`penstock db`: migrate, check, back up, move and repair a store."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit, urlunsplit

from cyclopts import App, Parameter

from penstock.config.project_file import load
from penstock.domain.errors import InvalidInput
from penstock.domain.secrets.policy import neutralise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.domain.maintenance import Finding
    from penstock.domain.ports.store import Store

app: App = App(name="db", help="Migrate, check, back up, move and repair a store.")

Url = Annotated[
    str | None, Parameter(name="--store", help="The store's URL; by default from PENSTOCK_STORE or penstock.toml.")
]
AsJson = Annotated[bool, Parameter(name="--json", help="Print one JSON document.", negative="")]

_PRINT_EVERY = 1.0
_MARKS = 1000
"""The most times of each kind that one call shows or corrects."""


@app.command
def migrate(*, url: Url = None, as_json: AsJson = False) -> None:
    """Apply missing migrations to the store's schema."""
    from penstock.storage import migrations

    store = _store(url)
    try:
        before = _applied(store)
        if store.dialect == "postgres":
            store.migrate()  # type: ignore[attr-defined]
        store.open()
        applied = [each for each in migrations.all_of(store.dialect) if each.version not in before]
    finally:
        store.close()
    if as_json:
        newest = migrations.newest(store.dialect)
        print(json.dumps({"applied": [each.version for each in applied], "version": newest}))
        return
    for each in applied:
        print(f"Applied {each.version:04d} {each.name}.", file=sys.stderr)
    print(f"{store.place} is at version {migrations.newest(store.dialect)}.", file=sys.stderr)


@app.command
def check(*, url: Url = None, as_json: AsJson = False) -> int:
    """Check the version and integrity of the store; exit code 1 if it is damaged.

    Every row is read, which takes time on a large store; workers may run meanwhile.

    """
    from penstock.domain.maintenance import Level
    from penstock.maintenance.integrity import check_store

    store = _store(url)
    try:
        found = check_store(store)
    finally:
        store.close()
    print_findings(found, as_json=as_json)
    return 1 if any(each.level is Level.ERROR for each in found) else 0


@app.command
def sql(
    *,
    url: Url = None,
    dialect: Annotated[str | None, Parameter(help="sqlite or postgres; by default the dialect of the store.")] = None,
    schema: Annotated[str | None, Parameter(help="The PostgreSQL schema.")] = None,
) -> None:
    """Print the SQL that creates an empty store, to apply it by hand."""
    from penstock.storage import migrations

    if dialect is None:
        store = _store(url)
        dialect, schema = store.dialect, schema or getattr(store, "schema", None)
    if dialect not in ("sqlite", "postgres"):
        raise InvalidInput(f"There is no dialect {dialect[:40]!r}.", hint="Give sqlite or postgres.")
    print(migrations.script(dialect, schema or load().schema))


@app.command
def backup(
    file: Annotated[str, Parameter(help="The file to create; it must not exist.")],
    /,
    *,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Copy a SQLite store to a file while it is in use; for PostgreSQL, print the command to run."""
    from penstock.storage.sqlite.backup import back_up

    store = _store(url)
    if store.dialect == "postgres":
        raise InvalidInput(
            "Back up a PostgreSQL store with PostgreSQL's own programs.", hint=f"Run: {_pg_dump(store, file)}"
        )
    progress = _Progress()
    size = back_up(store.path, file, lambda done, pages: progress(f"{done} of {pages} pages"))  # type: ignore[attr-defined]
    if as_json:
        print(json.dumps({"file": file, "bytes": size}))
        return
    print(f"{file} has the state of {store.place} at the start of the backup: {size:,} bytes.", file=sys.stderr)


@app.command
def move(
    target: Annotated[str, Parameter(help="An empty schema, such as postgresql://host/database?schema=penstock.")],
    /,
    *,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Copy a SQLite store with its history into an empty PostgreSQL schema, and compare every table.

    No worker may use the file; it is locked for writing meanwhile. An interrupted move can be repeated.

    """
    from penstock.maintenance.sqlite_to_postgres import move as carry
    from penstock.storage import open_store

    found = load()
    source, to = _store(url), open_store(target, schema=found.schema)
    progress = _Progress()
    try:
        moved = carry(source, to, lambda table, rows: progress(f"{table}: {rows:,} rows"))
    finally:
        source.close()
        to.close()
    if as_json:
        print(json.dumps({"tables": [asdict(each) for each in moved]}))
        return
    for each in moved:
        print(f"{each.table:<14} {each.rows:>12,} rows  {each.checksum}")
    rows = sum(each.rows for each in moved)
    print(f"{rows:,} rows were copied to {to.place} and compared with {source.place}.", file=sys.stderr)
    print("Configure every program to use the new store; the old file is no longer used.", file=sys.stderr)


@app.command(name="set-back")
def set_back(
    *,
    yes: Annotated[
        bool, Parameter(name=["--yes", "-y"], negative="", help="Correct the times that are shown.")
    ] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> int:
    """Show times that were written while the clock was ahead and that block work; with --yes correct them.

    They belong to schedules, jobs, rates, retention, idempotency keys, webhooks, sessions and alerts. The audit names
    each change. Exit code 1 while some remain.

    """
    from penstock.cli.connection import operator
    from penstock.storage.commands import maintenance

    store = _store(url)
    try:
        found = store.run(maintenance.set_back(by=operator(), limit=_MARKS) if yes else maintenance.marks_ahead(_MARKS))
        left = store.run(maintenance.marks_ahead(1)) if yes else found
    finally:
        store.close()
    if as_json:
        marks = [{"kind": each.kind, "name": each.name, "at": each.at.isoformat()} for each in found]
        print(json.dumps({"marks": marks, "changed": yes, "left": bool(left)}))
        return 1 if left else 0
    for each in found:
        print(f"{each.kind:<16}  {each.at.isoformat(timespec='seconds')}  {neutralise(each.name)}")
    if not found:
        print("No work waits for a time that was written while the clock was ahead.", file=sys.stderr)
    elif not yes:
        print("Nothing was changed. Check that the clock is right, then add --yes.", file=sys.stderr)
    else:
        print("They are corrected; there are more: run this again." if left else "They are corrected.", file=sys.stderr)
    return 1 if left else 0


def print_findings(found: Sequence[Finding], *, as_json: bool) -> None:
    """Print findings: a line for each, followed by its hint."""
    if as_json:
        print(json.dumps({"findings": [asdict(each) for each in found]}))
        return
    width = max((len(each.check) for each in found), default=0)
    for each in found:
        print(f"{each.level:<7}  {each.check:<{width}}  {neutralise(each.message)}")
        if each.hint:
            print(f"{'':7}  {'':{width}}  -> {neutralise(each.hint)}")


def _store(url: str | None) -> Store:
    from penstock.storage import open_store

    found = load()
    address: dict[str, Any] = (found if url is None else replace(found, store=url)).address
    address.pop("queue", None)
    # Commands migrate explicitly.
    return open_store(address.pop("store"), **{**address, "migrate": False})


def _applied(store: Store) -> set[int]:
    """Return the applied migrations; none if there is no store."""
    from penstock.maintenance.integrity import applied_migrations

    return set(applied_migrations(store))


def _pg_dump(store: Any, file: str) -> str:
    from penstock.storage import migrations

    parts = urlsplit(store.url)
    user, _, _ = parts.netloc.rpartition("@")
    place = parts.netloc.rpartition("@")[2]
    name = f"{user.partition(':')[0]}@{place}" if user else place
    shown = urlunsplit((parts.scheme, name, parts.path, "", ""))
    words = ["pg_dump", "--format=custom", f"--schema={migrations.quoted(store.schema)}", f"--file={file}", shown]
    return shlex.join(words)


class _Progress:
    """Prints progress about once a second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._printed_at = clock()

    def __call__(self, text: str) -> None:
        if self._clock() - self._printed_at >= _PRINT_EVERY:
            self._printed_at = self._clock()
            print(text, file=sys.stderr, flush=True)
