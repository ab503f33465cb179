"""The doorbell of a PostgreSQL database: NOTIFY and LISTEN on connections of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from penstock.storage.postgres.doorbell import PostgresDoorbell, channel
from penstock.storage.postgres.store import PostgresStore
from tests.services import PgBouncer, PostgresServer
from tests.waiting import wait_until_async

SESSIONS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'bell-tests' AND query LIKE %s"


@pytest.fixture
def new_bell(any_postgres: PostgresServer) -> Callable[[], PostgresDoorbell]:
    url = f"{any_postgres.url()}?application_name=bell-tests"
    return lambda: PostgresStore(url, schema="bell").doorbell()


async def test_a_listener_comes_back_after_its_session_was_ended(
    any_postgres: PostgresServer, new_bell: Callable[[], PostgresDoorbell]
) -> None:
    bell, ringer = new_bell(), new_bell()
    await _settled(bell)

    ended = _end_sessions(any_postgres, "LISTEN%")
    # That it was away for a moment counts as a ring: whatever rang then was not heard.
    back = await bell.wait(10)
    await _settled(bell)
    ringer.ring()

    assert ended == 1
    assert back
    assert await bell.wait(10)
    await bell.aclose()
    await ringer.aclose()


async def test_a_ringer_whose_session_was_ended_rings_on_a_new_one(
    any_postgres: PostgresServer, new_bell: Callable[[], PostgresDoorbell]
) -> None:
    bell, ringer = await _pair(new_bell)

    ended = _end_sessions(any_postgres, "NOTIFY%")
    ringer.ring()

    assert ended == 1
    assert await bell.wait(10)
    await bell.aclose()
    await ringer.aclose()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_the_bell_works_again_after_the_server_was_restarted(
    any_postgres: PostgresServer, new_bell: Callable[[], PostgresDoorbell], mode: str
) -> None:
    bell, ringer = await _pair(new_bell)

    any_postgres.restart("fast" if mode == "fast" else "immediate")
    back = await bell.wait(30)
    await _settled(bell)
    ringer.ring()

    assert back
    assert await bell.wait(10)
    await bell.aclose()
    await ringer.aclose()


async def test_rings_that_come_together_are_sent_as_few(
    any_postgres: PostgresServer, new_bell: Callable[[], PostgresDoorbell]
) -> None:
    ringer = new_bell()
    async with await psycopg.AsyncConnection.connect(any_postgres.url(), autocommit=True) as connection:
        await connection.execute(f'LISTEN "{channel("bell")}"')

        for _ in range(2000):
            ringer.ring()
        heard = [note async for note in connection.notifies(timeout=1)]

    assert 1 <= len(heard) < 200
    assert {note.payload for note in heard} == {""}
    await ringer.aclose()


async def test_a_ring_that_a_caller_sent_in_vain_is_sent_again(
    any_postgres: PostgresServer, new_bell: Callable[[], PostgresDoorbell]
) -> None:
    bell, ringer = await _pair(new_bell)
    inner = ringer._ringers[os.getpid()]

    def sent_by_the_caller() -> bool:
        if inner._connection is None or inner._sending.locked():
            return False
        return _end_sessions(any_postgres, "NOTIFY%") == 1 and inner._send_unanswered()

    await wait_until_async(sent_by_the_caller, "the thread sleeps, and a caller has sent a ring to nobody")
    await _settled(bell)
    inner._woken.set()

    assert await bell.wait(10)
    await bell.aclose()
    await ringer.aclose()


async def test_what_was_rung_last_is_still_sent_when_the_program_ends(
    any_postgres: PostgresServer, new_bell: Callable[[], PostgresDoorbell]
) -> None:
    bell = new_bell()
    await _settled(bell)
    program = (
        "import sys; from penstock.storage.postgres.store import PostgresStore\n"
        "bell = PostgresStore(sys.argv[1], schema='bell').doorbell()\n"
        "bell.ring()\n"
    )

    subprocess.run([sys.executable, "-c", program, any_postgres.url()], check=True, timeout=30)

    assert await bell.wait(10)
    await bell.aclose()


async def test_a_bell_that_is_forgotten_lets_go_of_its_session(
    any_postgres: PostgresServer, new_bell: Callable[[], PostgresDoorbell]
) -> None:
    ringer = new_bell()
    ringer.ring()
    await wait_until_async(lambda: _sessions(any_postgres, "NOTIFY%"), "it has rung")

    del ringer

    await wait_until_async(lambda: not _sessions(any_postgres, "NOTIFY%"), "the session is gone")


async def test_schemas_have_bells_of_their_own(postgres: PostgresServer) -> None:
    long = "x" * 62
    names = ["one", "two", long + "a", long + "b", "ä" * 31]
    bells = {name: PostgresStore(postgres.url(), schema=name).doorbell() for name in names}
    for bell in bells.values():
        await _settled(bell)

    for name in names:
        bells[name].ring()
        assert await bells[name].wait(10), name
        others = [other for other in names if other != name and await bells[other].wait(0.05)]
        assert others == []

    for bell in bells.values():
        await bell.aclose()


async def test_a_forked_child_rings_and_leaves_the_parents_sessions_alone(
    any_postgres: PostgresServer, new_bell: Callable[[], PostgresDoorbell]
) -> None:
    bell, ringer = await _pair(new_bell)
    before = _sessions(any_postgres, "%")

    pid = os.fork()
    if pid == 0:
        try:
            ringer.ring()
            ringer.close()
            _collect(bell)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)

    assert await bell.wait(10)
    assert _sessions(any_postgres, "%") == before
    await bell.aclose()
    await ringer.aclose()


async def test_behind_a_pooler_the_bell_is_deaf_but_those_with_sessions_hear_it(
    pgbouncer: PgBouncer, postgres: PostgresServer
) -> None:
    deaf = PostgresStore(pgbouncer.url(), schema="bell", pooler=True).doorbell()
    direct = PostgresStore(postgres.url(), schema="bell").doorbell()
    await _settled(direct)

    deaf.ring()
    heard = await direct.wait(10)
    direct.ring()
    overheard = await deaf.wait(0.3)

    assert (heard, overheard) == (True, False)
    await deaf.aclose()
    await direct.aclose()


async def test_a_server_that_is_not_there_makes_the_bell_silent_and_nothing_worse() -> None:
    bell = PostgresStore("postgresql://u@127.0.0.1:1/none", schema="bell").doorbell()

    bell.ring()

    assert not await bell.wait(0.3)
    await bell.aclose()


def _sessions(server: PostgresServer, query: str) -> set[int]:
    with psycopg.connect(server.url()) as connection:
        return {pid for (pid,) in connection.execute(SESSIONS, (query,))}


def _end_sessions(server: PostgresServer, query: str) -> int:
    with psycopg.connect(server.url()) as connection:
        ended = [connection.execute("SELECT pg_terminate_backend(%s)", (pid,)) for pid in _sessions(server, query)]
    return len(ended)


async def _pair(new_bell: Callable[[], PostgresDoorbell]) -> tuple[PostgresDoorbell, PostgresDoorbell]:
    """One that has been heard by the other, and so has its session."""
    bell, ringer = new_bell(), new_bell()
    await _settled(bell)
    ringer.ring()
    assert await bell.wait(10)
    return bell, ringer


async def _settled(bell: PostgresDoorbell) -> None:
    while await bell.wait(0.3):
        pass


def _collect(bell: PostgresDoorbell) -> None:
    """What happens to the listening task in the end: it is collected, and leaves through its `finally`."""
    assert bell._task is not None
    task: Any = bell._task.get_coro()
    task.close()
