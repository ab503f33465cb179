"""This host as penstock finds it: who runs it, how many files it may open, how much room there is."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from penstock.domain.finding import Finding, error, fine, warning
from penstock.maintenance.doctor.limits import Limits
from penstock.storage.sqlite import filesystem_check

_FILES = 256
_FILES_PER_SLOT = 32


@dataclass(frozen=True, slots=True)
class Host:
    """What is asked of the host; in tests somebody else answers."""

    now: Callable[[], float] = time.time
    user: Callable[[], int] = os.geteuid
    file_limit: Callable[[], int] = field(default=lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    free: Callable[[Path], int] = field(default=lambda folder: shutil.disk_usage(folder).free)
    file_system: Callable[[Path], str] = filesystem_check.file_system
    slots: int = 2 * (os.cpu_count() or 1)


def host_findings(host: Host, limits: Limits) -> list[Finding]:
    return [_user(host), _files(host), room("host.space", Path(tempfile.gettempdir()), host, limits)]


def room(check: str, folder: Path, host: Host, limits: Limits) -> Finding:
    """Whether there is room on the disk that holds a folder."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    free = host.free(folder)
    said = f"{free / 1e6:,.0f} MB are free on the disk that holds {folder}."
    if free < limits.no_room:
        return error(check, said, "Make room now: when the disk is full, jobs are neither created nor finished.")
    if free < limits.little_room:
        return warning(check, said, "Make room, keep ended jobs for a shorter time, or use a larger disk.")
    return fine(check, said)


def _user(host: Host) -> Finding:
    if host.user() == 0:
        hint = "Use a user of its own, or let jobs run as another one: penstock worker --user NAME."
        return warning("host.user", "This runs as root; a worker refuses to run jobs so unless it is told to.", hint)
    return fine("host.user", "This does not run as root.")


def _files(host: Host) -> Finding:
    limit, wanted = host.file_limit(), _FILES + _FILES_PER_SLOT * host.slots
    if 0 <= limit < wanted:
        return warning(
            "host.files",
            f"A process may open {limit} files; a worker with {host.slots} slots wants {wanted}.",
            f"Run `ulimit -n {wanted}` before it, or set LimitNOFILE={wanted} in its service file.",
        )
    return fine("host.files", f"A process may open {limit} files." if limit >= 0 else "A process may open any files.")
