"""One pass of all timed work and, if wanted, of the jobs that wait: for hosts that only have cron."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Unpack

from penstock.launch import services
from penstock.launch.sources import Source
from penstock.launch.worker_host import HostOptions, WorkerHost
from penstock.runtime import stop_signals
from penstock.storage import ports

_IDLE_SECONDS = 0.25
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass of `penstock tick` has done."""

    processed: int
    """Attempts that were run and settled."""
    errors: int
    """Attempts that failed, schedules that could not be ticked, and parts of housekeeping that failed."""
    ticks: int


async def tick(source: Source, *, drain: bool = False, **options: Unpack[HostOptions]) -> Pass:
    """Load the code, make one pass, and exit; SIGTERM, SIGINT or SIGHUP end a drain as they end a worker."""
    host = WorkerHost(source, ticking=False, **options)
    try:
        await host.load()
        if drain:
            stop_signals.handle(host.stop)
        return await run_pass(host, drain=drain)
    finally:
        await host.close()


async def run_pass(host: WorkerHost, *, drain: bool = False) -> Pass:
    """Make one pass with a host whose worker does not run yet.

    The host should not tick schedules while its worker runs: jobs that it makes then would not be counted. Nothing is
    done while the worker configuration says that workers are disabled.
    """
    if not (await host.config()).enabled:
        return Pass(0, 0, 0)
    done = await services.once(host.app, host.archive, host.served if drain else ())
    if drain:
        await _drain(host)
    if host.timed_work is not None:
        await services.send_webhooks(host.app, host.webhooks, host.secrets)
    counts = host.worker.counts
    return Pass(counts["settled"], counts["failed"] + done.errors, done.ticks)


async def dispatch(host: WorkerHost, within: float) -> Pass:
    """Make one pass through a worker that runs already; what is not done within this time goes on afterwards."""
    if not (await host.config()).enabled:
        return Pass(0, 0, 0)
    before = dict(host.worker.counts)
    done = await services.once(host.app, host.archive, host.served)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(_wait_for_waiting_jobs(host), within)
    counts = host.worker.counts
    failed = counts["failed"] - before["failed"]
    return Pass(counts["settled"] - before["settled"], failed + done.errors, done.ticks)


async def _drain(host: WorkerHost) -> None:
    """Run the worker until the jobs that wait now have ended."""
    # Read before the worker starts: jobs that others create while it works are for the next pass.
    begun = await host.app.store.arun(ports.admin.clock())
    working = asyncio.ensure_future(host.worker.run())
    finished = asyncio.ensure_future(_claim_until_none_waits(host, begun))
    await asyncio.wait([working, finished], return_when=asyncio.FIRST_COMPLETED)
    # The pass is over: nothing more is claimed, and each running job runs to its end.
    host.worker.claimer.enabled = False
    while host.worker.held() and not working.done():  # noqa: ASYNC110 (as in `_wait_for_waiting_jobs`)
        await asyncio.sleep(_POLL_SECONDS)
    host.worker.stop()
    await working
    if not finished.cancel():
        finished.result()


async def _claim_until_none_waits(host: WorkerHost, begun: int) -> None:
    """Claim until no job is found and no attempt has ended since the last look: its ending might have made room.

    Jobs that were there when the pass began are run, with their children; jobs that others create later do not prolong
    the pass.
    """
    claimer = host.worker.claimer
    seen: Mapping[str, int] | None = None
    while seen != host.worker.counts:
        seen = dict(host.worker.counts)
        await host.app.store.arun(ports.jobs.promote())
        claimer.enabled = await host.app.store.arun(ports.jobs.claimable(host.lanes, begun))
        # A claim that began before may not have seen these jobs.
        claimer.reset_idle()
        while True:
            claimer.wake()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(claimer.idle.wait(), _IDLE_SECONDS)
            if claimer.idle.is_set():
                break
            claimer.enabled = await host.app.store.arun(ports.jobs.claimable(host.lanes, begun))


async def _wait_for_waiting_jobs(host: WorkerHost) -> None:
    """Wait until the jobs that wait now have run, with their children."""
    begun = await host.app.store.arun(ports.admin.clock())
    while True:
        await host.app.store.arun(ports.jobs.promote())
        waits = await host.app.store.arun(ports.jobs.claimable(host.lanes, begun))
        await _wait_for_a_claim(host)
        held = set(host.worker.held())
        while held & set(host.worker.held()):  # noqa: ASYNC110 (attempts end without an event)
            await asyncio.sleep(_POLL_SECONDS)
        if not waits and (not held or not await host.app.store.arun(ports.jobs.claimable(host.lanes, begun))):
            return


async def _wait_for_a_claim(host: WorkerHost) -> None:
    """Wait until a claim that may be under way has been answered: the worker holds its jobs only then."""
    claims = host.worker.claimer.service
    before = claims.succeeded_at
    claims.wake()
    while claims.succeeded_at == before:  # noqa: ASYNC110 (a service has no event for its success)
        await asyncio.sleep(_POLL_SECONDS)
