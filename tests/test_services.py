"""The ground the other tests stand on: servers that really run, and waiting that ends."""

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.conftest import Counts, Figures
from tests.services import PgBouncer, PostgresServer, unavailable
from tests.waiting import wait_until, wait_until_async


def test_each_postgres_answers_with_its_own_version(any_postgres: PostgresServer) -> None:
    with psycopg.connect(any_postgres.url()) as connection:
        row = connection.execute("select version()").fetchone()

    assert row is not None
    assert row[0].startswith(f"PostgreSQL {any_postgres.version}.")


def test_postgres_answers_on_its_unix_socket_too(postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.socket_url()) as connection:
        assert connection.execute("select inet_server_addr()").fetchone() == (None,)


def test_postgres_flushes_what_it_acknowledges(any_postgres: PostgresServer) -> None:
    with psycopg.connect(any_postgres.url()) as connection:
        settings = [
            connection.execute(f"show {name}").fetchone()
            for name in ("fsync", "synchronous_commit", "full_page_writes")
        ]

    assert settings == [("on",), ("on",), ("on",)]


@pytest.mark.crash
def test_an_acknowledged_row_survives_a_crash_of_the_server(any_postgres: PostgresServer) -> None:
    url = any_postgres.create_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create table kept (id int)")
        connection.execute("insert into kept values (42)")

        any_postgres.stop("immediate")

        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")

    any_postgres.start()

    with psycopg.connect(url) as connection:
        assert connection.execute("select id from kept").fetchall() == [(42,)]
    any_postgres.drop_database(url)


def test_a_restarted_postgres_is_found_at_the_same_address(postgres: PostgresServer) -> None:
    before = postgres.url()

    postgres.restart()

    assert postgres.url() == before
    with psycopg.connect(before) as connection:
        assert connection.execute("select 1").fetchone() == (1,)


def test_created_databases_are_apart_and_can_be_dropped(postgres: PostgresServer) -> None:
    first, second = postgres.create_database(), postgres.create_database()
    with psycopg.connect(first) as connection:
        connection.execute("create table only_here (id int)")

    with psycopg.connect(second) as connection:
        assert connection.execute("select to_regclass('only_here')").fetchone() == (None,)

    postgres.drop_database(first)
    postgres.drop_database(second)
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(first)


def test_the_programs_of_each_version_are_at_hand(any_postgres: PostgresServer) -> None:
    for name in ("psql", "pg_dump", "pg_ctl"):
        said = subprocess.run([any_postgres.bin(name), "--version"], capture_output=True, text=True, check=True)
        assert f" {any_postgres.version}." in said.stdout


@pytest.mark.crash
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
def test_a_server_dies_with_a_killed_test_process() -> None:
    program = (
        "import os, signal\n"
        "from tests.services import PostgresServer\n"
        "server = PostgresServer(18).start()\n"
        "print(server.url(), server.directory, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    died = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    url, directory = died.stdout.split()

    wait_until(lambda: not _answers(url), "the server of a killed process was gone")

    assert died.returncode == -9
    wait_until(lambda: not (Path(directory) / "data" / "postmaster.pid").exists(), "it had cleaned up")
    subprocess.run(["rm", "-r", directory], check=True)


def test_pgbouncer_passes_statements_on_in_transaction_mode(pgbouncer: PgBouncer) -> None:
    url = pgbouncer.through(pgbouncer.server.create_database())

    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    with psycopg.connect(pgbouncer.url("pgbouncer"), autocommit=True, cursor_factory=psycopg.ClientCursor) as console:
        configuration = dict(row[:2] for row in console.execute("show config").fetchall())

    assert configuration["pool_mode"] == "transaction"


def test_a_missing_service_skips_on_a_laptop_and_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no such server"):
        unavailable("no such server")

    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no such server"):
        unavailable("no such server")


def test_waiting_in_vain_fails_with_its_sentence() -> None:
    with pytest.raises(AssertionError, match=r"waited 0\.02 s in vain until the moon was full"):
        wait_until(list, "the moon was full", timeout=0.02)


def test_waiting_gives_back_what_it_waited_for() -> None:
    answers = iter([None, 0, "", "here"])

    assert wait_until(lambda: next(answers), "an answer came") == "here"


async def test_waiting_takes_plain_and_async_facts() -> None:
    async def seven() -> int:
        return 7

    assert await wait_until_async(seven, "seven came") == 7
    assert await wait_until_async(lambda: 8, "eight came") == 8
    with pytest.raises(AssertionError, match="until pigs flew"):
        await wait_until_async(lambda: False, "pigs flew", timeout=0.02)


def test_soaking_repeats_more_often(counts: Counts, soak: bool) -> None:
    assert soak == (os.environ.get("PENSTOCK_SOAK") == "1")
    assert counts(ci=3, soak=300) == (300 if soak else 3)


def test_figures_reach_the_file_and_the_summary(
    figures: Figures, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PENSTOCK_FIGURES", str(tmp_path / "figures"))

    figures("answer", value=42, unit="none")

    assert (tmp_path / "figures").read_text() == "FIGURE answer value=42 unit=none\n"
    assert request.node.user_properties.pop() == ("figure", "FIGURE answer value=42 unit=none")


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True
