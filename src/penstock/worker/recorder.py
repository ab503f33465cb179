"""Keeps what attempts say meanwhile: progress, log lines, events, phases; many words in few transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from penstock.domain.errors import LeaseLost, StoreError, StoreUnavailable
from penstock.domain.job import Held, LogLine
from penstock.domain.plan import Plan
from penstock.domain.ports.store import JobsPort, Store
from penstock.runtime.log_lines import about
from penstock.runtime.service import log
from penstock.worker.store_time import StoreTime

T = TypeVar("T")
Word = tuple[str, str | None]
"""The kind of an event, and its data."""

INTERVAL = 0.25
MOST_LINES = 10_000
MOST_EVENTS = 10_000
MOST_EVENT_CHARACTERS = 16_000_000
"""So much data may the events of one attempt have together."""
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
class _Notes:
    """What one attempt said and nobody has kept yet."""

    progress: tuple[float, str | None, str | None] | None = None
    lines: list[LogLine | asyncio.Future[LogLine]] = field(default_factory=list)
    events: list[Word | asyncio.Future[Word]] = field(default_factory=list)
    phases: list[_PhaseNote] = field(default_factory=list)

    def clear(self) -> None:
        for each in (self.lines, self.events, self.phases):
            each.clear()


@dataclass(slots=True)
class _Counts:
    """How much one attempt has said so far."""

    lines: int = 0
    events: int = 0
    characters: int = 0
    """Of the data of events that were kept."""
    events_cut: int = 0
    phases: int = 0


class Recorder:
    """Takes words from attempts at once, and writes them down four times a second."""

    def __init__(
        self,
        store: Store,
        jobs: JobsPort,
        refused: Callable[[Held], None],
        clock: Callable[[], Plan[int]] | None = None,
    ) -> None:
        """`clock` reads the store's clock; without it, what is said happens when it is written."""
        self._store = store
        self._times = None if clock is None else StoreTime(store, clock)
        self._jobs = jobs
        self._refused = refused
        self._notes: dict[Held, _Notes] = {}
        self._counts: dict[Held, _Counts] = {}
        self._writing = asyncio.Lock()

    def progress(self, held: Held, percent: float, message: str | None, phase: str | None) -> None:
        notes = self._of(held)
        _, earlier, current = notes.progress or (0.0, None, None)
        notes.progress = percent, earlier if message is None else message, current if phase is None else phase

    def log(self, held: Held, line: LogLine | asyncio.Future[LogLine]) -> None:
        """Take a line whose time is a stamp, or one that will come: it keeps its place."""
        counts = self._count(held)
        counts.lines += 1
        if counts.lines <= MOST_LINES:
            self._of(held).lines.append(line)

    def may_tell(self, held: Held, size: int) -> bool:
        """Whether an event with so much data is kept; else it is counted as cut."""
        counts = self._count(held)
        if counts.events >= MOST_EVENTS or counts.characters + size > MOST_EVENT_CHARACTERS:
            counts.events_cut += 1
            return False
        counts.events += 1
        counts.characters += size
        return True

    def event(self, held: Held, event: Word | asyncio.Future[Word]) -> None:
        """Take an event, or one that will come: it keeps its place. Ask `may_tell` first."""
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
        """Write down what has come in."""
        if self._notes:
            async with self._writing:
                taken, self._notes = self._notes, {}
                await self._keep(taken)
        return INTERVAL

    @property
    def busy(self) -> bool:
        """Whether there may be words of any attempt that are not on record."""
        return bool(self._notes or self._counts) or self._writing.locked()

    def owes(self, held: Held) -> bool:
        """Whether there may be words of an attempt that are not on record."""
        return self._writing.locked() or (
            bool(self._notes or self._counts) and (held in self._notes or held in self._counts)
        )

    async def finish(self, held: Held) -> None:
        """Write down what is left of one attempt, before it is settled."""
        counts = self._counts.pop(held, None)
        if counts is not None:
            if (cut := counts.lines - MOST_LINES) > 0:
                self._of(held).lines.append(LogLine("warning", f"… {cut} lines more were logged and are cut here."))
            if cut := counts.events_cut:
                self._of(held).lines.append(LogLine("warning", f"… {cut} events more were emitted and are cut here."))
        await self.flush(held)
        if self._times is not None:
            self._times.forget(held)

    async def finish_surely(self, held: Held, mine: Callable[[], bool]) -> None:
        """The same, as often as it takes while the attempt's lease lasts."""
        while True:
            try:
                return await self.finish(held)
            except StoreUnavailable:
                if not mine():
                    return None
                await asyncio.sleep(_AGAIN)
            except Exception:
                log.exception("the last words of job %s could not be kept", held.job_id, extra=about(held.job_id))
                return None

    async def flush(self, held: Held) -> None:
        """Write down now what one attempt has said so far."""
        if held in self._notes or self._writing.locked():
            async with self._writing:
                notes = self._notes.pop(held, None)
                if notes is not None:
                    await self._keep({held: notes})

    def _count(self, held: Held) -> _Counts:
        return self._counts.setdefault(held, _Counts())

    def _of(self, held: Held) -> _Notes:
        return self._notes.setdefault(held, _Notes())

    async def _keep(self, taken: dict[Held, _Notes]) -> None:
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

    async def _keep_one(self, held: Held, notes: _Notes) -> None:
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
                await self._store.arun(self._jobs.emit_many(held, await _come(notes.events[:_BATCH])))
                del notes.events[:_BATCH]
            while notes.lines:
                lines = await _come(notes.lines[:_BATCH])
                await self._store.arun(self._jobs.save_logs(held, [await self._timed(held, each) for each in lines]))
                del notes.lines[:_BATCH]
        except LeaseLost:
            notes.clear()
            self._refused(held)
        except StoreError:
            raise
        except Exception:
            log.exception("what job %s said could not be kept", held.job_id, extra=about(held.job_id))
            notes.clear()

    async def _timed(self, held: Held, line: LogLine) -> LogLine:
        return line if line.at is None else replace(line, at=await self.time(held, line.at))

    def _put_back(self, held: Held, notes: _Notes) -> None:
        """Keep for later what could not be written, before what has come in since."""
        newer = self._notes.get(held)
        if newer is not None:
            notes.progress = newer.progress or notes.progress
            notes.lines += newer.lines
            notes.events += newer.events
            notes.phases += newer.phases
        if notes.progress or notes.lines or notes.events or notes.phases:
            self._notes[held] = notes


async def _come(words: Sequence[T | asyncio.Future[T]]) -> list[T]:
    """Words in their order, once all of them have come."""
    waiting = [each for each in words if isinstance(each, asyncio.Future)]
    if waiting:
        await asyncio.wait(waiting)
    return [each.result() if isinstance(each, asyncio.Future) else each for each in words]
