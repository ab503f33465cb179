"""The test kit does to jobs what a real worker does to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock import JobHandle, Penstock
from penstock.testing import TestApp
from tests.testing import sample
from tests.waiting import wait_until
from tests.worker.fleet import Stage

JOBS: dict[str, dict[str, Any]] = {
    "fine": {"name": "ada"},
    "later": {"number": 1},
    "inline": {"number": 1},
    "flaky": {},
    "broken": {"password": "geheimnis"},
    "picky": {},
    "final": {},
    "leaving": {},
    "odd": {},
    "asking": {},
    "sleepy": {},
    "parent": {},
    "pipe": {"number": 4},
}


@pytest.mark.xdist_group("likeness")
def test_jobs_leave_the_same_traces_as_under_a_worker(tmp_path: Path) -> None:
    with TestApp(sample.app) as kit:
        jobs = _enqueued(sample.app)
        kit.drain()
        by_kit = {key: _traces(sample.app, job) for key, job in jobs.items()}

    stage = Stage(f"sqlite:///{tmp_path}/jobs.db", "penstock", tmp_path)
    try:
        stage.worker(target="tests.testing.sample:app")
        jobs = _enqueued(stage.app)
        wait_until(lambda: _at_rest(stage.app), "all jobs are done", 60)
        by_worker = {key: _traces(stage.app, job) for key, job in jobs.items()}
    finally:
        stage.close()

    assert by_kit == by_worker


def _enqueued(app: Penstock) -> dict[str, JobHandle[Any]]:
    return {key: app.enqueue(key, params, tags=["x", "y"]) for key, params in JOBS.items()}


def _at_rest(app: Penstock) -> bool:
    """Nothing runs, and what waits is what asked for that."""
    busy = app.jobs.list(status=["queued", "running", "scheduled"]).jobs
    return {job.definition_key for job in busy} == {"sleepy"} and busy[0].status == "scheduled"


def _traces(app: Penstock, handle: JobHandle[Any]) -> dict[str, Any]:
    """Everything about a job that does not depend on when and where it ran."""
    job = handle.refresh()
    attempts = app.jobs.attempts(job.id)
    children = list(app.jobs.iterate(parent_id=job.id, sort="createdAt"))
    return {
        "job": (job.status, job.attempts, job.lost, job.error_type, job.error, job.result),
        "progress": (job.progress, job.progress_message, job.current_phase),
        "attempts": [(each.number, each.status, each.cause, each.error_type, each.error) for each in attempts],
        "tracebacks": [(each.fingerprint, each.traceback) for each in attempts],
        "phases": [(each.name, each.status, each.result, each.fence) for each in app.jobs.phases(job.id)],
        "logs": [(line.level, line.message, line.phase, line.details, line.fence) for line in app.jobs.logs(job.id)],
        "children": [(each.definition_key, each.params, each.status) for each in children],
        "events": [
            (event.type, event.fence, event.data)
            for event in app.events.follow(job_id=job.id, timeout=0)
            if event.type != "job.progress"
        ],
    }
