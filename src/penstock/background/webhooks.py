"""Makes webhook deliveries from events and sends them; any number of processes may do it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime

from penstock.background.webhook_sender import WebhookSender
from penstock.domain.errors import InvalidInput
from penstock.domain.instant import SECOND
from penstock.domain.ports.store import Store
from penstock.domain.ports.webhooks import WebhooksPort
from penstock.domain.secrets.policy import SecretPolicy
from penstock.domain.webhook import signature
from penstock.domain.webhook.endpoint import GLOBAL, OF_JOB, WAITING, Answer, DeliveryTask, decide_delivery
from penstock.domain.webhook.settings import WebhookSettings
from penstock.runtime.pace import ALONE, Pace
from penstock.runtime.service import Service, log

_PAGE = 100
_MOST_PAGES = 20
"""Pages of the feed in a row, before deliveries are sent."""
_NO_ENDPOINTS = 2
"""Times as long a rest while there is no webhook at all."""
_SKIP_EVERY = 60.0
"""Seconds between moves of the cursor while there is no webhook: events since then are read for the first one."""
_FIRST_PAUSE = 0.02
_CLOSE_SECONDS = 2.0


class WebhookDispatcher:
    """Makes deliveries from the feed, and sends a bounded number of them at the same time."""

    def __init__(
        self,
        store: Store,
        port: WebhooksPort,
        me: Callable[[], str],
        settings: WebhookSettings | None = None,
        secrets: SecretPolicy | None = None,
        *,
        pace: Pace = ALONE,
    ) -> None:
        self.settings: WebhookSettings = settings or WebhookSettings()
        self.sent: int = 0
        """Tries that were made and settled."""
        self._store = store
        self._port = port
        self._me = me
        self._pace = pace
        self._mask = (secrets or SecretPolicy()).mask
        self._sender = WebhookSender(self.settings)
        self._running: set[asyncio.Task[None]] = set()
        self._skipped_at = float("-inf")
        self._wake: Callable[[], None] = lambda: None

    def service(self) -> Service:
        """The service that makes and sends deliveries until it is stopped."""
        service = Service("webhooks", self.tick, close=self.close)
        self._wake = service.wake
        return service

    async def tick(self) -> float:
        prospect = await self._store.arun(self._port.delivery_outlook())
        more = False
        if prospect.asked or self.settings.global_url is not None or self._skips_now():
            more = await self._make_deliveries()
            prospect = await self._store.arun(self._port.delivery_outlook())
        took = await self._send() if prospect.due_at is not None and prospect.due_at <= prospect.now else 0
        if more or (took and self._room > 0):
            return 0.0
        if prospect.due_at is None and not prospect.asked and self.settings.global_url is None:
            return self._pace.rest(_NO_ENDPOINTS * self.settings.poll)
        if prospect.due_at is None or prospect.due_at <= prospect.now:
            return self.settings.poll
        return min(self.settings.poll, max(_FIRST_PAUSE, (prospect.due_at - prospect.now) / SECOND))

    async def once(self) -> None:
        """Make and send all deliveries that are due, and wait for the answers: for hosts that only have cron."""
        for _ in range(_MOST_PAGES):
            if not await self._make_deliveries():
                break
        while await self._send() or self._running:
            await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)

    async def close(self) -> None:
        """Wait a moment for running sends; another process sends those again that have not ended by then."""
        if self._running:
            await asyncio.wait(self._running, timeout=_CLOSE_SECONDS)
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._sender.close()

    @property
    def _room(self) -> int:
        return self.settings.parallel - len(self._running)

    def _skips_now(self) -> bool:
        if time.monotonic() - self._skipped_at < _SKIP_EVERY:
            return False
        self._skipped_at = time.monotonic()
        return True

    async def _make_deliveries(self) -> bool:
        """Make deliveries from new events; True when there are more."""
        for _ in range(_MOST_PAGES):
            done = await self._store.arun(
                self._port.create_deliveries(_PAGE, global_url=self.settings.global_url, mask=self._mask)
            )
            if done.restarted:
                log.warning("webhooks: events were deleted before they were read; going on with those that are left")
            if not done.more:
                return False
        return True

    async def _send(self) -> int:
        """Begin to send what is due, as far as there is room; how many."""
        if self._room < 1:
            return 0
        # By then a try has ended, or its process is dead or cut off.
        lease = round(2 * self.settings.timeout * SECOND)
        parcels = await self._store.arun(
            self._port.take_deliveries(self._me() or "?", self._room, lease, self.settings.per_receiver)
        )
        for parcel in parcels:
            task = asyncio.ensure_future(self._deliver(parcel))
            self._running.add(task)
            task.add_done_callback(self._done)
        return len(parcels)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("webhooks: a delivery could not be settled and will be sent again: %r", error)
        self._wake()

    async def _deliver(self, parcel: DeliveryTask) -> None:
        body = parcel.body.encode()
        headers = signature.headers(self._secrets(parcel), parcel.id, int(time.time()), body)
        answer = await self._sender.send(parcel.url, body, headers)
        verdict = decide_delivery(
            answer, parcel.round, self.settings.retries, failures=parcel.failures,
            most_failures=self.settings.breaker_failures, pause=self.settings.breaker_pause, random=random.random(),
            now=datetime.now(UTC),
        )  # fmt: skip
        settled = await self._store.arun(
            self._port.settle_delivery(
                parcel.id, parcel.number, answer, verdict, give_up=round(self.settings.disable_after * SECOND)
            )
        )
        self.sent += settled
        if not settled:
            log.warning("webhooks: the end of delivery %s came too late: another process has it", parcel.id)
        elif verdict.status == WAITING or answer.status_code is None:
            log.info("webhooks: delivery %s, try %d: %s", parcel.id, parcel.round, _result_of(answer))

    def _secrets(self, parcel: DeliveryTask) -> tuple[str, ...]:
        secret = self.settings.global_secret
        if parcel.endpoint == OF_JOB:
            try:
                secret = self.settings.secret_for(parcel.url)
            except InvalidInput:
                # It is not sent: the check of the URL reports the reason.
                secret = None
        elif parcel.endpoint != GLOBAL:
            return parcel.secrets
        return () if secret is None else (secret,)


def _result_of(answer: Answer) -> str:
    return answer.error or f"status {answer.status_code}"
