"""`penstock jobs cancel, retry, delete, rerun, approve, reject, reschedule`: change jobs, by id or in bulk."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from cyclopts import Parameter

from penstock.cli.connection import DEFAULTS, Common, Connection, connect, path
from penstock.cli.exit_codes import Exit, exit_of, exit_of_all
from penstock.cli.formatting import count, moment, seconds, short
from penstock.cli.job_selection import NO_FILTER, Filter, job_id, job_ids
from penstock.cli.jobs import JobName
from penstock.cli.output import Output, one_line, problem
from penstock.cli.parameters import object_of, value_of
from penstock.domain.errors import InvalidInput, PenstockError

Jobs = Annotated[str, Parameter(help="Ids, their last characters, @last or @last-failed; or use filters instead.")]
All = Annotated[bool, Parameter(name="--all", negative="", help="All jobs, instead of a filter.")]
Yes = Annotated[bool, Parameter(name=["--yes", "-y"], negative="", help="Do not ask first.")]
DryRun = Annotated[bool, Parameter(negative="", help="Only print how many jobs would be changed.")]
_LONGEST = 3600.0


def cancel(
    *jobs: Jobs, which: Filter = NO_FILTER, everything: All = False, dry_run: DryRun = False, yes: Yes = False,
    common: Common = DEFAULTS,
) -> Exit:  # fmt: skip
    """Cancel jobs; a running one is asked to stop, and killed after its grace period."""
    if jobs:
        _refuse_both(which, everything, dry_run)
        return _each(common, jobs, lambda api, one: api.post(path("jobs", one, "cancel"), repeatable=True).text)
    return _bulk(common, "cancel", which, everything, dry_run, yes)


def retry(
    *jobs: Jobs,
    from_phase: Annotated[str | None, Parameter(help="Run this phase and all later ones again.")] = None,
    fresh: Annotated[bool, Parameter(negative="", help="Run every phase again.")] = False,
    which: Filter = NO_FILTER,
    everything: All = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    common: Common = DEFAULTS,
) -> Exit:
    """Queue failed, cancelled or stale jobs again, with all their attempts; finished phases are kept."""
    if jobs:
        _refuse_both(which, everything, dry_run)
        body = {"fromPhase": from_phase, "fresh": fresh}
        return _each(common, jobs, lambda api, one: api.post(path("jobs", one, "retry"), body).text)
    if from_phase is not None or fresh:
        raise InvalidInput("--from-phase and --fresh require job ids.", hint="Give the ids of the jobs.")
    return _bulk(common, "retry", which, everything, dry_run, yes)


def delete(
    *jobs: Jobs, which: Filter = NO_FILTER, everything: All = False, dry_run: DryRun = False, yes: Yes = False,
    common: Common = DEFAULTS,
) -> Exit:  # fmt: skip
    """Delete ended jobs and everything that belongs to them."""
    if jobs:
        _refuse_both(which, everything, dry_run)
        Output().ask(f"This deletes {count(len(jobs), 'job')}.", yes=yes)
        return _each(common, jobs, _delete)
    return _bulk(common, "delete", which, everything, dry_run, yes)


def rerun(
    job: JobName,
    /,
    *pairs: Annotated[str, Parameter(help="Parameters to change, such as width=640.")],
    params: Annotated[
        str | None,
        Parameter(allow_leading_hyphen=True, help="Parameters to change: JSON, @file, or - for stdin."),
    ] = None,
    priority: Annotated[int | None, Parameter(help="Another priority, 0 to 20.")] = None,
    max_attempts: Annotated[int | None, Parameter(help="Another number of attempts.")] = None,
    run_at: Annotated[str | None, Parameter(help="When to run: a time, or a duration from now.")] = None,
    idempotency_key: Annotated[str | None, Parameter(help="An idempotency key.")] = None,
    common: Common = DEFAULTS,
) -> None:
    """Create a copy of a job, linked to the original; given parameters replace the original ones."""
    out = Output(common.json)
    body: dict[str, Any] = {
        "priority": priority,
        "maxAttempts": max_attempts,
        "idempotencyKey": idempotency_key,
        "runAt": None if run_at is None else moment(run_at, past=False),
    }
    with connect(common) as api:
        found = job_id(api, job)
        if pairs or params is not None:
            body["params"] = object_of(pairs, params)
        body = {name: value for name, value in body.items() if value is not None}
        answer = api.post(path("jobs", found, "rerun"), body, repeatable=idempotency_key is not None)
    if common.json:
        out.document(answer.text)
        return
    made = answer.data
    out.line(made["jobId"])
    out.note(f"{made['status']}; follow it by `penstock jobs watch {short(made['jobId'])}`")


def approve(
    *jobs: Jobs,
    note: Annotated[str | None, Parameter(help="A note for the decision.")] = None,
    result: Annotated[
        str | None, Parameter(allow_leading_hyphen=True, help="JSON that replaces the handler's result.")
    ] = None,
    common: Common = DEFAULTS,
) -> Exit:
    """Approve a review: the job continues, or has succeeded if no phase is left."""
    body: dict[str, Any] = {"note": note}
    if result is not None:
        body["result"] = value_of(result, "--result")
    return _each(common, _named(jobs), lambda api, one: api.post(path("jobs", one, "approve"), body).text)


def reject(
    *jobs: Jobs,
    note: Annotated[str | None, Parameter(help="The reason; it becomes the job's error.")] = None,
    common: Common = DEFAULTS,
) -> Exit:
    """Reject a review: the job fails, with the note as its error."""
    body = {"note": note}
    return _each(common, _named(jobs), lambda api, one: api.post(path("jobs", one, "reject"), body).text)


def reschedule(
    *jobs: Jobs,
    run_at: Annotated[str | None, Parameter(help="When to run: a time, or a duration from now.")] = None,
    delay: Annotated[str | None, Parameter(help="Run after this duration, such as 90s or 2h.")] = None,
    priority: Annotated[int | None, Parameter(help="Another priority, 0 to 20; higher runs first.")] = None,
    common: Common = DEFAULTS,
) -> Exit:
    """Change the time or the priority of waiting jobs."""
    body: dict[str, Any] = {
        "priority": priority,
        "runAt": None if run_at is None else moment(run_at, past=False),
        "delay": None if delay is None else seconds(delay),
    }
    body = {name: value for name, value in body.items() if value is not None}
    if not body:
        raise InvalidInput("No change was given.", hint="Give --run-at, --delay or --priority.")
    return _each(common, _named(jobs), lambda api, one: api.ask("PATCH", path("jobs", one), body=body).text)


def _named(jobs: tuple[str, ...]) -> tuple[str, ...]:
    if not jobs:
        raise InvalidInput("No job was given.", hint="Give an id, its last characters, @last or @last-failed.")
    return jobs


def _refuse_both(which: Filter, everything: bool, dry_run: bool) -> None:
    if which != NO_FILTER or everything or dry_run:
        raise InvalidInput("Give ids or a filter, not both.", hint="--all and --dry-run require filters.")


def _delete(api: Connection, one: str) -> str:
    api.ask("DELETE", path("jobs", one))
    return "{}"


def _each(common: Common, names: tuple[str, ...], change: Callable[[Connection, str], str]) -> Exit:
    """Change jobs one by one; a failure does not stop the others."""
    out = Output(common.json)
    texts: list[str] = []
    codes: list[Exit] = []
    with connect(common) as api:
        found = job_ids(api, names)
        for one in found:
            try:
                text = change(api, one)
            except PenstockError as error:
                if len(found) == 1:
                    raise
                texts.append(one_line(problem(error)))
                codes.append(exit_of(error))
                out.note(f"{short(one)}: {error.message}")
            else:
                texts.append(text)
                codes.append(Exit.DONE)
                if not common.json:
                    out.line(f"{short(one)}  {_became(json.loads(text))}")
    if common.json:
        out.document(texts[0] if len(texts) == 1 else f"[{','.join(texts)}]")
    return exit_of_all(codes)


def _became(data: Mapping[str, Any]) -> str:
    status: str = data.get("status", "deleted")
    return status


def _bulk(common: Common, action: str, which: Filter, everything: bool, dry_run: bool, yes: bool) -> Exit:
    out = Output(common.json)
    if which.searches:
        raise InvalidInput(
            f"--error and --param search the newest jobs only, so they cannot select jobs to {action}.",
            hint="List the jobs with `penstock jobs list --quiet` and the same options, and give their ids.",
        )
    if which == NO_FILTER and not everything:
        raise InvalidInput(f"No job to {action} was given.", hint="Give ids, or filters such as --status, or --all.")
    body = {"action": action, "filter": which.fields(), "everything": everything}
    with connect(common) as api:
        counted = api.post("/v1/jobs/bulk", {**body, "dryRun": True}, repeatable=True, patience=_LONGEST)
        fit = counted.data["changed"]
        if dry_run or not fit:
            answer = counted
        else:
            out.ask(f"This would {action} {count(fit, 'job')}.", yes=yes)
            answer = api.post("/v1/jobs/bulk", body, patience=_LONGEST)
    data = answer.data
    if common.json:
        out.document(answer.text)
    elif data["dryRun"]:
        out.line(f"{count(fit, 'job')} of {data['matched']:,} matching jobs can be changed; nothing was done.")
    else:
        out.line(f"{action}: {count(data['changed'], 'job')} changed, {data['skipped']:,} left unchanged.")
    return Exit.PARTLY if not data["dryRun"] and data["changed"] < fit else Exit.DONE
