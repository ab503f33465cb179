"""The folder of a worker among the temporary files: what dead workers left is removed, and nothing else."""

from __future__ import annotations

import os
import shutil
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.isolation.job_folders import WorkerFolder, remove_tree


@pytest.fixture
def made(tmp_path: Path) -> Callable[[], WorkerFolder]:
    def make() -> WorkerFolder:
        folder = WorkerFolder(str(tmp_path))
        folder.open()
        return folder

    return make


def leave_behind(parent: Path) -> Path:
    """The folder of a worker that was killed."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            folder = WorkerFolder(str(parent))
            folder.open()
            os.mkdir(os.path.join(folder.path, "1"), 0o700)
            os.write(writer, folder.path.encode())
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.close(writer)
    path = os.read(reader, 1000).decode()
    os.close(reader)
    os.waitpid(pid, 0)
    return Path(path)


def test_the_folder_of_a_killed_worker_is_removed_by_the_next_one(
    tmp_path: Path, made: Callable[[], WorkerFolder]
) -> None:
    left = leave_behind(tmp_path)
    assert left.exists()

    folder = made()

    assert os.listdir(tmp_path) == [Path(folder.path).name]
    folder.close()
    assert os.listdir(tmp_path) == []


def test_the_folder_of_a_live_worker_is_left_alone(tmp_path: Path, made: Callable[[], WorkerFolder]) -> None:
    first = made()

    second = made()

    assert Path(first.path).exists()
    first.close()
    second.close()


def test_a_folder_of_somebody_else_with_our_prefix_is_left_alone(
    tmp_path: Path, made: Callable[[], WorkerFolder]
) -> None:
    thesis = tmp_path / "penstock-mydata" / "thesis.txt"
    thesis.parent.mkdir()
    thesis.write_text("survives")
    (thesis.parent / ".lock").touch()
    (thesis.parent / ".penstock-worker").touch()

    made().close()

    assert thesis.read_text() == "survives"


@pytest.mark.parametrize("put", [shutil.copytree, os.rename])
def test_a_copy_of_a_worker_folder_and_a_renamed_one_are_left_alone(
    tmp_path: Path, made: Callable[[], WorkerFolder], put: Callable[[Path, Path], object]
) -> None:
    put(leave_behind(tmp_path), tmp_path / "penstock-kept")

    made().close()

    assert (tmp_path / "penstock-kept" / "1").exists()


def test_what_a_planted_link_leads_to_is_left_alone(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, made: Callable[[], WorkerFolder]
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    left = leave_behind(outside)
    (tmp_path / left.name).symlink_to(left)
    marked = tmp_path / "penstock-12345678"
    marked.mkdir()
    (marked / ".penstock-worker").symlink_to(left / ".penstock-worker")
    os.mkfifo(tmp_path / "penstock-fifo")
    (tmp_path / "penstock-with-fifo").mkdir()
    os.mkfifo(tmp_path / "penstock-with-fifo" / ".penstock-worker")

    made().close()

    assert (left / "1").exists()
    assert marked.exists()
    assert stat.S_ISFIFO((tmp_path / "penstock-with-fifo" / ".penstock-worker").stat().st_mode)


def test_jobs_of_another_user_can_pass_through_the_folder_and_see_nothing_in_it(
    made: Callable[[], WorkerFolder],
) -> None:
    folder = made()

    assert stat.S_IMODE(os.stat(folder.path).st_mode) == 0o711
    (mark,) = Path(folder.path).iterdir()
    assert stat.S_IMODE(mark.stat().st_mode) == 0o600
    folder.close()


def test_a_tree_of_a_thousand_folders_is_removed_and_what_its_links_lead_to_is_left(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    tree = tmp_path / "tree"
    tree.mkdir()
    below = os.open(tree, os.O_RDONLY)
    for _ in range(1_500):
        os.symlink(kept, "link", dir_fd=below)
        os.mkdir("folder", 0o700, dir_fd=below)
        deeper = os.open("folder", os.O_RDONLY, dir_fd=below)
        os.chmod("folder", 0o000, dir_fd=below)
        os.close(below)
        below = deeper
    os.close(below)

    remove_tree(str(tree))

    assert not tree.exists()
    assert (kept / "file").exists()
