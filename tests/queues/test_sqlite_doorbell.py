"""The doorbell of a SQLite file: datagrams between the processes of one host."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.storage.sqlite import doorbell
from penstock.storage.sqlite.doorbell import SqliteDoorbell
from penstock.storage.sqlite.store import SqliteStore
from tests.waiting import wait_until, wait_until_async

LISTEN = """
import asyncio, sys
from penstock.storage.sqlite.doorbell import SqliteDoorbell

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


async def test_a_ring_opens_the_folder_once_and_checks_nothing_twice(path: str) -> None:
    bell = SqliteDoorbell(path)

    unheard = _system_calls(bell.ring, times=100)
    await _settled(bell)
    heard = _system_calls(bell.ring, times=100)

    assert unheard == {"open": 100}
    assert heard == dict.fromkeys(("open", "fstat", "geteuid", "listdir", "close"), 100)
    await bell.aclose()


async def test_a_listener_whose_socket_was_tidied_away_makes_a_new_one(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doorbell, "_LOOK_AFTER", 0.05)
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
    bell.folder.mkdir(mode=0o700)
    (bell.folder / "a" / "b").mkdir(parents=True)
    await _settled(bell)

    bell.ring()

    assert await bell.wait(10)
    await bell.aclose()


async def test_a_folder_whose_path_is_too_long_for_a_socket_is_used_all_the_same(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    bell = SqliteDoorbell(path)
    await _settled(bell)

    bell.ring()

    assert await bell.wait(10)
    await bell.aclose()


# What others have put in the place of the folder, or into it


async def test_a_planted_link_is_not_followed(path: str, tmp_path: Path) -> None:
    bell = SqliteDoorbell(path)
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o700)
    (victim / "thesis.txt").write_text("survives")
    bell.folder.symlink_to(victim)

    bell.ring()
    await bell.wait(0.3)

    assert os.listdir(victim) == ["thesis.txt"]
    await bell.aclose()
    assert bell.folder.is_symlink()


async def test_nothing_but_sockets_is_removed_from_the_folder(path: str, tmp_path: Path) -> None:
    bell = SqliteDoorbell(path)
    bell.folder.mkdir(mode=0o700)
    (bell.folder / "file").write_text("survives")
    (tmp_path / "thesis.txt").write_text("survives")
    (bell.folder / "link").symlink_to(tmp_path / "thesis.txt")
    (bell.folder / "dangling").symlink_to(tmp_path / "nothing")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as left:
        left.bind(str(bell.folder / "left"))
    await _settled(bell)

    bell.ring()

    assert await bell.wait(10)
    await bell.aclose()
    assert sorted(os.listdir(bell.folder)) == ["dangling", "file", "link"]
    assert (tmp_path / "thesis.txt").read_text() == "survives"


def _link(folder: Path, other: Path) -> None:
    folder.symlink_to(other)


def _file(folder: Path, other: Path) -> None:
    folder.write_text("not a folder")


def _open_folder(folder: Path, other: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def _foreign_folder(folder: Path, other: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    folder.mkdir(mode=0o700)
    os.chown(folder, 65534, 65534)


@pytest.mark.parametrize("plant", [_link, _file, _open_folder, _foreign_folder])
async def test_processes_meet_in_a_private_folder_where_the_usual_one_is_not_theirs(
    path: str, plant: Callable[[Path, Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(SqliteStore(path)) as here, closing(SqliteStore(path)) as there:
        here.open()
        bell, second, ringer = here.doorbell(), there.doorbell(), there.doorbell()
        other = tmp_path / "other"
        other.mkdir()
        plant(bell.folder, other)
        await _settled(bell)
        await _settled(second)

        ringer.ring()

        assert await bell.wait(10)
        assert await second.wait(10)
        assert os.listdir(other) == []
        (private,) = set(Path(tempfile.gettempdir()).iterdir()) - {bell.folder}
        assert (private.stat().st_uid, private.stat().st_mode & 0o777) == (os.geteuid(), 0o700)
        assert len(list(private.iterdir())) == 2
        assert f"{bell.folder} is not a private folder" in caplog.text
        await bell.aclose()
        await second.aclose()
        assert not private.exists()


async def test_a_private_folder_that_another_user_took_over_is_replaced(path: str) -> None:
    with closing(SqliteStore(path)) as store:
        bell = store.doorbell()
        bell.folder.write_text("not a folder")
        await _settled(bell)
        (first,) = set(Path(tempfile.gettempdir()).iterdir()) - {bell.folder}
        await bell.aclose()
        first.mkdir()
        first.chmod(0o777)

        await _settled(bell)
        store.doorbell().ring()

        assert await bell.wait(10)
        assert os.listdir(first) == []
        await bell.aclose()


async def test_a_listener_goes_back_to_the_usual_folder_when_it_can(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorbell, "_LOOK_AFTER", 0.05)
    with closing(SqliteStore(path)) as store:
        bell = store.doorbell()
        bell.folder.write_text("not a folder")
        await _settled(bell)

        bell.folder.unlink()
        await wait_until_async(bell.folder.is_dir, "it listens in the usual folder")
        await _settled(bell)
        store.doorbell().ring()

        assert await bell.wait(10)
        await bell.aclose()


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


def _system_calls(work: Callable[[], None], times: int) -> Counter[str]:
    """How often each function of the operating system's module is called."""
    calls: Counter[str] = Counter()

    def note(_: object, kind: str, function: Any) -> None:
        if kind == "c_call" and function.__module__ == "posix":
            calls[function.__name__] += 1

    sys.setprofile(note)
    try:
        for _ in range(times):
            work()
    finally:
        sys.setprofile(None)
    return calls


async def _settled(bell: SqliteDoorbell) -> None:
    """Wait until the bell listens and no ring is left."""
    while await bell.wait(0.1) or not bell.is_listening():
        pass


def _collect(bell: SqliteDoorbell) -> None:
    """What happens to the listening task in the end: it is collected, and leaves through its `finally`."""
    assert bell._task is not None
    task: Any = bell._task.get_coro()
    task.close()
