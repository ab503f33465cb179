"""Wakes every process on a database by NOTIFY, on connections of its own.

Rings that come close together are sent as one, from a thread of their own: NOTIFY inside the transactions
that create jobs would make them queue up behind one lock. Listening needs a session, so behind a pooler in
transaction mode the bell is deaf and workers find their jobs by polling.
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

from penstock.stores.listening import Listener

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
        # By process, for a fork leaves the thread behind.
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
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
            heard()
            while True:
                async for _ in connection.notifies(timeout=_LONGEST_SILENCE):
                    heard()
                # A connection that is half open would be silent for ever.
                async with asyncio.timeout(_LONGEST_SILENCE):
                    await connection.execute("SELECT 1")
        finally:
            if owner == os.getpid():
                connection.pgconn.finish()


class _Ringer:
    """Sends the rings of one process from a thread; those that come close together as one."""

    def __init__(self, conninfo: str, channel: str) -> None:
        self._conninfo = conninfo
        self._channel = channel
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._woken = threading.Event()
        self._closed = threading.Event()
        self._rung = False

    def ring(self) -> None:
        self._rung = True
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="penstock-bell", daemon=True)
                    self._thread.start()
        self._woken.set()

    def close(self) -> None:
        """Send what is still to be sent, and end."""
        self._closed.set()
        self._woken.set()
        thread = self._thread
        if self._pid == os.getpid() and thread is not None and thread is not threading.current_thread():
            thread.join(_LONGEST_GOODBYE)

    def _run(self) -> None:
        connection: psycopg.Connection[tuple[Any, ...]] | None = None
        closing = False
        while not closing:
            self._woken.wait()
            self._woken.clear()
            closing = self._closed.is_set()
            if self._rung:
                self._rung = False
                connection = self._send(connection)
            self._closed.wait(_TOGETHER)
        if connection is not None:
            connection.close()

    def _send(
        self, connection: psycopg.Connection[tuple[Any, ...]] | None
    ) -> psycopg.Connection[tuple[Any, ...]] | None:
        """Send one ring, if need be on a new connection: the old one may have died in the meantime."""
        for known in (connection, None):
            try:
                current = known or psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=None)
                current.execute(NOTIFY, {"channel": self._channel})
                return current
            except Exception:
                _log.debug("A ring could not be sent.", exc_info=True)
        return None
