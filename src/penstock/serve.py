"""Where the parts are put together: a zygote, a store, a queue and a worker, until a signal ends it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from typing import Any

from penstock.app import Penstock
from penstock.core.errors import InvalidInput
from penstock.engine import handlers
from penstock.engine.settings import WorkerSettings
from penstock.engine.worker import Worker
from penstock.engine.zygote_process import ZygoteProcess
from penstock.errands import StoreErrands
from penstock.stores import ports


async def work(
    target: str,
    *,
    store: str | None = None,
    folder: str | None = None,
    settings: WorkerSettings | None = None,
    ready: Callable[[Worker], None] | None = None,
    signals: bool = True,
) -> None:
    """Run a worker for the application that `target` names, until SIGTERM or SIGINT; a second one is a hurry."""
    settings = settings or WorkerSettings()
    folder = folder or os.getcwd()

    async def new_zygote() -> ZygoteProcess:
        return await ZygoteProcess.start(target, folder, allow_threads=settings.allow_preload_threads)

    zygote = await new_zygote()
    try:
        clerk = Penstock(**_address(target, store, zygote.address))
        inline = None
        if any(each.isolation == "inline" for each in zygote.definitions):
            inline = handlers.load(target, folder)
        await asyncio.to_thread(lambda: clerk.store)
        worker = Worker(
            zygote, new_zygote, clerk.store, clerk.queue, ports.jobs, ports.admin, StoreErrands(clerk),
            settings=settings, inline=inline,
        )  # fmt: skip
    except BaseException:
        await zygote.close()
        raise
    if signals:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, worker.stop)
    if ready is not None:
        ready(worker)
    try:
        await worker.run()
    finally:
        await clerk.aclose()


def _address(target: str, store: str | None, found: Mapping[str, Any] | None) -> dict[str, Any]:
    if store is not None:
        return {"store": store}
    if found is None:
        raise InvalidInput(
            f"{target!r} was made with a store object, which another process cannot open.",
            hint="Give its URL: --store sqlite:///jobs.db",
        )
    return dict(found)
