"""A deadline that the client keeps itself: for servers that are frozen, and for poolers that keep none."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg


@contextmanager
def cut_at(end: float | None, connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Cut a connection that is still in use at this moment of the monotonic clock."""
    if end is None:
        yield
        return
    timer = threading.Timer(_left(end), _cut, [connection.fileno()])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # or else it might cut whoever gets the same descriptor next


@contextmanager
def acut_at(end: float | None, connection: psycopg.AsyncConnection[Any]) -> Iterator[None]:
    """The same in an event loop."""
    if end is None:
        yield
        return
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
