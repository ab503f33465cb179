"""`/v1/schedules`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from penstock.client import records
from penstock.client.exchange import Asked, Talk
from penstock.client.routes.definitions import pause_json
from penstock.client.routes.requests import if_match, path_part, refuse_name
from penstock.definitions.schedule_options import changed, schedule_from
from penstock.domain import payload
from penstock.domain.errors import InvalidInput
from penstock.domain.instant import SECOND, from_datetime
from penstock.domain.job import Created
from penstock.domain.schedule.preview import Fire, Preview
from penstock.domain.schedule.schedule import Kind, Missed, Overlap, Schedule, ScheduleRow
from penstock.surface import schedules as surface

_PAGE = 100
_WHEN = ("kind", "expression")
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "cron": _WHEN, "every": _WHEN, "at": _WHEN, "start": (), "params": ("params",),
    "definition_version": ("definitionVersion",), "priority": ("priority",), "concurrency_key": ("concurrencyKey",),
    "timezone": ("timezone",), "missed": ("missed",), "missed_max": ("missedMax",), "missed_window": ("missedWindow",),
    "overlap": ("overlap",), "jitter": ("jitter",), "enabled": ("enabled",),
}  # fmt: skip
"""The fields in JSON that each fact of a schedule sets."""


def list_schedules(_: surface.ListSchedules) -> Talk[list[ScheduleRow]]:
    found: list[ScheduleRow] = []
    query: dict[str, Any] = {"limit": _PAGE}
    while True:
        told = (yield Asked("GET", "/v1/schedules", query=query)).json()
        found += [_row(each) for each in told["schedules"]]
        if told["nextCursor"] is None:
            return found
        query["cursor"] = told["nextCursor"]


def get_schedule(asked: surface.GetSchedule) -> Talk[ScheduleRow]:
    return _row((yield Asked("GET", _path(asked.key))).json())


def save_schedule(asked: surface.SaveSchedule) -> Talk[ScheduleRow]:
    refuse_name(asked.by)
    made = schedule_from(asked.key, asked.definition, asked.facts)
    body = {"definitionKey": made.definition_key, **_json(made, asked.facts)}
    answer = yield Asked(
        "PUT", _path(asked.key), body=body, headers=if_match(asked.revision), repeatable=asked.revision is None
    )
    return _row(answer.json())


def change_schedule(asked: surface.ChangeSchedule) -> Talk[ScheduleRow]:
    refuse_name(asked.by)
    if not asked.changes:
        raise InvalidInput(f"No change of schedule {asked.key!r} was given.", hint="Give facts, as in priority=3.")
    body = _json(changed(Schedule(asked.key, asked.key, Kind.CRON, ""), asked.changes), asked.changes)
    answer = yield Asked(
        "PATCH", _path(asked.key), body=body, headers=if_match(asked.revision), repeatable=asked.revision is None
    )
    return _row(answer.json())


def delete_schedule(asked: surface.DeleteSchedule) -> Talk[None]:
    refuse_name(asked.by)
    yield Asked("DELETE", _path(asked.key), headers=if_match(asked.revision), repeatable=False)


def pause_schedule(asked: surface.PauseSchedule) -> Talk[None]:
    refuse_name(asked.by)
    yield Asked("POST", f"{_path(asked.key)}/pause", body=pause_json(asked.reason, asked.until))


def resume_schedule(asked: surface.ResumeSchedule) -> Talk[None]:
    refuse_name(asked.by)
    yield Asked("POST", f"{_path(asked.key)}/resume")


def trigger_schedule(asked: surface.TriggerSchedule) -> Talk[Created]:
    refuse_name(asked.by)
    return records.created((yield Asked("POST", f"{_path(asked.key)}/trigger", repeatable=False)).json())


def read_ticks(asked: surface.ReadTicks) -> Talk[list[dict[str, Any]]]:
    told = (yield Asked("GET", f"{_path(asked.key)}/ticks", query={"limit": asked.limit})).json()
    times = ("scheduledFor", "at")
    return [{**each, **{name: records.moment(each[name]) for name in times}} for each in told["ticks"]]


def preview_schedule(asked: surface.PreviewSchedule) -> Talk[Preview]:
    return _preview((yield Asked("GET", f"{_path(asked.key)}/preview", query={"count": asked.count})).json())


def preview_unsaved(asked: surface.PreviewUnsaved) -> Talk[Preview]:
    made = schedule_from("preview", "preview", asked.facts)
    body = {"kind": made.kind, "expression": made.expression, "timezone": made.timezone, "count": asked.count}
    return _preview((yield Asked("POST", "/v1/schedules/preview", body=body)).json())


def _path(key: str) -> str:
    return f"/v1/schedules/{path_part(key, 'The key of a schedule')}"


def _json(schedule: Schedule, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts that were given, as fields in JSON."""
    window = schedule.missed_window
    fields = {
        "kind": schedule.kind, "expression": schedule.expression, "params": payload.load(schedule.params_text),
        "definitionVersion": schedule.definition_version, "priority": schedule.priority,
        "concurrencyKey": schedule.concurrency_key, "timezone": schedule.timezone, "missed": schedule.missed,
        "missedMax": schedule.missed_max, "missedWindow": None if window is None else window / SECOND,
        "overlap": schedule.overlap, "jitter": schedule.jitter / SECOND, "enabled": schedule.enabled,
    }  # fmt: skip
    given = [name for fact in facts for name in _FIELDS[fact] if facts[fact] is not None or name not in _WHEN]
    return {name: fields[name] for name in given}


def _row(told: Mapping[str, Any]) -> ScheduleRow:
    return ScheduleRow(
        schedule=Schedule(
            key=told["key"],
            definition_key=told["definitionKey"],
            kind=Kind(told["kind"]),
            expression=told["expression"],
            definition_version=told["definitionVersion"],
            params_text=records.text(told["params"]) or "{}",
            priority=told["priority"],
            concurrency_key=told["concurrencyKey"],
            timezone=told["timezone"],
            missed=Missed(told["missed"]),
            missed_max=told["missedMax"],
            missed_window=records.length(told["missedWindow"]),
            overlap=Overlap(told["overlap"]),
            jitter=round(told["jitter"] * SECOND),
            enabled=told["enabled"],
            owner=told["owner"],
            origin=told["origin"],
            next_run_at=None if told["nextRunAt"] is None else records.instant(told["nextRunAt"]),
        ),
        revision=told["revision"],
        pause=records.pause(told["pause"]),
        last_scheduled_at=records.moment(told["lastScheduledAt"]),
        created_at=datetime.fromisoformat(told["createdAt"]),
        updated_at=datetime.fromisoformat(told["updatedAt"]),
        error=told["error"],
    )


def _preview(told: Mapping[str, Any]) -> Preview:
    fires = []
    for each in told["fires"]:
        at = datetime.fromisoformat(each["at"])
        fires.append(Fire(from_datetime(at, "at"), each["local"], at.isoformat(), each["relative"]))
    return Preview(told["sentence"], tuple(fires))
