"""pause, enable, override: what operators say about definitions, and what follows for claims and creation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.domain.definition import Pause, RateLimit
from penstock.domain.errors import Conflict, InvalidInput, NotFound
from penstock.domain.states import Status
from penstock.storage.commands import control, jobs
from tests.storage.kit import LEASE, Kit
from tests.storage.tables import check_soundness, query


def test_jobs_of_a_paused_definition_wait(kit: Kit) -> None:
    paused, other = kit.create("report"), kit.create("work")

    kit.run(control.pause("report", _pause(kit), by="ann"))
    later = kit.create("report")

    assert [each.job_id for each in kit.claim()] == [other]
    kit.run(control.pause("report", None, by="ann"))
    assert [each.job_id for each in kit.claim()] == [paused, later]


def test_a_pause_ends_by_itself_when_its_time_is_over(kit: Kit) -> None:
    job_id = kit.create()
    kit.run(control.pause("work", _pause(kit, until=kit.now + 60_000_000), by="ann"))
    assert kit.claim() == []

    kit.advance(60)

    assert [each.job_id for each in kit.claim()] == [job_id]


def test_the_whole_system_can_be_paused(kit: Kit) -> None:
    ids = [kit.create("report"), kit.create("work")]

    kit.run(control.pause("*", _pause(kit), by="ann"))
    assert kit.claim() == []

    kit.run(control.pause("*", None, by="ann"))
    assert [each.job_id for each in kit.claim()] == ids


def test_no_job_of_a_disabled_definition_can_be_created(kit: Kit) -> None:
    waiting = kit.create()

    kit.run(control.enable("work", False, by="ann"))

    with pytest.raises(Conflict, match="'work' is disabled"):
        kit.create()
    assert [each.job_id for each in kit.claim()] == [waiting]
    kit.run(control.enable("work", True, by="ann"))
    assert kit.status(kit.create()) is Status.QUEUED


def test_an_operator_s_limit_holds_in_place_of_the_code_s(kit: Kit) -> None:
    lane = kit.define(concurrency=1)
    for _ in range(4):
        kit.create()

    kit.run(control.override("work", {"concurrency": 3}, by="ann"))

    assert len(kit.claim(limited=[lane])) == 3


def test_names_that_are_left_out_keep_the_code_s_limit(kit: Kit) -> None:
    kit.define(concurrency=2, key_concurrency=3, rate_limit=RateLimit(5, 60, per_key=True))

    kit.run(control.override("work", {"concurrency": 7}, by="ann"))
    kit.run(control.override("work", {"rate_count": 9}, by="ann"))

    assert _limits(kit) == (2, 3, 9, 60_000_000, True, {"rate_count": 9})


def test_an_empty_override_returns_to_the_newest_version_s_limits(kit: Kit) -> None:
    kit.define(concurrency=1)
    kit.run(control.override("work", {"concurrency": 5, "rate_count": 2, "rate_period": 1_000_000}, by="ann"))
    kit.define(version=2, concurrency=2)
    assert _limits(kit)[0] == 5

    kit.run(control.override("work", {}, by="ann"))

    assert _limits(kit) == (2, 0, 0, 0, False, {})
    kit.define(version=3, concurrency=3)
    assert _limits(kit)[0] == 3


def test_a_larger_limit_of_a_concurrency_key_lets_waiting_jobs_through(kit: Kit) -> None:
    kit.define(key_concurrency=1)
    ids = [kit.create(concurrency_key="k") for _ in range(4)]

    kit.run(control.override("work", {"key_concurrency": 3}, by="ann"))

    assert [kit.job(each).blocked for each in ids] == [False, False, False, True]
    check_soundness(kit.store)
    kit.run(control.override("work", {"key_concurrency": 0}, by="ann"))
    assert not kit.job(ids[3]).blocked


def test_a_smaller_limit_of_a_concurrency_key_takes_nothing_back(kit: Kit) -> None:
    kit.define(key_concurrency=2)
    ids = [kit.create(concurrency_key="k") for _ in range(3)]

    kit.run(control.override("work", {"key_concurrency": 1}, by="ann"))
    kit.run(control.cancel([ids[0]]))

    assert [kit.job(each).blocked for each in ids] == [False, False, True]
    check_soundness(kit.store)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"isolation": 3}, "'isolation' cannot be overridden. These can: concurrency, key_concurrency, rate_count"),
        ({"priority": 21}, "work: priority must be an integer from 0 to 20, not 21"),
        ({"priority": True}, "work: priority must be an integer from 0 to 20"),
        ({"max_attempts": 0}, "work: max_attempts must be an integer from 1 to 1000, not 0"),
        ({"timeout": -1}, "work: timeout must be an integer from 0"),
        ({"timeout": 1.5}, "work: timeout must be an integer from 0"),
        ({"backoff": {"kind": "fixed", "seconds": -1}}, "work: backoff: Retry policy: seconds must be a number"),
        ({"backoff": 5}, "work: backoff: Retry policy: a retry policy must be an object"),
        ({"concurrency": -1}, "concurrency must be an integer from 0"),
        ({"concurrency": True}, "concurrency must be an integer from 0"),
        ({"key_concurrency": "2"}, "key_concurrency must be an integer from 0"),
        ({"rate_count": 2**31}, "rate_count must be an integer from 0"),
        ({"rate_period": 0}, "rate_period must be an integer from 1000"),
        ({"rate_per_key": 1}, "rate_per_key must be true or false"),
        ({"rate_count": 3}, "a rate_count needs a rate_period"),
    ],
)
def test_what_cannot_be_an_override_is_refused(kit: Kit, overrides: dict[str, Any], message: str) -> None:
    kit.define(concurrency=1)

    with pytest.raises(InvalidInput, match=message):
        kit.run(control.override("work", overrides, by="ann"))

    assert _limits(kit) == (1, 0, 0, 0, False, {})


def test_workers_learn_of_every_change_with_their_heartbeat(kit: Kit) -> None:
    kit.define()
    worker = kit.worker()
    seen = [kit.run(jobs.heartbeat(worker, LEASE)).controls]

    for plan in (
        control.pause("work", _pause(kit), by="ann"),
        control.enable("work", False, by="ann"),
        control.override("work", {"concurrency": 1}, by="ann"),
        control.pause("*", _pause(kit), by="ann"),
    ):
        kit.run(plan)
        seen.append(kit.run(jobs.heartbeat(worker, LEASE)).controls)

    assert seen == sorted(set(seen))


def test_every_change_is_written_down_with_what_was_before(kit: Kit) -> None:
    kit.define()
    kit.run(control.pause("work", _pause(kit), by="ann"))
    kit.run(control.pause("work", None, by="bob"))
    kit.run(control.enable("work", False, by="cid"))
    kit.run(control.override("work", {"concurrency": 4}, by="dan"))
    kit.run(control.pause("*", _pause(kit), by="eve"))

    entries = query(kit.store, "SELECT actor, action, target, before, after FROM {s}audit ORDER BY seq")

    assert [entry[:3] for entry in entries] == [
        ("ann", "definition.pause", "work"),
        ("bob", "definition.resume", "work"),
        ("cid", "definition.disable", "work"),
        ("dan", "definition.override", "work"),
        ("eve", "system.pause", "*"),
    ]
    facts = [(json.loads(before), json.loads(after)) for *_, before, after in entries]
    assert (facts[0][0]["pause_at"], facts[0][1]["pause_reason"]) == (None, "repairs")
    assert (facts[1][0]["pause_reason"], facts[1][1]["pause_reason"]) == ("repairs", None)
    assert facts[2] == ({"enabled": True}, {"enabled": False})
    assert (facts[3][0]["concurrency"], facts[3][1]["concurrency"]) == (0, 4)


@pytest.mark.parametrize("key", ["unknown", "*"])
def test_what_is_not_there_cannot_be_changed(kit: Kit, key: str) -> None:
    with pytest.raises(NotFound, match="no definition"):
        kit.run(control.enable(key, False, by="ann"))
    with pytest.raises(NotFound, match="no definition"):
        kit.run(control.override(key, {}, by="ann"))
    with pytest.raises(NotFound, match="no definition"):
        kit.run(control.pause("unknown", None, by="ann"))


def _pause(kit: Kit, until: int | None = None) -> Pause:
    return Pause("repairs", "ann", kit.now, until)


def _limits(kit: Kit) -> tuple[object, ...]:
    columns = "concurrency, key_concurrency, rate_count, rate_period, rate_per_key, overrides"
    (*numbers, per_key, overrides) = query(kit.store, f"SELECT {columns} FROM {{s}}control WHERE key = 'work'")[0]
    return (*numbers, bool(per_key), json.loads(overrides))
