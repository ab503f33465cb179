"""Who takes part: each contender with the store it works on and the configuration that it is measured in."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from bench.peers import installing

Store = Literal["PostgreSQL", "SQLite", "Redis", "memory"]
ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True, slots=True)
class Contender:
    """One system on one store."""

    key: str
    """What `--peers` calls it."""
    name: str
    store: Store
    program: str
    jobs: int
    """How many jobs it drains in one to three seconds, about; peers that grow slower with more of them have fewer."""
    configuration: str
    package: str | None = None
    appendfsync: str | None = None
    worker: tuple[str, ...] | None = None
    """The command of its worker, where it is not the program's own `work`."""
    settings: tuple[tuple[str, str], ...] = ()
    """What its programs find in their environment."""
    full: bool = True
    """Whether all chapters are measured, or only the first."""

    @property
    def label(self) -> str:
        how = f", fsync {self.appendfsync}" if self.appendfsync else ""
        return f"{self.name} ({self.store}{how})"

    @property
    def always(self) -> bool:
        """Whether it takes part whoever else is picked: penstock and the raw limits."""
        return self.key in ("penstock", "raw")

    @property
    def drains_itself(self) -> bool:
        """Whether the process that creates the rows works them off, too."""
        return self.key == "raw"

    def command(self, role: Literal["produce", "work"]) -> list[str]:
        if role == "work" and self.worker is not None:
            return list(self.worker)
        if self.program.endswith(".mjs"):
            found = installing.node()
            if found is None:
                raise RuntimeError("There is no Node.")
            return [str(found[0]), str(found[1] / self.program), role]
        interpreter = sys.executable if self.always else installing.python()
        return [interpreter, "-m", "bench.programs.speaking", self.program, role]


PENSTOCK = Contender(
    "penstock", "penstock", "PostgreSQL", "penstock", 200_000,
    "inline async jobs, `penstock worker --inline-slots 1000`; sync `enqueue`, 32 threads, `enqueue_many`",
    package="penstock",
    worker=(
        sys.executable, "-m", "penstock", "worker", "bench.programs.penstock:app",
        "--inline-slots", "1000", "--log-level", "error",
    ),
)  # fmt: skip
RAW = Contender(
    "raw", "raw", "PostgreSQL", "raw", 200_000,
    "one table with two indexes, psycopg, prepared; 500 rows claimed and completed by two statements on one "
    "connection; 32 threads with a connection each",
)  # fmt: skip
GRAPHILE = Contender(
    "graphile-worker", "graphile-worker", "PostgreSQL", "graphile_worker.mjs", 50_000,
    "24 concurrent jobs, localQueue 500 with refetchDelay 10 ms, completeJobBatchDelay and failJobBatchDelay 0; "
    "for the pick-up 4 concurrent jobs and no local queue; `addJob`, `addJobs`",
    package="graphile-worker", settings=(("BENCH_LOCAL_QUEUE", "500"),),
)  # fmt: skip
CELERY = Contender(
    "celery", "Celery", "Redis", "celery", 6_000,
    "solo pool, prefetch 100, results ignored, no gossip, mingle, heartbeat and remote control; acknowledged before "
    "the job runs (its default); no call for many",
    package="celery", appendfsync="everysec",
)  # fmt: skip
DRAMATIQ = Contender(
    "dramatiq", "Dramatiq", "Redis", "dramatiq", 12_000,
    "`dramatiq --processes 1 --threads 8`, dramatiq_queue_prefetch 1000, default middleware; no call for many",
    package="dramatiq", appendfsync="everysec", settings=(("dramatiq_queue_prefetch", "1000"),),
)  # fmt: skip
RQ = Contender(
    "rq", "RQ", "Redis", "rq", 1_200, "SimpleWorker (no fork), hiredis, results not kept; `enqueue_many`",
    package="rq", appendfsync="everysec",
)  # fmt: skip

CONTENDERS = (
    PENSTOCK,
    replace(PENSTOCK, store="SQLite", jobs=300_000),
    RAW,
    replace(
        RAW, store="SQLite", jobs=300_000,
        configuration="one table with two indexes, apsw, WAL, synchronous=FULL; 500 rows claimed and completed in two "
        "transactions; 32 threads with a connection each",
    ),
    Contender(
        "raw", "raw asyncio", "memory", "tasks", 2_000_000,
        "nothing is stored: a task for each coroutine that does nothing, 500 at a time, uvloop where it is installed",
        full=False,
    ),
    Contender(
        "pgqueuer", "PGQueuer", "PostgreSQL", "pgqueuer", 50_000,
        "asyncpg, uvloop, `run(batch_size=500)`; 32 tasks over a pool of 32; `enqueue` with lists",
        package="pgqueuer",
    ),
    Contender(
        "procrastinate", "Procrastinate", "PostgreSQL", "procrastinate", 2_500,
        "psycopg, `concurrency=30`, LISTEN; sync `defer`, 32 threads over a pool of 32; `batch_defer`",
        package="procrastinate",
    ),
    GRAPHILE,
    replace(
        GRAPHILE, name="graphile-worker, local queue 2,000", settings=(("BENCH_LOCAL_QUEUE", "2000"),), full=False,
        configuration="as above with localQueue 2,000, which is faster here and takes as many jobs away from others",
    ),
    Contender(
        "pg-boss", "pg-boss", "PostgreSQL", "pg_boss.mjs", 50_000,
        "batchSize 500, burstWhenBatchFull, localConcurrency 2; for the pick-up notify and useListenNotify; `send`, "
        "`insert`",
        package="pg-boss",
    ),
    CELERY,
    replace(CELERY, appendfsync="always", full=False),
    DRAMATIQ,
    replace(DRAMATIQ, appendfsync="always", full=False),
    RQ,
    replace(RQ, appendfsync="always", full=False),
    Contender(
        "huey", "Huey", "SQLite", "huey", 20_000,
        "fsync on, WAL, one thread, looks every 10 ms, results not kept; no call for many",
        package="huey",
    ),
)  # fmt: skip

KEYS = tuple(dict.fromkeys(each.key for each in CONTENDERS if not each.always))


def chosen(keys: tuple[str, ...]) -> list[Contender]:
    """Those who take part when these peers are picked."""
    return [each for each in CONTENDERS if each.always or each.key in keys]
