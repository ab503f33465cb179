"""Hooks: called after the state is saved, in a fresh fork, at most once; their failure changes nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from penstock.domain import event as kinds
from penstock.domain.attempt import Task
from penstock.domain.context import JobRequests, JobRequestsByJob, RequestingJob
from penstock.domain.definition import Definition
from penstock.domain.job import Job
from penstock.domain.ports.admin import AdminPort
from penstock.domain.ports.jobs import JobsPort
from penstock.domain.ports.store import Store
from penstock.domain.secrets.policy import Scrubber
from penstock.domain.trace_context import kept_trace
from penstock.domain.worker import HookCall
from penstock.isolation import message_validation
from penstock.isolation.child import outcome_from_json
from penstock.isolation.child_requests import ChildRequests, run_errand
from penstock.isolation.output import Output
from penstock.isolation.wire import Frame
from penstock.isolation.zygote_process import Exit, Fork, FrameReader, ZygoteProcess
from penstock.runtime.log_lines import JOB, about
from penstock.runtime.service import log
from penstock.worker.job_environment import JobEnvironment

ON_START = "on_start"
BY_EVENT: Mapping[str, tuple[str, ...]] = {
    kinds.SUCCEEDED: ("on_success", "on_end"),
    kinds.FAILED: ("on_fail", "on_end"),
    kinds.CANCELLED: ("on_cancel", "on_end"),
    kinds.RETRYING: ("on_retry",),
    kinds.STALE: ("on_stale",),
    kinds.DELETED: ("on_delete",),
}
_IDLE = 5.0
_MOST_RUNNING = 32
"""How many hooks run at the same time: each has a process, and descriptors in the worker."""


class Hooks:
    """Takes hooks that are due from the store and calls them in forks of the zygote."""

    def __init__(
        self,
        store: Store,
        jobs: JobsPort,
        admin: AdminPort,
        zygote: Callable[[], ZygoteProcess],
        environment: JobEnvironment,
        errands: JobRequestsByJob,
        timeout: float,
        in_force: Callable[[int, Definition], Definition],
    ) -> None:
        self._store = store
        self._jobs = jobs
        self._admin = admin
        self._zygote = zygote
        self._environment = environment
        self._errands = errands
        self._timeout = timeout
        self._in_force = in_force
        self._running: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(_MOST_RUNNING)
        self.lanes: dict[int, Definition] = {}
        """The definitions with hooks that this worker has loaded."""
        self.errors: int = 0
        """How often a hook could not be called at all."""
        self.last_error: str | None = None

    async def tick(self) -> float:
        if not self.lanes or not self._zygote().alive:
            return _IDLE
        while len(self._running) >= _MOST_RUNNING:
            # A hook that was taken and not called is lost with this worker, so the others wait in the store.
            await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
        calls = await self._store.arun(self._jobs.take_hooks(list(self.lanes), _MOST_RUNNING))
        found = await self._store.arun(self._admin.get([call.job_id for call in calls])) if calls else []
        jobs = {job.id: job for job in found}
        for call in calls:
            try:
                self._call_all(call, jobs.get(call.job_id))
            except Exception as error:
                # They are taken already: a fault of one must not cost the others.
                self.errors += 1
                self.last_error = f"job {call.job_id}, {call.kind}: {error}"
                log.exception(
                    "hooks of job %s for %s could not be called", call.job_id, call.kind, extra=about(call.job_id)
                )
        return 0.0 if len(calls) == _MOST_RUNNING else _IDLE

    def _call_all(self, call: HookCall, job: Job | None) -> None:
        definition = self._in_force(call.lane, self.lanes[call.lane])
        names = [name for name in BY_EVENT.get(call.kind, ()) if name in definition.hooks]
        if names:
            self._begin(definition, {name: hook_task(call, definition, name, job) for name in names})

    def call(self, definition: Definition, name: str, task: Task) -> None:
        """Call one hook, without waiting for it."""
        self._begin(definition, {name: task})

    def _begin(self, definition: Definition, tasks: Mapping[str, Task]) -> None:
        """Call hooks one after the other, without waiting for them."""
        work = asyncio.ensure_future(self._in_order(definition, tasks))
        self._running.add(work)
        work.add_done_callback(self._running.discard)

    async def drain(self, seconds: float) -> None:
        """Wait for hooks that are being called."""
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)

    async def _in_order(self, definition: Definition, tasks: Mapping[str, Task]) -> None:
        """One hook's failure does not keep the next from being called."""
        async with self._room:
            for name, task in tasks.items():
                try:
                    await self._call(definition, name, task)
                except Exception:
                    log.exception(
                        "%s of %s for job %s failed", name, definition.key, task.job_id, extra=about(task.job_id)
                    )

    async def _call(self, definition: Definition, name: str, task: Task) -> None:
        JOB.set(task)
        hook = f"{name} of {definition.key} for job {task.job_id}"
        find = partial(self._environment.secrets.scrubber, definition, task.params)
        secrets = await asyncio.to_thread(find) if len(task.params) > message_validation.LARGE else find()
        zygote = self._zygote()
        try:
            rules = self._environment.rules(definition, task.job_id)
            fork = zygote.fork({"task": task.to_json(), "rules": rules.to_json()})
        except Exception:
            log.exception("%s could not be called", hook)
            return
        errands = self._errands.of(asker_of(task, definition))
        problem = await _HookProcess(hook, zygote, fork, errands, secrets).run(self._timeout)
        if problem:
            log.warning("%s failed: %s", hook, problem)
        await self._environment.give_back(rules)


