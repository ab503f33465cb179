"""Random histories: a model, SQLite and PostgreSQL live through the same one and must stay the same at every step."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from penstock.domain.job import Draft, Held
from penstock.domain.outcome import Settlement
from penstock.domain.states import LIVE, TABLE, Trigger
from penstock.storage.postgres.store import PostgresStore
from penstock.storage.sqlite.store import SqliteStore
from tests.conftest import Counts, Figures
from tests.storage.compared_stores import ComparedStore
from tests.storage.model import ModelJob, Move, World
from tests.storage.model_jobs import JobsModel
from tests.storage.state_machine import StoreMachine


class ForgetsTheFence(World):
    """Planted: any attempt may write to a job that is live."""

    def owned(self, held: Held) -> ModelJob | None:
        job = self.jobs.get(held.job_id)
        return job if job is not None and job.status in LIVE else None


class AdmitsOneTooMany(World):
    """Planted: the limit of a concurrency key is off by one."""

    def admit(self, keys: Iterable[tuple[str, str] | None]) -> None:
        super().admit(keys)
        for job in [job for job in self.jobs.values() if job.blocked][:1]:
            job.blocked = False


class KeepsSnoozedAttempts(JobsModel):
    """Planted: no attempt is given back on snooze."""

    def _end(self, job: ModelJob, worker: str, each: Settlement) -> None:
        snoozed = each.outcome.trigger is Trigger.SNOOZE
        super()._end(job, worker, each._replace(attempt_back=0) if snoozed else each)


class ForgetsKeys(JobsModel):
    """Planted: an idempotency key is not looked up."""

    def _known(self, draft: Draft, batch: Sequence[Draft]) -> None:
        return None


MOVES = {(before, trigger, after) for (before, trigger), found in TABLE.items() for after in found}
SHARES = range(2 if os.environ.get("PENSTOCK_SOAK") == "1" else 1)
"""A soak's 100,000 steps in two halves, one for each core."""
PLANTED = [
    pytest.param({"world_type": ForgetsTheFence}, id="forgets the fence"),
    pytest.param({"world_type": AdmitsOneTooMany}, id="admits one too many"),
    pytest.param({"jobs_type": KeepsSnoozedAttempts}, id="keeps snoozed attempts"),
    pytest.param({"jobs_type": ForgetsKeys}, id="forgets keys"),
]


@pytest.mark.timeout(7200)  # a history that went wrong is made shorter for some minutes
@pytest.mark.parametrize("share", SHARES)
def test_a_model_and_every_store_live_through_the_same_histories(
    share: int, postgres_18_database: str, tmp_path: Path, counts: Counts, soak: bool, figures: Figures
) -> None:
    postgres = PostgresStore(postgres_18_database, schema=f"state_machine_{share}", migrate=True, pool_size=2)
    postgres.open()

    class Machine(StoreMachine):
        @staticmethod
        def open_stores() -> list[ComparedStore]:
            parties = [_memory(), ComparedStore("PostgreSQL", postgres, lambda: _empty(postgres))]
            return [*parties, _file(tmp_path)] if soak else parties

    moves = _live(Machine, f"state-machine-{share}", counts(ci=30, soak=1_200), soak, figures)
    postgres.close()

    assert Machine.steps > counts(ci=1_000, soak=50_000)
    assert len(moves) >= len(MOVES) * 3 // 4


@pytest.mark.timeout(7200)
def test_a_model_and_sqlite_live_through_many_histories(counts: Counts, soak: bool, figures: Figures) -> None:
    class Machine(StoreMachine):
        @staticmethod
        def open_stores() -> list[ComparedStore]:
            return [_memory()]

    moves = _live(Machine, "state-machine-sqlite", counts(ci=60, soak=2_200), soak, figures)

    assert Machine.steps > counts(ci=2_400, soak=90_000)
    assert len(moves) >= len(MOVES) * 3 // 4


@pytest.mark.parametrize("planted", PLANTED)
def test_a_model_that_is_wrong_is_found_out(planted: dict[str, Any]) -> None:
    facts = {"open_stores": staticmethod(lambda: [_memory()]), "run_everything": lambda machine: None}
    Machine = type("Machine", (StoreMachine,), {**planted, **facts})

    with pytest.raises(AssertionError):
        run_state_machine_as_test(Machine, settings=_settings(400, derandomize=True, phases=[Phase.generate]))


def _live(machine: type[StoreMachine], name: str, examples: int, soak: bool, figures: Figures) -> set[Move]:
    """Live through so many histories; the moves of jobs that they held."""
    number = random.randrange(2**32)
    if soak:
        print(f"{name}: seed {number}")
        seed(number)(machine)
    machine.steps, machine.moves = 0, set()
    began = time.monotonic()
    try:
        run_state_machine_as_test(machine, settings=_settings(examples, derandomize=not soak))
    finally:
        figures(
            name, steps=machine.steps, seconds=round(time.monotonic() - began),
            moves=f"{len(machine.moves)}/{len(MOVES)}", seed=number if soak else "fixed",
        )  # fmt: skip
    return machine.moves


def _memory() -> ComparedStore:
    store = SqliteStore(":memory:")
    return ComparedStore("SQLite in memory", store, store.close)


def _file(folder: Path) -> ComparedStore:
    """A file of its own for each history."""
    name = folder / f"{uuid4()}.db"
    store = SqliteStore(str(name))
    store.open()

    def end() -> None:
        store.close()
        for each in folder.glob(f"{name.name}*"):
            each.unlink()

    return ComparedStore("SQLite file", store, end)


def _empty(store: PostgresStore) -> None:
    """Make a store as if nothing had ever happened in it; a new schema would take longer."""
    with store.connect() as connection:
        tables = (
            "definition", "worker", "job", "job_detail", "job_tag", "idempotency", "attempt", "progress", "phase",
            "review", "log", "hook", "bucket", "schedule", "tick", "tally", "tally_delta", "tally_span",
            "tally_length", "event", "setting", "audit",
        )  # fmt: skip
        connection.execute("TRUNCATE " + ", ".join(f"{store.schema}.{table}" for table in tables))
        connection.execute(f"DELETE FROM {store.schema}.control WHERE key <> '*'")
        connection.execute(f"UPDATE {store.schema}.control SET pause_at = NULL, pause_until = NULL")


def _settings(examples: int, **options: Any) -> settings:
    return settings(
        max_examples=examples, stateful_step_count=50, deadline=None, database=None, print_blob=False,
        suppress_health_check=[check for check in HealthCheck if check is not HealthCheck.nested_given],
        report_multiple_bugs=False, **options,
    )  # fmt: skip
