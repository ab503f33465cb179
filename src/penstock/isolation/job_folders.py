"""The folder that holds the private folders of a worker's jobs; those of workers that were killed are removed."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator

_PREFIX = "penstock-"
_UNFINISHED = ".penstock-"
_MARK = ".penstock-worker"
"""A file that is locked while the worker lives; its text fits only this folder, not a copy of it."""
_LONGEST_MARK = 1000
_OWN = 0o700


class WorkerFolder:
    """A folder that belongs to this process while it lives: its lock is free once the owner has gone."""

    def __init__(self, parent: str = "") -> None:
        self.path: str = ""
        self._parent = parent or tempfile.gettempdir()
        self._lock = -1

    def open(self) -> None:
        """Remove the folders of dead workers of the same user, then make the folder, again if it was deleted."""
        for entry in list(os.scandir(self._parent)):
            if entry.name.startswith(_PREFIX) and _is_abandoned(entry):
                with contextlib.suppress(OSError):
                    remove_tree(entry.path)
        # It gets its final name only when it is marked and locked, because other workers can see it then.
        made = tempfile.mkdtemp(prefix=_UNFINISHED, dir=self._parent)
        name = os.path.basename(made)[1:]
        earlier = self._lock
        self._lock = os.open(os.path.join(made, _MARK), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        if earlier >= 0:
            os.close(earlier)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        os.write(self._lock, _mark_text(name, os.stat(made)))
        # Jobs of another user must be able to reach their own folders in it, and see no others.
        os.chmod(made, 0o711)  # noqa: S103
        self.path = os.path.join(self._parent, name)
        os.rename(made, self.path)

    def close(self) -> None:
        if self.path:
            with contextlib.suppress(OSError):
                remove_tree(self.path)
            os.close(self._lock)
            self.path, self._lock = "", -1


def remove_tree(path: str) -> None:
    """Remove a folder with all that is below it, however deep; links are removed and not followed.

    Inner folders are moved to the top one first, so that no path gets too long and nothing recurses. What cannot be
    removed stays, and the first error is raised at the end.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    # A job may have taken away our own rights to its folders.
    if not os.path.islink(path):
        with contextlib.suppress(OSError):
            os.chmod(path, _OWN)
    top = os.open(path, flags)
    problems: list[OSError] = []
    prefix = f".removed-{secrets.token_hex(8)}-"
    names = (f"{prefix}{number}" for number in itertools.count())
    try:
        waiting = [""]
        while waiting:
            name = waiting.pop()
            with _noted(problems):
                folder = os.open(name or ".", flags, dir_fd=top)
                try:
                    waiting += _empty(folder, top, names, problems)
                finally:
                    os.close(folder)
                if name:
                    os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    with _noted(problems):
        os.rmdir(path)
    if problems:
        raise problems[0]


def _empty(folder: int, top: int, names: Iterator[str], problems: list[OSError]) -> list[str]:
    """Remove the files of a folder, and move its folders to the top; the names that they have there."""
    moved = []
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        with _noted(problems):
            if not is_folder:
                os.unlink(name, dir_fd=folder)
                continue
            other = next(names)
            with contextlib.suppress(OSError):
                os.chmod(name, _OWN, dir_fd=folder)
            os.rename(name, other, src_dir_fd=folder, dst_dir_fd=top)
            moved.append(other)
    return moved


@contextlib.contextmanager
def _noted(problems: list[OSError]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        problems.append(error)


def _is_abandoned(entry: os.DirEntry[str]) -> bool:
    """Whether this is the folder of a worker of the same user that has gone; anything else of its name is not ours."""
    with contextlib.suppress(OSError):
        if not _is_own_folder(found := entry.stat(follow_symlinks=False)):
            return False
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        mark = os.open(os.path.join(entry.path, _MARK), flags)
        try:
            if not stat.S_ISREG(os.fstat(mark).st_mode) or os.read(mark, _LONGEST_MARK) != _mark_text(
                entry.name, found
            ):
                return False
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        finally:
            os.close(mark)
    return False


def _is_own_folder(found: os.stat_result) -> bool:
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def _mark_text(name: str, found: os.stat_result) -> bytes:
    return f"penstock worker folder {name} {found.st_ino}\n".encode()
