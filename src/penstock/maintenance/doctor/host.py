"""This host and the file of a SQLite store: user, file limit, disk space, file system, access, log size."""

from __future__ import annotations

import os
import resource
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.domain.maintenance import Finding, error, fine, warning
from penstock.storage.sqlite import files
from penstock.storage.sqlite.files import NETWORK

_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Thresholds of findings. Sizes are bytes, times are seconds."""

    skew: float = 1.0
    """Greatest difference between the host's clock and the store's."""
    transaction: float = 300.0
    """Age from which an open transaction is reported as blocking vacuum."""
    dead_rows: int = 10_000
    """Number of dead rows that is reported if it exceeds the live ones."""
    little_room: int = 1_000 * _MEGABYTE
    no_room: int = 100 * _MEGABYTE
    log_size: int = 256 * _MEGABYTE
    """The write-ahead log of a SQLite file is normally truncated long before this size."""
    duty: float = 600.0
    """Greatest time since the last success of a live worker's duty."""
    lost: float = 3600.0
    """Age up to which lost workers are reported."""
    undeclared: float = 30 * 86_400.0
    """Age from which a definition without code is reported."""


_FILES = 256
_FILES_PER_SLOT = 32


@dataclass(frozen=True, slots=True)
class Host:
    """Facts of the host; tests replace them."""

    now: Callable[[], float] = time.time
    user: Callable[[], int] = os.geteuid
    file_limit: Callable[[], int] = field(default=lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    free: Callable[[Path], int] = field(default=lambda folder: shutil.disk_usage(folder).free)
    file_system: Callable[[Path], str] = files.file_system
    slots: int = 2 * (os.cpu_count() or 1)


def host_findings(host: Host, limits: Limits) -> list[Finding]:
    return [_user(host), _files(host), room("host.space", Path(tempfile.gettempdir()), host, limits)]


def room(check: str, folder: Path, host: Host, limits: Limits) -> Finding:
    """Check the free space on the disk of a folder."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    free = host.free(folder)
    said = f"{free / 1e6:,.0f} MB are free on the disk of {folder}."
    if free < limits.no_room:
        return error(check, said, "Free space now: when the disk is full, jobs are neither created nor finished.")
    if free < limits.little_room:
        return warning(check, said, "Free space, keep ended jobs for a shorter time, or use a larger disk.")
    return fine(check, said)


def _user(host: Host) -> Finding:
    if host.user() == 0:
        hint = "Use a separate user, or run jobs as another one: penstock worker --user NAME."
        return warning("host.user", "This runs as root; a worker refuses to run jobs as root by default.", hint)
    return fine("host.user", "This does not run as root.")


def _files(host: Host) -> Finding:
    limit, wanted = host.file_limit(), _FILES + _FILES_PER_SLOT * host.slots
    if 0 <= limit < wanted:
        return warning(
            "host.files",
            f"A process may open {limit} files; a worker with {host.slots} slots needs {wanted}.",
            f"Run `ulimit -n {wanted}` before it, or set LimitNOFILE={wanted} in its service file.",
        )
    return fine("host.files", f"A process may open {limit} files." if limit >= 0 else "A process may open any files.")


def file_findings(store: Any, host: Host, limits: Limits) -> list[Finding]:
    if store.memory:
        return []
    folder = Path(store.path).resolve().parent
    return [
        _file_system(folder, host),
        room("store.space", folder, host, limits),
        _log(Path(f"{store.path}-wal"), limits),
        _access(store.path),
    ]


def _file_system(folder: Path, host: Host) -> Finding:
    kind = host.file_system(folder)
    if kind in NETWORK:
        message = f"{folder} is on a network file system ({kind}), where SQLite's locks do not work."
        return error("store.file_system", message, "Put the file on a local disk, or use PostgreSQL.")
    return fine("store.file_system", f"The file is on a local disk ({kind or 'of unknown kind'}).")


def _access(path: str) -> Finding:
    """Report files that an older umask left open; new ones are private to their user."""
    shared = [f"{name} ({mode:04o})" for name, mode in _modes(path) if mode & 0o077]
    if shared:
        return warning(
            "store.access",
            f"Other users of this host have access to {', '.join(shared)}: to every parameter and signing secret.",
            f"Run `chmod go= {path} {path}-wal {path}-shm`, unless other users are meant to share the store.",
        )
    return fine("store.access", "The files of the store are open to their user alone.")


def _modes(path: str) -> Iterator[tuple[str, int]]:
    for suffix in ("", "-wal", "-shm", "-journal"):
        name = f"{path}{suffix}"
        if os.path.exists(name):
            yield name, stat.S_IMODE(os.stat(name).st_mode)


def _log(path: Path, limits: Limits) -> Finding:
    # Only stat: opening and closing a file of SQLite would drop the locks of this process.
    size = os.stat(path).st_size if path.exists() else 0
    if size > limits.log_size:
        return warning(
            "store.log",
            f"The write-ahead log {path} has {size / 1e6:,.0f} MB: a reader has been active for long.",
            "End the process that keeps a transaction open on the file; a backup or db check ends on its own.",
        )
    return fine("store.log", f"The write-ahead log has {size / 1e6:,.1f} MB.")
