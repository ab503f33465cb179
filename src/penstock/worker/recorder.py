"""Writes the progress, log lines, events and phases of running attempts, many in few transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from penstock.domain.attempt import LogLine
from penstock.domain.errors import LeaseLost, StoreError, StoreUnavailable
from penstock.domain.job import Held
from penstock.domain.plan import Plan
from penstock.domain.ports.jobs import JobsPort
from penstock.domain.ports.store import Store
from penstock.runtime.log_lines import about
from penstock.runtime.service import log
from penstock.worker.store_time import StoreTime

T = TypeVar("T")
EmittedEvent = tuple[str, str | None]
"""The kind of an event, and its data."""

INTERVAL = 0.25
MOST_LINES = 10_000
MOST_EVENTS = 10_000
MOST_EVENT_CHARACTERS = 16_000_000
"""How many characters of data the events of one attempt may have together."""
_MOST_PHASES = 20_000
"""How often one attempt may begin or end a phase; no definition has more than 10,000."""
_BATCH = 500
_AGAIN = 0.5


@dataclass(frozen=True, slots=True)
class _PhaseNote:
    """A phase that begins or ends without a result."""

    name: str
    position: int
    status: str
    progress: float
    message: str | None
    error: str | None
    stamp: int


@dataclass(slots=True)
class _Unwritten:
    """What one attempt has reported and the store does not have yet."""

    progress: tuple[float, str | None, str | None] | None = None
    lines: list[LogLine | asyncio.Future[LogLine]] = field(default_factory=list)
    events: list[EmittedEvent | asyncio.Future[EmittedEvent]] = field(default_factory=list)
    phases: list[_PhaseNote] = field(default_factory=list)

    def clear(self) -> None:
        for each in (self.lines, self.events, self.phases):
            each.clear()


@dataclass(slots=True)
class _Counts:
    """How much one attempt has reported so far."""

    lines: int = 0
    events: int = 0
    characters: int = 0
    """Of the data of events that were kept."""
    events_cut: int = 0
    phases: int = 0


class Recorder:
    """Takes reports from attempts, and writes them four times a second."""

    def __init__(
        self,
        store: Store,
        jobs: JobsPort,
        refused: Callable[[Held], None],
        clock: Callable[[], Plan[int]] | None = None,
    ) -> None:
        """`clock` reads the store's clock; without it, reports get the time at which they are written."""
        self._store = store
        self._times = None if clock is None else StoreTime(store, clock)
        self._jobs = jobs
        self._refused = refused
        self._notes: dict[Held, _Unwritten] = {}
        self._counts: dict[Held, _Counts] = {}
        self._writing = asyncio.Lock()

    def progress(self, held: Held, percent: float, message: str | None, phase: str | None) -> None:
        notes = self._of(held)
        _, earlier, current = notes.progress or (0.0, None, None)
        notes.progress = percent, earlier if message is None else message, current if phase is None else phase

    def log(self, held: Held, line: LogLine | asyncio.Future[LogLine]) -> None:
        """Take a line whose time is a stamp, or a future of one, which keeps its place."""
        counts = self._count(held)
        counts.lines += 1
        if counts.lines <= MOST_LINES:
            self._of(held).lines.append(line)

    def may_emit(self, held: Held, size: int) -> bool:
        """Whether an event with so much data is kept; else it is counted as cut."""
        counts = self._count(held)
        if counts.events >= MOST_EVENTS or counts.characters + size > MOST_EVENT_CHARACTERS:
            counts.events_cut += 1
            return False
        counts.events += 1
        counts.characters += size
        return True

    def event(self, held: Held, event: EmittedEvent | asyncio.Future[EmittedEvent]) -> None:
        """Take an event, or a future of one, which keeps its place. Call `may_emit` first."""
        self._of(held).events.append(event)

    def phase(
        self,
        held: Held,
        name: str,
        position: int,
        stamp: int,
        *,
        status: str = "running",
        progress: float = 0.0,
        message: str | None = None,
        error: str | None = None,
    ) -> None:
        """A phase has begun, or has ended without a result."""
        counts = self._count(held)
        counts.phases += 1
        if counts.phases > _MOST_PHASES:
            return
        self._of(held).phases.append(_PhaseNote(name, position, status, progress, message, error, stamp))

    async def time(self, held: Held, stamp: int) -> int | None:
        """The store's time of a stamp of this attempt."""
        return None if self._times is None else stamp + await self._times.ahead(held)

    async def tick(self) -> float:
        """Write what has come in."""
        if self._notes:
            async with self._writing:
                taken, self._notes = self._notes, {}
                await self._keep(taken)
        return INTERVAL

    @property
    def busy(self) -> bool:
        """Whether there may be reports of any attempt that are not written."""
        return bool(self._notes or self._counts) or self._writing.locked()

    def has_unwritten(self, held: Held) -> bool:
        """Whether there may be reports of an attempt that are not written."""
        return self._writing.locked() or (
            bool(self._notes or self._counts) and (held in self._notes or held in self._counts)
        )

    async def finish(self, held: Held) -> None:
        """Write the remaining reports of one attempt, before it is settled."""
        counts = self._counts.pop(held, None)
        if counts is not None:
            if (cut := counts.lines - MOST_LINES) > 0:
                self._of(held).lines.append(LogLine("warning", f"… {cut} lines more were logged and are cut here."))
            if cut := counts.events_cut:
                self._of(held).lines.append(LogLine("warning", f"… {cut} events more were emitted and are cut here."))
        await self.flush(held)
        if self._times is not None:
            self._times.forget(held)

    async def finish_with_retries(self, held: Held, mine: Callable[[], bool]) -> None:
        """The same, repeated until the store answers or the attempt's lease is lost."""
        while True:
            try:
                return await self.finish(held)
            except StoreUnavailable:
                if not mine():
                    return None
                await asyncio.sleep(_AGAIN)
            except Exception:
                log.exception("the last reports of job %s could not be written", held.job_id, extra=about(held.job_id))
                return None

    async def flush(self, held: Held) -> None:
        """Write the reports of one attempt now."""
        if held in self._notes or self._writing.locked():
            async with self._writing:
                notes = self._notes.pop(held, None)
                if notes is not None:
                    await self._keep({held: notes})

    def _count(self, held: Held) -> _Counts:
        return self._counts.setdefault(held, _Counts())

    def _of(self, held: Held) -> _Unwritten:
        return self._notes.setdefault(held, _Unwritten())

    async def _keep(self, taken: dict[Held, _Unwritten]) -> None:
        reports = [(held, *notes.progress) for held, notes in taken.items() if notes.progress is not None]
        try:
            if reports:
                for held in await self._store.arun(self._jobs.save_progress(reports)):
                    self._refused(held)
            for notes in taken.values():
                notes.progress = None
            for held, notes in taken.items():
                await self._keep_one(held, notes)
        except StoreError:
            for held, notes in taken.items():
                self._put_back(held, notes)
            raise

    async def _keep_one(self, held: Held, notes: _Unwritten) -> None:
        try:
            while notes.phases:
                each = notes.phases[0]
                at = await self.time(held, each.stamp)
                await self._store.arun(
                    self._jobs.save_phase(
                        held, each.name, each.position, each.status, progress=each.progress, message=each.message,
                        error=each.error, at=at,
                    )
                )  # fmt: skip
                notes.phases.pop(0)
            while notes.events:
                await self._store.arun(self._jobs.emit_many(held, await _complete(notes.events[:_BATCH])))
                del notes.events[:_BATCH]
            while notes.lines:
                lines = await _complete(notes.lines[:_BATCH])
                await self._store.arun(self._jobs.save_logs(held, [await self._timed(held, each) for each in lines]))
                del notes.lines[:_BATCH]
        except LeaseLost:
            notes.clear()
            self._refused(held)
        except StoreError:
            raise
        except Exception:
            log.exception("reports of job %s could not be written", held.job_id, extra=about(held.job_id))
            notes.clear()

    async def _timed(self, held: Held, line: LogLine) -> LogLine:
        return line if line.at is None else replace(line, at=await self.time(held, line.at))

    def _put_back(self, held: Held, notes: _Unwritten) -> None:
        """Keep what could not be written, before what has come in since."""
        newer = self._notes.get(held)
        if newer is not None:
            notes.progress = newer.progress or notes.progress
            notes.lines += newer.lines
            notes.events += newer.events
            notes.phases += newer.phases
        if notes.progress or notes.lines or notes.events or notes.phases:
            self._notes[held] = notes


async def _complete(reports: Sequence[T | asyncio.Future[T]]) -> list[T]:
    """Reports in their order, once all of them are complete."""
    waiting = [each for each in reports if isinstance(each, asyncio.Future)]
    if waiting:
        await asyncio.wait(waiting)
    return [each.result() if isinstance(each, asyncio.Future) else each for each in reports]
