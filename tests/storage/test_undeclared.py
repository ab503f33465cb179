"""retire_definition, remove_definition: definitions that no code declares any more, and how they come back."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from penstock.domain.definition import Pause, RateLimit
from penstock.domain.errors import Conflict, NotFound
from penstock.domain.instant import DAY, HOUR
from penstock.domain.schedule.schedule import Kind, Schedule
from penstock.domain.states import Status
from penstock.storage.commands import admin, control, jobs, schedules
from tests.storage.kit import Kit
from tests.storage.tables import query


def retire(kit: Kit, key: str = "work") -> None:
    kit.run(control.retire_definition(key, by="ann"))


def remove(kit: Kit, key: str = "work", **options: Any) -> None:
    kit.run(control.remove_definition(key, by="ann", **options))


def listed(kit: Kit) -> list[tuple[str, int]]:
    return [(row.definition.key, row.definition.version) for row in kit.run(admin.definitions()) if not row.removed]


def scheduled(kit: Kit, key: str, owner: str = "code", **facts: Any) -> None:
    facts = {"owner": owner, "next_run_at": kit.now + DAY, **facts}
    schedule = Schedule(key=key, definition_key="work", kind=Kind.CRON, expression="0 3 * * *", **facts)
    kit.run(schedules.save(schedule, by=owner))


def actions(kit: Kit) -> list[str]:
    return [entry.action for entry in kit.run(admin.audit(target="work"))]


def test_no_job_of_a_retired_definition_can_be_created_and_those_that_wait_keep_waiting(kit: Kit) -> None:
    waiting, other = kit.create(), kit.create()

    retire(kit)

    with pytest.raises(Conflict, match="'work' was retired by ann: no job of it can be created"):
        kit.create()
    retired = kit.run(admin.definition("work")).retired
    assert retired is not None
    assert (retired.by, retired.at) == ("ann", kit.now)
    assert kit.status(waiting) is Status.QUEUED
    assert kit.run(control.cancel([other])) == {other: Status.CANCELLED}
    assert actions(kit) == ["definition.retire"]


def test_retiring_twice_changes_nothing(kit: Kit) -> None:
    kit.define()
    retire(kit)

    kit.run(control.retire_definition("work", by="bert"))

    retired = kit.run(admin.definition("work")).retired
    assert retired is not None
    assert retired.by == "ann"
    assert actions(kit) == ["definition.retire"]


@pytest.mark.parametrize("way", ["create_uniform", "with a key", "in a batch"])
def test_no_way_of_creating_jobs_passes_a_retired_definition(kit: Kit, way: str) -> None:
    kit.define()
    options: dict[str, Any] = {"idempotency_key": "k"} if way == "with a key" else {}
    if way == "in a batch":
        options = {"tags": ("x",)}
    drafts = [kit.draft(**options) for _ in range(3 if way != "with a key" else 1)]
    retire(kit)

    with pytest.raises(Conflict, match="was retired"):
        kit.run(jobs.create(drafts))

    assert kit.run(admin.counts()) == {}


def test_an_ended_job_of_a_retired_definition_cannot_be_retried(kit: Kit) -> None:
    failed = kit.job_in(Status.FAILED)
    kit.advance(60)  # the worker's lease is over
    retire(kit)

    with pytest.raises(Conflict, match="'work' was retired by ann: no job of it can be retried"):
        kit.run(control.retry([failed]))

    assert kit.status(failed) is Status.FAILED


def test_code_that_declares_a_retired_definition_brings_it_back_with_what_operators_said(kit: Kit) -> None:
    kit.define()
    kit.run(control.pause("work", Pause("stop", "ann", kit.now), by="ann"))
    kit.run(control.override("work", {"concurrency": 2}, by="ann"))
    retire(kit)

    kit.define()

    row = kit.run(admin.definition("work"))
    assert (row.retired, row.overrides, row.pause is None) == (None, {"concurrency": 2}, False)
    kit.create()
    assert actions(kit)[0] == "definition.return"


def test_enabling_brings_a_retired_definition_back(kit: Kit) -> None:
    kit.define()
    kit.run(control.enable("work", False, by="ann"))
    retire(kit)

    kit.run(control.enable("work", True, by="ann"))

    kit.create()
    assert kit.run(admin.definition("work")).retired is None


def test_a_definition_that_a_live_worker_has_loaded_cannot_be_retired_or_removed(kit: Kit) -> None:
    kit.define()
    kit.worker(name="mailer", host="here", pid=7)

    for act in (retire, remove):
        with pytest.raises(Conflict, match=r"worker mailer \(process 7 on here\) has it loaded"):
            act(kit)

    kit.advance(60)
    retire(kit)
    remove(kit)


def test_a_definition_that_an_operator_s_schedule_starts_cannot_be_retired_or_removed(kit: Kit) -> None:
    kit.define()
    scheduled(kit, "nightly", owner="operator")

    for act in (retire, remove):
        with pytest.raises(Conflict, match="schedule 'nightly' makes jobs of it"):
            act(kit)

    scheduled(kit, "nightly", owner="operator", enabled=False)
    retire(kit)
    remove(kit)


def test_schedules_that_code_has_declared_are_disabled_with_a_definition_and_deleted_with_it(kit: Kit) -> None:
    kit.define()
    scheduled(kit, "nightly")
    scheduled(kit, "weekly")

    retire(kit)
    disabled = kit.run(schedules.all())
    remove(kit)

    assert [row.schedule.enabled for row in disabled] == [False, False]
    assert kit.run(schedules.all()) == []


@pytest.mark.parametrize("status", [Status.SCHEDULED, Status.QUEUED, Status.REVIEW_NEEDED])
def test_a_definition_with_a_job_that_has_not_ended_cannot_be_removed(kit: Kit, status: Status) -> None:
    job_id = kit.job_in(status)
    kit.advance(60)

    with pytest.raises(Conflict, match=rf"cannot be removed: it has jobs that have not ended \(1 {status}\)"):
        remove(kit)

    kit.run(control.cancel([job_id]))
    remove(kit)
    assert listed(kit) == []


def test_a_removed_definition_is_no_longer_known_and_its_ended_jobs_are(kit: Kit) -> None:
    kit.define(secret_fields=("token",))
    ended = kit.job_in(Status.FAILED, params='{"token": "x"}')
    kit.advance(60)

    remove(kit)

    refused = "Version 1 of definition 'work' was removed"
    with pytest.raises(Conflict, match=refused):
        kit.run(admin.definition("work"))
    with pytest.raises(Conflict, match=f"{refused}: no job of it can be created"):
        kit.create()
    with pytest.raises(Conflict, match=f"{refused}: no job of it can be retried"):
        kit.run(control.retry([ended]))
    for verb in (control.enable("work", True, by="ann"), control.pause("work", None, by="ann")):
        with pytest.raises(NotFound):
            kit.run(verb)
    assert (listed(kit), kit.job(ended).definition_key) == ([], "work")
    assert kit.run(admin.definition("work", 1)).definition.secret_fields == ("token",)
    assert [entry.action for entry in kit.run(admin.audit(target="work"))] == ["definition.remove"]


def test_retention_deletes_the_jobs_of_a_removed_definition_in_time(kit: Kit) -> None:
    kit.define(stale_after=HOUR, delete_after=HOUR)
    ended = kit.job_in(Status.SUCCEEDED)
    kit.advance(60)
    remove(kit)

    for _ in range(2):
        kit.advance(3601)
        kit.run(admin.retire())

    assert kit.run(admin.get([ended])) == []


def test_an_idempotency_key_still_names_its_job_when_a_removed_definition_comes_back(kit: Kit) -> None:
    job_id = kit.create(idempotency_key="k")
    kit.run(control.cancel([job_id]))
    remove(kit)

    kit.define()

    assert kit.create(idempotency_key="k") == job_id


def test_a_removed_definition_that_code_declares_again_is_as_new(kit: Kit) -> None:
    lane = kit.define(concurrency=3)
    kit.run(control.pause("work", Pause("stop", "ann", kit.now), by="ann"))
    kit.run(control.override("work", {"concurrency": 2, "priority": 20}, by="ann"))
    kit.run(control.enable("work", False, by="ann"))
    remove(kit)
    kit.advance(1)

    assert kit.define(concurrency=3, rate_limit=RateLimit(5)) == lane

    row = kit.run(admin.definition("work"))
    assert (row.enabled, row.pause, row.overrides, row.retired) == (True, None, {}, None)
    assert (row.registered_at, row.declared_at) == (kit.now, kit.now)
    assert query(kit.store, "SELECT concurrency, rate_count, priority FROM {s}control WHERE key = 'work'") == [
        (3, 5, None)
    ]
    assert kit.job(kit.create()).priority == 10


def test_one_version_is_removed_while_another_is_served(kit: Kit) -> None:
    old = kit.define(version=1)
    ended = kit.job_in(Status.CANCELLED)
    new = kit.define(version=2)
    kit.worker(lanes=(new,))

    with pytest.raises(Conflict, match="Definition 'work' cannot be removed: worker"):
        remove(kit)
    with pytest.raises(NotFound, match="work version 3"):
        remove(kit, version=3)
    remove(kit, version=1)

    assert listed(kit) == [("work", 2)]
    with pytest.raises(Conflict, match="Version 1 of definition 'work' was removed"):
        kit.run(jobs.create([dataclasses.replace(kit.draft(), lane=old)]))
    kit.create()
    assert kit.job(ended).definition_version == 1


def test_versions_that_code_no_longer_declares_stay_removed_when_another_comes_back(kit: Kit) -> None:
    kit.define(version=1, concurrency=9)
    kit.define(version=2)
    remove(kit)

    kit.define(version=1, concurrency=9)

    assert listed(kit) == [("work", 1)]
    assert query(kit.store, "SELECT concurrency FROM {s}control WHERE key = 'work'") == [(9,)]


def test_what_was_never_known_cannot_be_retired_or_removed(kit: Kit) -> None:
    for key in ("nothing", "*"):
        for act in (retire, remove):
            with pytest.raises(NotFound):
                act(kit, key)
    kit.define()
    remove(kit)

    for act in (retire, remove):
        with pytest.raises(NotFound):
            act(kit)


def test_the_hour_in_which_code_last_declared_a_definition_is_kept(kit: Kit) -> None:
    served, gone = kit.define("served"), kit.define("gone")
    begun = kit.now
    worker = kit.worker(lanes=(served,), lease=10 * HOUR)
    kit.advance(2 * 3600)

    kit.run(admin.tidy(DAY))

    declared = {row.lane: row.declared_at for row in kit.run(admin.definitions())}
    assert declared == {served: kit.now, gone: begun}
    kit.advance(2 * 3600)
    kit.define("gone")
    assert kit.run(admin.definition("gone")).declared_at == kit.now
    assert kit.run(admin.definition("gone")).registered_at == begun
    kit.run(jobs.end_worker(worker))


def test_why_says_that_the_definition_of_a_waiting_job_is_retired(kit: Kit) -> None:
    waiting = kit.create()
    retire(kit)

    found = kit.run(admin.why(waiting))

    assert [(reason.code, reason.by) for reason in found] == [("retired", "ann"), ("no_worker", None)]
