"""Attempts and hooks without processes: one after the other, in the thread of the test."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any

from penstock.app import Penstock
from penstock.domain.attempt import Task
from penstock.domain.context import JobRequests, JobRequestsByJob
from penstock.domain.definition import Definition
from penstock.domain.job import Claimed, Created, Job
from penstock.domain.outcome import Cause, Failure, Outcome
from penstock.domain.ports.store import Store
from penstock.domain.secrets.policy import Scrubber, SecretPolicy
from penstock.domain.states import Status, Trigger
from penstock.execution import handler_run
from penstock.execution.context import AttemptContext, ChildKeys, Reporter, Resources
from penstock.execution.handlers import Handle
from penstock.execution.log_capture import JobRecords
from penstock.isolation import child
from penstock.isolation.declared_secrets import DeclaredSecrets
from penstock.runtime.service import log
from penstock.storage import ports
from penstock.worker import hooks
from penstock.worker.claimed_job import ClaimedJob, JobDependencies
from penstock.worker.recorder import Recorder

_SECRETS = DeclaredSecrets(SecretPolicy())


class When(StrEnum):
    """The moment of a phase at which an attempt crashes."""

    BEGUN = "begun"
    KEPT = "kept"


class Crash(BaseException):
    """Ends an attempt from outside its handler, like the death of its worker."""


class Crashes:
    """The crashes that are still to happen, and where."""

    def __init__(self) -> None:
        self._left: Counter[tuple[str, str, When]] = Counter()

    def plan(self, key: str, phase: str, when: When, times: int) -> None:
        self._left[key, phase, when] = times

    def strikes(self, key: str, phase: str, when: When) -> bool:
        """Return whether an attempt crashes here, and count the crash."""
        if self._left[key, phase, when] < 1:
            return False
        self._left[key, phase, when] -= 1
        return True


class Runner:
    """Runs claimed jobs and calls hooks, each to its end before the next."""

    def __init__(
        self,
        app: Penstock,
        store: Store,
        worker: str,
        errands: JobRequestsByJob,
        crashes: Crashes,
        settings: Mapping[str, Any],
        loop: asyncio.Runner,
    ) -> None:
        self._app = app
        self._store = store
        self._worker = worker
        self._errands = errands
        self._crashes = crashes
        self._settings = settings
        self._loop = loop
        self._recorder = Recorder(store, ports.jobs, lambda held: None)
        self._dependencies = JobDependencies(
            store, ports.jobs, ports.admin, self._recorder, errands, settings, _SECRETS
        )

    def attempt(self, claimed: Claimed, handle: Handle) -> None:
        """Run one attempt and settle it."""
        job = ClaimedJob(claimed, _with_schema(handle), self._worker, self._dependencies, started=not claimed.lost)
        self._loop.run(job.start())
        task = self._loop.run(job.task())
        if hooks.ON_START in handle.hooks:
            self._call_hook(handle, hooks.start_task(task))
        outcome = self._outcome(job, handle, task)
        job.leave_phase(outcome)
        self._loop.run(self._recorder.finish(job.held))
        # Without jitter, so that a test knows how far to move the clock.
        self._store.run(ports.jobs.settle(self._worker, [job.settlement(outcome, 0.0)]))

    def call_hooks(self, handles: Mapping[int, Handle]) -> None:
        """Call the due hooks, including those that become due meanwhile."""
        lanes = {lane: handle for lane, handle in handles.items() if handle.hooks}
        while calls := self._store.run(ports.jobs.take_hooks(list(lanes))) if lanes else []:
            jobs = {job.id: job for job in self._store.run(ports.admin.get([call.job_id for call in calls]))}
            for call in calls:
                handle = lanes[call.lane]
                for name in hooks.BY_EVENT.get(call.kind, ()):
                    if name in handle.hooks:
                        task = hooks.hook_task(call, handle.definition, name, jobs.get(call.job_id))
                        self._call_hook(handle, task)

    def _outcome(self, job: ClaimedJob, handle: Handle, task: Task) -> Outcome:
        only = handle.steps[0].name if len(handle.steps) == 1 else None
        if only is not None and self._crashes.strikes(task.key, only, When.BEGUN):
            return _lost()
        reporter = AttemptReporter(job, task, self._loop, self._crashes)
        with self._inside(handle, task, reporter) as ctx, _kept_logs(reporter, ctx, handle.definition):
            outcome = handler_run.run(handle, task, ctx, reporter)
        if only is not None and outcome.trigger is Trigger.SUCCEED:
            reporter.crashed = self._crashes.strikes(task.key, only, When.KEPT)
        return _lost() if reporter.crashed else job.without_secrets(outcome)

    def _call_hook(self, handle: Handle, task: Task) -> None:
        what = f"{task.hook} of {task.key} for job {task.job_id}"
        secrets = _SECRETS.scrubber(_with_schema(handle), task.params)
        reporter = HookReporter(what, task, self._errands.of(hooks.asker_of(task, handle.definition)), secrets)
        with self._inside(handle, task, reporter) as ctx:
            outcome = child.call_hook(handle, task, ctx)
        if outcome.failure is not None:
            message = secrets.clean(outcome.failure.message)
            log.warning("%s failed: %s: %s", what, outcome.failure.type, message)

    @contextlib.contextmanager
    def _inside(self, handle: Handle, task: Task, reporter: Reporter) -> Iterator[AttemptContext]:
        """Enter the environment of a job's code, as in a process of its own."""
        resources = Resources(self._app.resources)
        if handle.definition.isolation == "process":
            self._app.enter_job(reporter)
        try:
            yield AttemptContext(task, self._app, reporter, resources, len(handle.steps))
        finally:
            self._app.leave_job()
            try:
                resources.close()
            except Exception as error:
                reporter.log("warning", f"A resource could not be closed: {error!r:.500}", None, None)


