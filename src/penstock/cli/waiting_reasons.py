"""Why a job that is waited for does not run: said on stderr, first immediately and then every few seconds."""

from __future__ import annotations

import time
from collections.abc import Sequence

from penstock.cli.connection import Connection, path
from penstock.cli.exit_codes import Refused
from penstock.cli.formatting import full, short
from penstock.cli.output import Output
from penstock.cli.watching import Watched

_EVERY = 5.0
_SILENT = frozenset({"running", "ended"})
"""Reasons that are none: it runs, or has ended."""
_NORMAL = frozenset({"behind"})
"""Worth a word only when it lasts."""


class Explanations:
    """Says why jobs wait, for as long as they do."""

    def __init__(self, api: Connection, out: Output) -> None:
        self._api = api
        self._out = out
        self._next: float | None = None

    def __call__(self, jobs: Sequence[Watched]) -> None:
        """Say it when it is time to."""
        first = self._next is None
        if self._next is not None and time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _EVERY
        for job in jobs:
            if not job.ended:
                self._explain(job, _SILENT | _NORMAL if first else _SILENT)

    def _explain(self, job: Watched, silent: frozenset[str]) -> None:
        try:
            reasons = self._api.get(path("jobs", job.id, "why")).data["reasons"]
        except Refused:
            # The job may be gone: the wait says so.
            return
        for each in reasons:
            if each["code"] not in silent:
                until = f" (until {full(each['until'])})" if each["until"] else ""
                self._out.note(f"{short(job.id)} waits: {each['message']}{until}")
