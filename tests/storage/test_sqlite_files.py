"""The files of a SQLite store belong to one user, unless an operator shares them on purpose."""

from __future__ import annotations

import os
import pwd
import re
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from penstock.domain.errors import StoreUnavailable
from penstock.storage.commands import jobs
from penstock.storage.sqlite import files
from penstock.storage.sqlite.backup import back_up
from penstock.storage.sqlite.store import SqliteStore
from tests.storage.concurrency import Arena
from tests.storage.kit import Kit

SOURCE = Path(__file__).parents[2] / "src" / "penstock"
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can start a process of another user")


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """What the umask would leave open is open."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {each.name: stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir() if each.is_file()}


def test_the_files_of_a_new_store_are_open_to_its_user_alone(tmp_path: Path) -> None:
    with closing(SqliteStore(str(tmp_path / "jobs.db"))) as store:
        Kit(store).create()

        assert modes(tmp_path) == {"jobs.db": 0o600, "jobs.db-wal": 0o600, "jobs.db-shm": 0o600}


def test_a_file_that_is_shared_on_purpose_stays_shared(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    path.touch(0o660)

    with closing(SqliteStore(str(path))) as store:
        Kit(store).create()

        assert modes(tmp_path) == {"jobs.db": 0o660, "jobs.db-wal": 0o660, "jobs.db-shm": 0o660}


def test_a_new_file_at_the_end_of_a_link_is_open_to_its_user_alone(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "jobs.db")

    with closing(SqliteStore(str(tmp_path / "link.db"))) as store:
        Kit(store).create()

        assert stat.S_IMODE((tmp_path / "jobs.db").stat().st_mode) == 0o600


def test_a_file_can_be_made_where_nodes_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some systems let only root make nodes."""

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "mknod", refuse)

    with closing(SqliteStore(str(tmp_path / "jobs.db"))) as store:
        Kit(store).create()

        assert modes(tmp_path)["jobs.db"] == 0o600


def test_stores_that_are_opened_in_the_same_moment_make_one_file(tmp_path: Path) -> None:
    path = str(tmp_path / "jobs.db")
    stores = [SqliteStore(path) for _ in range(4)]

    with Arena(4) as arena:
        assert arena.together(*(store.open for store in stores)) == [None] * 4

    assert modes(tmp_path)["jobs.db"] == 0o600
    for store in stores:
        store.close()


def test_a_folder_that_is_not_there_is_said_as_before(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        SqliteStore(str(tmp_path / "no" / "jobs.db")).open()


def test_a_backup_is_open_to_its_user_alone_whatever_the_store_is(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    path.touch(0o666)
    with closing(SqliteStore(str(path))) as store:
        Kit(store).create()
        seen: list[dict[str, int]] = []

        back_up(str(path), tmp_path / "copy.db", lambda done, pages: seen.append(modes(tmp_path)))

    assert modes(tmp_path)["copy.db"] == 0o600
    parts = {name: mode for each in seen for name, mode in each.items() if not name.startswith("jobs.db")}
    assert parts
    assert set(parts.values()) == {0o600}


def test_a_planted_link_does_not_lead_a_backup_elsewhere(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("survives")
    (tmp_path / f".copy.db.{os.getpid()}.part").symlink_to(victim)
    with closing(SqliteStore(str(tmp_path / "jobs.db"))) as store:
        Kit(store).create()

        back_up(store.path, tmp_path / "copy.db")

    assert victim.read_text() == "survives"


@needs_root
def test_another_user_reads_neither_a_store_nor_its_log_nor_its_backup() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        with closing(SqliteStore(str(folder / "jobs.db"))) as store:
            kit = Kit(store)
            kit.create(params='{"password": "hunter2"}')
            back_up(store.path, folder / "copy.db")
            kit.create()

            found = {each.name: read_as_nobody(each) for each in folder.iterdir()}

    assert found == dict.fromkeys(("jobs.db", "jobs.db-wal", "jobs.db-shm", "copy.db"), "Permission denied")


def read_as_nobody(path: Path) -> str:
    """What a process of another user is told when it reads a file."""
    user = pwd.getpwnam("nobody")
    done = subprocess.run(
        ["/bin/cat", str(path)], user=user.pw_uid, group=user.pw_gid, extra_groups=[], env={"LC_ALL": "C"},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.stderr.strip().rpartition(": ")[2]


# What a file may do to whoever opens it


def test_a_file_calls_no_function_that_it_is_not_trusted_with(tmp_path: Path) -> None:
    called: list[object] = []
    with closing(files.connect(str(tmp_path / "jobs.db"))) as connection:
        connection.create_scalar_function("act", lambda *given: called.append(given))
        connection.execute("CREATE TABLE t (x); CREATE TRIGGER bad AFTER INSERT ON t BEGIN SELECT act(1); END")

        with pytest.raises(apsw.SQLError, match="unsafe use of act"):
            connection.execute("INSERT INTO t VALUES (1)")

    assert called == []


def test_a_file_loads_no_extension(tmp_path: Path) -> None:
    with (
        closing(files.connect(str(tmp_path / "jobs.db"))) as connection,
        pytest.raises(apsw.SQLError, match="not authorized"),
    ):
        connection.execute("SELECT load_extension('evil')")


def test_connections_are_opened_in_one_place() -> None:
    opening = re.compile(r"apsw\.Connection\(")

    found = {str(each.relative_to(SOURCE)) for each in SOURCE.rglob("*.py") if opening.search(each.read_text())}

    assert found == {"storage/sqlite/files.py"}


def test_statements_are_compiled_once_whatever_values_they_are_given(tmp_path: Path) -> None:
    with closing(SqliteStore(str(tmp_path / "jobs.db"))) as store:
        kit = Kit(store)
        kit.define()
        worker = kit.worker()
        compiled: list[object] = []

        def note(*action: object) -> int:
            if action[0] != apsw.SQLITE_TRANSACTION:
                compiled.append(action)
            return apsw.SQLITE_OK

        def work(number: int) -> None:
            claimed = kit.running(worker=worker, params=f'{{"n": {number}}}')
            assert kit.settle(claimed).applied == [claimed.job_id]
            kit.run(jobs.promote())

        # SQLite asks when it compiles, and compiles anew what it knew before somebody was there to be asked.
        store._writer().authorizer = note
        work(0)
        work(1)
        compiled.clear()

        for number in range(2, 100):
            work(number)

        assert compiled == []
