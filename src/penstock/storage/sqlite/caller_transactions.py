"""Callers' own connections: jobs are created in the caller's SQLite transaction."""

from __future__ import annotations

import os
from collections.abc import Callable
from weakref import WeakKeyDictionary

import apsw

from penstock.domain.errors import InvalidInput

_waiting: WeakKeyDictionary[apsw.Connection, list[Callable[[], None]]] = WeakKeyDictionary()


def cursor_on(connection: object, path: str, place: str) -> apsw.Cursor:
    """Return a cursor on the caller's connection; raise when the connection is unfit."""
    if not isinstance(connection, apsw.Connection):
        kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
        raise InvalidInput(
            f"A connection of the type {kind} cannot be used with {place}: two copies of SQLite in one "
            "process lose each other's locks, and with them data.",
            hint="Open the file with apsw.Connection and hand that in.",
        )
    if getattr(connection, "is_async", False):
        raise InvalidInput("The apsw connection is in async mode.", hint="Hand in one that is not.")
    if not _is_open_on(connection, path):
        raise InvalidInput(
            f"The connection is open on {connection.filename or 'memory'!r}, but the jobs are kept by {place}.",
            hint="A transaction can only hold jobs of the file that it is open on.",
        )
    if not connection.in_transaction:
        raise InvalidInput(
            "No transaction is open on the connection to create the job in.",
            hint="Begin one, or leave `connection` out.",
        )
    # A cursor as we know it, whatever factory and tracers the caller has set.
    cursor = apsw.Cursor(connection)
    cursor.row_trace = lambda _, row: row
    cursor.exec_trace = lambda *_: True
    return cursor


def ring_at_commit(connection: apsw.Connection, ring: Callable[[], None]) -> None:
    """Ring when the caller commits. Woken workers wait for the lock until the commit is done."""
    if connection not in _waiting:
        rings = _waiting[connection] = []
        connection.set_commit_hook(lambda: _ring_all(rings), id="penstock")
    _waiting[connection].append(ring)


def _ring_all(rings: list[Callable[[], None]]) -> bool:
    for ring in {*rings}:
        ring()
    rings.clear()
    return False


def _is_open_on(connection: apsw.Connection, path: str) -> bool:
    try:
        return os.path.samefile(connection.filename, path)
    except OSError:
        return False
