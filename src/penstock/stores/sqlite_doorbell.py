"""Wakes the other processes of a SQLite file by datagrams; each listener has a socket in a shared folder."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from penstock.stores.listening import Listener

_LOOK_AFTER = 30.0
_TRIES = 5


class SqliteDoorbell(Listener):
    """Rings by sending one byte to every socket in the folder of this file."""

    def __init__(self, path: str) -> None:
        super().__init__()
        name = hashlib.sha256(os.path.realpath(path).encode(errors="surrogateescape")).hexdigest()[:16]
        self.folder = Path(tempfile.gettempdir()) / f"penstock-{os.getuid()}-{name}"

    def ring(self) -> None:
        try:
            addresses = os.listdir(self.folder)
            if not addresses:
                return
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)
                for name in addresses:
                    _send(sender, self.folder / name)
        except OSError:
            return

    async def listen(self, heard: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        with self._socket() as (listener, address):
            heard()
            # Whoever tidies the folder for temporary files may take the address away.
            while address.exists():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_AFTER):
                        await loop.sock_recv(listener, 16)
                        _drain(listener)
                        heard()

    @contextlib.contextmanager
    def _socket(self) -> Iterator[tuple[socket.socket, Path]]:
        owner = os.getpid()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
            listener.setblocking(False)
            address = self._bind(listener)
            try:
                yield listener, address
            finally:
                if owner == os.getpid():
                    with contextlib.suppress(OSError):
                        address.unlink()
                        self.folder.rmdir()

    def _bind(self, listener: socket.socket) -> Path:
        for _ in range(_TRIES):
            self.folder.mkdir(mode=0o700, exist_ok=True)
            if self.folder.stat().st_uid != os.getuid():
                raise PermissionError(f"{self.folder} belongs to somebody else")
            address = self.folder / f"{os.getpid()}-{secrets.token_hex(4)}"
            # The last one to leave removes the folder, perhaps just now.
            with contextlib.suppress(FileNotFoundError):
                listener.bind(str(address))
                return address
        raise FileNotFoundError(f"{self.folder} is removed again and again")


def _send(sender: socket.socket, address: Path) -> None:
    try:
        sender.sendto(b"!", str(address))
    except (ConnectionRefusedError, FileNotFoundError):
        # Its process is gone without a goodbye.
        with contextlib.suppress(OSError):
            address.unlink()
    except OSError:
        return


def _drain(listener: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):
        while True:
            listener.recv(16)
