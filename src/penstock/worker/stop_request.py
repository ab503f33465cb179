"""The request to stop, as it reaches all parts of a worker."""

from __future__ import annotations

import asyncio


class StopRequest:
    """Whether a worker has been asked to stop: once to drain, twice to kill what runs."""

    def __init__(self) -> None:
        self.event: asyncio.Event = asyncio.Event()
        self.immediate: asyncio.Event = asyncio.Event()
        """Set by a second request: the drain is skipped."""

    @property
    def requested(self) -> bool:
        return self.event.is_set()

    def make(self) -> None:
        if self.event.is_set():
            self.immediate.set()
        self.event.set()