class OwnErrands:
    """Creates jobs for a job, as its children and with a key by which a later attempt finds them again."""

    def __init__(self, task: Task, errands: JobRequests) -> None:
        self.phase = "run"
        self._task = task
        self._errands = errands
        self._children = ChildKeys(task)

    def create(self, orders: Sequence[Mapping[str, Any]]) -> list[Created]:
        return self._errands.create([self._children.own(order, self.phase) for order in orders])

    def read(self, job_id: str) -> Job:
        return self._errands.read(job_id)

    def cancel(self, job_id: str) -> Status:
        return self._errands.cancel(job_id)


class AttemptReporter(OwnErrands):
    """Stores reports of an attempt, and ends it where it is to crash."""

    def __init__(self, job: ClaimedJob, task: Task, loop: asyncio.Runner, crashes: Crashes) -> None:
        super().__init__(task, job.errands)
        self.crashed: bool = False
        self._holding = job
        self._loop = loop
        self._crashes = crashes

    def progress(self, percent: float, message: str | None, phase: str) -> None:
        self._holding.progress(percent, message, phase)

    def log(
        self, level: str, message: str, details: str | None, phase: str | None, *, duration: int | None = None
    ) -> None:
        self._holding.log(level, message, details, phase, duration=duration)

    def event(self, kind: str, data: str | None) -> None:
        self._holding.event(kind, data)

    def phase_running(self, name: str, position: int) -> None:
        self.phase = self._holding.phase = name
        self._holding.enter_phase(name, position)
        self._die_if_told(name, When.BEGUN)

    def phase_done(self, name: str, position: int, result: str) -> str:
        kept = self._loop.run(self._holding.keep_phase(name, position, result))
        self._die_if_told(name, When.KEPT)
        return kept

    def _die_if_told(self, phase: str, when: When) -> None:
        if self._crashes.strikes(self._task.key, phase, when):
            self.crashed = True
            raise Crash


class HookReporter(OwnErrands):
    """Receives reports of a hook; only its log lines are kept, in the log of this process."""

    def __init__(self, what: str, task: Task, errands: JobRequests, secrets: Scrubber) -> None:
        super().__init__(task, errands)
        self._what = what
        self._secrets = secrets
        self.phase: str = task.hook or self.phase

    def progress(self, percent: float, message: str | None, phase: str) -> None: ...

    def log(
        self, level: str, message: str, details: str | None, phase: str | None, *, duration: int | None = None
    ) -> None:
        log.info("%s: %s", self._what, self._secrets.clean(message))

    def event(self, kind: str, data: str | None) -> None: ...

    def phase_running(self, name: str, position: int) -> None: ...

    def phase_done(self, name: str, position: int, result: str) -> str:
        return result


@contextlib.contextmanager
def _kept_logs(reporter: Any, ctx: AttemptContext, definition: Definition) -> Iterator[None]:
    """Keep the log lines of all loggers with the job, from its definition's level on."""
    root = logging.getLogger()
    level = root.level
    handler = JobRecords()
    handler.attach(reporter, ctx)
    root.addHandler(handler)
    if level == logging.WARNING:
        root.setLevel(logging.INFO)
    if definition.log_level != "info":
        root.setLevel(definition.log_level.upper())
    try:
        yield
    finally:
        root.setLevel(level)
        root.removeHandler(handler)


def _with_schema(handle: Handle) -> Definition:
    return replace(handle.definition, schema=handle.schema)


def _lost() -> Outcome:
    failure = Failure("TestCrash", "The test crashed the attempt here.", fingerprint="penstock-TestCrash")
    return Outcome(Trigger.LOSE, Cause.LOST, failure=failure)
