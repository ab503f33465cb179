"""Penstock(url): which stores there are, when they are opened, and what is said when a URL is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock import InvalidInput, Penstock, PenstockError, SchemaError, StoreUnavailable
from penstock.config.project_file import load
from penstock.config.settings import shown as settings_shown
from penstock.storage import open_store
from penstock.storage.postgres.store import PostgresStore
from penstock.storage.sqlite.store import SqliteStore
from tests.domain import addresses
from tests.domain.addresses import ADDRESSES
from tests.services import PostgresServer

PASSWORD = "hunter2"
ODD_SCHEMAS = ('My "Jobs"', "100% {now} of it's %s", "ünïcode " + "ä" * 25, "{schema}", "select")


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite://:memory:"])
def test_sqlite_without_a_path_is_memory(url: str) -> None:
    store = open_store(url)

    assert isinstance(store, SqliteStore)
    assert store.memory


def test_three_slashes_are_a_file_in_this_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = Penstock("sqlite:///jobs.db")

    app.jobs.list()

    app.close()
    assert (tmp_path / "jobs.db").exists()


def test_four_slashes_are_an_absolute_path_and_percent_signs_are_decoded(tmp_path: Path) -> None:
    app = Penstock(f"sqlite:///{tmp_path}/a%20%2525%3F.db")

    app.jobs.list()

    app.close()
    assert (tmp_path / "a %25?.db").exists()


def test_a_relative_path_stays_where_it_was_when_the_process_changes_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    monkeypatch.chdir(first)
    app = Penstock("sqlite:///jobs.db")
    monkeypatch.chdir(second)

    app.jobs.list()

    app.close()
    assert os.listdir(second) == []
    assert "jobs.db" in os.listdir(first)


def test_a_postgres_url_keeps_what_is_libpqs_and_loses_what_is_ours(postgres: PostgresServer) -> None:
    options = "options=-c%20statement_timeout%3D1234"
    store = open_store(f"{postgres.socket_url()}&schema=a%20b&{options}&pooler=yes&migrate=false")

    assert isinstance(store, PostgresStore)
    assert store.schema == "a b"
    with store.connect() as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("1234ms",)


@pytest.mark.parametrize(
    ("url", "named", "fix"),
    [
        ("", "''", "sqlite:///jobs.db"),
        ("jobs.db", "'jobs.db'", "sqlite:///jobs.db"),
        ("mysql://root:hunter2@db/jobs", "'mysql'", "postgresql://"),
        ("postgresql+psycopg://u:hunter2@db/jobs", "'postgresql+psycopg'", "postgresql://user@host/database"),
        ("user:hunter2@db/jobs", "this, is no store URL", "postgresql://"),
        ("sqlite://jobs.db", "'sqlite://jobs.db' lacks a slash", "sqlite:///jobs.db"),
        ("sqlite:///jobs.db?mode=ro", "'mode'", ""),
        ("sqlite:///a%00b", "NUL", ""),
        ("postgresql://db/jobs?pooler=perhaps", "pooler must be true or false, not 'perhaps'", ""),
        ("postgresql://u:hunter2@db/jobs?migrate=", "migrate must be true or false", ""),
    ],
)
def test_a_url_that_cannot_be_right_is_refused_at_once(url: str, named: str, fix: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        Penstock(url)

    assert named in raised.value.message
    assert fix in raised.value.hint
    assert PASSWORD not in str(raised.value)


@pytest.mark.parametrize("form", ADDRESSES)
def test_no_address_is_shown_with_a_password_whatever_its_form(form: str, tmp_path: Path) -> None:
    shown = [
        repr(replace(load(tmp_path, {}), store=ADDRESSES[form])),
        str(settings_shown({"store": ADDRESSES[form]}, {})),
    ]
    try:
        app = Penstock(ADDRESSES[form])
        shown.append(repr(app.address))
        app.jobs.list()
    except PenstockError as error:
        shown.append(_whole_text(error))

    assert [text for text in shown if addresses.PASSWORD in text] == []
    assert len(shown) >= 3


@pytest.mark.parametrize("url", [None, 5, Path("jobs.db"), b"postgresql://u:hunter2@db/jobs", {"password": PASSWORD}])
def test_something_that_is_no_url_is_refused_at_once(url: Any) -> None:
    with pytest.raises(InvalidInput, match="is no store and no store URL") as raised:
        Penstock(url)

    assert PASSWORD not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        (f"postgresql://u:p@{PASSWORD}@db/jobs", "an @ too many"),
        (f"postgresql://u:1/{PASSWORD}@db/jobs", "an @ too many"),
        (f"postgresql://db:{PASSWORD}/jobs", "its port is no number"),
        (f"postgresql://u:%zz{PASSWORD}@db/jobs", "invalid percent-encoded token"),
        (f"postgresql://u:{PASSWORD}@db/jobs?sslmod=x", "invalid URI query parameter"),
    ],
)
def test_a_postgres_url_that_libpq_cannot_read_is_refused_without_showing_a_password(url: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as raised:
        Penstock(url).jobs.list()

    assert PASSWORD not in _whole_text(raised.value)


def test_a_refused_password_is_not_shown(postgres: PostgresServer) -> None:
    url = f"postgresql://nobody:{PASSWORD}@127.0.0.1:{postgres.port}/postgres"

    with pytest.raises(StoreUnavailable, match='role "nobody" does not exist') as raised:
        Penstock(url).jobs.list()

    assert PASSWORD not in _whole_text(raised.value)


def test_nothing_is_opened_before_it_is_used(tmp_path: Path) -> None:
    app = Penstock(f"sqlite:///{tmp_path}/jobs.db")
    handle = app.job("work")(_work)

    handle.order(3)

    assert os.listdir(tmp_path) == []


def test_no_driver_is_loaded_before_the_store_is_used(tmp_path: Path) -> None:
    program = (
        "import sys; from penstock import Penstock\n"
        "app = Penstock(sys.argv[1])\n"
        "@app.job\n"
        "def work(n: int) -> None: ...\n"
        "print(*sorted({'apsw', 'psycopg', 'psycopg_pool', 'pydantic', 'jsonschema_rs'} & set(sys.modules)))\n"
    )
    for url in (f"sqlite:///{tmp_path}/jobs.db", "postgresql://nowhere/jobs"):
        done = subprocess.run([sys.executable, "-c", program, url], capture_output=True, text=True, check=True)

        assert done.stdout.split() == []


def test_a_closed_application_opens_again_when_it_is_used(app: Penstock) -> None:
    work = app.job("work")(_work)
    work.enqueue(1)

    app.close()
    app.close()
    again = work.enqueue(2)

    assert again.refresh().params == {"n": 2}


async def test_an_application_that_was_closed_in_the_event_loop_opens_again(app: Penstock) -> None:
    work = app.job("work")(_work)
    await work.aenqueue(1)

    await app.aclose()
    again = await work.aenqueue(2)

    assert (await again.arefresh()).params == {"n": 2}
    await app.aclose()


def test_closing_forgets_what_was_known_of_the_database(tmp_path: Path) -> None:
    app = Penstock(f"sqlite:///{tmp_path}/jobs.db")
    app.job("other")(_other)
    work = app.job("work")(_work)
    work.enqueue(1)
    app.close()

    for name in os.listdir(tmp_path):
        (tmp_path / name).unlink()
    another = Penstock(f"sqlite:///{tmp_path}/jobs.db")
    another.job("work")(_work).enqueue(2)
    another.close()
    job = work.enqueue(3).refresh()

    app.close()
    assert (job.definition_key, job.params) == ("work", {"n": 3})


def test_a_store_can_be_given_in_place_of_a_url(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "jobs.db"))
    app = Penstock(store)

    app.job("work")(_work).enqueue(1)

    assert app.store is store
    app.close()


def test_a_file_in_a_folder_that_is_not_there_says_so(tmp_path: Path) -> None:
    app = Penstock(f"sqlite:///{tmp_path}/nowhere/jobs.db")

    with pytest.raises(StoreUnavailable, match=r"nowhere/jobs.db cannot be opened") as raised:
        app.jobs.list()

    assert "folder" in raised.value.hint


def test_a_server_that_is_not_there_says_so_at_once() -> None:
    app = Penstock(f"postgresql://u:{PASSWORD}@127.0.0.1:1/jobs")

    with pytest.raises(StoreUnavailable, match="refused") as raised:
        app.jobs.list()

    assert PASSWORD not in _whole_text(raised.value)


def test_a_postgres_database_that_is_not_migrated_says_how_to(any_postgres: PostgresServer) -> None:
    url = any_postgres.create_database()
    app = Penstock(url)

    with pytest.raises(SchemaError, match="is not set up") as raised:
        app.job("work")(_work).enqueue(1)

    assert raised.value.hint == "Migrate it: Penstock(url, migrate=True)."
    app.close()
    any_postgres.drop_database(url)


def test_migrate_sets_a_postgres_database_up_and_others_need_not_say_it_again(any_postgres: PostgresServer) -> None:
    url = any_postgres.create_database()
    for way in (Penstock(url, migrate=True), Penstock(url), Penstock(f"{url}?migrate=true")):
        job = way.job("work")(_work).enqueue(1)

        assert job.refresh().definition_key == "work"
        way.close()

    any_postgres.drop_database(url)


@pytest.mark.parametrize("schema", ODD_SCHEMAS)
async def test_any_schema_name_will_do(any_postgres: PostgresServer, schema: str) -> None:
    url = any_postgres.create_database()
    app = Penstock(url, schema=schema, migrate=True)
    work = app.job("work")(_work)
    bell = app.store.doorbell()
    while await bell.wait(0.2):
        pass

    made = work.options(idempotency_key="k", tags=["t"]).enqueue(1)
    rang = await bell.wait(10)
    with psycopg.connect(url) as connection:
        own = work.options(connection=connection, unique=True).enqueue(2)

    assert rang
    assert [job.id for job in app.jobs.list(sort="createdAt").jobs] == [made.id, own.id]
    await bell.aclose()
    await app.aclose()
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = %s", (schema,)).fetchone()
    assert found is not None
    assert found[0] > 10
    any_postgres.drop_database(url)


@pytest.mark.parametrize("schema", ["", "x" * 64, "a\x00b"])
def test_a_schema_name_that_postgres_could_not_keep_is_refused(postgres: PostgresServer, schema: str) -> None:
    app = Penstock(postgres.url(), schema=schema, migrate=True)

    with pytest.raises(SchemaError, match="cannot be a schema's name"):
        app.jobs.list()


def _work(n: int) -> None: ...


def _other(text: str) -> None: ...


def _whole_text(error: BaseException | None) -> str:
    """What a traceback would show: the error and everything that led to it."""
    texts = []
    while error is not None:
        texts.append(repr(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n".join(texts)
