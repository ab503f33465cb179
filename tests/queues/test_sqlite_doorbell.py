"""The doorbell of a SQLite file: datagrams between the processes of one host."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.stores import sqlite_doorbell
from penstock.stores.sqlite_doorbell import SqliteDoorbell
from tests.waiting import wait_until, wait_until_async

LISTEN = """
import asyncio, sys
from penstock.stores.sqlite_doorbell import SqliteDoorbell

async def main():
    bell = SqliteDoorbell(sys.argv[1])
    while True:
        await bell.wait(60)

asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A place for sockets that is removed with whatever a test leaves there; its path must be short."""
    with tempfile.TemporaryDirectory(prefix="bell-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        monkeypatch.setenv("TMPDIR", folder)
        yield


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.db")


async def test_sockets_of_killed_processes_are_cleaned_up(path: str) -> None:
    bell = SqliteDoorbell(path)
    await _settled(bell)
    process = subprocess.Popen([sys.executable, "-c", LISTEN, path])
    wait_until(lambda: len(os.listdir(bell.folder)) == 2, "the other process listens")
    process.send_signal(signal.SIGKILL)
    process.wait()
    left = len(os.listdir(bell.folder))

    bell.ring()

    assert left == 2
    assert len(os.listdir(bell.folder)) == 1
    assert await bell.wait(10)
    await bell.aclose()
    assert not bell.folder.exists()


def test_ringing_without_listeners_leaves_nothing_behind(path: str) -> None:
    bell = SqliteDoorbell(path)

    bell.ring()

    assert not bell.folder.exists()


async def test_a_listener_whose_socket_was_tidied_away_makes_a_new_one(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_doorbell, "_LOOK_AFTER", 0.05)
    bell = SqliteDoorbell(path)
    await _settled(bell)
    (address,) = bell.folder.iterdir()
    address.unlink()
    bell.folder.rmdir()

    await wait_until_async(bell.folder.exists, "it listens again")
    await _settled(bell)
    bell.ring()

    assert await bell.wait(10)
    await bell.aclose()


async def test_a_listener_that_does_not_read_blocks_nobody(path: str) -> None:
    bell = SqliteDoorbell(path)
    bell.folder.mkdir(mode=0o700)
    deaf = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    deaf.bind(str(bell.folder / "deaf"))
    await _settled(bell)

    for _ in range(2000):
        bell.ring()

    assert await bell.wait(10)
    await bell.aclose()
    assert os.listdir(bell.folder) == ["deaf"]
    deaf.close()
    bell.ring()
    assert os.listdir(bell.folder) == []


async def test_something_else_in_the_folder_does_no_harm(path: str) -> None:
    bell = SqliteDoorbell(path)
    (bell.folder / "a" / "b").mkdir(parents=True)
    await _settled(bell)

    bell.ring()

    assert await bell.wait(10)
    await bell.aclose()


async def test_a_path_too_long_for_a_socket_makes_the_bell_deaf_and_nothing_worse(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    bell = SqliteDoorbell(path)

    bell.ring()

    assert not await bell.wait(0.3)
    await bell.aclose()


async def test_a_folder_of_somebody_else_is_not_used(path: str) -> None:
    bell = SqliteDoorbell(path)
    bell.folder.mkdir()
    other = 65534
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(bell.folder, other, other)

    heard = await bell.wait(0.3)

    assert not heard
    assert os.listdir(bell.folder) == []
    await bell.aclose()
    bell.folder.rmdir()


async def test_files_have_bells_of_their_own_whatever_they_are_called(tmp_path: Path, path: str) -> None:
    (tmp_path / "link.db").symlink_to(path)
    bell, same, other = (SqliteDoorbell(str(tmp_path / name)) for name in ("jobs.db", "link.db", "other.db"))
    await _settled(bell)

    other.ring()
    by_other = await bell.wait(0.2)
    same.ring()
    by_same = await bell.wait(10)

    assert (by_other, by_same) == (False, True)
    await bell.aclose()


async def test_a_forked_child_does_not_take_the_parents_socket_away(path: str) -> None:
    bell = SqliteDoorbell(path)
    await _settled(bell)

    pid = os.fork()
    if pid == 0:
        try:
            bell.ring()
            _collect(bell)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)

    assert await bell.wait(10)
    assert len(os.listdir(bell.folder)) == 1
    bell.ring()
    assert await bell.wait(10)
    await bell.aclose()


async def _settled(bell: SqliteDoorbell) -> None:
    while await bell.wait(0.1):
        pass


def _collect(bell: SqliteDoorbell) -> None:
    """What happens to the listening task in the end: it is collected, and leaves through its `finally`."""
    assert bell._task is not None
    task: Any = bell._task.get_coro()
    task.close()
