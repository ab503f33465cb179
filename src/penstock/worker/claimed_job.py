"""A job that this worker has claimed, and the writes that its attempt makes."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from penstock.domain.attempt import LogLine, Task
from penstock.domain.context import JobRequests, JobRequestsByJob, RequestingJob
from penstock.domain.definition import Definition
from penstock.domain.errors import LeaseLost
from penstock.domain.instant import SECOND
from penstock.domain.job import Claimed, Held
from penstock.domain.outcome import RETURNED_NOTHING, AttemptCounters, Cause, Outcome, Settlement, decide
from penstock.domain.ports.admin import AdminPort
from penstock.domain.ports.jobs import JobsPort
from penstock.domain.ports.store import Store
from penstock.domain.secrets.policy import Scrubber
from penstock.domain.states import Status, Trigger
from penstock.domain.trace_context import split_trace
from penstock.isolation import message_validation
from penstock.isolation.child_requests import run_errand
from penstock.isolation.declared_secrets import DeclaredSecrets
from penstock.isolation.wire import Frame
from penstock.runtime import stamps
from penstock.runtime.log_lines import about, logger
from penstock.worker.recorder import Recorder

log: logging.Logger = logger("penstock.jobs")
"""One line for each attempt that ends: worth having while developing, too much for a busy worker."""

_LONGEST_ERROR = 65_536
_LONGEST_PROGRESS = 500
_settlement: Callable[[tuple[Any, ...]], Settlement] = partial(tuple.__new__, Settlement)
"""For the most common settlement: the constructor takes twice as long."""
_SUCCEEDED = Status.SUCCEEDED
_NO_RESULTS: Mapping[str, str] = {}


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JobDependencies:
    """What claimed jobs read and write through."""

    store: Store
    jobs: JobsPort
    admin: AdminPort
    recorder: Recorder
    errands: JobRequestsByJob
    settings: Mapping[str, Any]
    """What operators have set for handlers."""
    secrets: DeclaredSecrets


class ClaimedJob:
    """One claimed job with its definition.

    All records of an attempt pass through here on their way to the store, and lose the values of secret parameters.
    """

    __slots__ = (
        "_dependencies",
        "_errands",
        "_reached",
        "_secrets",
        "claimed",
        "definition",
        "ended",
        "is_large",
        "phase",
        "started",
        "worker",
    )

    def __init__(
        self, claimed: Claimed, definition: Definition, worker: str, dependencies: JobDependencies, started: bool
    ) -> None:
        """`started`: the start of the attempt is on record already."""
        self.claimed: Claimed = claimed
        self.definition: Definition = definition
        self.worker: str = worker
        self.phase: str | None = None
        self.ended: int | None = None
        """When the handler ended, as a stamp, where it has reported that."""
        self.started: bool = started
        self.is_large: bool = len(claimed.params) > message_validation.LARGE
        """Whether the secrets should be found in a thread, see `find_secrets`."""
        self._dependencies = dependencies
        self._secrets: Scrubber | None = None
        self._errands: JobRequests | None = None
        self._reached: tuple[float, str | None] = (0.0, None)
        """The last progress of the present phase: percent of the job, and message."""

    @property
    def held(self) -> Held:
        return Held(self.claimed.job_id, self.claimed.fence, self.worker)

    @property
    def errands(self) -> JobRequests:
        if self._errands is None:
            claimed, definition = self.claimed, self.definition
            asker = RequestingJob(
                claimed.job_id, definition.key, self._reference, definition.reach, claimed.traceparent
            )
            self._errands = self._dependencies.errands.of(asker)
        return self._errands

    @property
    def secrets(self) -> Scrubber:
        """Removes the values of secret parameters from texts."""
        if self._secrets is None:
            self._secrets = self._dependencies.secrets.scrubber(self.definition, self.claimed.params)
        return self._secrets

    async def find_secrets(self) -> None:
        """Find the secrets in large parameters now in a thread, so that nothing else waits."""
        if self.is_large and self._secrets is None:
            await asyncio.to_thread(lambda: self.secrets)

    def progress(self, percent: float, message: object, phase: str | None) -> None:
        shown = None if message is None else self._text(message, _LONGEST_PROGRESS)
        self._reached = percent, self._reached[1] if shown is None else shown
        self._dependencies.recorder.progress(self.held, percent, shown, self._name(phase))

    def log(
        self,
        level: str,
        message: object,
        details: str | None,
        phase: str | None,
        *,
        stamp: int | None = None,
        duration: int | None = None,
    ) -> None:
        text = str(message)
        at = stamps.now() if stamp is None else stamp

        def line() -> LogLine:
            shown = None if details is None else self.secrets.clean_json(details)
            return LogLine(level, self._text(text), at, self._name(phase), shown, duration)

        self._dependencies.recorder.log(self.held, _maybe_in_thread(line, len(text) + len(details or "")))

    def event(self, kind: str, data: str | None) -> None:
        if not self._dependencies.recorder.may_emit(self.held, len(data or "")):
            return

        def event() -> tuple[str, str | None]:
            return self.secrets.clean(kind), None if data is None else self.secrets.clean_json(data)

        self._dependencies.recorder.event(self.held, _maybe_in_thread(event, len(data or "")))

    def without_secrets(self, outcome: Outcome) -> Outcome:
        """An outcome as it may be kept: its result, its error, its review."""
        if outcome.trigger is Trigger.SUCCEED and outcome.result == "null":
            return outcome
        secrets, failure = self.secrets, outcome.failure
        if not secrets:
            return outcome
        asked = outcome.trigger is Trigger.ASK_REVIEW
        return replace(
            outcome,
            result=outcome.result and (secrets.clean_json if asked else secrets.clean_result)(outcome.result),
            data=outcome.data and secrets.clean_json(outcome.data),
            note=outcome.note and secrets.clean(outcome.note),
            failure=failure
            and replace(
                failure,
                type=secrets.clean(failure.type),
                message=self._text(failure.message, _LONGEST_ERROR),
                traceback=self._text(failure.traceback, _LONGEST_ERROR),
            ),
        )

    async def cleaned(self, outcome: Outcome) -> Outcome:
        """The same; texts that are long are searched in a thread, so that nothing else waits."""
        if is_long(outcome):
            return await asyncio.to_thread(self.without_secrets, outcome)
        return self.without_secrets(outcome)

    async def task(self) -> Task:
        """The task for the handler; with results and review when the job has run before."""
        await self.find_secrets()
        return self.first_task() if self.claimed.fence == 1 else self.first_task(*await self._earlier())

    def first_task(self, results: Mapping[str, str] = _NO_RESULTS, review: dict[str, Any] | None = None) -> Task:
        """The task of a job that has not run before."""
        claimed, definition = self.claimed, self.definition
        traceparent, tracestate = split_trace(claimed.traceparent)
        return Task(
            job_id=claimed.job_id,
            key=definition.key,
            version=definition.version,
            fence=claimed.fence,
            attempt=claimed.attempt,
            max_attempts=claimed.max_attempts,
            params=claimed.params,
            reference=self._reference,
            tags=tuple(json.loads(claimed.tags)) if claimed.tags else (),
            scheduled_for=claimed.scheduled_for,
            schedule=claimed.schedule,
            traceparent=traceparent,
            tracestate=tracestate,
            settings=self._dependencies.settings,
            results=results,
            review=review,
            log_level=None if definition.log_level == "info" else definition.log_level,
        )

    async def answer(self, ask: Frame) -> Any:
        """Carry out a request of the handler."""
        match ask["ask"]:
            case "phase":
                stamp = ask.get("at")
                return await self.keep_phase(str(ask["name"]), int(ask["position"]), str(ask["result"]), stamp)
            case _:
                return await run_errand(self.errands, ask)

    def enter_phase(self, name: str, position: int, stamp: int | None = None) -> None:
        """A phase begins."""
        self.phase = name = self.secrets.clean(name)
        self._dependencies.recorder.phase(self.held, name, position, stamps.now() if stamp is None else stamp)
        self._dependencies.recorder.progress(self.held, self._share(position), None, name)
        self._reached = self._share(position), None

    def leave_phase(self, outcome: Outcome) -> None:
        """Record the phase in which the attempt has failed."""
        names = self.definition.phases
        if outcome.trigger is Trigger.FAIL and outcome.failure is not None and len(names) > 1 and self.phase in names:
            position = names.index(self.phase)
            percent, message = self._reached
            self._dependencies.recorder.phase(
                self.held,
                self.phase,
                position,
                stamps.now() if self.ended is None else self.ended,
                status="cancelled" if outcome.cause is Cause.CANCELLED else "failed",
                progress=min(100.0, max(0.0, percent * len(names) - 100 * position)),
                message=message,
                error=outcome.failure.message,
            )

    async def keep_phase(self, name: str, position: int, result: str, stamp: int | None = None) -> str:
        """Keep the result of a phase; later phases get the kept result."""
        stamp = stamps.now() if stamp is None else stamp
        clean = self.secrets.clean_result
        kept = clean(result) if len(result) <= message_validation.LARGE else await asyncio.to_thread(clean, result)
        await self._dependencies.recorder.flush(self.held)
        at = await self._dependencies.recorder.time(self.held, stamp)
        await self._dependencies.store.arun(
            self._dependencies.jobs.save_phase(
                self.held, name, position, "completed", progress=100.0, result=kept, at=at
            )
        )
        self._dependencies.recorder.progress(self.held, self._share(position + 1), None, name)
        return kept

    def _share(self, done: int) -> float:
        """How far a job is, in percent, after this number of phases."""
        return min(100.0, max(0.0, 100 * done / len(self.definition.phases)))

    async def start(self) -> None:
        """Record the start of the attempt, unless the claim did; `LeaseLost` when the job is not ours any more."""
        if not self.started:
            refused = await self._dependencies.store.arun(self._dependencies.jobs.start([self.held]))
            if refused:
                raise LeaseLost(f"Job {self.claimed.job_id} is not this worker's any more.")
            self.started = True

    def settlement(self, outcome: Outcome, random: float) -> Settlement:
        """The settlement that an outcome leads to."""
        claimed = self.claimed
        if outcome is RETURNED_NOTHING or outcome.trigger is Trigger.SUCCEED:
            lone = claimed.concurrency_key is None and not self.definition.hooks
            settlement = _settlement((claimed.job_id, claimed.fence, outcome, _SUCCEEDED, 0, 0, 0, claimed.lane, lone))
        else:
            standing = AttemptCounters(claimed.attempt, claimed.max_attempts, claimed.lost)
            settlement = decide(claimed.job_id, claimed.fence, outcome, standing, self.definition.backoff, random)
        if log.isEnabledFor(logging.INFO):
            self._log_ending(settlement)
        return settlement

    @property
    def _reference(self) -> tuple[str, str] | None:
        claimed = self.claimed
        return None if claimed.reference_type is None else (claimed.reference_type, claimed.reference_id or "")

    async def _earlier(self) -> tuple[dict[str, str], dict[str, Any] | None]:
        """The results of phases, and the last decision about a review with the phase that had asked for it."""
        job_id = self.claimed.job_id
        reviews = [
            each
            for each in await self._dependencies.store.arun(self._dependencies.admin.reviews(job_id))
            if each.decision is not None
        ]
        phases = (
            await self._dependencies.store.arun(self._dependencies.jobs.phases(job_id))
            if len(self.definition.phases) > 1
            else []
        )
        results = {each.name: each.result_text or "null" for each in phases if each.status == "completed"}
        if not reviews:
            return results, None
        last = max(reviews, key=lambda each: each.fence)
        asked = [each.name for each in phases if each.fence == last.fence and each.status != "completed"]
        return results, {
            "verdict": last.decision,
            "by": last.decided_by,
            "note": last.decided_note,
            "note_asked": last.note,
            "result": last.data_text if last.result_text is None else last.result_text,
            "phase": asked[-1] if asked else None,
        }

    def _log_ending(self, settlement: Settlement) -> None:
        """Log how the attempt ended; an error only by its kind, for its text may hold parameters."""
        claimed, outcome = self.claimed, settlement.outcome
        kind = "" if outcome.failure is None else f" ({outcome.failure.type})"
        again = f", again in {settlement.delay / SECOND:.1f} s" if settlement.status is Status.SCHEDULED else ""
        log.info(
            "%s %s: attempt %d of %d %s%s -> %s%s", self.definition.key, claimed.job_id, claimed.attempt,
            claimed.max_attempts, outcome.cause, kind, settlement.status, again, extra=about(claimed.job_id),
        )  # fmt: skip

    def _text(self, text: object, longest: int = message_validation.LONGEST_LINE) -> str:
        """A text that may be kept; secrets are removed before it is cut, so that no part of one is left."""
        return message_validation.text(
            self.secrets.clean(message_validation.text(text, message_validation.MOST_READ)), longest
        )

    def _name(self, name: str | None) -> str | None:
        return None if name is None else self.secrets.clean(name)


def is_long(outcome: Outcome) -> bool:
    """Whether an outcome has too much text to be searched for secrets in the loop."""
    failure = outcome.failure
    said = () if failure is None else (failure.type, failure.message, failure.traceback)
    return (
        sum(len(each or "") for each in (outcome.result, outcome.data, outcome.note, *said)) > message_validation.LARGE
    )


def _maybe_in_thread(clean: Callable[[], T], size: int) -> T | asyncio.Future[T]:
    """The result of a call; a future of it when the call takes long and would hold up the loop."""
    if size <= message_validation.LARGE:
        return clean()
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return clean()
    return loop.run_in_executor(None, clean)
