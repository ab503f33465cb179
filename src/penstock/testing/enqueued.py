"""Assertions on jobs that code enqueued, and their failure messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from penstock.definitions.signature import plain_text
from penstock.domain import payload
from penstock.domain.errors import refuse_unknown
from penstock.domain.instant import microseconds
from penstock.domain.job import Job
from penstock.domain.secrets.policy import mask_params

_READ: Mapping[str, Callable[[Job], Any]] = {
    "run_at": lambda job: job.run_at,
    "delay": lambda job: (job.run_at - job.created_at) / timedelta(seconds=1),
    "priority": lambda job: job.priority,
    "max_attempts": lambda job: job.max_attempts,
    "idempotency_key": lambda job: job.idempotency_key,
    "unique": lambda job: job.unique,
    "concurrency_key": lambda job: job.concurrency_key,
    "reference": lambda job: None if job.reference_type is None else (job.reference_type, job.reference_id),
    "tags": lambda job: job.tags,
    "webhook_url": lambda job: job.webhook_url,
    "parent_id": lambda job: job.parent_id,
    "status": lambda job: job.status.value,
}
_MOST_SHOWN = 50


class Wanted:
    """Jobs of one definition with certain parameters and options."""

    def __init__(self, key: str, params: Mapping[str, Any] | None, options: Mapping[str, Any]) -> None:
        refuse_unknown(options, tuple(_READ), "an option to look for")
        self._key = key
        # In stored form: a date is a string there.
        stored: Any = payload.load(plain_text(dict(params or {}), "params"))
        self._params: Mapping[str, Any] = stored
        self._options = dict(options)
        if "delay" in self._options:
            self._options["delay"] = microseconds(self._options["delay"], "delay") / 1e6

    def among(self, jobs: Sequence[Job]) -> list[Job]:
        return [job for job in jobs if self._is_meant(job)]

    def described(self) -> str:
        parts = [f"of {self._key!r}"]
        if self._params:
            parts.append(f"with {payload.encode(self._params)}")
        if self._options:
            parts.append("and " + ", ".join(f"{name}={value!r}" for name, value in self._options.items()))
        return " ".join(parts)

    def listing(self, jobs: Sequence[Job], secrets: Mapping[str, Sequence[str]]) -> str:
        """Return the existing jobs, one a line, with the expected ones."""
        if not jobs:
            return "No job was enqueued at all."
        lines = [self._line(job, secrets.get(job.definition_key, ())) for job in jobs[:_MOST_SHOWN]]
        if len(jobs) > _MOST_SHOWN:
            lines.append(f"  … and {len(jobs) - _MOST_SHOWN} more")
        return "\n".join(["Enqueued were:", *lines])

    def _is_meant(self, job: Job) -> bool:
        if job.definition_key != self._key:
            return False
        params: Any = job.params
        if any(name not in params or params[name] != value for name, value in self._params.items()):
            return False
        return all(_same(name, _READ[name](job), value) for name, value in self._options.items())

    def _line(self, job: Job, secret: Sequence[str]) -> str:
        shown = mask_params(job.params_text, secret)
        facts = "".join(f", {name}={_READ[name](job)!r}" for name in self._options if name != "status")
        return f"  {job.definition_key} {shown} ({job.status}{facts})"


def _same(name: str, found: Any, wanted: Any) -> bool:
    match name:
        case "tags":
            return set([wanted] if isinstance(wanted, str) else wanted) <= set(found)
        case "unique" if isinstance(wanted, bool):
            return (found is not None) is wanted
        case "reference":
            return bool(found == (None if wanted is None else tuple(wanted)))
        case _:
            return bool(found == wanted)
