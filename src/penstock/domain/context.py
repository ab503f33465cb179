"""What handlers use: the context of their attempt, and the exceptions by which they choose how it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from logging import Logger
from types import TracebackType
from typing import Any, Protocol

from penstock.domain.instant import Duration, microseconds
from penstock.domain.job import Created, Job
from penstock.domain.states import Status


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of a review."""

    verdict: str
    """`approved` or `rejected`."""
    by: str | None
    note: str | None
    note_asked: str | None
    """The handler's note."""
    result: Any
    """The approver's edit, or else the handler's data."""


class Timing(Protocol):
    """A context manager that measures its block, for `with` and `async with`."""

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def __aenter__(self) -> None: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Context(Protocol):
    """The `ctx` parameter of a handler: facts about its attempt, and calls to report and to request.

    The calls are plain calls in `def` and `async def` alike.
    """

    @property
    def job_id(self) -> str: ...

    @property
    def definition(self) -> str: ...

    @property
    def params(self) -> Mapping[str, Any]: ...

    @property
    def reference(self) -> tuple[str, str] | None: ...

    @property
    def tags(self) -> tuple[str, ...]: ...

    @property
    def attempt(self) -> int: ...

    @property
    def max_attempts(self) -> int: ...

    @property
    def fence(self) -> int:
        """Rises with every attempt: give it to outside systems, so that they can refuse a late one."""
        ...

    @property
    def scheduled_for(self) -> datetime | None:
        """The instant of the schedule that created this job."""
        ...

    @property
    def schedule_id(self) -> str | None: ...

    @property
    def traceparent(self) -> str | None: ...

    @property
    def tracestate(self) -> str | None: ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """The custom part of the worker configuration."""
        ...

    @property
    def phase(self) -> str:
        """The phase that runs now."""
        ...

    @property
    def results(self) -> Mapping[str, Any]:
        """The results of finished phases, by name."""
        ...

    @property
    def review(self) -> Decision | None:
        """The decision of the review, once it was approved."""
        ...

    @property
    def resources(self) -> Mapping[str, Any]:
        """What `app.resource(name)` registered: opened at first use, closed when the process ends."""
        ...

    @property
    def logger(self) -> Logger:
        """Its lines are kept with the job; `extra={"details": {…}, "duration": seconds}` is kept with the line."""
        ...

    def timed(self, what: str, details: Mapping[str, Any] | None = None) -> Timing:
        """Log the duration of the block: `with ctx.timed("extract"):`, or `async with`."""
        ...

    @property
    def cancelled(self) -> bool:
        """Whether the attempt was asked to stop."""
        ...

    def check_cancelled(self) -> None:
        """Raise `Cancelled` when the attempt was asked to stop."""
        ...

    def progress(self, percent: float, message: str | None = None, stage: str | None = None) -> None:
        """Report the progress of the phase, from 0 to 100; writes are limited, so call it as often as you like."""
        ...

    def emit_event(self, type: str, payload: Mapping[str, Any] | None = None) -> None:
        """Emit an event of the handler's own type."""
        ...

    def enqueue(self, what: Any, params: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Create a job from inside this one: `what` is a definition or its key. A retried attempt that asks for the
        same job again gets the one that is there."""
        ...


@dataclass(frozen=True, slots=True)
class RequestingJob:
    """The job whose code makes a request; it determines which jobs the code may reach."""

    job_id: str
    definition: str
    reference: tuple[str, str] | None
    reach: str
    """`own` or `any`, as its definition says."""
    trace: str | None = None
    """Its trace context, as the store keeps it."""


class JobRequests(Protocol):
    """Requests of code inside a job that its worker carries out, because a job never opens the store."""

    def create(self, orders: Sequence[Mapping[str, Any]]) -> list[Created]: ...

    def read(self, job_id: str) -> Job: ...

    def cancel(self, job_id: str) -> Status: ...


class JobRequestsByJob(Protocol):
    """Carries out requests of every job of a worker."""

    def of(self, asker: RequestingJob) -> JobRequests:
        """Return the requests that this job may make."""
        ...


_LONGEST_NOTE = 2000


class ControlException(Exception):
    """The base of `Retry`, `Fail`, `Snooze` and `NeedsReview`."""


class Retry(ControlException):
    """Fail this attempt and retry, `after` a time instead of the definition's backoff."""

    def __init__(self, message: str = "The handler asked for another attempt.", *, after: Duration | None = None):
        super().__init__(message)
        self.message = message
        self.after: int | None = None if after is None else microseconds(after, "Retry(after=)")


class Fail(ControlException):
    """Give up: no further attempt, however many are left."""

    def __init__(self, message: str = "The handler gave up."):
        super().__init__(message)
        self.message = message


class Snooze(ControlException):
    """Run again after `delay`; the attempt is given back."""

    def __init__(self, delay: Duration, message: str = ""):
        super().__init__(message or "The handler asked to be called later.")
        self.delay: int = microseconds(delay, "Snooze(delay)")


class NeedsReview(ControlException):
    """Ask a person for a review; `data` is the result of the phase if they approve without an edit."""

    def __init__(self, note: str = "", data: Any = None):
        super().__init__(note or "The handler asked for a review.")
        self.note: str = note[:_LONGEST_NOTE]
        self.data = data


class Cancelled(BaseException):
    """The job is being cancelled. Clean up and re-raise; `except Exception` does not catch it."""


for _public in (Retry, Fail, Snooze, NeedsReview, Cancelled):
    # Users import them from penstock: tracebacks and stored errors show that name.
    _public.__module__ = "penstock"
del _public
