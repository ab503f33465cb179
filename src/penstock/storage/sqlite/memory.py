"""A shared store in memory, for users that close their store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from penstock.domain.plan import Plan

if TYPE_CHECKING:
    from penstock.domain.ports.store import Doorbell, Store

T = TypeVar("T")


class SharedMemoryStore:
    """A store whose `close` does nothing, because a database in memory has only one connection."""

    def __init__(self, host: Store) -> None:
        self._host = host
        self.dialect: str = host.dialect
        self.known_schema: int = host.known_schema

    @property
    def place(self) -> str:
        """What names this store in messages."""
        return self._host.place

    def open(self) -> None:
        self._host.open()

    def close(self) -> None:
        """Do nothing: the shared store stays open."""

    async def aclose(self) -> None:
        """Do nothing: the shared store stays open."""

    def run(self, plan: Plan[T], *, now: int | None = None) -> T:
        return self._host.run(plan, now=now)

    async def arun(self, plan: Plan[T], *, now: int | None = None) -> T:
        return await self._host.arun(plan, now=now)

    def run_on(self, connection: Any, plan: Plan[T], *, now: int | None = None) -> T:
        return self._host.run_on(connection, plan, now=now)

    async def arun_on(self, connection: Any, plan: Plan[T], *, now: int | None = None) -> T:
        return await self._host.arun_on(connection, plan, now=now)

    def reserve(self, seconds: float) -> SharedMemoryStore:
        return SharedMemoryStore(self._host)

    def extend_lease(self, worker: str, lease: int, *, now: int | None = None) -> bool:
        return self._host.extend_lease(worker, lease, now=now)

    def forget_extension(self, worker: str) -> None:
        self._host.forget_extension(worker)

    def doorbell(self) -> Doorbell:
        return self._host.doorbell()
