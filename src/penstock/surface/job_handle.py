"""A job that was created or found, to be followed and changed."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

from penstock.domain.errors import JobFailed
from penstock.domain.instant import Duration
from penstock.domain.job import Created, Job
from penstock.domain.states import Status
from penstock.domain.why import Reason
from penstock.surface.orders import Order
from penstock.surface.session import PYTHON

if TYPE_CHECKING:
    from penstock.surface.jobs import Jobs

R = TypeVar("R")
T = TypeVar("T")


class Creator(Protocol):
    """What creates jobs: an application."""

    def enqueue_many(self, orders: Sequence[Order]) -> list[JobHandle[Any]]: ...

    async def aenqueue_many(self, orders: Sequence[Order]) -> list[JobHandle[Any]]: ...


class JobHandle(Generic[R]):
    """A job that can be followed; its `id` is all that an application needs to store."""

    def __init__(self, jobs: Jobs, created: Created, job: Job | None = None) -> None:
        self._jobs = jobs
        self._job = job
        self.id: str = created.job_id
        self.created: bool = created.created
        """Whether the call that gave this handle made the job, or found it."""
        self.status: Status = created.status
        """The status as it was last read; `refresh()` reads it again."""

    @property
    def job(self) -> Job:
        """Everything that was last read of the job."""
        return self._job or self.refresh()

    def refresh(self) -> Job:
        """Read the job again."""
        return self._keep(self._jobs.read(self.id))

    async def arefresh(self) -> Job:
        return self._keep(await self._jobs.aread(self.id))

    def wait(self, timeout: Duration | None = None) -> Job:
        """Wait until the job has ended, whatever the outcome; `WaitTimeout` when the time is over first."""
        return self._keep(self._jobs.wait(self.id, timeout))

    async def awaited(self, timeout: Duration | None = None) -> Job:
        return self._keep(await self._jobs.awaited(self.id, timeout))

    @overload
    def result(self: JobHandle[Coroutine[Any, Any, T]], timeout: Duration | None = None) -> T: ...
    @overload
    def result(self, timeout: Duration | None = None) -> R: ...
    def result(self, timeout: Duration | None = None) -> Any:
        """Wait for the job and give what its handler returned; `JobFailed` when it did not succeed."""
        return _result(self.wait(timeout))

    @overload
    async def aresult(self: JobHandle[Coroutine[Any, Any, T]], timeout: Duration | None = None) -> T: ...
    @overload
    async def aresult(self, timeout: Duration | None = None) -> R: ...
    async def aresult(self, timeout: Duration | None = None) -> Any:
        return _result(await self.awaited(timeout))

    def cancel(self) -> Status:
        """Ask for the job to be cancelled; the status it has now. `Conflict` when it has ended."""
        self.status = self._jobs.cancel(self.id)
        return self.status

    async def acancel(self) -> Status:
        self.status = await self._jobs.acancel(self.id)
        return self.status

    def retry(self, *, from_phase: str | None = None, fresh: bool = False, by: str | None = None) -> Status:
        """Queue the job again after it failed or was cancelled; see `Jobs.retry`."""
        self.status = self._jobs.retry(self.id, from_phase=from_phase, fresh=fresh, by=by)
        return self.status

    async def aretry(self, *, from_phase: str | None = None, fresh: bool = False, by: str | None = None) -> Status:
        self.status = await self._jobs.aretry(self.id, from_phase=from_phase, fresh=fresh, by=by)
        return self.status

    def rerun(self, params: Mapping[str, Any] | None = None, *, by: str | None = None, **options: Any) -> JobHandle[R]:
        """Create the same job once more, with other parameters if any are given; see `Jobs.rerun`."""
        return self._jobs.rerun(self.id, params, by=by, **options)

    async def arerun(
        self, params: Mapping[str, Any] | None = None, *, by: str | None = None, **options: Any
    ) -> JobHandle[R]:
        return await self._jobs.arerun(self.id, params, by=by, **options)

    def approve(self, *, by: str = PYTHON, note: str | None = None, result: Any = ...) -> Status:
        """Approve the review that the job asked for; see `Jobs.approve`."""
        self.status = self._jobs.approve(self.id, by=by, note=note, result=result)
        return self.status

    async def aapprove(self, *, by: str = PYTHON, note: str | None = None, result: Any = ...) -> Status:
        self.status = await self._jobs.aapprove(self.id, by=by, note=note, result=result)
        return self.status

    def reject(self, *, by: str = PYTHON, note: str | None = None) -> Status:
        """Reject the review that the job asked for."""
        self.status = self._jobs.reject(self.id, by=by, note=note)
        return self.status

    async def areject(self, *, by: str = PYTHON, note: str | None = None) -> Status:
        self.status = await self._jobs.areject(self.id, by=by, note=note)
        return self.status

    def why(self) -> list[Reason]:
        """All that keeps the job from running, or else what it does now."""
        return self._jobs.why(self.id)

    async def awhy(self) -> list[Reason]:
        return await self._jobs.awhy(self.id)

    def _keep(self, job: Job) -> Job:
        self._job = job
        self.status = job.status
        return job

    def __repr__(self) -> str:
        return f"<job {self.id} {self.status}>"


def _result(job: Job) -> Any:
    """What the handler returned, as JSON has it: a tuple comes back as a list, a model as a dict."""
    ended = job.outcome or job.status
    if ended is not Status.SUCCEEDED:
        why = f": {job.error_type}: {job.error}" if job.error else "."
        raise JobFailed(
            f"Job {job.id} of {job.definition_key!r} ended as {ended}{why}", job_id=job.id, status=ended.value
        )
    return job.result
