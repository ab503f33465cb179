"""The phase runner alone: functions in sequence whose results are kept, without a store and a worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, NoReturn

from penstock.app import Penstock
from penstock.definitions.phases import Named
from penstock.domain import payload
from penstock.domain.attempt import Task
from penstock.domain.errors import InvalidInput
from penstock.domain.outcome import Outcome
from penstock.execution import handler_run
from penstock.execution.context import AttemptContext, Resources

Progress = Callable[[float, str | None, str], None]


def run(
    phases: Sequence[Named],
    params: Mapping[str, Any] | None = None,
    *,
    kept: MutableMapping[str, str] | None = None,
    attempt: int = 1,
    progress: Progress | None = None,
) -> Outcome:
    """Run the phases without a result in `kept`, add their results as JSON text, and return the outcome.

    Pass the same `kept` again to continue where the previous call stopped. The functions are those of
    `app.pipeline`: they may take `ctx` first, be `async def`, and raise `Retry`, `Fail`, `Snooze` or `NeedsReview`.
    `progress` is called with the total percentage, a message and the phase.
    """
    # Never opened: it only converts functions to phases.
    app = Penstock("sqlite://")
    handle = app.pipeline("phases", *phases)
    results: MutableMapping[str, str] = {} if kept is None else kept
    task = Task(
        job_id=app._ids.new_id(), key=handle.key, version=1, fence=attempt, attempt=attempt, max_attempts=attempt,
        params=payload.encode(dict(params or {}), "parameters of phases"), results=dict(results),
    )  # fmt: skip
    reporter = _Keeping(results, progress or _unheard)
    resources = Resources(app.resources)
    ctx = AttemptContext(task, app, reporter, resources, len(handle.steps))
    app.enter_job(reporter)
    try:
        return handler_run.run(handle, task, ctx, reporter)
    finally:
        resources.close()


class _Keeping:
    """Keeps results of phases in a mapping; refuses everything that needs a store."""

    def __init__(self, results: MutableMapping[str, str], progress: Progress) -> None:
        self._results = results
        self.progress = progress

    def log(
        self, level: str, message: str, details: str | None, phase: str | None, *, duration: int | None = None
    ) -> None: ...

    def event(self, kind: str, data: str | None) -> None: ...

    def phase_running(self, name: str, position: int) -> None: ...

    def phase_done(self, name: str, position: int, result: str) -> str:
        self._results[name] = result
        return result

    def create(self, orders: Sequence[Mapping[str, Any]]) -> NoReturn:
        _no_store()

    def read(self, job_id: str) -> NoReturn:
        _no_store()

    def cancel(self, job_id: str) -> NoReturn:
        _no_store()


def _unheard(percent: float, message: str | None, phase: str) -> None: ...


def _no_store() -> NoReturn:
    raise InvalidInput("Phases that run alone have no store and no jobs.", hint="Use app.pipeline for that.")
