"""Sends statements to a PostgreSQL session and reads rows, with the driver's low-level calls.

A cursor of the driver takes as long for a small statement as the database does. Every value is sent as text, and the
statement casts it. Arrays are written as literals, because the driver would choose a type by their content and prepare
the statement again for each. Repeated statements are prepared under a name made from their text: behind an undeclared
pooler a session may lack a statement, but never has another one of that name.
"""

from __future__ import annotations

import hashlib
import re
import select
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import psycopg
from psycopg import errors
from psycopg.abc import PQGen
from psycopg.adapt import Transformer
from psycopg.generators import execute, fetch_many, send
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from penstock.domain.plan import Rows, Statement


def bound(common: Mapping[str, Any], statement: Statement) -> dict[str, Any]:
    """The values of a statement, ready for the driver."""
    values = {**common, **statement.values}
    for name, value in statement.values.items():
        kind = type(value)
        if kind is int:
            values[name] = str(value)
        elif kind is list or kind is tuple:
            values[name] = array(value)
    if statement.columns is not None:
        for name, column in statement.columns.items():
            values[name] = array(column)
    return values


def array(values: Sequence[Any]) -> str:
    """A PostgreSQL array literal."""
    if not values:
        return "{}"
    first = values[0]
    if first is None and values.count(None) == len(values):
        return "{" + "NULL," * (len(values) - 1) + "NULL}"
    if type(first) is int and None not in values:
        return "{" + ",".join(map(str, values)) + "}"
    if type(first) is str and (texts := _texts(values)) is not None:
        return texts
    return "{" + ",".join(map(_element, values)) + "}"


def _texts(values: Sequence[Any]) -> str | None:
    """Return an array of texts, escaped in one pass; None when there are other values."""
    try:
        # No text may contain a NUL, so it separates them until they are escaped.
        joined = "\0".join(values)
    except TypeError:
        return None
    if joined.count("\0") != len(values) - 1:
        return None
    if "\\" in joined:
        joined = joined.replace("\\", "\\\\")
    escaped = joined.replace('"', '\\"').replace("\0", '","')
    return f'{{"{escaped}"}}'


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        if "\\" in value or '"' in value:
            value = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{value}"'
    return repr(value) if isinstance(value, float) else str(value)


Connection = psycopg.Connection[tuple[Any, ...]]
AsyncConnection = psycopg.AsyncConnection[tuple[Any, ...]]

_MOST_PREPARED = 100
"""The most prepared reads of a session; later ones are sent unprepared. Writes are always prepared."""

_MOST_NOTICES = 8
"""The most reads from an idle session before it counts as closed."""

_answers: Callable[[Any], PQGen[list[PGresult]]] = execute
_send: Callable[[Any], PQGen[None]] = send
_fetch: Callable[[Any], PQGen[list[PGresult]]] = fetch_many
_PLACE = re.compile(r"%(?:\((\w+)\)s|%)")


class Numbered(NamedTuple):
    """A statement with numbers for its values, and their names in that order."""

    text: bytes
    names: tuple[str, ...]
    name: bytes


class Session:
    """The state of one connection's session."""

    __slots__ = ("_encoding", "_loader", "_once", "_poll", "_prepared", "_prepares", "begun_at", "plans")

    def __init__(self, connection: Connection | AsyncConnection, *, prepares: bool) -> None:
        self.plans: set[str] = set()
        """The names of the plans that it has carried out."""
        self.begun_at: float = time.monotonic()
        self._poll = select.poll()
        self._poll.register(connection.fileno(), select.POLLIN)
        self._prepares = prepares
        self._prepared: set[bytes] = set()
        self._once: set[bytes] = set()
        self._encoding = connection.info.encoding
        self._loader = Transformer(connection)

    def was_closed(self, connection: Connection | AsyncConnection) -> bool:
        """Return whether the server has closed an idle session; pending notices are read."""
        for _ in range(_MOST_NOTICES):
            if not self._poll.poll(0):
                return connection.closed
            try:
                connection.pgconn.consume_input()
                connection.pgconn.is_busy()
            except psycopg.OperationalError:
                return True
        return True

    def send(
        self, connection: Connection | AsyncConnection, text: str, values: Mapping[str, Any], *, comes_again: bool
    ) -> PQGen[list[PGresult]]:
        """Send a statement; the returned generator waits for the answer, which `rows` reads."""
        statement = numbered(text)
        given = [
            None if (value := values[name]) is None else _written(value, self._encoding) for name in statement.names
        ]
        link = connection.pgconn
        if statement.name in self._prepared:
            link.send_query_prepared(statement.name, given)
            return _answers(link)
        if self._is_to_be_prepared(statement.name, comes_again=comes_again):
            return self._prepare(link, statement, given)
        link.send_query_params(statement.text, given)
        return _answers(link)

    def rows(self, answers: list[PGresult]) -> Rows:
        """Return the rows of an answer, or raise its error."""
        answer = _checked(answers, self._encoding)
        if answer.status != ExecStatus.TUPLES_OK or not answer.ntuples:
            return []
        self._loader.set_pgresult(answer)
        return self._loader.load_rows(0, answer.ntuples, tuple)

    def _is_to_be_prepared(self, name: bytes, *, comes_again: bool) -> bool:
        if not self._prepares:
            return False
        if comes_again:
            return True
        if name in self._once:
            return len(self._prepared) < _MOST_PREPARED
        if len(self._once) < 10 * _MOST_PREPARED:
            self._once.add(name)
        return False

    def _prepare(self, link: Any, statement: Numbered, given: list[bytes | None]) -> PQGen[list[PGresult]]:
        """Prepare a statement and run it in one round trip."""
        link.enter_pipeline_mode()
        link.send_prepare(statement.name, statement.text)
        link.send_query_prepared(statement.name, given)
        link.pipeline_sync()
        yield from _send(link)
        prepared = yield from _fetch(link)
        answers = yield from _fetch(link)
        yield from _fetch(link)  # the end of the round trip
        link.exit_pipeline_mode()
        _checked(prepared, self._encoding)
        self._prepared.add(statement.name)
        return answers


def session_of(connection: Any) -> Session:
    """Return the session of a connection."""
    found: Session = connection.__dict__["penstock_session"]
    return found


def begin_session(connection: Any, *, prepares: bool) -> None:
    """Attach a new session to a connection."""
    connection.__dict__["penstock_session"] = Session(connection, prepares=prepares)


@lru_cache(maxsize=2000)
def numbered(text: str) -> Numbered:
    """Return a statement with numbered placeholders."""
    places: dict[str, int] = {}

    def place(found: re.Match[str]) -> str:
        return "%" if found[1] is None else f"${places.setdefault(found[1], len(places) + 1)}"

    data = _PLACE.sub(place, text).encode()
    return Numbered(data, tuple(places), b"penstock_" + hashlib.sha256(data).hexdigest()[:24].encode())


def _written(value: Any, encoding: str) -> bytes:
    if isinstance(value, str):
        data = value.encode(encoding)
        if b"\0" in data:
            # libpq would truncate the text there.
            raise psycopg.DataError("a text cannot have NUL characters (0x00)")
        return data
    if isinstance(value, bool):
        return b"t" if value else b"f"
    return (repr(value) if isinstance(value, float) else str(value)).encode()


def _checked(answers: list[PGresult], encoding: str) -> PGresult:
    for answer in answers:
        if answer.status == ExecStatus.FATAL_ERROR:
            raise errors.error_from_result(answer, encoding=encoding)
    return answers[-1]
