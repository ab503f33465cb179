"""`penstock jobs wait` and `penstock jobs watch`: follow jobs until they have ended."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from penstock.cli.connection import DEFAULTS, Common, Connection, connect, path
from penstock.cli.exit_codes import ApiError, Exit, exit_of_all, exit_of_job
from penstock.cli.formatting import full, seconds, short
from penstock.cli.job_follower import FollowedJob, follow
from penstock.cli.job_selection import job_ids
from penstock.cli.output import Output, write
from penstock.domain.errors import InvalidInput

Jobs = Annotated[str, Parameter(help="Ids, their last characters, @last or @last-failed.")]
Timeout = Annotated[str | None, Parameter(help="The longest time to wait, such as 10m; the job continues afterwards.")]


def watch(*jobs: Jobs, timeout: Timeout = None, common: Common = DEFAULTS) -> Exit:
    """Follow jobs live until they have ended; the exit code tells how. Ctrl-C stops following only.

    On a terminal phases are moving bars; elsewhere every change is a line.

    """
    with connect(common) as api:
        return watch_all(api, Output(common.json), _found(api, jobs), timeout)


def wait(*jobs: Jobs, timeout: Timeout = None, common: Common = DEFAULTS) -> Exit:
    """Wait until jobs have ended; the exit code tells how. Reasons for waiting are printed on stderr."""
    with connect(common) as api:
        return wait_all(api, Output(common.json), _found(api, jobs), timeout)


def watch_all(api: Connection, out: Output, found: list[str], timeout: str | None) -> Exit:
    """Show jobs until they have ended."""
    from penstock.cli import job_display as screens

    length = None if timeout is None else seconds(timeout)
    try:
        if out.animated:
            with screens.ScreenView(out) as screen:
                ended = follow(api, found, screen, timeout=length)
        else:
            say = out.note if out.as_json else _say
            ended = follow(api, found, screens.LineView(say, len(found) > 1), timeout=length)
    except KeyboardInterrupt:
        ids = " ".join(short(each) for each in found)
        out.note(f"detached; the jobs continue: penstock jobs watch {ids}")
        return Exit.INTERRUPTED
    return _told(api, out, ended, quiet=True)


def wait_all(api: Connection, out: Output, found: list[str], timeout: str | None) -> Exit:
    """Print the results of jobs when they have ended; until then, the reasons why they wait."""
    length = None if timeout is None else seconds(timeout)
    if out.as_json:
        return _told(api, out, follow(api, found, timeout=length), quiet=False)
    return _told(api, out, follow(api, found, timeout=length, looked=WaitReasons(api, out)), quiet=False)


def _found(api: Connection, jobs: tuple[str, ...]) -> list[str]:
    if not jobs:
        raise InvalidInput("No job was given.", hint="Give an id, its last characters, @last or @last-failed.")
    return job_ids(api, jobs)


def _told(api: Connection, out: Output, ended: list[FollowedJob], *, quiet: bool) -> Exit:
    if out.as_json:
        texts = [api.get(path("jobs", each.id)).text for each in ended]
        out.document(texts[0] if len(texts) == 1 else f"[{','.join(texts)}]")
    elif not quiet:
        from penstock.cli.job_display import ending

        for each in ended:
            out.line(f"{short(each.id)}  {ending(each.detail, out.ascii_only)}")
    return exit_of_all([exit_of_job(each.detail) for each in ended])


def _say(text: str) -> None:
    from penstock.domain.secrets.policy import neutralise

    write(neutralise(text))


_EVERY = 5.0
_SILENT = frozenset({"running", "ended"})
"""Codes that are no reasons to wait: the job runs, or has ended."""
_NORMAL = frozenset({"behind"})
"""Reasons that are printed only if they last."""


class WaitReasons:
    """Prints why jobs wait, while they do."""

    def __init__(self, api: Connection, out: Output) -> None:
        self._api = api
        self._out = out
        self._next: float | None = None

    def __call__(self, jobs: Sequence[FollowedJob]) -> None:
        """Print the reasons if it is time to."""
        first = self._next is None
        if self._next is not None and time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _EVERY
        for job in jobs:
            if not job.ended:
                self._explain(job, _SILENT | _NORMAL if first else _SILENT)

    def _explain(self, job: FollowedJob, silent: frozenset[str]) -> None:
        try:
            reasons = self._api.get(path("jobs", job.id, "why")).data["reasons"]
        except ApiError:
            # The job may be deleted; the wait reports that.
            return
        for each in reasons:
            if each["code"] not in silent:
                until = f" (until {full(each['until'])})" if each["until"] else ""
                self._out.note(f"{short(job.id)} waits: {each['message']}{until}")
