"""`/v1/workers` and `/v1/worker/config`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from penstock.client import records
from penstock.client.exchange import Asked, Talk
from penstock.client.routes.requests import if_match, refuse_name
from penstock.domain import worker_config as rules
from penstock.domain.worker import Duty, WorkerRow
from penstock.domain.worker_config import WorkerConfig
from penstock.surface import workers as surface

_PATH = "/v1/worker/config"


def list_workers(_: surface.ListWorkers) -> Talk[list[WorkerRow]]:
    told = (yield Asked("GET", "/v1/workers")).json()
    return [_worker(each) for each in told["workers"]]


def read_configuration(_: surface.ReadConfiguration) -> Talk[tuple[WorkerConfig, int]]:
    return _configuration((yield Asked("GET", _PATH)).json())


def configure_workers(asked: surface.ConfigureWorkers) -> Talk[tuple[WorkerConfig, int]]:
    refuse_name(asked.by)
    changes = asked.changes
    method, body = ("PUT", rules.as_json(changes)) if isinstance(changes, WorkerConfig) else ("PATCH", dict(changes))
    answer = yield Asked(method, _PATH, body=body, headers=if_match(asked.revision), repeatable=asked.revision is None)
    return _configuration(answer.json())


def _configuration(told: dict[str, Any]) -> tuple[WorkerConfig, int]:
    revision: int = told.pop("revision")
    return rules.parse(told), revision


def _worker(told: Mapping[str, Any]) -> WorkerRow:
    return WorkerRow(
        id=told["workerId"],
        name=told["name"],
        host=told["host"],
        pid=told["pid"],
        lanes=(),
        slots=told["slots"],
        code_version=told["codeVersion"],
        started_at=datetime.fromisoformat(told["startedAt"]),
        heartbeat_at=datetime.fromisoformat(told["heartbeatAt"]),
        live=told["live"],
        ended=told["ended"],
        duties=tuple(
            Duty(each["name"], each["lastSuccessAge"], each["errors"], each["lastError"]) for each in told["duties"]
        ),
        lease_expires_at=records.moment(told["leaseExpiresAt"]),
    )
