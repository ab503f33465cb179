"""The file of a SQLite store: where it lies, who may read it, how much room there is, how long its log has become."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.domain.finding import Finding, error, fine, warning
from penstock.maintenance.doctor.host import Host, room
from penstock.maintenance.doctor.limits import Limits
from penstock.storage.sqlite.filesystem_check import NETWORK


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
        message = f"{folder} lies on a network file system ({kind}), where SQLite's locks do not hold."
        return error("store.file_system", message, "Put the file on a local disk, or use PostgreSQL.")
    return fine("store.file_system", f"The file lies on a local disk ({kind or 'of unknown kind'}).")


def _access(path: str) -> Finding:
    """Files that an older umask left open; new ones are made for their user alone."""
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
    # Looked at from outside: whoever opens and closes a file of SQLite drops the locks of its own process.
    size = os.stat(path).st_size if path.exists() else 0
    if size > limits.log_size:
        return warning(
            "store.log",
            f"The write-ahead log {path} has {size / 1e6:,.0f} MB: somebody has been reading for long.",
            "End the process that keeps a transaction open on the file; a backup or db check ends by itself.",
        )
    return fine("store.log", f"The write-ahead log has {size / 1e6:,.1f} MB.")
