"""Where a store is, said so that another process can open it."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import quote, unquote

from penstock.domain.ports.queue import Queue
from penstock.domain.ports.store import Store
from penstock.domain.store_url import masked

UNNAMED = ""
"""Marks a queue that was given as an object: another process cannot make it."""


class Address(dict[str, Any]):
    """A store's URL and how to open it; printed, it hides what may be a password."""

    def __repr__(self) -> str:
        return f"Address({ {**self, 'store': masked(self['store'])}!r})"


def address_of(
    store: str | Store, *, migrate: bool, schema: str, pooler: bool, queue: Queue | str | None = None
) -> Address | None:
    """What another process needs to open the same store; None for a store in memory or one that was given ready."""
    if not isinstance(store, str):
        return None
    if store.startswith("sqlite://"):
        path = store.removeprefix("sqlite://").removeprefix("/")
        if path in ("", ":memory:"):
            return None
        # The other process may stand in another folder.
        store = f"sqlite:///{quote(os.path.abspath(unquote(path)))}"
    address = Address(store=store, schema=schema, pooler=pooler, migrate=migrate)
    if queue is not None:
        address["queue"] = queue if isinstance(queue, str) else UNNAMED
    return address
