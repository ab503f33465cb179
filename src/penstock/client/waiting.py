"""A wait for the end of one job, over as many streams as it takes."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

from penstock.client.exchange import pause_before
from penstock.client.lines import Lines
from penstock.domain.errors import StoreUnavailable, WaitTimeout
from penstock.domain.instant import Duration, microseconds
from penstock.domain.job import Job
from penstock.domain.states import Status

_QUIET = 40.0
"""A stream says something every 15 seconds; after so many without a word it is taken for dead."""
_PATIENCE = 60.0
"""For so many seconds a server may be away, as when it is replaced by a newer one."""


class Wait:
    """What is known of the wait: when it is over, what was heard last, and how long the server has been away."""

    def __init__(self, job_path: str, timeout: Duration | None) -> None:
        self.path: str = f"{job_path}/events"
        self._seconds = None if timeout is None else microseconds(timeout, "timeout") / 1e6
        self._end = None if self._seconds is None else time.monotonic() + self._seconds
        self._after: str | None = None
        self._silences = 0
        """How many streams have ended without a word, one after another."""
        self._away_since: float | None = None

    def is_over(self, job: Job) -> bool:
        """Whether the job has ended; `WaitTimeout` when the time has instead."""
        self._away_since = None
        if job.status.terminal:
            return True
        if self._left() <= 0:
            raise WaitTimeout(
                f"Job {job.id} is still {job.status} after {self._seconds:g} s.", hint="It goes on; wait again."
            )
        return False

    def arguments(self) -> dict[str, Any]:
        """How the stream is asked for."""
        headers = {"Accept": "text/event-stream"}
        if self._after is not None:
            headers["Last-Event-ID"] = self._after
        return {"headers": headers, "timeout": min(_QUIET, self._left() + 0.01)}

    def heard(self, lines: Lines, line: str) -> bool:
        """Take one line; whether it is time to look at the job."""
        event = lines.feed(line)
        if event is None:
            return self._left() <= 0
        self._after, self._silences = lines.last_id, 0
        if event.kind in ("bye", "resync", "job.deleted"):
            return True
        with contextlib.suppress(ValueError, KeyError, TypeError):
            job = json.loads(event.data).get("job")
            if job is not None and Status(job["status"]).terminal:
                return True
        return self._left() <= 0

    def cut(self, error: Exception) -> None:
        """The stream broke or the server does not answer; one that stays away for too long is given up."""
        if not isinstance(error, StoreUnavailable):
            return
        now = time.monotonic()
        if self._away_since is None:
            self._away_since = now
        if self._left() <= 0 or now - self._away_since > _PATIENCE:
            raise error

    def pause(self) -> float:
        """Seconds until the next look: longer each time that nothing was heard."""
        pause = 0.0 if self._silences == 0 else pause_before(self._silences - 1, None)
        self._silences += 1
        return min(pause, max(0.0, self._left()))

    def _left(self) -> float:
        return 3600.0 if self._end is None else self._end - time.monotonic()


def cuts() -> tuple[type[Exception], ...]:
    """What breaks a stream, but not the wait."""
    import httpx2

    return httpx2.TransportError, StoreUnavailable
