"""What a user writes with the package that openapi-python-client makes of the document."""

from __future__ import annotations

import json
import sys
from typing import Any, TypeVar, cast

from made.api.jobs import cancel_job, change_job, get_job, list_jobs, start_job  # type: ignore[import-not-found]
from made.api.schedules import change_schedule  # type: ignore[import-not-found]
from made.client import AuthenticatedClient  # type: ignore[import-not-found]
from made.models import (  # type: ignore[import-not-found]
    JobPatch,
    JobRequest,
    JobRequestParams,
    ListJobsStatusType0Item,
    ProblemAnswer,
    SchedulePatch,
)

T = TypeVar("T")


def main(url: str, token: str) -> None:
    """Start, change, read, list and cancel a job, and change a schedule."""
    api = AuthenticatedClient(base_url=url, token=token)
    params = JobRequestParams.from_dict({"text": "x"})
    asked = JobRequest(definition_key="work", params=params, delay=3600, tags=["made"])
    started = _good(start_job.sync(client=api, body=asked))
    _good(change_job.sync(started.job_id, client=api, body=JobPatch(priority=7)))
    job = _good(get_job.sync(started.job_id, client=api))
    page = _good(list_jobs.sync(client=api, tag="made", status=[ListJobsStatusType0Item.SCHEDULED]))
    cancelled = _good(cancel_job.sync(started.job_id, client=api))
    changed = _good(change_schedule.sync("nightly", client=api, body=SchedulePatch(priority=3)))
    refused = get_job.sync("00000000-0000-7000-8000-000000000000", client=api)
    found = {
        "started": started.status,
        "priority": job.priority,
        "runAt": job.run_at.isoformat(),
        "listed": [each.job_id == started.job_id for each in page.jobs],
        "cancelled": cancelled.status,
        "timezone": changed.timezone,
        "enabled": changed.enabled,
        "overlap": changed.overlap,
        "code": refused.error.code,
    }
    print(json.dumps(found, default=str))


def _good(answer: T | None) -> Any:
    if answer is None or isinstance(answer, ProblemAnswer):
        raise SystemExit(f"refused: {answer}")
    return cast("Any", answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
