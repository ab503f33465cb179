"""Statements past the driver's cursors: values as text, prepared when they come again, rows as before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors

from penstock.domain.errors import InvalidInput
from penstock.domain.plan import Rows, Statement, Steps, writes
from penstock.domain.states import Status
from penstock.storage.commands import jobs
from penstock.storage.postgres.session import begin_session, numbered, session_of
from penstock.storage.postgres.store import PostgresStore
from tests.storage import schemas
from tests.storage.kit import Kit

PREPARED = "SELECT count(*) FROM pg_prepared_statements"


@pytest.fixture
def connection(postgres_18_database: str) -> Iterator[Any]:
    with psycopg.connect(postgres_18_database, autocommit=True, prepare_threshold=None) as connection:
        begin_session(connection, prepares=True)
        yield connection


def ask(connection: Any, text: str, *, comes_again: bool = False, **values: Any) -> Rows:
    session = session_of(connection)
    return session.rows(connection.wait(session.send(connection, text, values, comes_again=comes_again)))


def prepared(connection: Any) -> int:
    found: int = connection.execute(PREPARED).fetchone()[0]
    return found


def test_names_become_numbers_and_doubled_percent_signs_single_ones() -> None:
    found = numbered("SELECT %(b)s::text, %(a)s::int, %(b)s::text WHERE 'x' LIKE '%%'")

    assert found.text == b"SELECT $1::text, $2::int, $1::text WHERE 'x' LIKE '%'"
    assert found.names == ("b", "a")


def test_statements_have_the_same_name_only_if_they_have_the_same_text() -> None:
    texts = [f"SELECT %(a)s::text FROM {schema}.job" for schema in ("one", "two", "one")]

    first, second, third = (numbered(text).name for text in texts)

    assert first == third != second
    assert len(first) < 64, "PostgreSQL cuts names off there"


@pytest.mark.parametrize(
    ("kind", "value"),
    [("text", "ä\t'\"\\%s$1"), ("text", ""), ("text", None), ("boolean", True), ("boolean", False),
     ("double precision", 0.1), ("double precision", 1e300), ("bigint", 2**62)],
)  # fmt: skip
def test_values_come_back_as_they_were(connection: Any, kind: str, value: object) -> None:
    for _ in range(3):
        assert ask(connection, f"SELECT %(value)s::{kind}", value=value) == [(value,)]


def test_a_text_with_a_nul_is_refused_and_not_cut_off(connection: Any) -> None:
    with pytest.raises(psycopg.DataError, match="NUL"):
        ask(connection, "SELECT %(value)s::text", value="cut\0off")

    assert ask(connection, "SELECT 1") == [(1,)]


def test_what_gives_no_rows_answers_with_none(connection: Any) -> None:
    assert ask(connection, "SELECT 1 WHERE false") == []
    assert ask(connection, "CREATE TEMPORARY TABLE things (id int)") == []


def test_a_read_is_prepared_when_it_comes_again_and_a_change_at_once(connection: Any) -> None:
    ask(connection, "SELECT 1")
    once = prepared(connection)
    ask(connection, "SELECT 1")
    twice = prepared(connection)
    ask(connection, "SELECT 2", comes_again=True)

    assert (once, twice, prepared(connection)) == (0, 1, 2)


@pytest.mark.parametrize("text", ["SELECT nothing FROM nowhere", "SELECT 1 / %(zero)s::integer"])
def test_a_session_goes_on_after_a_statement_that_cannot_be_prepared_or_run(connection: Any, text: str) -> None:
    for _ in range(2):
        with pytest.raises(psycopg.Error, match=r"nowhere|division by zero"):
            ask(connection, text, comes_again=True, zero=0)

    assert ask(connection, "SELECT 1", comes_again=True) == [(1,)]


def test_of_reads_only_so_many_are_prepared(connection: Any) -> None:
    for number in range(110):
        for _ in range(2):
            ask(connection, f"SELECT {number}")

    assert prepared(connection) == 100
    ask(connection, "SELECT 'a change'", comes_again=True)
    assert prepared(connection) == 101


def test_behind_a_pooler_nothing_is_prepared(connection: Any) -> None:
    begin_session(connection, prepares=False)

    for _ in range(3):
        assert ask(connection, "SELECT %(n)s::int", comes_again=True, n="7") == [(7,)]
    assert prepared(connection) == 0


def test_an_error_of_the_database_is_raised_and_the_session_goes_on(connection: Any) -> None:
    for _ in range(3):
        with pytest.raises(errors.DivisionByZero):
            ask(connection, "SELECT 1 / %(n)s::int", n="0")
    with pytest.raises(errors.UndefinedTable):
        ask(connection, "SELECT * FROM nowhere", comes_again=True)

    assert ask(connection, "SELECT 1 / %(n)s::int", n="1") == [(1,)]


def test_what_is_prepared_outlives_a_rollback(postgres_18_database: str) -> None:
    schema = schemas.lend(postgres_18_database)
    store = PostgresStore(schema.url, schema=schema.name, pool_size=1)
    kit = Kit(store)
    kit.define()
    first = kit.create()

    @writes
    def fail() -> Steps[None]:
        yield Statement("find_jobs", columns={"id": [first]})
        raise InvalidInput("no")

    try:
        for _ in range(3):
            with pytest.raises(InvalidInput, match="no"):
                store.run(fail())
            assert kit.status(kit.create()) is Status.QUEUED
        assert len(kit.claim()) == 4
        assert store.run(jobs.next_due()) is None
    finally:
        store.close()
        schemas.give_back(schema)
