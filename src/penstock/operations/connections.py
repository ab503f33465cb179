"""The store, the queue and the doorbell of an application: opened at their first use, and closed together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock.config.store_address import Address, address_of
from penstock.domain.ports.store import Doorbell, Queue, Store
from penstock.queues import named
from penstock.queues.database import DatabaseQueue
from penstock.queues.guarded import GuardedQueue
from penstock.storage import store_maker


class Connections:
    """The connections of an application in this process; closed ones open again when they are needed."""

    def __init__(
        self,
        store: str | Store,
        *,
        migrate: bool,
        schema: str,
        pooler: bool,
        queue: Queue | str | None,
    ) -> None:
        self._make_store = store_maker(store, migrate=migrate, schema=schema, pooler=pooler)
        if isinstance(queue, str):
            named.check_name(queue)
        self.address: Address | None = address_of(store, migrate=migrate, schema=schema, pooler=pooler, queue=queue)
        """What another process needs to open the same store; None when no URL was given."""
        self._queue = queue
        self._guard: GuardedQueue | None = None
        self.opened: Store | None = None
        """The store, if it is open already."""
        self._made: dict[str, Any] = {}

    @property
    def store(self) -> Store:
        """The store, opened at its first use."""
        if self.opened is None:
            # Of several threads that come here first, one store wins. A lock might be held while the process forks.
            store: Store = self._made.setdefault("store", self._make_store())
            store.open()
            self.opened = store
        return self.opened

    @property
    def queue(self) -> Queue:
        """The queue that carries job ids to workers; the store's own, when none was given."""
        if self._queue is not None and not isinstance(self._queue, str):
            return self._queue
        if "queue" not in self._made:
            made = DatabaseQueue(self.bell) if self._queue is None else named.load(self._queue)
            self._made.setdefault("queue", made)
        queue: Queue = self._made["queue"]
        return queue

    @property
    def guarded_queue(self) -> Queue:
        """The same; an adapter that fails, or cannot be made, is a line in the log and no error for the caller."""
        if self._queue is None:
            return self.queue
        if self._guard is None:
            self._guard = GuardedQueue(lambda: self.queue)
        return self._guard

    @property
    def has_own_queue(self) -> bool:
        """Whether an adapter was given, so that messages go through it and not through the store."""
        return self._queue is not None

    def ring(self) -> None:
        """Wake every worker, for a change that no message of the queue would bring to all of them."""
        self.bell.ring()

    def close(self) -> None:
        made, self._made, self.opened = self._made, {}, None
        for name in ("queue", "bell", "store"):
            # An adapter need not be able to close without an event loop.
            if callable(close := getattr(made.get(name), "close", None)):
                close()

    async def aclose(self) -> None:
        for name in ("queue", "bell", "store"):
            if name in self._made:
                await self._made[name].aclose()
        await asyncio.to_thread(self.close)

    @contextmanager
    def replaced_by(self, store: Store) -> Iterator[None]:
        """Use another store, and its own queue, for the time being."""
        names = ("_make_store", "_queue", "_made", "opened")
        kept = {name: getattr(self, name) for name in names}
        self._make_store, self._queue, self._made, self.opened = lambda: store, None, {}, None
        try:
            yield
        finally:
            self.close()
            vars(self).update(kept)

    @property
    def bell(self) -> Doorbell:
        """The store's doorbell, by which processes wake each other."""
        if "bell" not in self._made:
            self._made.setdefault("bell", self.store.doorbell())
        bell: Doorbell = self._made["bell"]
        return bell
