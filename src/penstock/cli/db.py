"""`penstock db`: set up, check, repair, back up and move a store."""

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

    from penstock.domain.finding import Finding
    from penstock.domain.ports.store import Store

app: App = App(name="db", help="Set up, check, repair, back up and move a store.")

Url = Annotated[
    str | None, Parameter(name="--store", help="The store's URL; by default as PENSTOCK_STORE or penstock.toml says.")
]
AsJson = Annotated[bool, Parameter(name="--json", help="Print one JSON document.", negative="")]

_TOLD_EVERY = 1.0
_MARKS = 1000
"""The most instants of each kind that one call shows or sets back."""


@app.command
def migrate(*, url: Url = None, as_json: AsJson = False) -> None:
    """Create what is missing in the store's schema; what is up to date is left alone."""
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
    """Look whether the store is of the right version, undamaged and sound; exit code 1 when it is not.

    Every row is read, which takes its time on a large store; workers may run meanwhile.
    """
    from penstock.domain.finding import Level
    from penstock.maintenance.integrity import check_store

    store = _store(url)
    try:
        found = check_store(store)
    finally:
        store.close()
    tell(found, as_json=as_json)
    return 1 if any(each.level is Level.ERROR for each in found) else 0


@app.command
def sql(
    *,
    url: Url = None,
    dialect: Annotated[
        str | None, Parameter(help="sqlite or postgres, where no store shall be looked up for it.")
    ] = None,
    schema: Annotated[str | None, Parameter(help="The PostgreSQL schema to write it for.")] = None,
) -> None:
    """Print all that an empty database needs as SQL, for people who apply it by hand."""
    from penstock.storage import migrations

    if dialect is None:
        store = _store(url)
        dialect, schema = store.dialect, schema or getattr(store, "schema", None)
    if dialect not in ("sqlite", "postgres"):
        raise InvalidInput(f"There is no dialect {dialect[:40]!r}.", hint="Write sqlite or postgres.")
    print(migrations.script(dialect, schema or load().schema))


@app.command
def backup(
    file: Annotated[str, Parameter(help="The file to be made; it must not be there yet.")],
    /,
    *,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Copy a SQLite store to a file while others use it; for PostgreSQL say which command does it."""
    from penstock.storage.sqlite.backup import back_up

    store = _store(url)
    if store.dialect == "postgres":
        raise InvalidInput(
            "A PostgreSQL store is backed up by PostgreSQL's own programs.", hint=f"Run: {_pg_dump(store, file)}"
        )
    progress = _Progress()
    size = back_up(store.path, file, lambda done, pages: progress(f"{done} of {pages} pages"))  # type: ignore[attr-defined]
    if as_json:
        print(json.dumps({"file": file, "bytes": size}))
        return
    print(f"{file} holds {store.place} as it was when this began: {size:,} bytes.", file=sys.stderr)


@app.command
def move(
    target: Annotated[str, Parameter(help="An empty schema, such as postgresql://host/database?schema=penstock.")],
    /,
    *,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Copy a SQLite store with its whole history into an empty PostgreSQL schema, and compare every table.

    No worker may live on the file; nobody can write to it meanwhile. What was broken off can be repeated.
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
    print(f"{rows:,} rows are in {to.place}, compared with {source.place}.", file=sys.stderr)
    print("Let every program use the new store from now on; nothing uses the file any more.", file=sys.stderr)


@app.command(name="set-back")
def set_back(
    *,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative="", help="Change what is shown.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> int:
    """Show instants that were written while the clock was ahead and that work waits for; with --yes set them back.

    They belong to schedules, jobs, rates, retention, idempotency keys, webhooks, sessions and alerts. The audit names
    each change. Exit code 1 while some are left.
    """
    from penstock.cli.connection import operator
    from penstock.storage.commands import clock_marks

    store = _store(url)
    try:
        found = store.run(clock_marks.set_back(by=operator(), limit=_MARKS) if yes else clock_marks.marks_ahead(_MARKS))
        left = store.run(clock_marks.marks_ahead(1)) if yes else found
    finally:
        store.close()
    if as_json:
        marks = [{"kind": each.kind, "name": each.name, "at": each.at.isoformat()} for each in found]
        print(json.dumps({"marks": marks, "changed": yes, "left": bool(left)}))
        return 1 if left else 0
    for each in found:
        print(f"{each.kind:<16}  {each.at.isoformat(timespec='seconds')}  {neutralise(each.name)}")
    if not found:
        print("Nothing waits for an instant that a wrong clock has written.", file=sys.stderr)
    elif not yes:
        print("Nothing was changed. See that the clock is right, then add --yes.", file=sys.stderr)
    else:
        print("They are set back; there are more: run this again." if left else "They are set back.", file=sys.stderr)
    return 1 if left else 0


def tell(found: Sequence[Finding], *, as_json: bool) -> None:
    """Print findings: a line for each, and below it what to do."""
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
    # What a command shall do it does itself.
    return open_store(address.pop("store"), **{**address, "migrate": False})


def _applied(store: Store) -> set[int]:
    """The migrations that were applied before; none where there is no store yet."""
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
    """Says on a terminal now and then how far something is."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told_at = clock()

    def __call__(self, text: str) -> None:
        if self._clock() - self._told_at >= _TOLD_EVERY:
            self._told_at = self._clock()
            print(text, file=sys.stderr, flush=True)
