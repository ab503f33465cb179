"""Definitions that are removed while somebody else declares them, creates a job of them or retries one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from penstock.config.worker_settings import WorkerSettings
from penstock.domain.definition import Definition
from penstock.domain.errors import Conflict
from penstock.domain.instant import DAY
from penstock.domain.states import Status
from penstock.storage.commands import admin, control, jobs
from penstock.worker.live_config import LiveConfig
from tests.background.clockwork import TimedStore
from tests.storage.concurrency import Arena, another
from tests.storage.kit import Kit
from tests.storage.tables import check_soundness, query
from tests.storage.test_undeclared import listed, remove, retire

ROUNDS = 20


@pytest.fixture
def here(shared_store: Any) -> Iterator[Kit]:
    kit = Kit(shared_store)
    kit.define()
    yield kit
    check_soundness(shared_store)


@pytest.fixture
def there(here: Kit) -> Iterator[Kit]:
    with another(here) as kit:
        yield kit


def unfinished(kit: Kit) -> list[str]:
    return [str(job_id) for (job_id,) in query(kit.store, "SELECT id FROM {s}job WHERE status IN {active}")]


def test_code_that_declares_a_definition_while_it_is_removed_leaves_it_there_or_removed(here: Kit, there: Kit) -> None:
    with Arena(2) as arena:
        for _ in range(ROUNDS):
            here.define()

            lane, removed = arena.together(lambda: there.define(), lambda: remove(here))

            assert (type(lane), removed) == (int, None)
            (row,) = here.run(admin.definitions())
            assert row.removed is (row.retired is not None)


def test_a_job_that_is_created_while_its_definition_is_removed_is_refused_or_shown(here: Kit, there: Kit) -> None:
    with Arena(2) as arena:
        for _ in range(ROUNDS):
            here.define()

            created, _ = arena.together(lambda: there.create(), lambda: remove(here))
            here.run(admin.tidy(DAY))

            assert unfinished(here) == ([] if isinstance(created, Conflict) else [created])
            assert listed(here) or not unfinished(here)
            here.run(control.cancel(unfinished(here)))


def test_a_job_that_is_retried_while_its_definition_is_removed_is_refused_or_keeps_it(here: Kit, there: Kit) -> None:
    failed = here.job_in(Status.FAILED)
    here.advance(60)
    with Arena(2) as arena:
        for _ in range(ROUNDS):
            here.define()

            retried, removed = arena.together(lambda: there.run(control.retry([failed])), lambda: remove(here))

            assert isinstance(retried, Conflict) is (removed is None)
            assert isinstance(removed, Conflict) is (removed is not None)
            here.run(control.cancel([failed]))


@pytest.mark.parametrize("shared_store", ["postgres-18"], indirect=True)
def test_a_job_of_a_transaction_that_was_open_during_the_removal_brings_the_definition_back_as_retired(
    here: Kit,
) -> None:
    with psycopg.connect(here.store.url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        (created,) = here.store.run_on(connection, jobs.create([here.draft()]), now=here.now)
        retire(here)
        remove(here)
        assert listed(here) == []
    before = here.job(created.job_id).status

    here.run(admin.tidy(DAY))

    row = here.run(admin.definition("work"))
    assert (before, row.retired is not None) == (Status.QUEUED, True)
    with pytest.raises(Conflict, match="1 queued"):
        remove(here)
    here.run(control.cancel([created.job_id]))
    remove(here)
    assert listed(here) == []


@pytest.mark.parametrize("act", [retire, remove])
async def test_a_worker_whose_code_was_read_before_a_removal_and_that_registers_after_it_declares_it_again(
    here: Kit, act: Any
) -> None:
    definitions = {here.define(): Definition("work")}
    act(here)
    here.worker(lanes=tuple(definitions))
    controls = LiveConfig(TimedStore(here.store, here.now), admin, WorkerSettings(), lambda: None)

    await controls.read(definitions)

    row = here.run(admin.definition("work"))
    assert (row.removed, row.retired) == (False, None)
    here.create()
