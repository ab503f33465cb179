"""Calls of `penstock.Client` in their two forms: plain and in an event loop."""

from __future__ import annotations

import asyncio
from typing import Any

from penstock import Client


class Calls:
    """The calls of a client in one of their two forms."""

    def __init__(self, client: Client, asynchronous: bool) -> None:
        self.client = client
        self.asynchronous = asynchronous

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            if not self.asynchronous:
                return getattr(self.client, name)(*args, **options)
            return asyncio.run(self._awaited(f"a{name}", args, options))

        return call

    def all_jobs(self, **which: Any) -> list[str]:
        """The ids that `iter_jobs` or `aiter_jobs` gives."""
        if self.asynchronous:
            return asyncio.run(self._iterated(which))
        return [each.id for each in self.client.iter_jobs(**which)]

    async def _iterated(self, which: Any) -> list[str]:
        async with self.client:
            return [each.id async for each in self.client.aiter_jobs(**which)]

    async def _awaited(self, name: str, args: Any, options: Any) -> Any:
        async with self.client:
            return await getattr(self.client, name)(*args, **options)
