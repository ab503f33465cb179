"""`GET /v1/jobs/{jobId}/why`: every reason there is, told over HTTP."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from penstock import Penstock, RateLimit
from penstock.domain import why
from tests.http.asgi_api import WebApi, refused, told
from tests.operations.hand import Hand

Scene = Callable[[Penstock], tuple[str, dict[str, Any]]]
"""Brings a job into a state; its id, and what else the first reason must say."""


def _work(text: str = "") -> None: ...


def _served(app: Penstock) -> Hand:
    return Hand(app)


def _job(app: Penstock, key: str = "work", **options: Any) -> str:
    return app.enqueue(key, {}, **options).id


def not_due(app: Penstock) -> tuple[str, dict[str, Any]]:
    _served(app)
    job = _job(app, delay=3600)
    return job, {"until": app.read_job(job).run_at}


def rate_limited(app: Penstock) -> tuple[str, dict[str, Any]]:
    hand = _served(app)
    _job(app, "slow")
    hand.claim()
    job = _job(app, "slow")
    hand.claim()
    return job, {}


def disabled(app: Penstock) -> tuple[str, dict[str, Any]]:
    _served(app)
    app.set_worker_config({"enabled": False}, by="anna")
    return _job(app), {"by": "anna"}


def retired(app: Penstock) -> tuple[str, dict[str, Any]]:
    job = _job(app)
    app.retire_definition("work", by="anna")
    return job, {"by": "anna"}


def system_paused(app: Penstock) -> tuple[str, dict[str, Any]]:
    _served(app)
    app.pause_all("moving house", by="anna")
    return _job(app), {"by": "anna", "message": "moving house"}


def paused(app: Penstock) -> tuple[str, dict[str, Any]]:
    _served(app)
    app.pause("work", "too loud", by="bert")
    return _job(app), {"by": "bert", "message": "too loud"}


def no_worker(app: Penstock) -> tuple[str, dict[str, Any]]:
    return _job(app), {"message": "No live worker"}


def concurrency_full(app: Penstock) -> tuple[str, dict[str, Any]]:
    hand = _served(app)
    first = _job(app, "single")
    hand.claim_one(first)
    return _job(app, "single"), {"by": first}


def key_full(app: Penstock) -> tuple[str, dict[str, Any]]:
    hand = _served(app)
    first = _job(app, "keyed", concurrency_key="house")
    hand.claim_one(first)
    return _job(app, "keyed", concurrency_key="house"), {"by": first}


def behind(app: Penstock) -> tuple[str, dict[str, Any]]:
    _served(app)
    _job(app)
    return _job(app), {"message": "1 job ranks before it"}


def running(app: Penstock) -> tuple[str, dict[str, Any]]:
    hand = _served(app)
    job = _job(app)
    hand.claim_one(job)
    return job, {"by": hand.id}


def cancelling(app: Penstock) -> tuple[str, dict[str, Any]]:
    job, facts = running(app)
    app.cancel_job(job)
    return job, facts


def review_needed(app: Penstock) -> tuple[str, dict[str, Any]]:
    hand = _served(app)
    job = _job(app)
    hand.ask_review(job)
    return job, {"message": "approve or reject"}


def ended(app: Penstock) -> tuple[str, dict[str, Any]]:
    job = _job(app)
    app.cancel_job(job)
    return job, {"message": "cancelled"}


SCENES: list[Scene] = [
    not_due, rate_limited, disabled, retired, system_paused, paused, no_worker, concurrency_full, key_full, behind,
    running, cancelling, review_needed, ended,
]  # fmt: skip


@pytest.fixture
def definitions(app: Penstock) -> Penstock:
    app.job("work")(_work)
    app.job("slow", rate_limit=RateLimit(1, 3600))(_work)
    app.job("single", concurrency=1)(_work)
    app.job("keyed", concurrency_key="text")(_work)
    app.register()
    return app


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_the_reason_is_told(site: WebApi, definitions: Penstock, scene: Scene) -> None:
    job, facts = scene(definitions)

    answer = told(site.get(f"/v1/jobs/{job}/why"))

    assert answer["jobId"] == job
    (reason,) = [each for each in answer["reasons"] if each["code"] == scene.__name__]
    assert facts.get("message", "") in reason["message"]
    if "by" in facts:
        assert reason["by"] == facts["by"]
    if "until" in facts:
        assert datetime.fromisoformat(reason["until"]) == facts["until"]


def test_every_reason_has_its_scene() -> None:
    source = Path(why.__file__).read_text()

    codes = set(re.findall(r'(?:Reason\(|\()"([a-z_]+)", ', source))

    assert codes == {scene.__name__ for scene in SCENES}


def test_all_that_holds_a_job_back_is_told_at_once(site: WebApi, definitions: Penstock) -> None:
    definitions.pause("work", "x", by="bert")
    definitions.pause_all("x", by="anna")
    job = _job(definitions, delay=3600)

    found = [each["code"] for each in told(site.get(f"/v1/jobs/{job}/why"))["reasons"]]

    assert found == ["not_due", "system_paused", "paused", "no_worker"]
    refused(site.get("/v1/jobs/01890a5d-ac96-774b-bcce-b302099a8057/why"), 404, "not_found")
