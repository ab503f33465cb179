"""What a process does again and again next to running jobs: as services of a worker or of a server, or in one pass."""

from __future__ import annotations

import asyncio
import random
import secrets as chance
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from penstock.app import Penstock
from penstock.background.alerts import Alerts
from penstock.background.archive import Archive
from penstock.background.housekeeper import Housekeeper
from penstock.background.promote import Promoter
from penstock.background.republish import Republisher
from penstock.background.rescue import GRACE, RESCUE_SECONDS, Rescuer
from penstock.background.scheduler import Scheduler
from penstock.background.webhooks import WebhookDispatcher
from penstock.domain.errors import StoreUnavailable
from penstock.domain.ports.jobs import JobsPort
from penstock.domain.secrets.policy import SecretPolicy
from penstock.domain.webhook.settings import WebhookSettings
from penstock.domain.worker import Duty
from penstock.runtime.pace import ALONE, Pace
from penstock.runtime.service import BackgroundServices, Service, log
from penstock.storage import ports
from penstock.worker.worker import Worker

_MOST_PASSES = 1000
_RESCUE_EVERY = 1.0
_IN_TOUCH = 5.0
"""A process that has waited for longer for an answer, or was stopped for longer, may have missed an outage."""
_AFTER_OUTAGE = 15.0
"""Seconds after an outage of the store in which its workers may not have reconnected either."""


@dataclass(frozen=True, slots=True)
class ServicesPass:
    """What one pass of all services has done."""

    ticks: int
    errors: int
    """Schedules that could not be ticked, and parts of housekeeping that failed."""


@dataclass(frozen=True, slots=True)
class TimedWork:
    """How the timed work of a process is done."""

    webhooks: WebhookSettings = field(default_factory=WebhookSettings)
    secrets: SecretPolicy = field(default_factory=SecretPolicy)
    archive: Archive | None = None
    ticks_schedules: bool = True


def every_service(
    app: Penstock,
    name: Callable[[], str],
    promoter: Promoter,
    rescue: Service,
    work: TimedWork | None,
    pace: Pace = ALONE,
) -> BackgroundServices:
    """All timed work of one process; `name` is how the process calls itself to the store.

    Without `work` there is only what every worker needs: promotion and rescue.
    """
    promote = Service("promote", promoter.tick)
    if work is None:
        return BackgroundServices(promote, rescue)
    timer = scheduler(app, pace)
    housekeeper = Housekeeper(app.store, ports.admin, ports.feed, name, work.archive, pace)
    webhooks = WebhookDispatcher(app.store, ports.webhooks, name, work.webhooks, work.secrets, pace=pace)
    services = [
        *([Service("schedule", timer.tick, counting=timer)] if work.ticks_schedules else []),
        Service("housekeep", housekeeper.tick),
        *([Service("republish", republisher(app, pace).tick)] if app.has_own_queue else []),
    ]
    # What the first pass of a service finds to do is no fault, so alerts wait for it.
    awaited = [promote, rescue, *services]
    alert = alerts(app, name, pace, lambda: all(each.caught_up for each in awaited))
    return BackgroundServices(promote, rescue, [*services, Service("alert", alert.tick), webhooks.service()])


def services_of_worker(worker: Worker, app: Penstock, jobs: JobsPort, work: TimedWork | None) -> BackgroundServices:
    """The timed work of a process that has a worker."""
    promoter = Promoter(worker.store, jobs, worker.publish_promoted, worker.pace)
    # A rescue has time for a slow store. After an outage, the worker's own heartbeats keep it from judging others.
    rescuer = Rescuer(
        worker.store.reserve(RESCUE_SECONDS),
        jobs,
        worker.settings.rescue,
        lambda: worker.lease.can_judge_others,
        worker.pace,
    )
    rescue = Service("rescue", rescuer.tick, close=rescuer.close)
    return every_service(app, lambda: worker.id, promoter, rescue, work, worker.pace)


