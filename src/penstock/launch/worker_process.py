"""The long-running worker process: it works until a signal ends it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Unpack

from penstock.launch.reload import file_stamps
from penstock.launch.sources import Source
from penstock.launch.worker_host import HostOptions, WorkerHost
from penstock.runtime import stop_signals
from penstock.worker.worker import Worker


async def work(
    source: Source,
    *,
    watch: bool = False,
    ready: Callable[[Worker], None] | None = None,
    signals: bool = True,
    **options: Unpack[HostOptions],
) -> None:
    """Run a worker until SIGTERM, SIGINT or SIGHUP; a second signal skips the drain."""
    host = WorkerHost(source, **options)
    try:
        seen = await asyncio.to_thread(file_stamps, source.watched) if watch else {}
        worker = await host.load()
        if signals:
            stop_signals.handle(worker.stop)
        if ready is not None:
            ready(worker)
        watching = asyncio.ensure_future(host.watch(seen)) if watch else None
        try:
            await worker.run()
        finally:
            if watching is not None:
                watching.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await watching
    finally:
        await host.close()
