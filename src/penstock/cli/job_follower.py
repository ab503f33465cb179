"""Follow jobs until they have ended: read their events and log lines, and pass them to a view."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from penstock.cli.connection import Connection, path
from penstock.cli.exit_codes import ApiError
from penstock.cli.formatting import short
from penstock.client.lines import Received
from penstock.domain.errors import WaitTimeout
from penstock.domain.states import TERMINAL

_LOOK = 0.25
"""Seconds between two updates of the screen and of the log lines."""
_UNASKED = 2.0
"""Seconds after which a job is read without an event: streams can be refused or cut."""

_PAGE = 500

Detail = Mapping[str, Any]


class FollowedJob:
    """One job that is followed."""

    def __init__(self, job_id: str, detail: Detail) -> None:
        self.id = job_id
        self.detail = detail
        self.planned: Sequence[str] = ()
        """The names of all its phases, if they are known."""
        self.last_log = 0
        self.last_event = 0
        self.shown = False
        """Whether all of it was shown."""
        self.begun_at: float = time.monotonic()
        self.read_at: float = self.begun_at

    @property
    def ended(self) -> bool:
        return self.detail["status"] in TERMINAL


EventQueue = queue.SimpleQueue[tuple[FollowedJob, Mapping[str, Any] | None]]
"""Events with their jobs; None: read the job again."""


class View(Protocol):
    """Shows changes of jobs."""

    def happened(self, job: FollowedJob, event: Mapping[str, Any]) -> None:
        """Show an event."""

    def logged(self, job: FollowedJob, line: Mapping[str, Any]) -> None:
        """A line was written."""

    def draw(self, jobs: Sequence[FollowedJob]) -> None:
        """Jobs stand like this now."""


def follow(
    api: Connection,
    job_ids: Sequence[str],
    view: View | None = None,
    *,
    timeout: float | None = None,
    looked: Callable[[Sequence[FollowedJob]], None] = lambda jobs: None,
) -> list[FollowedJob]:
    """Show what happens to jobs until all of them have ended; `WaitTimeout` when the time is over before.

    `looked` is called with the jobs after each look at them.
    """
    end = None if timeout is None else time.monotonic() + timeout
    jobs = [_begun(api, each, planned=view is not None) for each in job_ids]
    events_queue: EventQueue = queue.SimpleQueue()
    for each in jobs:
        if not each.ended:
            threading.Thread(
                target=_listen, args=(api, each, events_queue), name="penstock-events", daemon=True
            ).start()
    fresh_events: list[tuple[FollowedJob, Mapping[str, Any] | None]] = []
    while True:
        if view is not None:
            for job in jobs:
                _show(api, job, view, [event for each, event in fresh_events if each is job and event is not None])
            view.draw(jobs)
        if all(each.ended for each in jobs):
            return jobs
        looked(jobs)
        left = None if end is None else end - time.monotonic()
        if left is not None and left <= 0:
            raise _late(jobs, timeout or 0.0)
        fresh_events = _gathered(events_queue, _LOOK if left is None else min(_LOOK, left))
        for job in jobs:
            if not job.ended:
                _look(api, job, urgent=any(each is job for each, _ in fresh_events))


def _begun(api: Connection, job_id: str, *, planned: bool) -> FollowedJob:
    found = FollowedJob(job_id, api.get(path("jobs", job_id)).data)
    if not planned:
        return found
    try:
        definition = api.get(path("definitions", found.detail["definitionKey"])).data
    except ApiError:
        return found
    version = found.detail["definitionVersion"]
    found.planned = next((each["phases"] for each in definition["versions"] if each["version"] == version), ())
    return found


def _listen(api: Connection, job: FollowedJob, events_queue: EventQueue) -> None:
    """Pass on a job's events; without a stream the job is still read periodically."""
    try:
        for received in api.events(path("jobs", job.id, "events")):
            events_queue.put((job, _read(received)))
    except Exception:
        # The connection was closed, or the server refuses the stream.
        events_queue.put((job, None))


def _gathered(events_queue: EventQueue, seconds: float) -> list[tuple[FollowedJob, Mapping[str, Any] | None]]:
    """Return all queued events, after waiting for the first one."""
    found: list[tuple[FollowedJob, Mapping[str, Any] | None]] = []
    try:
        found.append(events_queue.get(timeout=seconds))
        while True:
            found.append(events_queue.get_nowait())
    except queue.Empty:
        return found


def _read(received: Received) -> Mapping[str, Any] | None:
    try:
        event = json.loads(received.data)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "seq" in event else None


def _look(api: Connection, job: FollowedJob, *, urgent: bool) -> None:
    if urgent or time.monotonic() - job.read_at >= _UNASKED:
        job.detail = api.get(path("jobs", job.id)).data
        job.read_at = time.monotonic()


def _show(api: Connection, job: FollowedJob, view: View, events: Sequence[Mapping[str, Any]]) -> None:
    """Show the changes of a job in order; of an ended job, everything that is left."""
    if job.shown:
        return
    job.shown = job.ended
    fresh = [each for each in events if each["seq"] > job.last_event]
    job.last_event = fresh[-1]["seq"] if fresh else job.last_event
    if job.ended:
        fresh += _rest(api, job)
    # Log lines wait for the first event, so that earlier events are shown first.
    known = job.last_event or time.monotonic() - job.begun_at >= _UNASKED
    lines = _new_lines(api, job) if known else []
    for each in sorted([*fresh, *lines], key=lambda each: str(each["at"])):
        if "level" in each:
            view.logged(job, each)
        else:
            view.happened(job, each)


def _rest(api: Connection, job: FollowedJob) -> list[Mapping[str, Any]]:
    """Return the events that no stream has delivered."""
    found: list[Mapping[str, Any]] = []
    more = True
    while more:
        page = api.get(path("jobs", job.id, "events"), after=str(job.last_event), limit=_PAGE).data
        found += page["events"]
        more = page["more"] and bool(page["events"])
        if page["events"]:
            job.last_event = page["events"][-1]["seq"]
    return found


def _new_lines(api: Connection, job: FollowedJob) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    while True:
        page = api.get(path("jobs", job.id, "logs"), after=job.last_log, limit=_PAGE).data
        found += page["logs"]
        if page["logs"]:
            job.last_log = page["logs"][-1]["seq"]
        if page["nextAfter"] is None:
            return found


def _late(jobs: Sequence[FollowedJob], timeout: float) -> WaitTimeout:
    left = [each for each in jobs if not each.ended]
    first = left[0]
    more = f", and {len(left) - 1} more" if len(left) > 1 else ""
    return WaitTimeout(
        f"Job {short(first.id)} is still {first.detail['status']} after {timeout:g} s{more}.",
        hint="It continues; wait again.",
    )
