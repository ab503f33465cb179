"""Leases of a SQLite file that are extended while another connection keeps the file locked.

Such a lease is a small file next to the store's own, named after the worker. It holds the boot and the steady time at
which the lease ends. A lease lasts until the later one of this time and the time in the worker's row. Only its worker
extends it, and only before it has ended; so a worker that finds a lease ended can rely on that, without a lock.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator

from penstock.domain.errors import StoreUnavailable

_NAME = re.compile(r"[\w-]{1,100}", re.ASCII)
_UNUSED = 3600_000_000
"""Microseconds after its end at which the file of a worker that is gone is removed."""


class LeaseFiles:
    """The leases next to one file of SQLite."""

    def __init__(self, path: str, boot: str) -> None:
        self._prefix = f"{os.path.realpath(path)}-lease-"
        self._boot = boot

    def extend(self, worker: str, until: int, now: int) -> bool:
        """Have a worker's lease last until then; False where no file can be written."""
        if not _NAME.fullmatch(worker):
            return False
        path = self._prefix + worker
        new = f"{path}.new"
        try:
            self._remove_unused(now)
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
                file.write(f"{self._boot} {until}")
            os.replace(new, path)
        except OSError:
            return False
        return True

    def forget(self, worker: str) -> None:
        """The worker's row holds its lease again."""
        with contextlib.suppress(OSError):
            os.unlink(self._prefix + worker)

    def until(self, worker: object) -> int:
        """When a lease ends that was extended here; 0 for others. Raises where a file is there and cannot be read."""
        path = f"{self._prefix}{worker}"
        if not _NAME.fullmatch(str(worker)):
            return 0
        try:
            return self._read(path)
        except OSError as error:
            raise StoreUnavailable(f"The lease in {path} cannot be read: {error.strerror}.") from error

    def _read(self, path: str) -> int:
        try:
            with open(path, encoding="ascii", errors="replace") as file:
                boot, _, until = file.read(200).rpartition(" ")
        except FileNotFoundError:
            return 0
        return int(until) if boot == self._boot and until.isdecimal() else 0

    def _remove_unused(self, now: int) -> None:
        for path in self._paths():
            if self._read(path) + _UNUSED < now:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)

    def _paths(self) -> Iterator[str]:
        folder, prefix = os.path.split(self._prefix)
        for name in os.listdir(folder):
            if name.startswith(prefix) and not name.endswith(".new"):
                yield os.path.join(folder, name)
