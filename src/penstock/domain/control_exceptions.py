"""What a handler may raise to say how its attempt shall end."""

from __future__ import annotations

from typing import Any

from penstock.domain.instant import Duration, microseconds

_LONGEST_NOTE = 2000


class Verdict(Exception):
    """The kin of `Retry`, `Fail`, `Snooze` and `NeedsReview`: a handler's own word about its attempt."""


class Retry(Verdict):
    """Try again, `after` so much time instead of what the definition's backoff says; it counts as a failure."""

    def __init__(self, message: str = "The handler asked for another attempt.", *, after: Duration | None = None):
        super().__init__(message)
        self.message = message
        self.after: int | None = None if after is None else microseconds(after, "Retry(after=)")


class Fail(Verdict):
    """Give up: no further attempt, however many are left."""

    def __init__(self, message: str = "The handler gave up."):
        super().__init__(message)
        self.message = message


class Snooze(Verdict):
    """Not now: come back after `delay`. It costs no attempt."""

    def __init__(self, delay: Duration, message: str = ""):
        super().__init__(message or "The handler asked to be called later.")
        self.delay: int = microseconds(delay, "Snooze(delay)")


class NeedsReview(Verdict):
    """A person has to look at this; `data` is the result of the phase if they approve and change nothing."""

    def __init__(self, note: str = "", data: Any = None):
        super().__init__(note or "The handler asked for a review.")
        self.note: str = note[:_LONGEST_NOTE]
        self.data = data


class Cancelled(BaseException):
    """Somebody asked for the job to stop. Clean up and let it pass; `except Exception` does not catch it."""


for _public in (Retry, Fail, Snooze, NeedsReview, Cancelled):
    # Users import them from penstock: tracebacks and stored errors show that name.
    _public.__module__ = "penstock"
del _public