class _HookProcess:
    """The process of one hook: answers its requests and logs its output until it has ended."""

    def __init__(self, hook: str, zygote: ZygoteProcess, fork: Fork, errands: JobRequests, secrets: Scrubber) -> None:
        self._hook = hook
        self._zygote = zygote
        self._fork = fork
        self._secrets = secrets
        self._problem = ""
        kill = lambda _: zygote.kill(fork)  # noqa: E731
        self._requests = ChildRequests(fork.line, partial(run_errand, errands), kill, hook)
        self._reader = FrameReader(fork.line, self._read, kill)
        self._outputs = [Output(each, self._log, secrets) for each in (fork.output, fork.errors)]

    async def run(self, timeout: float) -> str:
        """Wait for the end of the hook, or kill it after its timeout; what went wrong, if anything did."""
        for output in self._outputs:
            output.watch()
        try:
            exit = await _ended(self._zygote, self._fork, timeout)
            if exit is None:
                self._zygote.kill(self._fork)
                exit = await _ended(self._zygote, self._fork) or Exit(lost=True)
                self._problem = f"it took longer than {timeout:g} s and was killed"
        finally:
            self._close()
        if self._problem or exit.code == 0:
            return self._problem
        return "its zygote died" if exit.lost else f"exit code {exit.code}, signal {exit.signal}"

    def _read(self, frame: Frame) -> None:
        if frame["say"] == "log":
            self._log(self._clean(frame["message"]))
        elif frame["say"] == "ask":
            self._requests.ask(frame)
        elif frame["say"] == "outcome":
            failure = outcome_from_json(frame).failure
            self._problem = "" if failure is None else self._clean(f"{failure.type}: {failure.message}")

    def _log(self, text: str) -> None:
        log.info("%s: %s", self._hook, text)

    def _clean(self, text: object) -> str:
        return self._secrets.clean(message_validation.text(text, message_validation.MOST_READ))

    def _close(self) -> None:
        self._requests.close()
        self._reader.close()
        for output in self._outputs:
            output.close()


async def _ended(zygote: ZygoteProcess, fork: Fork, seconds: float | None = None) -> Exit | None:
    """How a child ended; None when it has not in that time. One whose zygote is dead has ended with it."""
    either: list[asyncio.Future[Any]] = [fork.ended, zygote.dead]
    await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    if fork.ended.done():
        return fork.ended.result()
    return None if zygote.alive else Exit(lost=True)


def asker_of(task: Task, definition: Definition) -> RequestingJob:
    trace = kept_trace(task.traceparent, task.tracestate)
    return RequestingJob(task.job_id, definition.key, task.reference, definition.reach, trace)


def start_task(task: Task) -> Task:
    """The task of `on_start` for an attempt."""
    return Task(**{**_fields(task), "hook": ON_START, "told": {"status": "running"}})


def hook_task(call: HookCall, definition: Definition, name: str, job: Job | None) -> Task:
    told: dict[str, Any] = json.loads(call.data) if call.data else {}
    if job is not None:
        told = {"status": job.status.value, "result": job.result_text, **told}
    return Task(
        job_id=call.job_id,
        key=definition.key,
        version=definition.version,
        fence=call.fence,
        attempt=0 if job is None else job.attempts,
        max_attempts=definition.max_attempts if job is None else job.max_attempts,
        params="{}" if job is None else job.params_text,
        reference=_reference(job, told),
        tags=() if job is None else job.tags,
        log_level=None if definition.log_level == "info" else definition.log_level,
        hook=name,
        told=told,
    )


def _reference(job: Job | None, told: Mapping[str, Any]) -> tuple[str, str] | None:
    if job is not None:
        return None if job.reference_type is None else (job.reference_type, job.reference_id or "")
    return (told["referenceType"], told.get("referenceId") or "") if told.get("referenceType") else None


def _fields(task: Task) -> dict[str, Any]:
    return {name: getattr(task, name) for name in Task.__slots__}
