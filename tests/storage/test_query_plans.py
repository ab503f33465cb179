"""Query plans: with 200,000 jobs, whatever the statistics say, statements keep to the index that is meant for them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.domain.instant import DAY, SECOND
from penstock.domain.job import Held
from penstock.domain.job_list import JobFilter
from penstock.domain.outcome import Cause, Outcome, Settlement
from penstock.domain.plan import Plan, Statement, Steps, writes
from penstock.domain.states import Status, Trigger
from penstock.storage.commands import admin, control, feed, jobs, search, webhooks
from penstock.storage.commands import list_planner as choice
from penstock.storage.postgres.store import PostgresStore
from penstock.storage.sqlite.store import SqliteStore
from tests.conftest import Figures
from tests.services import PostgresServer
from tests.storage.filled_store import BLOCKED, DELAYED, FINISHED, FOREIGN, JOBS, Filled, gone, job_id
from tests.storage.kit import START, Kit
from tests.storage.query_plans import QueryPlan, postgres_plans, sqlite_plans, sqlite_steps

PRINTED = os.environ.get("PENSTOCK_PLANS") == "1"
"""Whether to show the whole plan with each complaint."""
BIG = {"job", "job_detail", "attempt", "event"}
# A partial index holds little: to read it from end to end is what it is for.
MEANT: dict[str, set[str]] = {
    "claim": {"job_ready", "job_detail_pkey"},
    "claim_lane": {"job_ready", "job_detail_pkey"},
    "settle": {"job_pkey"},
    "settle_done": {"job_pkey"},
    "long_histories": {"job_long"},
    "prune_attempts": {"attempt_pkey"},
    "promote": {"job_due", "job_pkey"},
    "next_due": {"job_due"},
    "expired_workers": {"worker_lease"},
    "has_expired_workers": {"job_running"},
    "worker_jobs": {"job_running"},
    "ownerless_jobs": {"job_running"},
    "heartbeat": {"job_running"},
    "count_running": {"job_running"},
    "lock_best_queued": {"job_ready"},
    "admit": {"job_admitted", "job_blocked"},
    "blocked_keys": {"job_blocked"},
    "find_unique": {"job_unique"},
    "hold_retired": {"job_retire"},
    "hold_stale": {"job_retire"},
    "take_for_archive": {"job_retire", "job_pkey"},
    "job_events": {"event_job", "event_bundle", "event_deleted", "job_pkey"},
    "prunable_events": {"event_prunable", "event_job"},
    "hold_bundles": {"event_bundle"},
    "remove_events": {"event_pkey"},
    "delete_jobs": {"event_bundle"},
    "delivery_outlook": {"job_detail_webhook"},
    "running_of": {"job_running"},
    "admitted_of": {"job_admitted"},
    "count_ahead": {"job_ready"},
    "read_errors": {"attempt_failed"},
    "oldest_ready": {"job_ready"},
    "ready_depths": {"job_ready"},
    "longest_running": {"job_running"},
    "read_jobs_by_end": {"job_ended_at"},
    "read_jobs_by_priority": {"job_ended_priority"},
    "read_jobs_by_status_down": {"job_ended_priority"},
    "read_jobs_by_status_up": {"job_ended_priority"},
    "read_jobs_by_lane_down": {"job_detail_lane", "job_pkey"},
    "read_jobs_by_lane_up": {"job_detail_lane", "job_pkey"},
    "read_jobs_by_tag": {"job_pkey"},
    "read_jobs_by_tag_priority": {"job_tag_priority", "job_pkey"},
    "read_jobs_by_schedule_priority": {"job_detail_schedule_priority", "job_pkey"},
    "read_jobs_among": {"job_pkey"},
    "read_jobs_by_failure": {"attempt_fingerprint", "job_pkey"},
    "count_jobs_by_lane": {"job_detail_lane"},
    "count_jobs_by_status": {"job_ended_at"},
}


def _settlements(filled: Filled, n: int, trigger: Trigger = Trigger.SUCCEED) -> list[Settlement]:
    outcome = Outcome(trigger, Cause.RETURNED)
    status = Status.SUCCEEDED if trigger is Trigger.SUCCEED else Status.QUEUED
    return [Settlement(each, 1, outcome, status) for each in filled.running(n)]


def _held(filled: Filled, n: int) -> list[Held]:
    return [Held(each, 1, filled.workers[1]) for each in filled.running(n)]


@writes
def _forget(ids: list[str]) -> Steps[None]:
    yield Statement("prune_attempts", columns={"id": ids, "upto": [1] * len(ids)})


VERBS: dict[str, Callable[[Filled], Plan[Any]]] = {
    "claim one": lambda it: jobs.claim(it.workers[1], it.lanes[:2], 1),
    "claim one of one lane": lambda it: jobs.claim(it.workers[1], it.lanes[:1], 1),
    "claim many of one lane": lambda it: jobs.claim(it.workers[1], it.lanes[:1], 100),
    "claim many": lambda it: jobs.claim(it.workers[1], it.lanes[:2], 100),
    "claim limited": lambda it: jobs.claim(it.workers[1], it.lanes, 20, limited=it.lanes[2:]),
    "start": lambda it: jobs.start(_held(it, 50)),
    "settle one": lambda it: jobs.settle(it.workers[1], _settlements(it, 1)),
    "settle many": lambda it: jobs.settle(it.workers[1], _settlements(it, 100)),
    "settle released": lambda it: jobs.settle(it.workers[1], _settlements(it, 20, Trigger.RELEASE)),
    "promote": lambda it: jobs.promote(100),
    "promote however many": lambda it: jobs.promote(JOBS),
    "next due": lambda it: jobs.next_due(),
    "has_expired_workers": lambda it: jobs.has_expired_workers(0),
    "reclaim": lambda it: jobs.reclaim(0, 0.5),
    "heartbeat": lambda it: jobs.heartbeat(it.workers[1], 10**9),
    "release unheld": lambda it: jobs.release_unheld(it.workers[1], _held(it, 10)),
    "repair limits": lambda it: jobs.repair_limits(),
    "keys kept": lambda it: jobs.has_unserved_admitted(),
    "give way": lambda it: jobs.block_unserved(),
    "progress": lambda it: jobs.save_progress([(held, 50.0, None, None) for held in _held(it, 50)]),
    "create one": lambda it: jobs.create([it.kit.draft()]),
    "create alike": lambda it: jobs.create([it.kit.draft() for _ in range(50)]),
    "create many": lambda it: jobs.create([it.kit.draft(unique=f"u{n}", idempotency_key=f"k{n}") for n in range(50)]),
    "create keyed": lambda it: jobs.create([it.kit.draft("work", concurrency_key=f"k{n}") for n in range(20)]),
    "cancel": lambda it: control.cancel([job_id(n) for n in range(JOBS - 60_000, JOBS, 5000)]),
    "delete": lambda it: control.delete([job_id(n) for n in range(50)]),
    "retire": lambda it: admin.retire(100),
    "retire for an archive": lambda it: admin.retire(100, delete=False),
    "take what is to be archived": lambda it: admin.take_for_archive(50),
    "get": lambda it: admin.get([job_id(n) for n in range(50)]),
    "list": lambda it: admin.page(JobFilter()),
    "list running": lambda it: admin.page(JobFilter(status=(Status.RUNNING,))),
    "list failed": lambda it: admin.page(JobFilter(status=(Status.FAILED,))),
    "list of a definition": lambda it: admin.page(JobFilter(definition_key="mail")),
    "list of a reference": lambda it: admin.page(JobFilter(reference_type="order", reference_id="17")),
    "list of a schedule": lambda it: admin.page(JobFilter(schedule_id="s7")),
    "list by end": lambda it: admin.page(JobFilter(), sort="-finishedAt"),
    "list by end, of a definition": lambda it: admin.page(JobFilter(definition_key="mail"), sort="finishedAt"),
    "list by end, failed": lambda it: admin.page(JobFilter(status=(Status.FAILED,)), sort="-finishedAt"),
    "list by end, of a type": lambda it: admin.page(JobFilter(reference_type="order"), sort="-finishedAt"),
    "list by priority": lambda it: admin.page(JobFilter(), sort="-priority"),
    "list by priority, of a tag": lambda it: admin.page(JobFilter(tag="red"), sort="-priority"),
    "list by priority, of a schedule": lambda it: admin.page(JobFilter(schedule_id="s7"), sort="priority"),
    "list by priority, of a parent": lambda it: admin.page(JobFilter(parent_id=job_id(3)), sort="priority"),
    "list by end, of a tag": lambda it: admin.page(JobFilter(tag="red"), sort="-finishedAt"),
    "list by priority, queued": lambda it: admin.page(JobFilter(status=(Status.QUEUED,)), sort="-priority"),
    "list of a definition, failed": lambda it: admin.page(JobFilter(definition_key="mail", status=(Status.FAILED,))),
    "list of what failed, the oldest first": lambda it: admin.page(
        JobFilter(status=(Status.FAILED,)), sort="createdAt"
    ),
    "list of what is stale": lambda it: admin.page(JobFilter(status=(Status.STALE,))),
    "list of a tag": lambda it: admin.page(JobFilter(tag="red")),
    "list of a parent": lambda it: admin.page(JobFilter(parent_id=job_id(3))),
    "list of a failure": lambda it: admin.page(JobFilter(fingerprint="f10")),
    "search": lambda it: admin.page(JobFilter(params=(("n", "1"),))),
    "search of a definition": lambda it: admin.page(JobFilter(definition_key="mail", error="x")),
    "search of a definition, the oldest first": lambda it: admin.page(
        JobFilter(definition_key="mail", error="x"), sort="createdAt"
    ),
    "search of what failed": lambda it: admin.page(JobFilter(status=(Status.FAILED,), error="x")),
    "search of what failed, the oldest first": lambda it: admin.page(
        JobFilter(status=(Status.FAILED,), error="x"), sort="createdAt"
    ),
    "search of a tag": lambda it: admin.page(JobFilter(tag="red", error="x")),
    "search of a schedule": lambda it: admin.page(JobFilter(schedule_id="s7", error="x")),
    "search of a failure": lambda it: admin.page(JobFilter(fingerprint="f10", params=(("n", "1"),))),
    "search of a type": lambda it: admin.page(JobFilter(reference_type="order", error="x")),
    "count of a definition": lambda it: admin.count(JobFilter(definition_key="mail")),
    "count of what failed": lambda it: admin.count(JobFilter(status=(Status.FAILED,))),
    "count of a schedule": lambda it: admin.count(JobFilter(schedule_id="s7")),
    "why, behind a key": lambda it: admin.why(job_id(FINISHED + DELAYED)),
    "why, in the queue": lambda it: admin.why(job_id(FINISHED + DELAYED + BLOCKED + FOREIGN + 2)),
    "unserved": lambda it: admin.unserved(),
    "take hooks": lambda it: jobs.take_hooks(it.lanes, 100),
    "errors": lambda it: admin.errors(START - JOBS),
    "stats": lambda it: admin.stats(),
    "totals": lambda it: admin.totals(),
    "longest running": lambda it: admin.longest_running(),
    "events of a job": lambda it: feed.of_job(job_id(5)),
    "events of a deleted job": lambda it: feed.of_job(gone(5)),
    "prune": lambda it: feed.prune(DAY),
    "forget attempts": lambda it: admin.prune_attempts(),
    "forget attempts of some": lambda it: _forget(it.running(20)),
    "webhooks, whether anybody asks": lambda it: webhooks.delivery_outlook(),
    "webhooks, from the feed": lambda it: webhooks.create_deliveries(global_url="https://all.test/"),
}

SEARCHES = [
    JobFilter(params=(("n", "1"),)),
    JobFilter(definition_key="mail", error="x"),
    JobFilter(status=(Status.FAILED,), error="x"),
    JobFilter(status=(Status.SUCCEEDED,), params=(("n", "1"),)),
    JobFilter(status=(Status.QUEUED,), error="x"),
    JobFilter(definition_key="work", status=(Status.CANCELLED,), error="x"),
    JobFilter(reference_type="order", error="x"),
    JobFilter(schedule_id="s0", error="x"),
    JobFilter(fingerprint="f10", params=(("n", "1"),)),
]


@pytest.fixture(scope="module", params=["postgres_16", "postgres_18"])
def postgres_filled(request: pytest.FixtureRequest) -> Iterator[Filled]:
    url = request.getfixturevalue(f"{request.param}_database")
    store = PostgresStore(url, schema="bulk", migrate=True)
    store.open()
    with psycopg.connect(url, autocommit=True) as connection:
        for table in BIG:
            connection.execute(f"ALTER TABLE bulk.{table} SET (autovacuum_enabled = off)")
    filled = Filled(store)
    filled.fill()
    filled.add_the_waiting_and_running()
    yield filled
    store.close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA bulk CASCADE")


@pytest.mark.parametrize("statistics", ["of an empty store", "without what waits and runs", "of now"])
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.xdist_group("query-plans")
def test_postgres_keeps_to_the_indexes(postgres_filled: Filled, statistics: str, mode: str, figures: Figures) -> None:
    filled = postgres_filled
    _take_statistics(filled, statistics)
    seen: set[str] = set()
    complaints: list[str] = []

    for name, verb in VERBS.items():
        ways = postgres_plans(filled.store, verb(filled), filled.kit.now, mode)
        seen |= {way.statement for way in ways}
        complaints += _complaints(name, ways)

    assert not complaints, "\n".join(complaints)
    assert set(MEANT) - seen == set()
    figures("query_plans", statistics=statistics.replace(" ", "_"), mode=mode, statements=len(seen))


@pytest.mark.parametrize("delay", [0, DAY], ids=["ready", "scheduled"])
def test_where_nearly_all_jobs_wait_only_those_are_read_that_are_wanted(postgres: PostgresServer, delay: int) -> None:
    """Statistics that say so make the planner expect many, so that reading all of them would seem cheap."""
    url = postgres.create_database()
    with contextlib.closing(PostgresStore(url, migrate=True)) as store:
        store.open()
        kit = Kit(store)
        kit.run(jobs.create([kit.draft(delay=delay) for _ in range(20_000)]))
        kit.advance(DAY // SECOND)
        verb = jobs.promote(50) if delay else jobs.claim(kit.worker(), [kit.draft().lane], 50)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("ANALYZE")

        ways = postgres_plans(store, verb, kit.now, "force_generic_plan")

        assert [way.text for way in ways if way.most_read > 50] == []
    postgres.drop_database(url)


@pytest.mark.xdist_group("query-plans")
def test_a_search_reads_no_more_rows_than_it_may_pass(postgres_filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    _take_statistics(postgres_filled, "of now")
    monkeypatch.setattr(choice, "LITTLE", 100)

    with postgres_filled.counted():
        for which in SEARCHES:
            found = postgres_plans(postgres_filled.store, admin.page(which), START, "force_custom_plan")

            assert len(found) <= search.MOST_PASSED / search.PART + 5, which
            read = [way for way in found if way.statement.startswith("read_jobs")]
            assert max(way.most_read for way in read) <= 2 * search.PART, which


def test_a_page_of_the_feed_does_not_cost_more_the_more_there_is_behind_it(postgres: PostgresServer) -> None:
    url = postgres.create_database()
    with contextlib.closing(PostgresStore(url, migrate=True)) as store:
        store.open()
        with psycopg.connect(url, autocommit=True) as connection:
            for _ in range(50):
                connection.execute(
                    "INSERT INTO penstock.event (at, kind) SELECT 1, 'app.told' FROM generate_series(1, 1000)"
                )

        ways = postgres_plans(store, feed.read(store.run(feed.origin()), 100), START, "force_generic_plan")

        assert [way.statement for way in ways] == ["read_feed", "cut_feed", "read_feed"]
        assert [way.statement for way in ways if way.most_read > feed.WINDOW + 1000] == []
    postgres.drop_database(url)


def _take_statistics(filled: Filled, when: str) -> None:
    """Let the database believe what it saw when it last looked at its tables."""
    with psycopg.connect(filled.store.url, autocommit=True) as connection:
        if when == "of now":
            connection.execute("ANALYZE")
        elif when == "without what waits and runs":
            filled.remove_the_waiting_and_running()
            connection.execute("ANALYZE")
            filled.add_the_waiting_and_running()
        else:
            # What ANALYZE leaves behind when there is no row yet.
            ours = "(SELECT oid FROM pg_class WHERE relnamespace = 'bulk'::regnamespace)"
            connection.execute(f"DELETE FROM pg_statistic WHERE starelid IN {ours}")
            connection.execute(f"UPDATE pg_class SET relpages = 0, reltuples = 0 WHERE oid IN {ours}")


@pytest.mark.xdist_group("query-plans")
def test_sqlite_keeps_to_the_indexes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(str(tmp_path / "penstock.db"))
    store.open()
    filled = Filled(store)
    filled.fill()
    writer = store._writer()
    seen: set[str] = set()
    complaints: list[str] = []

    for statistics in ("none", "without what waits and runs", "of now"):
        if statistics != "none":
            writer.execute("ANALYZE")
        if statistics != "of now":
            filled.add_the_waiting_and_running()
        for name, verb in VERBS.items():
            ways = sqlite_plans(store, verb(filled), filled.kit.now)
            seen |= {way.statement for way in ways}
            # Some walk their table from the newest on until they have enough; SQLite calls that a scan as well.
            ways = [way for way in ways if way.statement not in ("read_jobs", "recent_durations")]
            complaints += _complaints(f"statistics {statistics}: {name}", ways)
        if statistics == "none":
            filled.remove_the_waiting_and_running()
    monkeypatch.setattr(choice, "LITTLE", 100)
    with filled.counted():
        steps = {which: sqlite_steps(store, admin.page(which), filled.kit.now) for which in SEARCHES}
    store.close()

    assert not complaints, "\n".join(complaints)
    assert set(MEANT) - seen == set()
    # About 200 steps for each job that is passed.
    assert {which: thousands for which, thousands in steps.items() if thousands > search.MOST_PASSED / 5} == {}


def _complaints(verb: str, ways: list[QueryPlan]) -> list[str]:
    found: list[str] = []
    for way in ways:
        where = f"{verb}: {way.statement}"
        if scanned := way.scanned & BIG:
            found.append(f"{where} reads {sorted(scanned)} from end to end")
        if missing := MEANT.get(way.statement, set()) - way.indexes:
            found.append(f"{where} does not use {sorted(missing)} but {sorted(way.indexes)}")
        if way.wasted > 20_000:
            found.append(f"{where} compared and threw away {way.wasted} pairs of rows")
        if PRINTED and found and found[-1].startswith(where):
            found.append(way.text)
    return found
