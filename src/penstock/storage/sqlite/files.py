"""How a file of SQLite is opened, and how a new one is made so that no other user of the host can read it."""

from __future__ import annotations

import contextlib
import os
import stat

import apsw

READ_WRITE = apsw.SQLITE_OPEN_READWRITE
CREATE = READ_WRITE | apsw.SQLITE_OPEN_CREATE


def connect(path: str, flags: int = CREATE) -> apsw.Connection:
    """A connection on which the file's own schema calls no function that could do harm.

    A file that is not there is made for its user alone; the log and its index get the mode of the file.
    """
    if flags & apsw.SQLITE_OPEN_CREATE and path != ":memory:":
        # What is wrong with the path SQLite says itself.
        with contextlib.suppress(OSError):
            _create(os.path.realpath(path))
    connection = apsw.Connection(path, flags=flags)
    connection.execute("PRAGMA trusted_schema = OFF")
    # Plans do not depend on bound values: SQLite would compile many statements again for each execution.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    return connection


def _create(path: str) -> None:
    """Make an empty file, if there is none. One that exists keeps its mode: an operator may share it on purpose."""
    try:
        # Nothing is opened and closed again: that would drop the locks that this process has on the file.
        os.mknod(path, stat.S_IFREG | 0o600)
    except PermissionError:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
