"""Opening SQLite files: private to their user when created, and refused on network file systems."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from pathlib import Path

import apsw

from penstock.domain.errors import StoreError

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


_ESCAPED = re.compile(r"\\([0-7]{3})")
_MOUNTS = Path("/proc/self/mountinfo")
NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs", "fuse.glusterfs"}
)


def refuse_network_file(path: str) -> None:
    """Raise when `path` is on a network file system."""
    kind = file_system(Path(path).resolve().parent)
    if kind in NETWORK:
        raise StoreError(
            f"{path} is on a network file system ({kind}), where SQLite's locks do not hold and data gets lost.",
            hint="Put the file on a local disk, or use PostgreSQL.",
        )


def file_system(folder: Path, mounts: str | None = None) -> str:
    """The kind of file system that holds a folder; empty where this cannot be known."""
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
    best, kind = "", ""
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        if len(fields := left.split()) < 5 or not right:
            continue
        point = _ESCAPED.sub(lambda found: chr(int(found.group(1), 8)), fields[4])
        inside = str(folder) == point or str(folder).startswith(point.rstrip("/") + "/") or point == "/"
        if inside and len(point) >= len(best):
            best, kind = point, right.split()[0]
    return kind
