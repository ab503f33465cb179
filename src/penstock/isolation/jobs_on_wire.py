"""Jobs as JSON, for processes of jobs, which have no store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

from penstock.domain.job import Job
from penstock.domain.states import Status

_TIMES = tuple(each.name for each in fields(Job) if each.name.endswith("_at") or each.name == "scheduled_for")


def job_to_json(job: Job) -> dict[str, Any]:
    facts = {each.name: getattr(job, each.name) for each in fields(job)}
    for name in _TIMES:
        facts[name] = None if facts[name] is None else facts[name].isoformat()
    return facts


def job_from_json(data: Mapping[str, Any]) -> Job:
    facts = dict(data)
    for name in _TIMES:
        facts[name] = None if facts[name] is None else datetime.fromisoformat(facts[name])
    facts["status"] = Status(facts["status"])
    facts["outcome"] = None if facts["outcome"] is None else Status(facts["outcome"])
    facts["tags"] = tuple(facts["tags"])
    return Job(**facts)
