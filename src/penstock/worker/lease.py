"""A worker's right to its jobs: begun by registration, kept by heartbeats, lost when they are not answered."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.config.worker_settings import WorkerSettings
from penstock.domain.errors import SchemaNewer, StoreUnavailable
from penstock.domain.ports.jobs import JobsPort
from penstock.domain.ports.store import Store
from penstock.domain.worker import Duty, HeartbeatAnswer, WorkerInfo
from penstock.isolation.zygote_process import LOAD_SECONDS
from penstock.runtime import processes
from penstock.runtime.service import log
from penstock.worker.heartbeat import EXIT_UNTRUSTED, Heartbeat
from penstock.worker.inline import InlineAttempt
from penstock.worker.loop_progress import LoopProgress

_MINIMUM_AGE = 2.0
"""Seconds for which a worker's own heartbeats must have been answered before it takes other workers for dead."""
_AFTER_OUTAGE = 15.0
"""Seconds after a failed heartbeat in which other workers may not have reconnected to the store either."""
_RECENT = 0.6
"""A heartbeat that began this part of a lease ago is recent enough: where statements are slow, none is more recent."""

_CONNECTED_IN = 20.0
"""Seconds for which a worker tries to connect before it registers. Each try lasts as long as a heartbeat may."""
_REPORT_EVERY = 10.0
_STAMPS = 4
"""How often the loop proves that it runs between two heartbeats."""

_WAITS = {"postgres": 2.2, "sqlite": 5}
"""Into how many parts a lease is divided; a heartbeat waits for the store for one of them. Two answers of a slow server
fit into a lease. An extension next to a file of SQLite must last for two."""


