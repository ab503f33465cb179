"""The public JSON of jobs and their records: camelCase, the same over HTTP, SSE and webhooks.

Parameters and results are inserted as stored text, so that no number is rounded and no key moves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from penstock.domain.attempt import Attempt, Phase, Review, StoredLog
from penstock.domain.event import Event
from penstock.domain.job import Created, Job
from penstock.domain.webhook.url import without_path
from penstock.domain.why import Reason


def job_text(job: Job, *, params: str | None = None, **more: str | None) -> str:
    """A job as JSON text; `params` replace its own, `more` are further fields that are JSON text already."""
    texts = {"params": job.params_text if params is None else params, "result": job.result_text or "null", **more}
    return spliced(job_facts(job), texts)


def job_facts(job: Job) -> dict[str, Any]:
    """Return the fields of a job, without parameters and result."""
    return {
        "jobId": job.id,
        "definitionKey": job.definition_key,
        "definitionVersion": job.definition_version,
        "status": job.status,
        "outcome": job.outcome,
        "error": error_facts(job.error_type, job.error),
        "attempts": job.attempts,
        "maxAttempts": job.max_attempts,
        "lost": job.lost,
        "fence": job.fence,
        "generation": job.generation,
        "priority": job.priority,
        "progress": job.progress,
        "progressMessage": job.progress_message,
        "currentPhase": job.current_phase,
        "reference": reference_facts(job.reference_type, job.reference_id),
        "tags": list(job.tags),
        "idempotencyKey": job.idempotency_key,
        "concurrencyKey": job.concurrency_key,
        "unique": job.unique,
        "scheduleId": job.schedule_id,
        "scheduledFor": iso(job.scheduled_for),
        "parentId": job.parent_id,
        "rerunOf": job.rerun_of,
        "webhookUrl": None if job.webhook_url is None else without_path(job.webhook_url),
        "webhookSent": job.webhook_sent,
        "actor": job.actor,
        "createdAt": iso(job.created_at),
        "runAt": iso(job.run_at),
        "queuedAt": iso(job.queued_at),
        "startedAt": iso(job.started_at),
        "finishedAt": iso(job.finished_at),
        "duration": job.duration,
        "updatedAt": iso(job.updated_at),
        "staleAt": iso(job.stale_at),
        "cancelRequestedAt": iso(job.cancel_requested_at),
        "workerId": job.worker_id,
    }


def phase_text(phase: Phase) -> str:
    """A phase as JSON text."""
    return spliced(_phase_facts(phase), {"result": phase.result_text or "null"})


def _phase_facts(phase: Phase) -> dict[str, Any]:
    return {
        "name": phase.name,
        "position": phase.position,
        "status": phase.status,
        "progress": phase.progress,
        "message": phase.message,
        "startedAt": iso(phase.started_at),
        "completedAt": iso(phase.completed_at),
        "finishedAt": iso(phase.finished_at),
        "error": phase.error,
        "fence": phase.fence,
    }


def phases_text(phases: Sequence[Phase]) -> str:
    """Phases as JSON text."""
    return f"[{','.join(map(phase_text, phases))}]"


def created_text(created: Created) -> str:
    """The answer to a creation as JSON text."""
    # Ids and statuses have nothing to escape.
    made = "true" if created.created else "false"
    return f'{{"jobId":"{created.job_id}","status":"{created.status.value}","created":{made}}}'


def attempt_text(attempt: Attempt) -> str:
    """An attempt that has ended as JSON text."""
    facts = {
        "fence": attempt.fence,
        "number": attempt.number,
        "workerId": attempt.worker_id,
        "status": attempt.status,
        "cause": attempt.cause,
        "startedAt": iso(attempt.started_at),
        "finishedAt": iso(attempt.finished_at),
        "error": error_facts(attempt.error_type, attempt.error),
        "traceback": attempt.traceback,
        "fingerprint": attempt.fingerprint,
        "exitCode": attempt.exit_code,
        "signal": attempt.signal,
        "peakMemory": attempt.peak_memory,
        "cpuSeconds": attempt.cpu_seconds,
        "phases": [_phase_facts(each) for each in attempt.phases],
    }
    return spliced(facts, {"result": attempt.result_text or "null"})


def review_text(review: Review) -> str:
    """A review as JSON text."""
    facts = {
        "fence": review.fence,
        "note": review.note,
        "askedAt": iso(review.asked_at),
        "decision": review.decision,
        "decidedBy": review.decided_by,
        "decidedNote": review.decided_note,
        "decidedAt": iso(review.decided_at),
    }
    return spliced(facts, {"data": review.data_text or "null"})


def log_text(line: StoredLog) -> str:
    """A line of a job's log as JSON text."""
    facts = {
        "seq": line.seq,
        "fence": line.fence,
        "at": iso(line.at),
        "level": line.level,
        "phase": line.phase,
        "message": line.message,
        "duration": None if line.duration is None else line.duration / 1e6,
    }
    return spliced(facts, {"details": line.details_text or "null"})


def reason_text(reason: Reason) -> str:
    """One reason of `why` as JSON text."""
    facts = {"code": reason.code, "message": reason.message, "until": iso(reason.until), "by": reason.by}
    return spliced(facts, {})


def event_text(event: Event, **more: str | None) -> str:
    """Return an event as JSON text; its data is inserted as stored."""
    facts = {
        "seq": event.seq,
        "type": event.type,
        "at": iso(event.at),
        "jobId": event.job_id,
        "subject": event.subject,
        "fence": event.fence,
        **event_facts(event),
    }
    return spliced(facts, {"data": event.data_text or "null", **more})


def event_facts(event: Event) -> dict[str, Any]:
    """Return the fields of an event about its attempt, file and schedule."""
    return {
        "attempt": event.attempt,
        "duration": event.duration,
        "source": event.source,
        "scheduleId": event.schedule_id,
        "scheduleExpression": event.schedule_expression,
    }


def error_facts(kind: str | None, message: str | None) -> dict[str, Any] | None:
    """An error as its type and its text; None when there is none."""
    return None if kind is None and message is None else {"type": kind, "message": message}


def reference_facts(kind: str | None, name: str | None) -> dict[str, Any] | None:
    return None if kind is None else {"type": kind, "id": name}


def iso(moment: datetime | None) -> str | None:
    """An instant as ISO 8601 in UTC, such as 2026-01-31T12:00:00.000001Z."""
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def spliced(facts: Mapping[str, Any], texts: Mapping[str, str | None]) -> str:
    """One JSON object from facts and from fields that are JSON text already."""
    text = json.dumps(facts, ensure_ascii=False, separators=(",", ":"))
    rest = ",".join(f'"{name}":{value}' for name, value in texts.items() if value is not None)
    if not rest:
        return text
    return f"{text[:-1]},{rest}}}" if facts else f"{{{rest}}}"


def listed(name: str, items: list[str], **more: Any) -> str:
    """Return a list as JSON text under the noun of its route, with further fields."""
    return spliced(more, {name: f"[{','.join(items)}]"})
