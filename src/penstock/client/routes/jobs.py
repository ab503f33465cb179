"""`/v1/jobs`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from penstock.client import records
from penstock.client.exchange import Asked, Talk, error_of
from penstock.client.new_jobs import options_json
from penstock.client.routes.requests import given_only, path_part, refuse_name, seconds
from penstock.domain.errors import Conflict, InvalidInput
from penstock.domain.job import Attempt, Count, Created, Job, Page, Phase, StoredLog
from penstock.domain.job_json import iso
from penstock.domain.states import Status
from penstock.domain.why import Reason
from penstock.surface import enqueue_options as given
from penstock.surface import jobs as surface
from penstock.surface.jobs import Bulk

_MOST_COUNTED = 10_000
_FILTERS = {
    "job_id": "jobId", "status": "status", "definition_key": "definitionKey", "reference_type": "referenceType",
    "reference_id": "referenceId", "tag": "tag", "schedule_id": "scheduleId", "created_from": "createdFrom",
    "created_to": "createdTo", "fingerprint": "fingerprint", "parent_id": "parentId", "error": "error",
}  # fmt: skip


def list_jobs(asked: surface.ListJobs) -> Talk[Page]:
    query: dict[str, Any] = {"limit": asked.limit, "sort": asked.sort, **_filter(asked.which)}
    if query.get("jobId") == []:
        # A query without an id would select all jobs.
        return Page([], None)
    if asked.cursor is not None:
        query["cursor"] = asked.cursor
    told = (yield Asked("GET", "/v1/jobs", query=query)).json()
    return Page([records.job(each) for each in told["jobs"]], told["nextCursor"], told.get("searched"))


def count_jobs(asked: surface.CountJobs) -> Talk[Count]:
    if not 1 <= given.integer(asked.cap, "cap") <= _MOST_COUNTED:
        raise InvalidInput(f"cap must be 1 to {_MOST_COUNTED}, not {asked.cap}: a server counts no further.")
    query: dict[str, Any] = {"limit": 1, "count": "true", **_filter(asked.which)}
    if query.get("jobId") == []:
        return Count(0, False)
    told = (yield Asked("GET", "/v1/jobs", query=query)).json()
    return Count(min(asked.cap, told["count"]), told["countCapped"] or told["count"] > asked.cap)


def read_job(asked: surface.ReadJob) -> Talk[Job]:
    return records.job((yield Asked("GET", job_path(asked.job_id))).json())


def read_attempts(asked: surface.ReadAttempts) -> Talk[list[Attempt]]:
    told = (yield Asked("GET", f"{job_path(asked.job_id)}/attempts")).json()
    return [records.attempt(each, asked.job_id) for each in told["attempts"]]


def read_logs(asked: surface.ReadLogs) -> Talk[list[StoredLog]]:
    wanted = {
        "after": asked.after, "limit": asked.limit, "level": asked.level, "phase": asked.phase,
        "attempt": asked.attempt,
    }  # fmt: skip
    told = (yield Asked("GET", f"{job_path(asked.job_id)}/logs", query=given_only(wanted))).json()
    return [records.log_line(each) for each in told["logs"]]


def read_phases(asked: surface.ReadPhases) -> Talk[list[Phase]]:
    told = (yield Asked("GET", job_path(asked.job_id))).json()
    return [records.phase(each, asked.job_id) for each in told["phases"]]


def explain_job(asked: surface.ExplainJob) -> Talk[list[Reason]]:
    told = (yield Asked("GET", f"{job_path(asked.job_id)}/why")).json()
    return [records.reason(each) for each in told["reasons"]]


def cancel_job(asked: surface.CancelJob) -> Talk[Status]:
    refuse_name(asked.by)
    path = job_path(asked.job_id)
    answer = yield Asked("POST", f"{path}/cancel", may_be_refused=True)
    if answer.status < 300:
        return Status(answer.json()["status"])
    error = error_of(answer)
    if answer.repeated and isinstance(error, Conflict):
        # This very request may have cancelled the job, and its first answer was lost.
        status = Status((yield Asked("GET", path)).json()["status"])
        if status is Status.CANCELLED:
            return status
    raise error


def retry_job(asked: surface.RetryJob) -> Talk[Status]:
    refuse_name(asked.by)
    body = {"fromPhase": asked.from_phase, "fresh": asked.fresh}
    return (yield from _change(asked.job_id, "retry", body))


def rerun_job(asked: surface.RerunJob) -> Talk[Created]:
    refuse_name(asked.by)
    body = options_json(given.enqueue_options(asked.options))
    if asked.params is not None:
        body["params"] = dict(asked.params)
    return records.created((yield Asked("POST", f"{job_path(asked.job_id)}/rerun", body=body)).json())


def approve_job(asked: surface.ApproveJob) -> Talk[Status]:
    refuse_name(asked.by)
    body = given_only({"note": asked.note})
    if asked.result is not ...:
        body["result"] = asked.result
    return (yield from _change(asked.job_id, "approve", body))


def reject_job(asked: surface.RejectJob) -> Talk[Status]:
    refuse_name(asked.by)
    return (yield from _change(asked.job_id, "reject", given_only({"note": asked.note})))


def delete_job(asked: surface.DeleteJob) -> Talk[None]:
    refuse_name(asked.by)
    yield Asked("DELETE", job_path(asked.job_id), repeatable=False)


def reschedule_job(asked: surface.RescheduleJob) -> Talk[Status]:
    refuse_name(asked.by)
    given.due(asked.run_at, asked.delay)
    body = given_only({"runAt": iso(asked.run_at), "priority": asked.priority})
    if asked.run_at is None:
        body["delay"] = seconds(asked.delay, "delay")
    return (yield from _patch(asked.job_id, body))


def reprioritise_job(asked: surface.ReprioritiseJob) -> Talk[None]:
    refuse_name(asked.by)
    yield from _patch(asked.job_id, {"priority": given.integer(asked.priority, "priority")})


def change_in_bulk(asked: surface.ChangeInBulk) -> Talk[Bulk]:
    refuse_name(asked.by)
    body = given_only(
        {
            "action": asked.action, "filter": _filter(asked.which), "dryRun": asked.dry_run, "limit": asked.limit,
            "everything": asked.everything, "priority": asked.priority,
        }
    )  # fmt: skip
    told = (yield Asked("POST", "/v1/jobs/bulk", body=body, repeatable=asked.dry_run)).json()
    return Bulk(told["matched"], told["changed"], told["skipped"])


def job_path(job_id: str) -> str:
    return f"/v1/jobs/{path_part(given.job_id(job_id), 'The id of a job')}"


def _change(job_id: str, verb: str, body: object) -> Talk[Status]:
    answer = yield Asked("POST", f"{job_path(job_id)}/{verb}", body=body, repeatable=False)
    return Status(answer.json()["status"])


def _patch(job_id: str, body: object) -> Talk[Status]:
    answer = yield Asked("PATCH", job_path(job_id), body=body, repeatable=False)
    return Status(answer.json()["status"])


def _filter(which: Mapping[str, Any]) -> dict[str, Any]:
    searched = given.job_filter(which).params or ()
    found = {_FILTERS[name]: value for name, value in which.items() if value is not None and name != "params"}
    for name, value in found.items():
        if isinstance(value, datetime):
            found[name] = iso(value)
        elif name in ("status", "jobId"):
            found[name] = [value] if isinstance(value, str) else [str(each) for each in value]
    return found | {f"params.{name}": value for name, value in searched}
