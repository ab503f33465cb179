"""The doorbell of PostgreSQL: wakes every process on a database by NOTIFY, on separate connections.

Rings that come close together are sent as one: NOTIFY inside the transactions that create jobs would make
them queue up behind one lock. Listening needs a session, so with a pooler in transaction mode nothing is
received, and workers find their jobs by polling.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import sql
from psycopg.generators import fetch_many
from psycopg.pq import ExecStatus

from penstock.storage.doorbell_listener import Listener
from penstock.storage.interruption import Waker

NOTIFY = "SELECT pg_notify(%(channel)s, '')"
_TOGETHER = 0.01
_LONGEST_SILENCE = 30.0
_LONGEST_GOODBYE = 2.0
_log = logging.getLogger("penstock.doorbell")


def channel(schema: str) -> str:
    """The channel of a schema's bell; PostgreSQL allows 63 bytes."""
    name = f"penstock:{schema}"
    return name if len(name.encode()) <= 63 else f"penstock:{hashlib.sha256(schema.encode()).hexdigest()[:40]}"


class PostgresDoorbell(Listener):
    """Rings by NOTIFY on a channel named after the schema."""

    def __init__(self, conninfo: str, schema: str, *, deaf: bool) -> None:
        super().__init__()
        self._conninfo = conninfo
        self._channel = channel(schema)
        self._deaf = deaf
        self._ringers: dict[int, _Ringer] = {}

    def ring(self) -> None:
        # By process, because a fork does not copy the thread.
        ringer = self._ringers.get(os.getpid())
        if ringer is None:
            ringer = self._ringers.setdefault(os.getpid(), _Ringer(self._conninfo, self._channel))
            weakref.finalize(self, ringer.close)
        ringer.ring()

    def close(self) -> None:
        super().close()
        ringer = self._ringers.pop(os.getpid(), None)
        if ringer is not None:
            ringer.close()

    async def aclose(self) -> None:
        await super().aclose()
        await asyncio.to_thread(self.close)

    async def listen(self, heard: Callable[[], None]) -> None:
        if self._deaf:
            await asyncio.Event().wait()
        owner = os.getpid()
        connection = await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True)
        try:
            connection.add_notify_handler(lambda _: heard())
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
            heard()
            while True:
                await _hear(connection, heard)
                # A half-open connection would never report an error.
                async with asyncio.timeout(_LONGEST_SILENCE):
                    await connection.execute("SELECT 1")
        finally:
            if owner == os.getpid():
                connection.pgconn.finish()


async def _hear(connection: psycopg.AsyncConnection[Any], heard: Callable[[], None]) -> None:
    """Call `heard` at each ring for some seconds, directly from the event loop; raise when the connection has
    broken."""
    loop, owner = asyncio.get_running_loop(), os.getpid()
    broken: asyncio.Future[None] = loop.create_future()
    link = connection.pgconn

    def readable() -> None:
        try:
            link.consume_input()
            if link.notifies() is not None:
                heard()
            while link.notifies() is not None:
                pass
        except Exception as error:
            if not broken.done():
                broken.set_exception(error)

    loop.add_reader(descriptor := link.socket, readable)
    try:
        async with asyncio.timeout(_LONGEST_SILENCE):
            await broken
    except TimeoutError:
        pass
    finally:
        # A forked child that collects this would unregister the parent's reader, because they share the selector.
        if owner == os.getpid():
            loop.remove_reader(descriptor)


class _Ringer:
    """Sends the rings of one process; those that come close together as one.

    A thread sends them and pauses after each. A ring that comes while it sleeps is sent by the caller, which does not
    wait for the answer: the thread reads it, and repeats a ring that failed.
    """

    def __init__(self, conninfo: str, channel: str) -> None:
        self._conninfo = conninfo
        self._notify = sql.SQL("NOTIFY {}").format(sql.Identifier(channel)).as_bytes(None)
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._woken = Waker()
        self._closed = threading.Event()
        self._rung = False
        self._sending = threading.Lock()
        """Held by the thread except while it sleeps, and by a caller that sends."""
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._unanswered = False

    def ring(self) -> None:
        if not self._send_unanswered():
            self._rung = True
        # A signal handler may ring while its own thread rings: it waits for no lock.
        if self._thread is None and self._lock.acquire(blocking=False):
            try:
                if self._thread is None:
                    thread = threading.Thread(target=self._run, name="penstock-bell", daemon=True)
                    thread.start()
                    self._thread = thread
            finally:
                self._lock.release()
        self._woken.set()

    def close(self) -> None:
        """Send a pending ring, and end."""
        self._closed.set()
        self._woken.set()
        thread = self._thread
        if self._pid == os.getpid() and thread is not None and thread is not threading.current_thread():
            thread.join(_LONGEST_GOODBYE)

    def _run(self) -> None:
        closing = False
        while not closing:
            self._woken.wait()
            with self._sending:
                closing = self._closed.is_set()
                if self._unanswered:
                    self._rung |= not self._was_sent()
                if self._rung:
                    self._rung = False
                    self._send()
                self._closed.wait(_TOGETHER)
        if self._connection is not None:
            self._connection.close()

    def _send(self) -> None:
        """Send one ring, if need be on a new connection: the old one may have died in the meantime."""
        known, self._connection = self._connection, None
        for each in (known, None):
            try:
                current = each or psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=None)
                current.execute(self._notify)
                self._connection = current
                return
            except Exception:
                _log.debug("A ring could not be sent.", exc_info=True)

    def _send_unanswered(self) -> bool:
        """Send a ring from the caller's thread; False when that is left to the thread."""
        if self._connection is None or not self._sending.acquire(blocking=False):
            return False
        try:
            if self._connection is None or self._unanswered:
                return False
            self._connection.pgconn.send_query(self._notify)
            self._unanswered = True
            self._connection.pgconn.flush()
        except Exception:
            return self._unanswered
        finally:
            self._sending.release()
        return True

    def _was_sent(self) -> bool:
        """Return whether a ring that a caller sent succeeded; if not, its connection is not used again."""
        self._unanswered = False
        try:
            if self._connection is not None:
                answers = self._connection.wait(fetch_many(self._connection.pgconn))
                return all(each.status == ExecStatus.COMMAND_OK for each in answers)
        except Exception:
            _log.debug("A ring was lost, and is sent again.", exc_info=True)
        return False
