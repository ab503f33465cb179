"""Storage: SQL, rows and connections of SQLite and PostgreSQL, and the URL of a store."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import unquote

from penstock.config.store_address import plain_word, quoted_word, scheme_of
from penstock.domain.errors import InvalidInput

if TYPE_CHECKING:
    from penstock.domain.ports.store import Store

POOLER_HINT = "Say ?pooler=true in the store's URL, or connect to the database itself."
INPUT_HINT = "Look for numbers beyond 64 bits, NUL characters and halves of surrogate pairs."
_FORMS = "sqlite:///jobs.db, sqlite:////absolute/path/jobs.db, sqlite:// (memory) or postgresql://user@host/database"
_OURS = ("schema", "pooler", "migrate")
_TRUTHS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


def open_store(url: str, *, migrate: bool = False, schema: str = "penstock", pooler: bool = False) -> Store:
    """Return the store of a URL; it connects when it is first used."""
    return store_maker(url, migrate=migrate, schema=schema, pooler=pooler)()


def store_maker(
    store: str | Store,
    *,
    migrate: bool = False,
    schema: str = "penstock",
    pooler: bool = False,
) -> Callable[[], Store]:
    """Parse a URL now; the returned function makes the store later and loads its driver only then.

    A PostgreSQL URL may carry `schema`, `pooler` and `migrate` as parameters, in addition to libpq's.
    """
    if not isinstance(store, str):
        if not callable(getattr(store, "run_on", None)):
            raise InvalidInput(
                f"An object of {type(store).__name__} is no store and no store URL.", hint=f"Write {_FORMS}."
            )
        return lambda: store
    scheme, rest = scheme_of(store), store.partition("://")[2]
    if scheme is None:
        # It is not repeated: libpq's form, host=… password=…, holds a password anywhere.
        raise InvalidInput(f"The store's address, {quoted_word(store)}, is no store URL.", hint=f"Write {_FORMS}.")
    if scheme == "sqlite":
        return _sqlite(rest)
    if scheme in ("postgresql", "postgres"):
        return _postgres(store, migrate=migrate, schema=schema, pooler=pooler)
    raise InvalidInput(f"There is no store for {scheme!r}.", hint=f"Write {_FORMS}.")


def _sqlite(rest: str) -> Callable[[], Store]:
    path, _, query = rest.partition("?")
    if query:
        raise InvalidInput(f"A SQLite URL takes no parameters, not {quoted_word(query.partition('=')[0])}.")
    if path not in ("", ":memory:") and not path.startswith("/"):
        name = plain_word(path) or "…"
        raise InvalidInput(f"'sqlite://{name}' lacks a slash.", hint=f"A file in this folder is sqlite:///{name}.")
    name = unquote(path.removeprefix("/"))
    if "\x00" in name:
        raise InvalidInput("The path of a SQLite URL holds a NUL.")
    # Made absolute now, for a process may change its folder before it opens another connection.
    file = ":memory:" if name in ("", ":memory:") else os.path.abspath(name)

    def make() -> Store:
        from penstock.storage.sqlite.store import SqliteStore

        return SqliteStore(file)

    return make


def _postgres(url: str, *, migrate: bool, schema: str, pooler: bool) -> Callable[[], Store]:
    address, _, query = url.partition("?")
    host, _, database = address.partition("://")[2].partition("/")
    if host.count("@") > 1 or "@" in database:
        raise InvalidInput("The PostgreSQL URL has an @ too many.", hint="In a password write %40 for @ and %2F for /.")
    parts = query.split("&") if query else []
    ours = {name: unquote(value) for name, _, value in (part.partition("=") for part in parts) if name in _OURS}
    if any(re.search(r";\s*\w+=", value) for value in ours.values()):
        raise InvalidInput("The PostgreSQL URL has a ; between parameters.", hint="Write & between them.")
    # What is libpq's stays as it was written: its rules for quoting are its own.
    theirs = "&".join(part for part in parts if part.partition("=")[0] not in _OURS)
    address = f"{address}?{theirs}" if theirs else address
    named = ours.get("schema", schema)
    through_pooler = _truth("pooler", ours.get("pooler"), pooler)
    migrating = _truth("migrate", ours.get("migrate"), migrate)

    def make() -> Store:
        try:
            from penstock.storage.postgres.store import PostgresStore
        except ImportError as error:
            raise InvalidInput(
                f"PostgreSQL needs a driver: {error}.", hint="pip install 'penstock[postgres]'"
            ) from error
        return PostgresStore(address, schema=named, pooler=through_pooler, migrate=migrating)

    return make


def _truth(name: str, text: str | None, default: bool) -> bool:
    if text is None:
        return default
    if text.lower() not in _TRUTHS:
        raise InvalidInput(f"The URL's {name} must be true or false, not {quoted_word(text)}.")
    return _TRUTHS[text.lower()]
