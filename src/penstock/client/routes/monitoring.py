"""`/v1/stats`, `/v1/errors` and `/v1/alerts`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from penstock.client import records
from penstock.client.exchange import Asked, Talk
from penstock.client.routes.requests import given_only
from penstock.domain.alerts import Alert, StoredAlert
from penstock.domain.job_json import iso
from penstock.domain.stats import DefinitionStats, Durations, ErrorGroup, ErrorPage, Flow, MinuteStats, Stats
from penstock.surface import enqueue_options as given
from penstock.surface import monitoring as surface


def read_stats(asked: surface.ReadStats) -> Talk[Stats]:
    told = (yield Asked("GET", "/v1/stats", query=_since(asked.since))).json()
    return Stats(
        at=datetime.fromisoformat(told["at"]),
        since=datetime.fromisoformat(told["since"]),
        counts=records.counts(told["counts"]),
        flow=Flow(**told["flow"]),
        definitions=[_definition(each) for each in told["definitions"]],
        minutes=[MinuteStats(datetime.fromisoformat(each["minute"]), Flow(**each["flow"])) for each in told["minutes"]],
        durations=_durations(told["durations"]),
        waits=_durations(told["waits"]),
        step=told["step"],
    )


def list_errors(asked: surface.ListErrors) -> Talk[ErrorPage]:
    query = _since(asked.since) | given_only({"limit": asked.limit, "cursor": asked.cursor})
    told = (yield Asked("GET", "/v1/errors", query=query)).json()
    return ErrorPage([_error(each) for each in told["errors"]], told["nextCursor"], told["capped"])


def list_alerts(_: surface.ListAlerts) -> Talk[list[Alert]]:
    return [_alert(each) for each in (yield Asked("GET", "/v1/alerts")).json()["alerts"]]


def list_past_alerts(asked: surface.ListPastAlerts) -> Talk[list[StoredAlert]]:
    cleared = None if asked.cleared is None else str(asked.cleared).lower()
    query = given_only({"cleared": cleared, "limit": asked.limit, "cursor": asked.before})
    told = (yield Asked("GET", "/v1/alerts/history", query=query)).json()
    return [
        StoredAlert(
            each["seq"], _alert(each), datetime.fromisoformat(each["raisedAt"]), records.moment(each["clearedAt"])
        )
        for each in told["alerts"]
    ]


def _since(since: datetime | None) -> dict[str, Any]:
    given.instant(since, "since")
    return given_only({"since": iso(since)})


def _definition(told: Mapping[str, Any]) -> DefinitionStats:
    return DefinitionStats(
        definition_key=told["definitionKey"],
        counts=records.counts(told["counts"]),
        flow=Flow(**told["flow"]),
        oldest_run_at=records.moment(told["oldestRunAt"]),
        durations=_durations(told["durations"]),
        waits=_durations(told["waits"]),
        failed_last_day=told["failedLastDay"],
    )


def _durations(told: Mapping[str, Any] | None) -> Durations | None:
    return None if told is None else Durations(told["average"], told["p95"], told["sample"])


def _error(told: Mapping[str, Any]) -> ErrorGroup:
    return ErrorGroup(
        fingerprint=told["fingerprint"],
        definition_key=told["definitionKey"],
        error_type=told["type"],
        error=told["message"],
        jobs=told["jobs"],
        attempts=told["attempts"],
        first_at=datetime.fromisoformat(told["firstAt"]),
        last_at=datetime.fromisoformat(told["lastAt"]),
        job_id=told["jobId"],
    )


def _alert(told: Mapping[str, Any]) -> Alert:
    return Alert(told["kind"], told["subject"], told["message"], told["severity"], records.moment(told["since"]))
