"""Jobs that do nothing, worked off by `penstock worker` processes; every job is counted."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

import psycopg

from bench.peers.contenders import PENSTOCK, ROOT
from bench.peers.measuring import end
from bench.raw import in_threads
from penstock import Penstock
from penstock.domain.ids import IdSource
from penstock.domain.job import Draft
from penstock.domain.job_list import JobFilter
from penstock.domain.outcome import RETURNED_NOTHING, Settlement
from penstock.domain.states import Status
from penstock.storage.commands import admin, jobs
from tests.storage.tables import query

BATCH = 1000
PATIENCE = 300.0
UNSETTLED = "SELECT count(*) FROM {s}job WHERE worker IS NOT NULL"
_ids = IdSource(lambda: time.time_ns() // 1_000_000, os.urandom)

Worker = subprocess.Popen[str]
Meter = Callable[[Sequence[Worker]], Mapping[str, float]]
"""What has been spent so far, by name; asked when the clock starts and when it stops."""


@dataclass(frozen=True, slots=True)
class Drained:
    """What one drain has shown."""

    jobs: int
    """Those that ran while the clock did."""
    seconds: float
    complete: bool
    """Whether it came to its end; if not, its time was over."""
    marks: list[tuple[int, float]] = field(default_factory=list)
    """After how many seconds so many jobs had run."""
    spent: Mapping[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds

    @property
    def processor(self) -> float:
        """Microseconds of processor time a job, where that was what was spent."""
        return 1e6 * sum(self.spent.values()) / self.jobs

    def rates(self, step: int) -> list[float]:
        """Jobs a second from each multiple of `step` to the next."""
        found: list[float] = []
        last, wanted = self.marks[0], step
        for ran, at in self.marks:
            if ran >= wanted and at > last[1]:
                found.append((ran - last[0]) / (at - last[1]))
                last, wanted = (ran, at), (ran // step + 1) * step
        return found


class Draining(AbstractContextManager["Draining"]):
    """One store: jobs are created in this process, and worked off by worker processes."""

    def __init__(self, folder: Path, url: str, definitions: int = 1) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._url = url
        self._definitions = definitions
        self._runs = 0
        self._ready = 0
        self.app = Penstock(url, migrate=True)
        for number in range(definitions):
            self.app.job(f"nothing_{number}", isolation="inline")(_nothing)
        self.lanes = [self.app.register()[f"nothing_{number}", 1] for number in range(definitions)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.app.close()

    def create(self, count: int) -> None:
        """So many ready jobs of the first definition; then all that was written so far is brought to the disk."""
        for start in range(0, count, BATCH):
            ids = _ids.many(min(BATCH, count - start))
            self.app.store.run(jobs.create([_draft(each, self.lanes[0]) for each in ids]))
        self._ready += count
        if self.app.store.dialect == "postgres":
            with psycopg.connect(self._url, autocommit=True) as connection:
                connection.execute("CHECKPOINT")
        else:
            os.sync()

    def drain(
        self,
        *,
        workers: int = 1,
        most: float = PATIENCE,
        command: Sequence[str] = PENSTOCK.worker or (),
        together: bool = False,
        meter: Meter | None = None,
    ) -> Drained:
        """From the first job that starts until the last is stored as done, or until `most` seconds are over.

        `together`: nobody begins before all workers are there.
        """
        if together:
            self.app.pause_all("until all are there")
        with self.working(workers, command) as (started, tally):
            if together:
                self.until_registered(started)
                self.app.resume_all()
            self._until(lambda: _size(tally) > 0, started, PATIENCE)
            began, before = time.perf_counter(), _size(tally)
            first = meter(started) if meter else {}
            marks = list(self._followed(tally, started, began, most))
            complete = _size(tally) >= self._ready
            if complete:
                self._until(self._all_settled, started, PATIENCE, every=0.01)
            ran, seconds = _size(tally), time.perf_counter() - began
            last = meter(started) if meter else {}
        if ran > self._ready or (complete and _size(tally) != self._ready):
            raise RuntimeError(f"{self._ready} jobs should have run, {_size(tally)} did.\n{self._log()}")
        self._ready = 0
        spent = {name: value - first.get(name, 0.0) for name, value in last.items()}
        # Those of the first moment ran before the clock did, unless that was all of them.
        return Drained((ran - before) or ran, seconds, complete, marks, spent)

    @contextmanager
    def working(
        self, workers: int, command: Sequence[str] = PENSTOCK.worker or ()
    ) -> Iterator[tuple[list[Worker], Path]]:
        """Workers, and the file in which each job that runs leaves a byte."""
        self._runs += 1
        tally = self._folder / f"tally-{self._runs}"
        tally.touch()
        facts = {
            "BENCH_ADDRESS": self._url, "BENCH_TALLY": str(tally), "BENCH_DEFINITIONS": str(self._definitions),
            "BENCH_STAMP": "0",
        }  # fmt: skip
        with (self._folder / "log").open("ab") as log:
            started = [
                subprocess.Popen(
                    command, cwd=ROOT, env={**os.environ, **facts}, text=True, stdout=log, stderr=log,
                    stdin=subprocess.DEVNULL,
                )
                for _ in range(workers)
            ]  # fmt: skip
        try:
            yield started, tally
        finally:
            in_threads([partial(end, worker) for worker in started])

    def until_registered(self, started: Sequence[Worker]) -> None:
        """Until each of these workers is known to the store."""
        text = "SELECT count(*) FROM {s}worker WHERE ended IS NULL"
        self._until(lambda: query(self.app.store, text)[0][0] >= len(started), started, PATIENCE, every=0.1)

    def _followed(
        self, tally: Path, started: Sequence[Worker], began: float, most: float
    ) -> Iterator[tuple[int, float]]:
        """How many had run after how many seconds, until all have or the time is over."""
        while (at := time.perf_counter() - began) < most:
            self._check(started)
            ran = _size(tally)
            yield ran, at
            if ran >= self._ready:
                return
            time.sleep(0.005)

    def _all_settled(self) -> bool:
        return query(self.app.store, UNSETTLED) == [(0,)]

    def _until(
        self, reached: Callable[[], Any], started: Sequence[Worker], seconds: float, every: float = 0.002
    ) -> None:
        deadline = time.monotonic() + seconds
        while not reached():
            self._check(started)
            if time.monotonic() > deadline:
                raise TimeoutError(f"Nothing came of it within {seconds:g} s.\n{self._log()}")
            time.sleep(every)

    def _check(self, started: Sequence[Worker]) -> None:
        if any(worker.poll() is not None for worker in started):
            raise RuntimeError(f"A worker ended.\n{self._log()}")

    def _log(self) -> str:
        """The end of what the workers have written."""
        return (self._folder / "log").read_text(errors="replace")[-3000:]


async def _nothing(text: str = "") -> None: ...


def _draft(job_id: str, lane: int) -> Draft:
    return Draft(id=job_id, lane=lane, definition="nothing_0", params="{}", priority=10, max_attempts=3)


def returned(job_id: str, lane: int, fence: int) -> Settlement:
    """How such a job ends."""
    return Settlement(job_id, fence, RETURNED_NOTHING, Status.SUCCEEDED, lane=lane)


def _size(file: Path) -> int:
    return file.stat().st_size


def until_done(app: Penstock, count: int, seconds: float, unfinished: str = "status IN {queued_or_live}") -> None:
    """Wait until no job is unfinished, which is cheap to ask, and then count once."""
    deadline = time.monotonic() + seconds
    while query(app.store, f"SELECT 1 FROM {{s}}job WHERE {unfinished} LIMIT 1"):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{count} jobs were not done within {seconds:g} s")
        time.sleep(0.2)
    found = app.store.run(admin.count(JobFilter(status=(Status.SUCCEEDED,)), cap=10_000_000)).value
    if found != count:
        raise AssertionError(f"{found} jobs were done, not {count}")
