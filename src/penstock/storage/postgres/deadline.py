"""A deadline that the client keeps itself: for servers that are frozen, and for poolers that keep none."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

import psycopg

_NEVER = nullcontext()


def cut_at(end: float | None, connection: psycopg.Connection[Any]) -> AbstractContextManager[None]:
    """Cut a connection that is still in use at this moment of the monotonic clock."""
    return _NEVER if end is None else _cutting(end, connection)


def acut_at(end: float | None, connection: psycopg.AsyncConnection[Any]) -> AbstractContextManager[None]:
    """The same in an event loop."""
    return _NEVER if end is None else _acutting(end, connection)


@contextmanager
def _cutting(end: float, connection: psycopg.Connection[Any]) -> Iterator[None]:
    timer = threading.Timer(_left(end), _cut, [connection.fileno()])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # or else it might cut whoever gets the same descriptor next


@contextmanager
def _acutting(end: float, connection: psycopg.AsyncConnection[Any]) -> Iterator[None]:
    timer = asyncio.get_running_loop().call_later(_left(end), _cut, connection.fileno())
    try:
        yield
    finally:
        timer.cancel()


def _left(end: float) -> float:
    return max(0.0, end - time.monotonic())


def _cut(descriptor: int) -> None:
    """Whoever waits for an answer sees the end of the connection instead."""
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
        connection.shutdown(socket.SHUT_RDWR)
