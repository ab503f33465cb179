"""Faults that are real: a store that does not answer, an answer that is cut, a worker that somebody restarts."""

from __future__ import annotations

import contextlib
import json
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw

from penstock import JobHandle
from penstock.runtime.processes import boot_time
from penstock.surface.orders import PLAIN, Order
from tests.services import PostgresServer
from tests.waiting import wait_until
from tests.worker.fleet import Stage, WorkerProcess

LEASE = 3.0
"""The lease of workers that `fleet.QUICK` describes."""
RESCUE = LEASE + 5

Script = Sequence[Sequence[Any]]

_HOLD = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.set_busy_timeout(10_000)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
connection.execute("ROLLBACK")
"""
_HOLD_AGAIN = """
import select, sys, apsw
connection, seconds = apsw.Connection(sys.argv[1]), float(sys.argv[2])
connection.set_busy_timeout(10_000)
held = False
while not select.select([sys.stdin], [], [], 0.1)[0]:
    connection.execute("BEGIN IMMEDIATE")
    if not held:
        print("held", flush=True)
    held = True
    select.select([sys.stdin], [], [], seconds)
    connection.execute("ROLLBACK")
"""
_IDLE = b"Z\x00\x00\x00\x05I"
"""PostgreSQL says that it is ready and that no transaction is open."""


@contextlib.contextmanager
def slow_file(path: str, seconds: float) -> Iterator[None]:
    """Another process holds the file of SQLite again and again for so long, with short pauses."""
    command = [sys.executable, "-c", _HOLD_AGAIN, path, str(seconds)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield
    finally:
        holder.communicate()


@contextlib.contextmanager
def outage(stage: Stage, server: Callable[[], PostgresServer]) -> Iterator[None]:
    """Nobody can write to the store: PostgreSQL is down, or another process holds the file of SQLite."""
    if stage.url.startswith("sqlite"):
        holder = subprocess.Popen(
            [sys.executable, "-c", _HOLD, stage.url.removeprefix("sqlite:///")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            yield
        finally:
            holder.communicate()
    else:
        server().stop("immediate")
        try:
            yield
        finally:
            server().start()


def wait_for_time(moment: float) -> None:
    """Wait until the boot clock shows so much: a lease ends by nothing else."""
    wait_until(lambda: boot_time() >= moment, f"the boot clock shows {moment:.1f}", timeout=60)


def freeze(stage: Stage, worker: WorkerProcess) -> None:
    """Stop a worker in its tracks, at a moment when it does not hold the file of SQLite."""

    def frozen() -> bool:
        worker.send(signal.SIGSTOP)
        wait_until(lambda: state(worker.pid) == "T", "the worker stands still")
        if not stage.url.startswith("sqlite") or _can_write(stage.url.removeprefix("sqlite:///")):
            return True
        worker.send(signal.SIGCONT)
        return False

    wait_until(frozen, "the worker is frozen outside of a transaction")


def state(pid: int) -> str:
    """The letter by which Linux says what a process does."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _can_write(path: str) -> bool:
    connection = apsw.Connection(path)
    connection.set_busy_timeout(100)
    try:
        connection.execute("BEGIN IMMEDIATE; ROLLBACK")
    except apsw.BusyError:
        return False
    finally:
        connection.close()
    return True


def kept_running(stage: Stage, *flags: str, environment: dict[str, str] | None = None) -> Callable[[], WorkerProcess]:
    """A worker that is started again whenever it is found dead, as a service manager would."""
    worker = stage.worker(*flags, environment=environment)

    def present() -> WorkerProcess:
        nonlocal worker
        if not worker.alive:
            worker = stage.worker(*flags, wait=False, environment=environment)
        return worker

    return present


def enqueue_many(stage: Stage, scripts: Sequence[Script], key: str = "script") -> list[JobHandle[Any]]:
    """Create many jobs of one definition at once."""
    orders = [Order(key, 1, json.dumps({"script": each}), PLAIN) for each in scripts]
    batches = [orders[first : first + 500] for first in range(0, len(orders), 500)]
    return [job for batch in batches for job in stage.app.enqueue_many(batch)]


def until_ended(stage: Stage, count: int) -> None:
    """Wait until so many attempts have come to their end by themselves."""
    wait_until(lambda: len(stage.journal(what="end")) >= count, f"{count} attempts have ended", 300)


def statuses(stage: Stage) -> dict[str, int]:
    """How many jobs of the plain script stand in each state."""
    return {status: count for status, count in stage.app.monitoring.counts().get(("script", 1), {}).items() if count}


class Proxy:
    """Stands between workers and PostgreSQL: it can swallow the answer to a commit, be slow, or fall silent."""

    def __init__(self, url: str) -> None:
        self._target = _address(url)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = url.replace(f":{self._target[1]}/", f":{self._listener.getsockname()[1]}/")
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._wake, self._waker = socket.socketpair()
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._other: dict[socket.socket, socket.socket] = {}
        self._servers: set[socket.socket] = set()
        self._told: set[socket.socket] = set()
        self.wanted = b""
        """When an answer that speaks of this is committed, it is swallowed and its connection cut."""
        self.cuts = 0
        self.flowing = threading.Event()
        """While it is not set, nothing passes, and nobody is told."""
        self.flowing.set()
        self.delay = 0.0
        """How long each message to the server is kept back, in seconds."""
        self._late: deque[tuple[float, socket.socket, bytes]] = deque()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.flowing.set()
        self._waker.send(b"x")
        self._thread.join(10)
        for each in (self._listener, self._wake, self._waker, *self._other):
            each.close()
        self._selector.close()

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select(self._patience()):
                self.flowing.wait()
                if key.fileobj is self._wake:
                    return
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj in self._other:
                    self._pass_on(key.fileobj)
            self._send_late()

    def _patience(self) -> float | None:
        return max(0.0, self._late[0][0] - boot_time()) if self._late else None

    def _send_late(self) -> None:
        """Pass on what was kept back for long enough."""
        while self._late and self._late[0][0] <= boot_time():
            _, source, data = self._late.popleft()
            if source in self._other:
                with contextlib.suppress(OSError):
                    self._other[source].sendall(data)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        try:
            server = socket.create_connection(self._target, timeout=5)
        except OSError:
            client.close()
            return
        self._servers.add(server)
        for one, other in ((client, server), (server, client)):
            self._other[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _pass_on(self, source: socket.socket) -> None:
        try:
            data = source.recv(65_536)
        except OSError:
            data = b""
        if not data or self._is_to_be_cut(source, data):
            return self._cut(source)
        if self.delay and source not in self._servers:
            self._late.append((boot_time() + self.delay, source, data))
            return None
        with contextlib.suppress(OSError):
            self._other[source].sendall(data)
        return None

    def _is_to_be_cut(self, source: socket.socket, data: bytes) -> bool:
        if source not in self._servers or not self.wanted:
            return False
        if self.wanted in data:
            self._told.add(source)
        if source in self._told and data.endswith(_IDLE):
            self.wanted = b""
            self.cuts += 1
            return True
        return False

    def _cut(self, source: socket.socket) -> None:
        for each in (source, self._other[source]):
            self._selector.unregister(each)
            self._other.pop(each)
            self._servers.discard(each)
            self._told.discard(each)
            each.close()


def _address(url: str) -> tuple[str, int]:
    host, _, port = url.partition("@")[2].partition("/")[0].partition(":")
    return host, int(port)
