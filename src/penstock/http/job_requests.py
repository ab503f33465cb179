"""What a request for new jobs asks for: read from its body, checked for its shape, in the library's words."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from pydantic import ValidationError

from penstock.definitions.orders import PLAIN, EnqueueOptions
from penstock.domain.errors import InvalidInput
from penstock.http.create_batching import Wanted
from penstock.http.errors import Refusal
from penstock.http.routing import decoded
from penstock.http.schemas import jobs as shapes
from penstock.http.validation import MOST_PROBLEMS, problems_of, refusal_of_problems

_MOST_FIELDS = 40
"""More than a job has: of a body with more, the first are looked at, and one of them is unknown."""
_NO_OPTIONS = {"definition_key", "definition_version", "params"}


def wanted_job(body: bytes) -> Wanted:
    """The one job that a body asks for."""
    try:
        return _wanted(decoded(body))
    except ValidationError as error:
        raise refusal_of_problems(problems_of(error, shape=shapes.JobAsked)) from None


def wanted_jobs(most: int) -> Callable[[bytes], list[Wanted]]:
    """A reader of bodies that ask for up to `most` jobs; a refusal names the first problems and no more."""

    def read(body: bytes) -> list[Wanted]:
        jobs = _jobs(decoded(body))
        if not 1 <= len(jobs) <= most:
            raise InvalidInput(f"A batch has 1 to {most} jobs, not {len(jobs)}.")
        found: list[Wanted] = []
        problems: list[dict[str, str]] = []
        for index, each in enumerate(jobs):
            try:
                found.append(_wanted(each))
            except ValidationError as error:
                problems += problems_of(error, "jobs", index, shape=shapes.JobAsked)
                if len(problems) >= MOST_PROBLEMS:
                    break
        if problems:
            raise refusal_of_problems(problems[:MOST_PROBLEMS])
        return found

    return read


def _jobs(asked: Any) -> list[Any]:
    """The list in the body of a batch, whose parts are not looked at."""
    jobs = asked.get("jobs") if type(asked) is dict else None
    is_list = type(jobs) is list
    try:
        shapes.BatchAsked.model_validate({**_few(asked), "jobs": []} if is_list else _few(asked))
    except ValidationError as error:
        raise refusal_of_problems(problems_of(error, shape=shapes.BatchAsked)) from None
    if not isinstance(jobs, list):
        raise Refusal("invalid_request", "/jobs should be a list.")
    return jobs


def _few(asked: Any) -> Any:
    """An object without all its fields beyond what any shape has, for an error for each of them costs memory."""
    if type(asked) is dict and len(asked) > _MOST_FIELDS:
        return dict(islice(asked.items(), _MOST_FIELDS))
    return asked


def _wanted(asked: Any) -> Wanted:
    """What one job is asked for with; the model looks at everything but a definition's key and parameters alone."""
    if type(asked) is dict and len(asked) == 2:
        key, params = asked.get("definitionKey"), asked.get("params")
        if type(key) is str and type(params) is dict:
            return key, params, None, PLAIN
    job = shapes.JobAsked.model_validate(_few(asked))
    return job.definition_key, job.params, job.definition_version, _options(job)


def _options(asked: shapes.JobAsked) -> EnqueueOptions:
    if asked.model_fields_set <= _NO_OPTIONS:
        return PLAIN
    reference = None if asked.reference is None else (asked.reference.type, asked.reference.id)
    return EnqueueOptions(
        run_at=asked.run_at,
        delay=asked.delay or 0,
        priority=asked.priority,
        max_attempts=asked.max_attempts,
        idempotency_key=asked.idempotency_key,
        unique=asked.unique if asked.unique is not None else False,
        concurrency_key=asked.concurrency_key,
        reference=reference,
        tags=tuple(asked.tags),
        webhook_url=asked.webhook_url,
        parent_id=asked.parent_id,
        traceparent=asked.traceparent,
        tracestate=asked.tracestate,
    )
