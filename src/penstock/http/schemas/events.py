"""Events on the wire."""

from __future__ import annotations

from pydantic import Field

from penstock.http.schemas.base import Moment, Payload, Told
from penstock.http.schemas.jobs import JobWithPhases


class EventTold(Told):
    """One thing that happened."""

    seq: int = Field(description="Rises within one job.")
    type: str
    at: Moment
    job_id: str | None
    subject: str | None = Field(
        description="The schedule, worker or alert that it is about, when it is not about a job."
    )
    fence: int | None = Field(description="Of the attempt that it comes from.")
    attempt: int | None = Field(description="The number of the attempt with that fence, while it is kept.")
    duration: float | None = Field(description="Seconds that the attempt took, where it or the job ended.")
    source: str | None = Field(description="The file that the job's handler is in, such as its job file.")
    schedule_id: str | None = Field(description="The schedule that made the job.")
    schedule_expression: str | None = Field(description="When that schedule runs now; null when it was removed.")
    data: Payload
    job: JobWithPhases | None = Field(description="The job as it is now.")
    deleted_job_id: str | None = Field(description="The job that it was about, when there is no such job any more.")


class EventList(Told):
    """Events in order. `nextCursor` goes on behind them; there may be few or none of them and yet more to come."""

    events: list[EventTold]
    next_cursor: str
    more: bool = Field(description="Whether there is more already: ask again at once.")
