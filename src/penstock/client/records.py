"""From the server's JSON to the records that the library gives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from penstock.domain import payload
from penstock.domain.attempt import Attempt, Phase, StoredLog
from penstock.domain.event import Event
from penstock.domain.job import Job
from penstock.domain.states import Status
from penstock.domain.why import Reason


def job(told: Mapping[str, Any]) -> Job:
    """A job; of parameters and results the text is made again, keys in their order."""
    error, reference = told["error"] or {}, told["reference"] or {}
    outcome = told["outcome"]
    return Job(
        id=told["jobId"],
        definition_key=told["definitionKey"],
        definition_version=told["definitionVersion"],
        status=Status(told["status"]),
        outcome=None if outcome is None else Status(outcome),
        params_text=_text(told["params"]) or "{}",
        result_text=_text(told["result"]),
        error=error.get("message"),
        error_type=error.get("type"),
        attempts=told["attempts"],
        max_attempts=told["maxAttempts"],
        lost=told["lost"],
        fence=told["fence"],
        generation=told["generation"],
        priority=told["priority"],
        progress=told["progress"],
        progress_message=told["progressMessage"],
        current_phase=told["currentPhase"],
        reference_type=reference.get("type"),
        reference_id=reference.get("id"),
        tags=tuple(told["tags"]),
        idempotency_key=told["idempotencyKey"],
        concurrency_key=told["concurrencyKey"],
        unique=told["unique"],
        blocked=False,
        webhook_url=told["webhookUrl"],
        schedule_id=told["scheduleId"],
        scheduled_for=moment(told["scheduledFor"]),
        parent_id=told["parentId"],
        rerun_of=told["rerunOf"],
        actor=told["actor"],
        created_at=_moment(told["createdAt"]),
        run_at=_moment(told["runAt"]),
        queued_at=moment(told["queuedAt"]),
        started_at=moment(told["startedAt"]),
        finished_at=moment(told["finishedAt"]),
        updated_at=_moment(told["updatedAt"]),
        stale_at=moment(told["staleAt"]),
        cancel_requested_at=moment(told["cancelRequestedAt"]),
        worker_id=told["workerId"],
        duration=told["duration"],
    )


def phase(told: Mapping[str, Any], job_id: str) -> Phase:
    return Phase(
        job_id=job_id,
        name=told["name"],
        position=told["position"],
        status=told["status"],
        progress=told["progress"],
        message=told["message"],
        result_text=_text(told.get("result")),
        error=told["error"],
        fence=told["fence"],
        started_at=moment(told["startedAt"]),
        finished_at=moment(told["finishedAt"]),
    )


def attempt(told: Mapping[str, Any], job_id: str) -> Attempt:
    error = told["error"] or {}
    return Attempt(
        job_id=job_id,
        fence=told["fence"],
        number=told["number"],
        worker_id=told["workerId"],
        status=Status(told["status"]),
        cause=told["cause"],
        started_at=moment(told["startedAt"]),
        finished_at=_moment(told["finishedAt"]),
        result_text=_text(told["result"]),
        error_type=error.get("type"),
        error=error.get("message"),
        traceback=told["traceback"],
        fingerprint=told["fingerprint"],
        exit_code=told["exitCode"],
        signal=told["signal"],
        peak_memory=told["peakMemory"],
        cpu_seconds=told["cpuSeconds"],
        phases=tuple(phase(each, job_id) for each in told["phases"]),
    )


def log_line(told: Mapping[str, Any]) -> StoredLog:
    duration = told["duration"]
    return StoredLog(
        seq=told["seq"],
        fence=told["fence"],
        at=_moment(told["at"]),
        level=told["level"],
        phase=told["phase"],
        message=told["message"],
        details_text=_text(told["details"]),
        duration=None if duration is None else round(duration * 1e6),
    )


def reason(told: Mapping[str, Any]) -> Reason:
    return Reason(told["code"], told["message"], moment(told["until"]), told["by"])


def event(told: Mapping[str, Any]) -> Event:
    return Event(
        seq=told["seq"],
        type=told["type"],
        at=_moment(told["at"]),
        job_id=told["jobId"],
        subject=told["subject"],
        fence=told["fence"],
        data_text=_text(told["data"]),
        attempt=told["attempt"],
        duration=told["duration"],
        source=told["source"],
        schedule_id=told["scheduleId"],
        schedule_expression=told["scheduleExpression"],
    )


def moment(text: str | None) -> datetime | None:
    return None if text is None else _moment(text)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _text(value: object) -> str | None:
    if value is None:
        return None
    return payload.to_json(value).decode() if isinstance(value, dict | list) else json.dumps(value, ensure_ascii=False)
