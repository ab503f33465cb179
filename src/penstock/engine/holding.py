"""A job that this worker holds: what it was claimed with, and what may be done in its name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock.core import payload
from penstock.core.context import Errands
from penstock.core.definition import Definition
from penstock.core.errors import LeaseLost
from penstock.core.job import Claimed, Held
from penstock.core.outcome import Outcome, Settlement, Standing, decide
from penstock.core.ports import AdminPort, JobsPort, Store
from penstock.core.transitions import Trigger
from penstock.engine.answering import run_errand
from penstock.engine.recorder import Recorder
from penstock.engine.task import Task
from penstock.engine.wire import Frame

_SHORTEST_SECRET = 4
_SHORTEST_LINE = 8
_MASK = "•••"


class Holding:
    """One claimed job and its definition, with the store behind it."""

    def __init__(
        self,
        claimed: Claimed,
        definition: Definition,
        worker: str,
        store: Store,
        jobs: JobsPort,
        admin: AdminPort,
        recorder: Recorder,
        errands: Errands,
        settings: Mapping[str, Any],
        *,
        started: bool,
    ) -> None:
        self.claimed = claimed
        self.definition = definition
        self.held = Held(claimed.job_id, claimed.fence)
        self.worker = worker
        self.recorder = recorder
        self.errands = errands
        self.phase: str | None = None
        self.started = started
        self._store = store
        self._jobs = jobs
        self._admin = admin
        self._settings = settings
        self._secrets = _secrets(claimed.params, definition.secret_fields)

    def clean(self, text: str) -> str:
        """A text without the values of secret parameters."""
        for secret in self._secrets:
            text = text.replace(secret, _MASK)
        return text

    def without_secrets(self, outcome: Outcome) -> Outcome:
        """An outcome whose error does not show the values of secret parameters."""
        failure = outcome.failure
        if failure is None or not self._secrets:
            return outcome
        shown = replace(failure, message=self.clean(failure.message), traceback=self.clean(failure.traceback))
        return replace(outcome, failure=shown)

    async def task(self) -> Task:
        """What the handler has to know; for jobs that ran before, with what is left of that."""
        claimed, definition = self.claimed, self.definition
        results: dict[str, str] = {}
        review = None
        if claimed.fence > 1:
            results, review = await self._earlier()
        return Task(
            job_id=claimed.job_id,
            key=definition.key,
            version=definition.version,
            fence=claimed.fence,
            attempt=claimed.attempt,
            max_attempts=claimed.max_attempts,
            params=claimed.params,
            reference=None if claimed.reference_type is None else (claimed.reference_type, claimed.reference_id or ""),
            tags=claimed.tags,
            scheduled_for=claimed.scheduled_for,
            schedule=claimed.schedule,
            traceparent=claimed.traceparent,
            settings=self._settings,
            results=results,
            review=review,
        )

    async def do(self, ask: Frame) -> Any:
        """Carry out what the handler asks for."""
        match ask["ask"]:
            case "phase":
                await self.keep_phase(str(ask["name"]), int(ask["position"]), str(ask["result"]))
                return None
            case _:
                return await run_errand(self.errands, ask)

    def enter_phase(self, name: str, position: int) -> None:
        """A phase begins."""
        self.phase = name
        self.recorder.phase(self.held, name, position)
        percent = min(100.0, max(0.0, 100 * position / len(self.definition.phases)))
        self.recorder.progress(self.held, percent, None, name)

    def leave_phase(self, outcome: Outcome) -> None:
        """An attempt has ended: the phase that it failed in says so."""
        names = self.definition.phases
        if outcome.trigger is Trigger.FAIL and outcome.failure is not None and len(names) > 1 and self.phase in names:
            self.recorder.phase(self.held, self.phase, names.index(self.phase), outcome.failure.message)

    async def keep_phase(self, name: str, position: int, result: str) -> None:
        await self.recorder.flush(self.held)
        await self._store.arun(
            self._jobs.save_phase(self.held, name, position, "completed", progress=100.0, result=result)
        )

    async def start(self) -> None:
        """Record that the attempt begins, if the claim did not; `LeaseLost` when it may not any more."""
        if not self.started:
            refused = await self._store.arun(self._jobs.start([self.held]))
            if refused:
                raise LeaseLost(f"Job {self.claimed.job_id} is not this worker's any more.")
            self.started = True

    def settlement(self, outcome: Outcome, random: float) -> Settlement:
        """What the outcome means for the job."""
        claimed = self.claimed
        standing = Standing(claimed.attempt, claimed.max_attempts, claimed.lost)
        return decide(claimed.job_id, claimed.fence, outcome, standing, self.definition.backoff, random)

    async def _earlier(self) -> tuple[dict[str, str], dict[str, Any] | None]:
        """Results of phases, and the last decision about a review with the phase that had asked for it."""
        job_id = self.claimed.job_id
        reviews = [each for each in await self._store.arun(self._admin.reviews(job_id)) if each.decision is not None]
        phases = await self._store.arun(self._jobs.phases(job_id)) if len(self.definition.phases) > 1 else []
        results = {each.name: each.result or "null" for each in phases if each.status == "completed"}
        if not reviews:
            return results, None
        last = max(reviews, key=lambda each: each.fence)
        asked = [each.name for each in phases if each.fence == last.fence and each.status != "completed"]
        return results, {
            "verdict": last.decision,
            "by": last.decided_by,
            "note": last.decided_note,
            "note_asked": last.note,
            "result": last.data if last.result is None else last.result,
            "phase": asked[-1] if asked else None,
        }


def _secrets(params: str, names: tuple[str, ...]) -> list[str]:
    """The texts that must not be shown, the longest first."""
    if not names:
        return []
    given: Any = payload.load(params)
    found: set[str] = set()
    for name in names:
        _collect(given.get(name), found)
    return sorted(found, key=len, reverse=True)


def _collect(value: Any, found: set[str]) -> None:
    if isinstance(value, dict):
        for each in value.values():
            _collect(each, found)
    elif isinstance(value, list):
        for each in value:
            _collect(each, found)
    elif value is not None and not isinstance(value, bool):
        text = str(value)
        # As it is, as JSON or Python would write it, and line by line.
        forms = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1]}
        found |= {form for form in forms if len(form) >= _SHORTEST_SECRET}
        found |= {line for line in text.splitlines() if len(line) >= _SHORTEST_LINE}
