"""The doorbell of SQLite: wakes the other processes of a file by datagrams to sockets in a shared folder.

The folder is among the temporary files, under a name that other users can compute too. So it is used only while it is a
real folder of this user that is closed to others; otherwise the processes use a private folder whose name is in the
store.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import secrets
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.domain.errors import PenstockError
from penstock.storage.doorbell_listener import Listener

if TYPE_CHECKING:
    from penstock.domain.ports.store import Store
from penstock.domain.plan import Statement, Steps, reads, writes

_LOOK_AFTER = 30.0
_TRIES = 5
_FRESH = 1.0
_HERE = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else ""
_AS_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_log = logging.getLogger("penstock.doorbell")


class SqliteDoorbell(Listener):
    """Rings by sending one byte to every socket in the folder of this file."""

    def __init__(self, path: str, store: Callable[[], Store] | None = None) -> None:
        """`store` opens the file's store for a moment; it holds the name of the private folder."""
        super().__init__()
        name = hashlib.sha256(os.path.realpath(path).encode(errors="surrogateescape")).hexdigest()[:16]
        self._prefix = f"penstock-{os.geteuid()}-"
        self.folder: Path = Path(tempfile.gettempdir()) / f"{self._prefix}{name}"
        self._store = store
        self._named: tuple[float, Path | None] = (-_FRESH, None)
        self._warned = False

    def ring(self) -> None:
        try:
            _ring_in(self.folder)
        except _NotPrivate:
            with contextlib.suppress(OSError, PenstockError):
                if named := self._named_folder():
                    _ring_in(named)
        except OSError:
            return

    async def listen(self, heard: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        folder = await self._choose()
        with _seat(folder) as (listener, is_there):
            heard()
            # A cleaner of temporary files may remove the socket.
            while is_there() and await self._choose() == folder:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_AFTER):
                        await loop.sock_recv(listener, 16)
                        _drain(listener)
                        heard()

    async def _choose(self) -> Path:
        """Return the folder for listeners."""
        try:
            _make(self.folder)
        except _NotPrivate:
            return await asyncio.to_thread(self._private_folder)
        return self.folder

    def _private_folder(self) -> Path:
        """Return the folder named in the store; if that is not private either, a new one."""
        self._warn()
        named = self._named_folder()
        if named is not None and _is_private(named):
            return named
        with self._opened() as store:
            made = Path(tempfile.mkdtemp(prefix=self._prefix, dir=self.folder.parent))
            store.run(_save_folder(os.geteuid(), str(made)))
        self._named = time.monotonic(), made
        return made

    def _named_folder(self) -> Path | None:
        read_at, named = self._named
        if time.monotonic() - read_at >= _FRESH:
            with self._opened() as store:
                found = store.run(_saved_folder(os.geteuid()))
            named = Path(found) if found else None
            self._named = time.monotonic(), named
        return named

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Store]:
        if self._store is None:
            raise _NotPrivate(str(self.folder))
        store = self._store()
        try:
            yield store
        finally:
            store.close()

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            _log.warning(
                "%s is not a private folder of user %d, so workers are woken through another folder, which "
                "the store names. Check who owns it, and remove it.",
                self.folder,
                os.geteuid(),
            )


class _NotPrivate(OSError):
    """A folder that another user made or can change, or that is not a folder."""


def _open_private(folder: Path) -> int:
    """Open a folder that no other user can change; operations on the descriptor cannot be redirected."""
    try:
        descriptor = os.open(folder, _AS_FOLDER)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _NotPrivate(str(folder)) from error
    found = os.fstat(descriptor)
    if found.st_uid == os.geteuid() and not found.st_mode & 0o077:
        return descriptor
    os.close(descriptor)
    raise _NotPrivate(str(folder))


def _is_private(folder: Path) -> bool:
    try:
        os.close(_open_private(folder))
    except OSError:
        return False
    return True


def _make(folder: Path) -> None:
    """Create the folder if needed, and check that it is private."""
    for _ in range(_TRIES):
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        # The last listener to leave removes the folder, maybe at this moment.
        with contextlib.suppress(FileNotFoundError):
            os.close(_open_private(folder))
            return
    raise FileNotFoundError(f"{folder} is removed again and again")


def _ring_in(folder: Path) -> None:
    descriptor = _open_private(folder)
    try:
        if names := os.listdir(descriptor):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                for name in names:
                    _send(sender, folder, descriptor, name)
    finally:
        os.close(descriptor)


def _send(sender: socket.socket, folder: Path, descriptor: int, name: str) -> None:
    try:
        sender.sendto(b"!", socket.MSG_DONTWAIT, _address(folder, descriptor, name))
    except ConnectionRefusedError:
        # Its process is dead. A file or a link also refuses, and is not ours.
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=descriptor)
    except OSError:
        return


@contextlib.contextmanager
def _seat(folder: Path) -> Iterator[tuple[socket.socket, Callable[[], bool]]]:
    """Bind a socket in the folder; yield it and a check whether it is still reachable there."""
    owner = os.getpid()
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        listener.setblocking(False)
        descriptor = _open_private(folder)
        stack.callback(os.close, descriptor)
        name = f"{owner}-{secrets.token_hex(4)}"
        listener.bind(_address(folder, descriptor, name))

        def is_there() -> bool:
            with contextlib.suppress(OSError):
                os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                return os.path.samestat(os.fstat(descriptor), os.lstat(folder))
            return False

        try:
            yield listener, is_there
        finally:
            if owner == os.getpid():
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=descriptor)
                    os.rmdir(folder)


def _address(folder: Path, descriptor: int, name: str) -> str:
    """Return the path of a socket in an open folder; moving the folder does not redirect it."""
    return f"{_HERE}/{descriptor}/{name}" if _HERE else f"{folder}/{name}"


def _drain(listener: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):
        while True:
            listener.recv(16)


@reads
def _saved_folder(user: int) -> Steps[str | None]:
    """Return the private folder of this user; None: it was never needed."""
    found = yield Statement("find_setting", {"name": _setting_name(user)})
    return str(found[0][1]) if found else None


@writes
def _save_folder(user: int, path: str) -> Steps[None]:
    """Save the private folder of this user."""
    yield Statement("save_setting", {"name": _setting_name(user), "value": path, "by": "penstock", "revision": None})


def _setting_name(user: int) -> str:
    return f"doorbell:{user}"
