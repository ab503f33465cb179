"""The configuration of all workers through the application: changes, revisions, who did it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from penstock import InvalidInput, Penstock, RevisionConflict
from penstock.domain.worker_config import AlertThresholds, WorkerConfig
from penstock.storage.commands import admin
from tests.applications import NewApp
from tests.definitions import shapes


async def test_a_new_store_has_the_defaults(app: Penstock) -> None:
    assert app.workers.configuration() == (WorkerConfig(), 0)
    assert await app.workers.aconfiguration() == (WorkerConfig(), 0)


async def test_changes_are_kept_field_by_field(app: Penstock) -> None:
    first = app.workers.configure({"slots": 3, "alerts": {"depth": 5}}, by="ann")
    second = await app.workers.aconfigure({"custom": {"theme": "dark"}, "alerts": {"stuck": 7}}, by="bert")

    assert first == (WorkerConfig(slots=3, alerts=AlertThresholds(depth=5)), 1)
    assert second == (
        WorkerConfig(slots=3, alerts=AlertThresholds(depth=5, stuck=7), custom='{"theme":"dark"}'), 2,
    )  # fmt: skip
    assert app.workers.configuration() == second


def test_a_whole_configuration_replaces_what_was_there(app: Penstock) -> None:
    app.workers.configure({"slots": 3})

    app.workers.configure(WorkerConfig(poll=2))

    assert app.workers.configuration() == (WorkerConfig(poll=2), 2)


async def test_a_change_to_what_somebody_else_changed_is_refused(app: Penstock) -> None:
    _, revision = app.workers.configure({"slots": 3}, revision=0)
    app.workers.configure({"slots": 4}, revision=revision)

    with pytest.raises(RevisionConflict, match="revision 2, but 1 was expected"):
        app.workers.configure({"slots": 5}, revision=revision)
    with pytest.raises(RevisionConflict):
        await app.workers.aconfigure({"slots": 5}, revision=0)

    assert app.workers.configuration()[0].slots == 4


def test_changes_without_a_revision_lose_nothing_of_each_other(new_app: NewApp) -> None:
    apps = [new_app() for _ in range(4)]
    names = ["slots", "inlineSlots", "drain", "poll"]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda pair: pair[0].workers.configure({pair[1]: 7}), zip(apps, names, strict=True)))

    assert apps[0].workers.configuration() == (WorkerConfig(slots=7, inline_slots=7, drain=7, poll=7), 4)


@pytest.mark.parametrize("changes", [{"slot": 3}, {"slots": 0}, {"alerts": {"window": 1}}, [], "slots", None])
def test_what_is_wrong_changes_nothing(app: Penstock, changes: Any) -> None:
    with pytest.raises(InvalidInput):
        app.workers.configure(changes)

    assert app.workers.configuration() == (WorkerConfig(), 0)


@pytest.mark.parametrize("revision", [-1, "1", True])
def test_a_revision_is_a_number(memory_app: Penstock, revision: Any) -> None:
    with pytest.raises(InvalidInput):
        memory_app.workers.configure({"slots": 3}, revision=revision)


def test_the_audit_tells_who_changed_what_but_not_the_custom_part(app: Penstock) -> None:
    app.workers.configure({"slots": 3}, by="ann")
    app.workers.configure({"slots": 4, "custom": {"password": "hunter2"}}, by="bert")

    second, first = app.store.run(admin.audit())

    assert (first.actor, first.action, first.target) == ("ann", "setting.put", "worker")
    assert (json.loads(first.before or ""), json.loads(first.after or "")) == (
        {"slots": None}, {"revision": 1, "slots": 3},
    )  # fmt: skip
    assert second.actor == "bert"
    assert json.loads(second.after or "") == {"revision": 2, "slots": 4, "custom": "…"}
    assert "hunter2" not in f"{second.before}{second.after}"


def test_why_names_who_disabled_the_workers_also_after_other_changes(app: Penstock) -> None:
    job = app.job("work")(shapes.plain).enqueue("x")
    app.workers.configure({"enabled": False}, by="ann")
    app.workers.configure({"slots": 3}, by="bert")

    reasons = {each.code: each for each in app.jobs.why(job.id)}

    assert reasons["disabled"].by == "ann"
    assert "ann has disabled them" in reasons["disabled"].message
    config, _ = app.workers.configuration()
    app.workers.configure(replace(config, enabled=True), by="bert")
    assert "disabled" not in {each.code for each in app.jobs.why(job.id)}
    app.workers.configure({"enabled": False}, by="carl")
    assert {each.code: each.by for each in app.jobs.why(job.id)}["disabled"] == "carl"
