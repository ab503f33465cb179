"""Single creates that come at the same moment on PostgreSQL: one statement, one commit, and each its own answer."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.domain.errors import Conflict, IdempotencyConflict, InvalidInput, NotFound, StoreUnavailable
from penstock.domain.job import Created, Draft
from penstock.domain.plan import Plan
from penstock.storage.commands import definition_controls, jobs
from penstock.storage.postgres.insert_batching import ThreadBatches
from penstock.storage.postgres.store import PostgresStore
from tests.services import PostgresServer
from tests.storage.concurrency import begin
from tests.storage.conftest import open_store
from tests.storage.kit import Kit
from tests.storage.tables import check_soundness, query
from tests.waiting import wait_until, wait_until_async

TOGETHER = 5


@pytest.fixture
def kit(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kit]:
    for store in open_store("postgres-18", request, tmp_path):
        kit = Kit(store)
        kit.define()
        yield kit
        check_soundness(store)


def meanwhile(kit: Kit, drafts: list[Draft]) -> list[Future[list[Created]]]:
    """Start threads that each create one job, in this order, while somebody leads."""
    waiting = kit.store._mine.threads.waiting
    futures = []
    for draft in drafts:
        stood = len(waiting)
        futures.append(begin(lambda draft=draft: kit.run(jobs.create([draft]))))  # type: ignore[misc]
        wait_until(lambda: len(waiting) == stood + 1, "one more waits")  # noqa: B023
    return futures


def at_once(kit: Kit, drafts: list[Draft]) -> list[Future[list[Created]]]:
    """Create jobs from threads that all wait when the lead becomes free."""
    with kit.store._mine.threads.leading():
        return meanwhile(kit, drafts)


def transactions(store: PostgresStore) -> dict[str, int]:
    """By job the transaction that made it."""
    rows = query(
        store, "SELECT unnest(coalesce(jobs, ARRAY[job_id]))::text, xid::text FROM {s}event WHERE kind = 'job.enqueued'"
    )
    return {job_id: int(xid) for job_id, xid in rows}


@contextmanager
def nobody_may_write_jobs(store: PostgresStore) -> Iterator[None]:
    with psycopg.connect(store.url) as connection:
        connection.execute(f"LOCK TABLE {store.schema}.job_detail, {store.schema}.job IN SHARE MODE")
        yield


def blocked(store: PostgresStore) -> list[int]:
    """The sessions that wait for such a lock."""
    text = (
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
        "AND wait_event_type = 'Lock' AND wait_event = 'relation' AND application_name = 'penstock'"
    )
    with psycopg.connect(store.url, autocommit=True) as connection:
        return [pid for (pid,) in connection.execute(text.encode()).fetchall()]


def ended(child: int) -> list[int]:
    """The status of a child that has ended."""
    found, status = os.waitpid(child, os.WNOHANG)
    return [status] if found else []


# ThreadBatches


def test_creates_that_wait_for_each_other_share_a_transaction_and_each_gets_its_own_job(kit: Kit) -> None:
    drafts = [kit.draft(params=f'{{"n":{n}}}') for n in range(TOGETHER)]

    made = [future.result(timeout=20) for future in at_once(kit, drafts)]

    assert [[each.job_id for each in answer] for answer in made] == [[draft.id] for draft in drafts]
    assert all(each.created for answer in made for each in answer)
    assert [kit.job(draft.id).params_text for draft in drafts] == [draft.params for draft in drafts]
    found = transactions(kit.store)
    assert found.keys() == {draft.id for draft in drafts}
    assert len(set(found.values())) == 1


def test_jobs_of_several_definitions_and_options_are_joined_as_well(kit: Kit) -> None:
    drafts = [kit.draft("work"), kit.draft("other", priority=3), kit.draft("work", delay=60_000_000)]

    statuses = [future.result(timeout=20)[0].status.value for future in at_once(kit, drafts)]

    assert statuses == ["queued", "queued", "scheduled"]
    assert [kit.job(draft.id).priority for draft in drafts] == [10, 3, 10]
    assert len(set(transactions(kit.store).values())) == 1


def test_a_create_at_another_moment_is_not_joined(kit: Kit) -> None:
    with kit.store._mine.threads.leading():
        futures = meanwhile(kit, [kit.draft()])
        kit.advance(60)
        futures += meanwhile(kit, [kit.draft()])

    first, second = (kit.job(future.result(timeout=20)[0].job_id) for future in futures)
    assert (second.created_at - first.created_at).total_seconds() == 60


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"lane": 99, "definition": "nobody"}, NotFound),
        ({"definition": "closed"}, Conflict),
        ({"params": '"\x00"'}, InvalidInput),
        ({"params": '"\udcff"'}, InvalidInput),
    ],
    ids=["unknown", "disabled", "refused by the database", "refused by the driver"],
)
def test_an_error_reaches_only_who_has_caused_it(kit: Kit, wrong: dict[str, Any], error: type[Exception]) -> None:
    lanes = {"work": kit.define(), "closed": kit.define("closed")}
    kit.run(definition_controls.enable("closed", False, by="somebody"))
    facts = {"lane": lanes.get(wrong.get("definition", "work"), 0), **wrong}
    drafts = [kit.draft(), replace(kit.draft(), **facts), kit.draft()]

    first, second, third = at_once(kit, drafts)

    assert isinstance(second.exception(timeout=20), error)
    assert first.result(timeout=20)[0].created
    assert third.result(timeout=20)[0].created
    assert transactions(kit.store).keys() == {drafts[0].id, drafts[2].id}


def test_creates_with_keys_stand_in_no_line_and_keep_their_meaning(kit: Kit) -> None:
    with kit.store._mine.threads.leading():
        (plain,) = meanwhile(kit, [kit.draft()])

        once = [kit.run(jobs.create([kit.draft(idempotency_key="k")]))[0] for _ in range(2)]
        unique = [kit.run(jobs.create([kit.draft(unique="u")]))[0] for _ in range(2)]
        with pytest.raises(IdempotencyConflict):
            kit.run(jobs.create([kit.draft(idempotency_key="k", params_digest="other")]))
        assert not plain.done()

    assert plain.result(timeout=20)[0].created
    assert [each.created for each in (*once, *unique)] == [True, False, True, False]
    assert once[0].job_id == once[1].job_id
    assert unique[0].job_id == unique[1].job_id


def test_nobody_waits_for_another_ones_key(kit: Kit) -> None:
    with psycopg.connect(kit.store.url) as owner:
        kit.store.run_on(owner, jobs.create([kit.draft(unique="u")]), now=kit.now)
        waits = begin(lambda: kit.run(jobs.create([kit.draft(unique="u")])))

        made = [future.result(timeout=20) for future in at_once(kit, [kit.draft() for _ in range(TOGETHER)])]

        assert all(answer[0].created for answer in made)
        assert not waits.done()
    assert not waits.result(timeout=20)[0].created


def test_a_connection_that_breaks_in_the_middle_loses_and_doubles_nothing(kit: Kit) -> None:
    drafts = [kit.draft() for _ in range(TOGETHER)]
    with nobody_may_write_jobs(kit.store):
        futures = at_once(kit, drafts)
        (pid,) = wait_until(lambda: blocked(kit.store), "the joint statement waits")
        with psycopg.connect(kit.store.url, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))

    assert all(future.result(timeout=20)[0].created for future in futures)
    assert len(transactions(kit.store)) == TOGETHER


@pytest.mark.crash
def test_a_server_that_dies_in_the_middle_is_told_to_all_and_none_of_their_jobs_is_there(
    kit: Kit, postgres_18: PostgresServer
) -> None:
    impatient = Kit(PostgresStore(kit.store.url, schema=kit.store.schema, patience=1.0))
    impatient._lanes = kit._lanes
    errors: list[BaseException | None] = [None]
    try:
        with nobody_may_write_jobs(kit.store):
            futures = at_once(impatient, [kit.draft() for _ in range(TOGETHER)])
            wait_until(lambda: blocked(kit.store), "the joint statement waits")
            postgres_18.stop("immediate")

            errors = [future.exception(timeout=20) for future in futures]
    except psycopg.OperationalError:
        pass  # the one who held the lock has lost it
    finally:
        postgres_18.start()
        impatient.store.close()

    assert all(isinstance(error, StoreUnavailable) for error in errors)
    assert transactions(kit.store) == {}
    assert kit.create()


def test_a_fork_leaves_those_who_wait_to_the_parent(kit: Kit) -> None:
    drafts = [kit.draft() for _ in range(TOGETHER)]
    own = kit.draft()
    with kit.store._mine.threads.leading():
        futures = meanwhile(kit, drafts)
        child = os.fork()
        if not child:
            try:
                os._exit(0 if kit.run(jobs.create([own]))[0].created else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(wait_until(lambda: ended(child), "the child has ended")[0]) == 0

    assert all(future.result(timeout=20)[0].created for future in futures)
    assert transactions(kit.store).keys() == {own.id, *(draft.id for draft in drafts)}


def test_who_waits_behind_a_leader_that_is_interrupted_is_served_by_itself() -> None:
    class Interrupt(BaseException):
        pass

    def alone(plan: Plan[Any], now: int | None) -> Any:
        if plan.joint is None:
            raise Interrupt
        return [plan.joint.item]

    line = ThreadBatches()
    with line.leading():
        plans = [jobs.create([Draft(str(n), 1, "work", "{}", 1, 1)]) for n in range(2)]
        futures = [begin(lambda plan=plan: line.run(plan, None, alone)) for plan in plans]  # type: ignore[misc]
        wait_until(lambda: len(line.waiting) == 2, "both wait")

    errors = [future.exception(timeout=20) for future in futures]
    assert sorted(type(error).__name__ for error in errors) == ["Interrupt", "NoneType"]


# Tasks of an event loop


async def test_tasks_that_create_at_once_share_a_transaction(kit: Kit) -> None:
    drafts = [kit.draft() for _ in range(TOGETHER)]

    made = await asyncio.gather(*(kit.store.arun(jobs.create([draft]), now=kit.now) for draft in drafts))

    assert [answer[0].job_id for answer in made] == [draft.id for draft in drafts]
    found = transactions(kit.store)
    # The first one found nobody to be joined to.
    assert len({found[draft.id] for draft in drafts[1:]}) == 1
    await kit.store.aclose()


async def test_an_error_reaches_only_the_task_that_has_caused_it(kit: Kit) -> None:
    drafts = [kit.draft(), kit.draft(), kit.draft(params='"\x00"'), kit.draft()]

    made = await asyncio.gather(
        *(kit.store.arun(jobs.create([draft]), now=kit.now) for draft in drafts), return_exceptions=True
    )

    assert [isinstance(answer, InvalidInput) for answer in made] == [False, False, True, False]
    assert transactions(kit.store).keys() == {drafts[0].id, drafts[1].id, drafts[3].id}
    await kit.store.aclose()


@pytest.mark.parametrize("which", [0, 1], ids=["the one that is served", "one that waits"])
async def test_a_task_that_is_cancelled_takes_nobody_with_it(kit: Kit, which: int) -> None:
    drafts = [kit.draft() for _ in range(3)]
    store = kit.store
    with nobody_may_write_jobs(store):
        tasks = [asyncio.create_task(store.arun(jobs.create([draft]), now=kit.now)) for draft in drafts]
        await wait_until_async(lambda: blocked(store), "the first one waits for the lock")
        tasks[which].cancel()
        await asyncio.wait([tasks[which]], timeout=20)

    made = await asyncio.gather(*tasks, return_exceptions=True)

    left = [draft.id for number, draft in enumerate(drafts) if number != which]
    assert isinstance(made[which], asyncio.CancelledError)
    assert [answer[0].job_id for answer in made if not isinstance(answer, BaseException)] == left
    assert transactions(store).keys() == set(left)
    await store.aclose()


async def test_those_who_are_served_by_a_task_that_is_cancelled_are_not_left_behind(kit: Kit) -> None:
    drafts = [kit.draft() for _ in range(3)]
    store = kit.store
    tasks = [asyncio.create_task(store.arun(jobs.create([draft]), now=kit.now)) for draft in drafts]
    await tasks[0]
    with nobody_may_write_jobs(store):
        tasks += [asyncio.create_task(store.arun(jobs.create([kit.draft()]), now=kit.now)) for _ in range(3)]
        await wait_until_async(lambda: store._mine.coroutines()._serving is not None and blocked(store), "some wait")
        store._mine.coroutines()._serving.cancel()

    made = await asyncio.gather(*tasks)

    assert all(answer[0].created for answer in made)
    assert len(transactions(store)) == 6
    await store.aclose()
