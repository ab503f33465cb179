"""Whatever is killed while jobs are created, every acknowledged job is there, and nothing that nobody asked for."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from penstock.storage.commands import jobs
from penstock.storage.postgres.store import PostgresStore
from tests.conftest import Counts, Figures
from tests.crash.processes import Journal, Place, enqueue_for_ever, started
from tests.services import PostgresServer
from tests.storage import schemas
from tests.storage.kit import Kit
from tests.storage.tables import change, check_soundness, query
from tests.waiting import wait_until

pytestmark = pytest.mark.crash

_AT_WORK = (
    "SELECT pid FROM pg_stat_activity "
    "WHERE datname = current_database() AND application_name = 'penstock' AND state <> 'idle'"
)


def test_a_killed_enqueuer_loses_no_acknowledged_job(
    shared_store: Any, tmp_path: Path, counts: Counts, figures: Figures
) -> None:
    lane = Kit(shared_store).define("work", key_concurrency=1)
    place = Place.of(shared_store)
    ledger = Ledger(shared_store)

    rounds = counts(ci=20, soak=1000)
    for number in range(rounds):
        journal = Journal(tmp_path / f"journal-{number}")
        with started(enqueue_for_ever, place, lane, journal.path) as process:
            wait_until(lambda journal=journal: journal.read("ok"), "the first job is acknowledged")  # type: ignore[misc]
            _wait_for_a_random_moment(0.06)
            process.kill()
            process.join()
            assert process.exitcode == -signal.SIGKILL
        ledger.check([journal])
        if number % 20 == 19:
            _forget_everything(shared_store)

    assert ledger.totals["unanswered"] > 0, "no kill ever fell between a try and its answer"
    figures("kill_enqueuer", store=shared_store.dialect, rounds=rounds, **ledger.totals)


def test_a_crashed_server_loses_no_acknowledged_job(
    postgres_18: PostgresServer, postgres_18_database: str, tmp_path: Path, counts: Counts, figures: Figures
) -> None:
    schema = schemas.lend(postgres_18_database)
    store = PostgresStore(schema.url, schema=schema.name)
    lane = Kit(store).define("work", key_concurrency=1)
    store.close()
    ledger = Ledger(store)

    rounds = counts(ci=3, soak=200)
    for number in range(rounds):
        journals = [Journal(tmp_path / f"journal-{number}-{client}") for client in range(3)]
        with ExitStack() as clients:
            for journal in journals:
                work = started(enqueue_for_ever, Place.of(store), lane, journal.path)
                clients.enter_context(work)
            wait_until(lambda journals=journals: all(each.read("ok") for each in journals), "all clients create jobs")  # type: ignore[misc]
            _wait_for_a_random_moment(0.1)
            postgres_18.stop("immediate")
            postgres_18.start()
        ledger.check(journals)
        if number % 20 == 19:
            _forget_everything(store)
    store.close()
    schemas.give_back(schema)

    assert ledger.totals["unanswered"] > 0, "no crash ever fell between a try and its answer"
    figures("kill_server", rounds=rounds, **ledger.totals)


def test_a_client_that_is_patient_goes_on_after_a_crash_of_the_server_and_makes_each_job_once(
    postgres_18: PostgresServer, postgres_18_database: str, tmp_path: Path
) -> None:
    schema = schemas.lend(postgres_18_database)
    store = PostgresStore(schema.url, schema=schema.name)
    lane = Kit(store).define("work", key_concurrency=1)
    store.close()
    journal = Journal(tmp_path / "journal")

    with started(_enqueue_patiently, Place.of(store), lane, journal.path):
        wait_until(lambda: journal.read("ok"), "the client creates jobs")
        postgres_18.stop("immediate")
        before = len(journal.read("ok"))
        postgres_18.start()
        wait_until(lambda: len(journal.read("ok")) > before + 10, "the client goes on", timeout=40)
    Ledger(store).check([journal])
    store.close()
    schemas.give_back(schema)


def _enqueue_patiently(place: Place, lane: int, journal: Path) -> None:
    enqueue_for_ever(place, lane, journal, patient=True)


def _wait_for_a_random_moment(most: float) -> None:
    moment = time.monotonic() + random.uniform(0, most)
    wait_until(lambda: time.monotonic() >= moment, "the moment has come")


class Ledger:
    """What was tried, acknowledged and found so far."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.totals = Counter[str]()
        self._found: set[str] = set()
        self._open: list[tuple[str, ...]] = []
        """Tries without an answer, of which nothing was there yet: a server may commit after its client is dead."""

    def check(self, journals: list[Journal]) -> None:
        """Compare what the processes wrote down with what is there."""
        if self.store.dialect == "postgres":
            wait_until(lambda: query(self.store, _AT_WORK) == [], "the server is done with what the dead had asked for")
        tried = [tuple(ids) for journal in journals for ids in journal.read("try")]
        acknowledged = {job_id for journal in journals for ids in journal.read("ok") for job_id in ids}
        there = {str(job_id) for (job_id,) in query(self.store, "SELECT id FROM {s}job")} - self._found
        possible = [*self._open, *tried]

        lost = acknowledged - there
        unexpected = there - {job_id for ids in possible for job_id in ids}
        torn = [ids for ids in possible if 0 < len(there & set(ids)) < len(ids)]
        assert (lost, unexpected, torn) == (set(), set(), [])
        self._admit_noted_keys()
        check_soundness(self.store)
        _check_file(self.store)

        self._found |= there
        self._open = [ids for ids in possible if not there & set(ids)]
        self.totals["acknowledged"] += len(acknowledged)
        self.totals["unanswered"] += sum(1 for ids in tried if not acknowledged & set(ids))
        self.totals["recovered"] += len(there - acknowledged)

    def _admit_noted_keys(self) -> None:
        """Admit as a worker does: a creator killed between its commit and the admission leaves a note of the key."""
        store = Place.of(self.store).open()
        store.run(jobs.promote())
        store.close()


def _check_file(store: Any) -> None:
    if store.dialect == "sqlite":
        assert query(store, "PRAGMA integrity_check") == [("ok",)]


def _forget_everything(store: Any) -> None:
    """Long runs would otherwise spend their time on looking at what was looked at before."""
    for table in ("job", "job_detail", "job_tag", "event", "idempotency", "tally_delta"):
        change(store, f"DELETE FROM {{s}}{table}")
