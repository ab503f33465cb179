"""Timed work beside running jobs: as services of a worker, as a process of its own, or as one pass."""

from __future__ import annotations

import asyncio
import random
import secrets as chance
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from penstock.app import Penstock
from penstock.background.alerts import Alerts
from penstock.background.archive import Archive
from penstock.background.housekeeper import Housekeeper
from penstock.background.promote_and_rescue import RESCUE_SECONDS, Promoter, Republisher, Rescuer
from penstock.background.scheduler import Scheduler
from penstock.background.webhooks import Webhooks
from penstock.domain.errors import StoreUnavailable
from penstock.domain.secrets.policy import SecretPolicy
from penstock.domain.webhook.settings import WebhookSettings
from penstock.domain.worker import Duty
from penstock.runtime.pace import ALONE, Pace
from penstock.runtime.service import Service, log
from penstock.storage import ports

_GRACE = 1_000_000
_MOST_PASSES = 1000
_RESCUE_EVERY = 1.0
_IN_TOUCH = 5.0
"""A process that has waited longer for an answer, or stood still for longer, may have missed an outage of the store."""
_AFTER_OUTAGE = 15.0
"""So long after the store was out of reach the workers may not have found their way back to it either."""


@dataclass(frozen=True, slots=True)
class Round:
    """What one pass of the duties has done."""

    ticks: int
    errors: int
    """Schedules that could not be ticked, and parts of housekeeping that failed."""


class Duties:
    """Does the timed work of a process that has no worker."""

    def __init__(
        self,
        app: Penstock,
        *,
        webhooks: WebhookSettings | None = None,
        secrets: SecretPolicy | None = None,
        archive: Archive | None = None,
    ) -> None:
        store, me = app.store, _name()
        self._rescuer = Rescuer(store.reserve(RESCUE_SECONDS), ports.jobs, _RESCUE_EVERY, self._is_in_touch)
        self._seen_at = time.monotonic()
        self._lost_touch_at = time.monotonic()
        promoter = Promoter(store, ports.jobs, app.guarded_queue.publish)
        first = [Service("promote", promoter.tick), Service("rescue", self._rescue)]
        self.services: list[Service] = [*first, *services(app, lambda: me, webhooks, secrets, archive, before=first)]

    def duties(self) -> list[Duty]:
        """How it goes with each of them: the last success, the errors."""
        return [each.report() for each in self.services]

    async def run(self) -> None:
        """Do it all again and again until it is cancelled."""
        loops = [asyncio.ensure_future(each.run()) for each in self.services]
        try:
            await asyncio.gather(*loops)
        finally:
            for each in loops:
                each.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
            await self._rescuer.close()

    async def _rescue(self) -> float:
        try:
            return await self._rescuer.tick()
        except StoreUnavailable:
            self._lost_touch_at = time.monotonic()
            raise
        finally:
            self._is_in_touch()

    def _is_in_touch(self) -> bool:
        """Asked before and after each tick, and after each answer by which others are taken for dead."""
        now = time.monotonic()
        if now - self._seen_at > _IN_TOUCH:
            # The store was out of reach, or this process stood still, and the workers of this host may have as well.
            self._lost_touch_at = now
        self._seen_at = now
        return now - self._lost_touch_at >= _AFTER_OUTAGE


def services(
    app: Penstock,
    me: Callable[[], str],
    webhooks: WebhookSettings | None = None,
    secrets: SecretPolicy | None = None,
    archive: Archive | None = None,
    *,
    ticking: bool = True,
    pace: Pace = ALONE,
    before: Sequence[Service] = (),
) -> list[Service]:
    """What every process does in addition to running jobs; `me` says who does it.

    Alerts begin when these and the services `before` have had their first pass: what they find to do is no fault.
    """
    housekeeper = Housekeeper(app.store, ports.admin, ports.feed, me, archive, pace)
    timer = scheduler(app, pace)
    posting = Webhooks(
        app.store, ports.webhooks, me, webhooks or WebhookSettings(), secrets or SecretPolicy(), pace=pace
    )
    first = [
        *([Service("schedule", timer.tick, counting=timer)] if ticking else []),
        Service("housekeep", housekeeper.tick),
        *([Service("republish", republisher(app, pace).tick)] if app.has_own_queue else []),
    ]

    def caught_up() -> bool:
        return all(each.caught_up for each in (*before, *first))

    return [*first, Service("alert", alerts(app, me, pace, caught_up).tick), posting.service()]


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


async def once(app: Penstock, archive: Archive | None = None, taken: Collection[tuple[str, int]] = ()) -> Round:
    """One pass: rescue, tick, promote, keep house, look for alerts.

    `taken` are the keys and versions of the definitions whose jobs the caller runs after it: they have a worker.
    """
    store, timer = app.store, scheduler(app)
    housekeeper = Housekeeper(store, ports.admin, ports.feed, lambda: "", archive)
    for _ in range(_MOST_PASSES):
        if not (await store.arun(ports.jobs.reclaim(_GRACE, random.random()))).workers:
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
    return Round(timer.ticked, timer.errors + housekeeper.errors.total())


async def send_webhooks(app: Penstock, webhooks: WebhookSettings, secrets: SecretPolicy) -> None:
    """Make and send the deliveries that there are now."""
    me = _name()
    posting = Webhooks(app.store, ports.webhooks, lambda: me, webhooks, secrets)
    try:
        await posting.once()
    finally:
        await posting.close()


def _name() -> str:
    """A name of somebody who is no worker."""
    return f"server-{chance.token_hex(8)}"
