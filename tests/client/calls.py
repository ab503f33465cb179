"""Calls of `penstock.Client` in their two forms: plain and in an event loop."""

from __future__ import annotations

import asyncio
from typing import Any

from penstock import Client

GROUPS = ("jobs", "definitions", "schedules", "workers", "webhooks", "tokens", "monitoring", "audit")


class Calls:
    """The calls of a client, or of one of its groups, in one of their two forms."""

    def __init__(self, client: Client, asynchronous: bool, group: str | None = None) -> None:
        self.client = client
        self.asynchronous = asynchronous
        self.group = client if group is None else getattr(client, group)

    def __getattr__(self, name: str) -> Any:
        if name in GROUPS:
            return Calls(self.client, self.asynchronous, name)

        def call(*args: Any, **options: Any) -> Any:
            if not self.asynchronous:
                return getattr(self.group, name)(*args, **options)
            return asyncio.run(self._awaited("awaited" if name == "wait" else f"a{name}", args, options))

        return call

    def all_jobs(self, **which: Any) -> list[str]:
        """The ids that `jobs.iterate` or `jobs.aiterate` gives."""
        if self.asynchronous:
            return asyncio.run(self._iterated(which))
        return [each.id for each in self.client.jobs.iterate(**which)]

    async def _iterated(self, which: Any) -> list[str]:
        async with self.client:
            return [each.id async for each in self.client.jobs.aiterate(**which)]

    async def _awaited(self, name: str, args: Any, options: Any) -> Any:
        async with self.client:
            return await getattr(self.group, name)(*args, **options)