class Lease:
    """The present lease of a worker; `worker_id` is empty while there is none."""

    def __init__(
        self,
        store: Store,
        jobs: JobsPort,
        settings: WorkerSettings,
        *,
        trust: Callable[[float], None],
        answered: Callable[[HeartbeatAnswer], None],
        lost: Callable[[str, str], object],
        outdated: Callable[[], object],
        unkillable: Callable[[], bool],
        attempt_in: Callable[[asyncio.Task[Any] | None], InlineAttempt | None],
        duties: Callable[[], Sequence[Duty]],
        figures: Callable[[], Mapping[str, float]],
    ) -> None:
        self.worker_id: str = ""
        self.beats: int = 0
        self._store = store
        # Heartbeats must not wait for a connection that is in use.
        self._own = store.reserve(settings.lease / _WAITS[store.dialect])
        self._extended = False
        self._jobs = jobs
        self._settings = settings
        self._trust = trust
        self._answered = answered
        self._lost = lost
        self._outdated = outdated
        self._newer: SchemaNewer | None = None
        self._unkillable = unkillable
        self._attempt_in = attempt_in
        self._duties = duties
        self._figures = figures
        self._reported = 0.0
        self._reports_now = False
        self._begun = 0.0
        self._failed = -_AFTER_OUTAGE
        self._lanes: tuple[int, ...] | None = None
        self._slots: int | None = None
        self._last: HeartbeatAnswer | None = None
        """The last answer to a heartbeat."""
        self._heartbeat: Heartbeat | None = None
        self._progress: LoopProgress | None = None

    @property
    def can_judge_others(self) -> bool:
        """Whether this worker has been in touch with the store for long enough to take others for dead."""
        now = processes.boot_time()
        answered_at = self.trusted_until - self._settings.lease + self._settings.margin
        return (
            bool(self.worker_id)
            and self.beats > 0
            and now - self._begun >= _MINIMUM_AGE
            and now - answered_at <= max(2 * self._settings.heartbeat, _RECENT * self._settings.lease)
            and now - self._failed >= _AFTER_OUTAGE
        )

    @property
    def trusted_until(self) -> float:
        return 0.0 if self._heartbeat is None else self._heartbeat.trusted_until

    async def begin(self, worker: WorkerInfo) -> None:
        """Register a worker under a new id and keep its lease."""
        await self._connect()
        begun = processes.boot_time()
        length = round(self._settings.lease * 1e6)
        await self._store.arun(self._jobs.register_worker(worker, length))
        self.worker_id, self.beats, self._begun = worker.id, 0, begun
        self._lanes, self._slots, self._reported = None, None, 0.0
        self._last, self._extended = None, False
        until = begun + self._settings.lease - self._settings.margin
        self._trust(until)
        loop = asyncio.get_running_loop()
        if self._progress is None:
            every = self._settings.heartbeat / _STAMPS
            self._progress = LoopProgress(every, resumed=self.beat_soon, attempt_in=self._attempt_in)
            self._progress.start()

        def trusted(until: float, answer: HeartbeatAnswer) -> None:
            # In the heartbeat's thread: the zygote must get it even while the loop is blocked.
            self._trust(until)
            _call_in_loop(loop, self._on_answer, worker.id, answer)

        self._heartbeat = Heartbeat(
            lambda seconds: self._send_heartbeat(worker.id, seconds),
            self._settings,
            self._progress,
            trusted=trusted,
            distrusted=lambda why: _call_in_loop(loop, self._lost, worker.id, why),
            failed=self._note_failure,
            unkillable=self._unkillable,
        )
        self._heartbeat.trusted_until = until
        self._heartbeat.start()

    async def _connect(self) -> None:
        """Open the connection of the heartbeats first: where that is slow, a lease might end before it is open."""
        end = processes.boot_time() + _CONNECTED_IN
        while True:
            try:
                await asyncio.to_thread(self._own.run, self._jobs.next_due())
                return
            except StoreUnavailable:
                if processes.boot_time() >= end:
                    raise

    def lose(self, why: str) -> None:
        """End the lease, because the store does not know it any more."""
        if self._heartbeat is not None:
            self._heartbeat.end(why)

    def give_up(self) -> None:
        """Have no lease until the next registration."""
        self.worker_id = ""

    def check_schema(self) -> None:
        """Raise `SchemaNewer` when a heartbeat has found a schema that this code does not know."""
        if self._newer is not None:
            raise self._newer

    def excused(self) -> contextlib.AbstractContextManager[None]:
        """Keep the lease while the loop is blocked by loading code, which its zygote has loaded in bounded time."""
        return contextlib.nullcontext() if self._progress is None else self._progress.excused(LOAD_SECONDS)

    def end_own_process(self) -> None:
        """End the process, where it is the worker's own: inline jobs that do not stop end only with it."""
        if self._settings.own_process:
            os._exit(EXIT_UNTRUSTED)

    def announce(self, lanes: tuple[int, ...]) -> None:
        """Send these lanes with every heartbeat, and the duties with the next one."""
        self._lanes, self._reports_now = lanes, True
        self.beat_soon()

    def announce_slots(self, slots: int) -> None:
        """Send this number of slots with every heartbeat."""
        self._slots = slots

    def beat_soon(self) -> None:
        """Send a heartbeat soon: its answer may have news, such as a cancel."""
        if self._heartbeat is not None:
            self._heartbeat.beat_soon()

    async def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()
        if self._heartbeat is not None:
            self._heartbeat.stop()
            await asyncio.to_thread(self._heartbeat.join, self._settings.lease)
        if self._own is not self._store:
            await asyncio.to_thread(self._own.close)

    def _send_heartbeat(self, worker: str, seconds: float) -> HeartbeatAnswer:
        """In the heartbeat's thread: extend the lease to `seconds` from now; from time to time report the duties."""
        due = self.beats > 0 and (self._reports_now or processes.boot_time() - self._reported >= _REPORT_EVERY)
        self._reports_now = False
        duties, figures = (self._duties(), self._figures()) if due else (None, None)
        length = round(seconds * 1e6)
        plan = self._jobs.heartbeat(
            worker, length, lanes=self._lanes, slots=self._slots, duties=duties, figures=figures
        )
        try:
            answer = self._own.run(plan)
        except StoreUnavailable as error:
            return self._extend(worker, length, error)
        if self._extended:
            self._extended = False
            self._own.forget_extension(worker)
        self._last = answer
        if due:
            self._reported = processes.boot_time()
        return answer

    def _extend(self, worker: str, length: int, error: StoreUnavailable) -> HeartbeatAnswer:
        """Extend the lease although no heartbeat can be written; the answer is the last one, without its cancels."""
        if self._last is None or not self._own.extend_lease(worker, length):
            raise error
        if not self._extended:
            log.warning("no heartbeat can be written, so the lease is extended next to the store: %s", error)
        self._extended = True
        # The next one begins soon: it may wait as long as this one has.
        self.beat_soon()
        return replace(self._last, cancels=[])

    def _note_failure(self) -> None:
        self._failed = processes.boot_time()

    def _on_answer(self, worker: str, answer: HeartbeatAnswer) -> None:
        if worker == self.worker_id:
            self.beats += 1
            if answer.newest_schema > self._store.known_schema and self._newer is None:
                self._newer = SchemaNewer(self._store.place, answer.newest_schema, self._store.known_schema)
                log.critical("worker %s stops: %s", worker, self._newer)
                self._outdated()
            self._answered(answer)


def _call_in_loop(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *given: Any) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed already
        loop.call_soon_threadsafe(call, *given)
