"""register, definitions, definition: what code makes known, and what operators say about it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from penstock.domain.definition import Definition, Pause, RateLimit
from penstock.domain.errors import NotFound
from penstock.domain.retry import Backoff, Fixed, Steps
from penstock.storage.commands import admin, control, jobs
from tests.storage.kit import LEASE, START, Kit
from tests.storage.tables import change, query

FULL = Definition(
    key="reports/daily:v-1.x", version=3, description="Zählt “alles”", schema='{"type": "object"}',
    phases=("read", "write"), default_params='{"n": 1}', secret_fields=("token",), priority=20, max_attempts=7,
    backoff=Backoff(base=2.5, max=60, jitter=0.1), timeout=None, cancel_grace=5, isolation="inline", concurrency=4,
    key_concurrency=2, rate_limit=RateLimit(10, 60.0, per_key=True), stale_after=1, delete_after=2, fingerprint="abc",
)  # fmt: skip


def limits(kit: Kit, key: str) -> tuple[Any, ...]:
    """What is enforced for a definition."""
    columns = "concurrency, key_concurrency, rate_count, rate_period, rate_per_key"
    ((*numbers, per_key),) = query(kit.store, f"SELECT {columns} FROM {{s}}control WHERE key = '{key}'")
    return (*numbers, bool(per_key))


def test_a_definition_comes_back_as_it_was_registered(kit: Kit) -> None:
    lanes = kit.run(admin.register([FULL]))

    row = kit.run(admin.definition(FULL.key))

    assert row.definition == FULL
    assert lanes == {(FULL.key, 3): row.lane}
    assert (row.enabled, row.pause, row.overrides, row.registered_at) == (True, None, {}, START)


@pytest.mark.parametrize("policy", [Fixed(10), Steps((1, 5, 30)), Backoff()])
def test_every_retry_policy_comes_back(kit: Kit, policy: Any) -> None:
    kit.run(admin.register([Definition("work", backoff=policy)]))

    assert kit.run(admin.definition("work")).definition.backoff == policy


def test_a_definition_that_newer_code_registered_can_be_read(kit: Kit) -> None:
    kit.run(admin.register([FULL]))
    change(kit.store, """UPDATE {s}definition SET body = '{"invented_later": [1], ' || substr(body, 2)""")

    assert kit.run(admin.definition(FULL.key)).definition == FULL


def test_registering_nothing_is_nothing(kit: Kit) -> None:
    assert kit.run(admin.register([])) == {}
    assert kit.run(admin.definitions()) == []


def test_the_same_again_changes_nothing(kit: Kit) -> None:
    first = kit.run(admin.register([FULL]))
    before = kit.run(admin.definition(FULL.key))
    kit.advance(60)

    assert kit.run(admin.register([FULL])) == first
    assert kit.run(admin.definition(FULL.key)) == before


def test_a_changed_definition_keeps_its_lane(kit: Kit) -> None:
    lane = kit.define("work", description="old")
    kit.advance(60)

    assert kit.define("work", description="new") == lane
    row = kit.run(admin.definition("work"))
    assert (row.definition.description, row.registered_at) == ("new", kit.now)


def test_versions_stand_side_by_side_in_order(kit: Kit) -> None:
    lanes = kit.run(admin.register([Definition("b", 2), Definition("a"), Definition("b", 10), Definition("b", 1)]))

    rows = kit.run(admin.definitions())

    assert [(row.definition.key, row.definition.version) for row in rows] == [("a", 1), ("b", 1), ("b", 2), ("b", 10)]
    assert {(row.definition.key, row.definition.version): row.lane for row in rows} == lanes
    assert len(set(lanes.values())) == 4


def test_the_limits_of_the_newest_version_hold_whatever_is_registered_last(kit: Kit) -> None:
    kit.define("work", version=2, concurrency=5, rate_limit=RateLimit(3, 2.0))
    kit.define("work", version=1, concurrency=1)
    assert limits(kit, "work") == (5, 0, 3, 2_000_000, False)

    kit.define("work", version=3, key_concurrency=7)

    assert limits(kit, "work") == (0, 7, 0, 0, False)


def test_an_operators_limits_outlive_a_new_version_and_end_with_the_override(kit: Kit) -> None:
    kit.define("work", concurrency=5)
    kit.run(control.override("work", {"concurrency": 2}, by="eve"))

    kit.define("work", version=2, concurrency=9)

    assert limits(kit, "work")[0] == 2
    assert {row.definition.version: row.overrides for row in kit.run(admin.definitions())} == {
        1: {"concurrency": 2},
        2: {"concurrency": 2},
    }
    kit.run(control.override("work", {}, by="eve"))
    assert limits(kit, "work")[0] == 9


def test_workers_learn_that_code_changed_a_limit(kit: Kit) -> None:
    kit.define("work", concurrency=5)
    worker = kit.worker()
    before = kit.run(jobs.heartbeat(worker, LEASE)).controls

    kit.define("work", concurrency=5, description="other words")
    assert kit.run(jobs.heartbeat(worker, LEASE)).controls == before

    kit.define("work", concurrency=6)
    assert kit.run(jobs.heartbeat(worker, LEASE)).controls > before


def test_a_higher_limit_by_key_lets_waiting_jobs_through(kit: Kit) -> None:
    kit.define("work", key_concurrency=1)
    first, second = kit.create(concurrency_key="k"), kit.create(concurrency_key="k")
    assert [kit.job(job_id).blocked for job_id in (first, second)] == [False, True]

    kit.define("work", key_concurrency=2)

    assert [kit.job(job_id).blocked for job_id in (first, second)] == [False, False]


def test_what_operators_say_survives_registering(kit: Kit) -> None:
    kit.define("work")
    kit.run(control.enable("work", False, by="eve"))
    pause = Pause("deploy", "eve", kit.now)
    kit.run(control.pause("work", pause, by="eve"))

    kit.define("work", description="new")

    row = kit.run(admin.definition("work"))
    assert (row.enabled, row.pause) == (False, pause)


def test_a_pause_that_has_ended_is_none(kit: Kit) -> None:
    kit.define("work")
    pause = Pause("lunch", "eve", kit.now, until=kit.now + 60_000_000)
    kit.run(control.pause("work", pause, by="eve"))

    assert kit.run(admin.definition("work")).pause == pause
    kit.advance(60)
    assert kit.run(admin.definition("work")).pause is None
    assert [row.pause for row in kit.run(admin.definitions())] == [None]


def test_without_a_version_it_is_the_highest_that_a_live_worker_serves(kit: Kit) -> None:
    lanes = kit.run(admin.register([Definition("work", version) for version in (1, 2, 3)]))
    assert kit.run(admin.definition("work")).definition.version == 3

    kit.worker(lanes=(lanes["work", 1],))
    worker = kit.worker(lanes=(lanes["work", 1], lanes["work", 2]))
    assert kit.run(admin.definition("work")).definition.version == 2

    kit.run(jobs.end_worker(worker))
    assert kit.run(admin.definition("work")).definition.version == 1

    kit.advance(LEASE / 1_000_000)
    assert kit.run(admin.definition("work")).definition.version == 3


def test_a_version_can_be_asked_for(kit: Kit) -> None:
    kit.run(admin.register([Definition("work", version) for version in (1, 2)]))

    assert kit.run(admin.definition("work", 1)).definition.version == 1


def test_a_version_that_is_not_there_is_not_found_and_those_that_are_there_are_named(kit: Kit) -> None:
    kit.run(admin.register([Definition("work", version) for version in (1, 2)]))

    with pytest.raises(NotFound, match="'work version 3'") as missing:
        kit.run(admin.definition("work", 3))

    assert missing.value.hint == "There is version 1, 2."


def test_a_misspelt_key_is_not_found_and_near_ones_are_named(kit: Kit) -> None:
    kit.define("send_mail")
    kit.define("other")

    with pytest.raises(NotFound, match="'sendmail'") as missing:
        kit.run(admin.definition("sendmail"))

    assert missing.value.hint == "Did you mean 'send_mail'?"


@pytest.mark.parametrize("key", ["nothing like it", "*"])
def test_a_key_unlike_any_is_not_found(kit: Kit, key: str) -> None:
    kit.define("work")

    with pytest.raises(NotFound, match="definition") as missing:
        kit.run(admin.definition(key))

    assert "Register it" in missing.value.hint


def test_many_processes_that_register_at_once_agree(shared_store: Any) -> None:
    kit = Kit(shared_store)
    together = threading.Barrier(6)
    wanted = [Definition(key, version, concurrency=version) for key in "abc" for version in (1, 2)]

    def register(n: int) -> dict[tuple[str, int], int]:
        together.wait()
        # Some know the newest version, some do not; some begin at the other end.
        own = [each for each in wanted if each.version == 1] if n % 2 else wanted[::-1]
        return kit.run(admin.register(own))

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(register, range(6)))

    merged: dict[tuple[str, int], int] = {}
    for answer in answers:
        assert all(merged.get(pair, lane) == lane for pair, lane in answer.items())
        merged |= answer
    assert len(merged) == 6
    assert [limits(kit, key)[0] for key in "abc"] == [2, 2, 2]