class ServicesWithoutWorker:
    """Does the timed work of a process that has no worker."""

    def __init__(self, app: Penstock, work: TimedWork) -> None:
        store, name = app.store, _name()
        self._rescuer = Rescuer(store.reserve(RESCUE_SECONDS), ports.jobs, _RESCUE_EVERY, self._is_in_touch)
        self._seen_at = time.monotonic()
        self._lost_touch_at = time.monotonic()
        promoter = Promoter(store, ports.jobs, app.guarded_queue.publish)
        rescue = Service("rescue", self._rescue, close=self._rescuer.close)
        self.services: list[Service] = every_service(app, lambda: name, promoter, rescue, work).all

    def duties(self) -> list[Duty]:
        """The last success and the errors of each service."""
        return [each.report() for each in self.services]

    async def run(self) -> None:
        """Run all services until this is cancelled."""
        loops = [asyncio.ensure_future(each.run()) for each in self.services]
        try:
            await asyncio.gather(*loops)
        finally:
            for each in loops:
                each.cancel()
            await asyncio.gather(*loops, return_exceptions=True)

    async def _rescue(self) -> float:
        try:
            return await self._rescuer.tick()
        except StoreUnavailable:
            self._lost_touch_at = time.monotonic()
            raise
        finally:
            self._is_in_touch()

    def _is_in_touch(self) -> bool:
        """Whether the store has answered for long enough to take silent workers for dead.

        It is asked before and after each tick, and after each answer of the store that a rescue depends on.
        """
        now = time.monotonic()
        if now - self._seen_at > _IN_TOUCH:
            # The store was out of reach, or this process was stopped, and so may have been the workers of this host.
            self._lost_touch_at = now
        self._seen_at = now
        return now - self._lost_touch_at >= _AFTER_OUTAGE


def republisher(app: Penstock, pace: Pace = ALONE) -> Republisher:
    return Republisher(app.store, ports.control, ports.admin, app.guarded_queue.publish, pace)


def alerts(
    app: Penstock, me: Callable[[], str], pace: Pace = ALONE, caught_up: Callable[[], bool] = lambda: True
) -> Alerts:
    return Alerts(app.store, ports.admin, me, app.aalerts, pace, caught_up)


def scheduler(app: Penstock, pace: Pace = ALONE) -> Scheduler:
    return Scheduler(
        app.store,
        ports.schedules,
        ports.admin,
        lambda schedule, instant: app._ado(app._tick_draft(schedule, instant)),
        app.guarded_queue.publish,
        pace=pace,
    )


async def once(app: Penstock, archive: Archive | None = None, taken: Collection[tuple[str, int]] = ()) -> ServicesPass:
    """Make one pass: rescue, tick, promote, keep house, raise alerts.

    `taken` are the keys and versions of the definitions whose jobs the caller runs afterwards: they have a worker.
    """
    store, timer = app.store, scheduler(app)
    housekeeper = Housekeeper(store, ports.admin, ports.feed, lambda: "", archive)
    for _ in range(_MOST_PASSES):
        if not (await store.arun(ports.jobs.reclaim(GRACE, random.random()))).workers:
            break
    for _ in range(_MOST_PASSES):
        if await timer.tick() > 0:
            break
    for _ in range(_MOST_PASSES):
        if not (moved := await store.arun(ports.jobs.promote())):
            break
        if app.has_own_queue:
            app.guarded_queue.publish(moved)
    if app.has_own_queue:
        again = republisher(app)
        for _ in range(_MOST_PASSES):
            if not await again.once():
                break
    for _ in range(_MOST_PASSES):
        if not await housekeeper.once():
            break
    await Alerts(store, ports.admin, lambda: "", lambda: app._ado(app._alerts(taken))).once()
    if housekeeper.problem is not None:
        log.error("housekeeping failed", exc_info=housekeeper.problem)
    return ServicesPass(timer.ticked, timer.errors + housekeeper.errors.total())


async def send_webhooks(app: Penstock, webhooks: WebhookSettings, secrets: SecretPolicy) -> None:
    """Make and send all webhook deliveries that are due."""
    me = _name()
    posting = WebhookDispatcher(app.store, ports.webhooks, lambda: me, webhooks, secrets)
    try:
        await posting.once()
    finally:
        await posting.close()


def _name() -> str:
    """A name for a process that is no worker."""
    return f"server-{chance.token_hex(8)}"
