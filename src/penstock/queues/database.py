"""The default queue: the store itself. A message only says that there is something to look for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.domain.ports.queue import Message
from penstock.domain.ports.store import Doorbell


@dataclass(frozen=True, slots=True)
class Wake:
    """Jobs were created; which ones, the claim will tell."""

    job_id: str | None = None


class DatabaseQueue:
    """Wakes workers by the store's doorbell; the jobs themselves are found by the claim."""

    def __init__(self, bell: Doorbell) -> None:
        self._bell = bell

    def publish(self, job_ids: Sequence[str]) -> None:
        if job_ids:
            self._bell.ring()

    async def receive(self, timeout: float) -> Sequence[Message]:
        return [Wake()] if await self._bell.wait(timeout) else []

    def hears(self) -> bool:
        return self._bell.hears()

    async def acknowledge(self, messages: Sequence[Message]) -> None:
        """Nothing to do: a wake-up is gone once it is heard."""

    def close(self) -> None:
        self._bell.close()

    async def aclose(self) -> None:
        await self._bell.aclose()
