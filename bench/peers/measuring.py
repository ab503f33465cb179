"""penstock and its peers in one run: chapter by chapter in turns, every job counted."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import psycopg

from bench.peers.contenders import ROOT, Contender
from bench.peers.redis_server import Redis
from penstock.runtime import processes
from tests.services import PostgresServer

SINGLE = 1000
CONCURRENT = 3200
BATCH = 500
CALLERS = 32
DEFINITIONS = 50
KILOBYTE = 1000
PATIENCE = 300.0

Note = Callable[[str, float], None]


class Entrant(AbstractContextManager["Entrant"]):
    """A contender in one round, with a database of its own."""

    def __init__(self, contender: Contender, folder: Path, server: PostgresServer, scale: float) -> None:
        self.contender = contender
        self._folder = folder
        self._server = server
        self._scale = scale
        self._address = ""
        self._producer: Any = None
        self._prepared = False
        self._waiting = 0
        self._tallies = 0

    def __enter__(self) -> Self:
        self._folder.mkdir()
        if self.contender.store == "PostgreSQL":
            self._address = self._server.create_database()
        elif self.contender.store == "SQLite":
            file = self._folder / "jobs.db"
            self._address = f"sqlite:///{file}" if self.contender.key == "penstock" else str(file)
        return self

    def __exit__(self, *exc: object) -> None:
        if self.contender.store == "PostgreSQL":
            self._server.drop_database(self._address)

    def measure(self, chapter: Callable[[Entrant, Note], None], note: Note) -> None:
        """One chapter, with a process of its own that creates the jobs."""
        environment = {"BENCH_DEFINITIONS": str(DEFINITIONS), "BENCH_STAMP": "1"}
        with ExitStack() as stack:
            if self.contender.store == "Redis":
                folder = self._folder / chapter.__name__
                folder.mkdir()
                redis = Redis(folder, self.contender.appendfsync)
                stack.callback(redis.stop)
                self._address = str(redis.socket)
            self._producer = self._started(self.contender.command("produce"), environment, stdin=subprocess.PIPE)
            stack.callback(end, self._producer)
            self._tell("prepare", fresh=not self._prepared)
            self._prepared = True
            chapter(self, note)

    def empty_jobs(self, note: Note) -> None:
        """Creating in the three ways and draining with one worker, without parameters."""
        self._create(note, "single", "single {}", self._few)
        each = max(2, round(min(CONCURRENT, self.contender.jobs // 2) * self._scale / CALLERS))
        self._create(note, "concurrent", "32 callers {}", each * CALLERS)
        self._create(note, "bulk", "bulk {}", self._many)
        self._drain(note, "drain {}")

    def large_jobs(self, note: Note) -> None:
        """The same with a kilobyte of parameters."""
        self._create(note, "single", "single 1 kB", self._few, size=KILOBYTE)
        self._create(note, "bulk", "bulk 1 kB", self._many, size=KILOBYTE)
        self._drain(note, "drain 1 kB")

    def many_definitions(self, note: Note) -> None:
        """Fifty definitions that take turns."""
        self._create(note, "bulk", "bulk 50 definitions", self._many, definitions=DEFINITIONS)
        self._drain(note, "drain 50 definitions", definitions=DEFINITIONS)

    def two_workers(self, note: Note) -> None:
        if self.contender.drains_itself:
            return
        self._create(note, "bulk", "bulk {}", self._many)
        self._drain(note, "drain 2 workers", workers=2)

    def idle(self, note: Note) -> None:
        """Start-up until the first job runs, memory when there is nothing to do, and the time to pick a job up."""
        if self.contender.drains_itself:
            return
        self._rest()
        tally = self._tally()
        self._tell("stamp")
        began = time.perf_counter()
        worker = self._worker(tally, definitions=0)
        try:
            self._until(lambda: tally.stat().st_size > 0, [worker], every=0.002)
            note("start-up", time.perf_counter() - began)
            time.sleep(2)
            note("memory", processes.memory([worker.pid, *processes.descendants(worker.pid)]) / 1e6)
            samples = max(3, round(67 * self._scale))
            self._tell("pick-up", count=samples, tally=str(tally))
            self._until_none_is_left()
        finally:
            end(worker)
        # The first waited for the worker to start.
        taken = [int(line) / 1e6 for line in tally.read_text().split()[1:]]
        if len(taken) != samples:
            raise RuntimeError(f"{self.contender.label}: {samples} jobs were sent, {len(taken)} were picked up.")
        for each in taken:
            note("pick-up", each)

    @property
    def _few(self) -> int:
        """Fewer of those who take long to drain them."""
        return max(10, round(min(SINGLE, self.contender.jobs // 4) * self._scale))

    @property
    def _many(self) -> int:
        return max(100, round(self.contender.jobs * self._scale))

    def _create(self, note: Note, verb: str, measure: str, count: int, *, size: int = 0, definitions: int = 1) -> None:
        if self.contender.store == "memory":
            self._waiting += count
            return
        self._checkpoint()
        answer = self._tell(verb, count=count, bytes=size, batch=BATCH, definitions=definitions)
        self._waiting += count
        # The first job of a caller is not timed.
        first = {"single": 1, "concurrent": CALLERS}.get(verb, 0)
        note(measure, (count - first) / answer["seconds"])

    def _drain(self, note: Note, measure: str, *, workers: int = 1, definitions: int = 1) -> None:
        """From the first job that starts until the last is stored as done; not one more and not one less may run."""
        self._checkpoint()
        if self.contender.drains_itself:
            answer = self._tell("drain", count=self._waiting)
            self._exactly(answer["count"])
            note(measure, answer["count"] / answer["seconds"])
            self._waiting = 0
            return
        tally = self._tally()
        started = [self._worker(tally, definitions) for _ in range(workers)]
        try:
            self._until(lambda: tally.stat().st_size > 0, started, every=0.001)
            before, began = tally.stat().st_size, time.perf_counter()
            self._until(lambda: tally.stat().st_size >= self._waiting, started, every=0.005)
            self._until_none_is_left()
            seconds = time.perf_counter() - began
        finally:
            for worker in started:
                end(worker)
        self._exactly(tally.stat().st_size)
        # Those of the first moment ran before the clock did, unless that was all of them.
        note(measure, ((self._waiting - before) or self._waiting) / seconds)
        self._waiting = 0

    def _until(self, reached: Callable[[], bool], workers: Sequence[subprocess.Popen[str]], every: float) -> None:
        deadline = time.monotonic() + PATIENCE
        while not reached():
            if any(worker.poll() is not None for worker in workers):
                raise RuntimeError(f"{self.contender.label}: a worker ended.\n{self._log()}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.contender.label}: jobs were not done within {PATIENCE:g} s.\n{self._log()}")
            time.sleep(every)

    def _exactly(self, ran: int) -> None:
        if ran != self._waiting:
            raise RuntimeError(f"{self.contender.label}: {self._waiting} jobs should have run, {ran} did.")

    def _until_none_is_left(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while (left := self._tell("left")["left"]) != 0:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.contender.label}: {left} jobs did not end.")
            time.sleep(0.002)

    def _checkpoint(self) -> None:
        """So that nobody pays for what the one before has written."""
        if self.contender.store == "PostgreSQL":
            with psycopg.connect(self._server.url(), autocommit=True) as connection:
                connection.execute("CHECKPOINT")

    def _rest(self) -> None:
        """So that the server is as idle as the worker: what the drains have left to be cleared away is cleared away."""
        if self.contender.store == "PostgreSQL":
            with psycopg.connect(self._address, autocommit=True) as connection:
                connection.execute("VACUUM ANALYZE")
            self._checkpoint()

    def _tally(self) -> Path:
        self._tallies += 1
        file = self._folder / f"tally-{self._tallies}"
        file.touch()
        return file

    def _worker(self, tally: Path, definitions: int) -> subprocess.Popen[str]:
        environment = {"BENCH_DEFINITIONS": str(definitions), "BENCH_STAMP": str(int(definitions == 0))}
        return self._started(self.contender.command("work"), {**environment, "BENCH_TALLY": str(tally)})

    def _started(
        self, command: list[str], environment: dict[str, str], stdin: int = subprocess.DEVNULL
    ) -> subprocess.Popen[str]:
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                command, cwd=ROOT, stdin=stdin, text=True, stderr=log,
                stdout=subprocess.PIPE if stdin == subprocess.PIPE else log,
                env={**os.environ, **dict(self.contender.settings), "BENCH_ADDRESS": self._address, **environment},
            )  # fmt: skip

    def _tell(self, verb: str, **facts: Any) -> dict[str, Any]:
        self._producer.stdin.write(json.dumps({"verb": verb, **facts}) + "\n")
        self._producer.stdin.flush()
        ready, _, _ = select.select([self._producer.stdout], [], [], PATIENCE)
        line = self._producer.stdout.readline() if ready else ""
        if not line:
            raise RuntimeError(f"{self.contender.label} gave no answer to {verb}.\n{self._log()}")
        found: dict[str, Any] = json.loads(line)
        return found

    def _log(self) -> str:
        """The end of what its processes have written."""
        return (self._folder / "log").read_text(errors="replace")[-3000:]


CHAPTERS: tuple[Callable[[Entrant, Note], None], ...] = (
    Entrant.empty_jobs,
    Entrant.large_jobs,
    Entrant.many_definitions,
    Entrant.two_workers,
    Entrant.idle,
)


def run(contenders: Sequence[Contender], rounds: int, scale: float) -> dict[str, dict[str, list[float]]]:
    """What each round found, by contender and measure."""
    found: dict[str, dict[str, list[float]]] = {each.label: {} for each in contenders}
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name, _postgres() as server:
        for number in range(rounds):
            order = contenders if number % 2 == 0 else list(reversed(contenders))
            folder = Path(name) / str(number)
            folder.mkdir()
            _round(order, folder, server, scale, found)
            print(f"round {number + 1} of {rounds} is done", file=sys.stderr, flush=True)
    return found


def _round(
    contenders: Sequence[Contender],
    folder: Path,
    server: PostgresServer,
    scale: float,
    found: dict[str, dict[str, list[float]]],
) -> None:
    with ExitStack() as stack:
        entrants = [
            stack.enter_context(Entrant(each, folder / str(place), server, scale))
            for place, each in enumerate(contenders)
        ]
        for chapter in CHAPTERS:
            for entrant in entrants:
                if not entrant.contender.full and chapter is not CHAPTERS[0]:
                    continue
                began = time.monotonic()
                entrant.measure(chapter, partial(_note, found[entrant.contender.label]))
                took = time.monotonic() - began
                print(f"{entrant.contender.label}: {chapter.__name__}, {took:.1f} s", file=sys.stderr, flush=True)


def _note(figures: dict[str, list[float]], measure: str, value: float) -> None:
    figures.setdefault(measure, []).append(value)


@contextmanager
def _postgres() -> Iterator[PostgresServer]:
    server = PostgresServer(18)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        server.remove()


def end(process: subprocess.Popen[str]) -> None:
    """Ask it to stop; what does not within ten seconds is killed with all below it."""
    if process.stdin is not None:
        process.stdin.close()
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        processes.kill_tree([process.pid])
        process.wait()
