"""`/v1/definitions` and `/v1/system`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from penstock.client import records
from penstock.client.exchange import Asked, Talk
from penstock.client.routes.requests import given_only, path_part, refuse_name, seconds
from penstock.definitions.decorator import rate_limit as read_rate
from penstock.domain.definition import Definition, DefinitionRow, Pause, RateLimit, Retirement, check_key
from penstock.domain.instant import SECOND
from penstock.domain.job_json import iso
from penstock.domain.retry import Backoff, RetryPolicy, backoff_from, from_json
from penstock.surface import definitions as surface
from penstock.surface import enqueue_options as given
from penstock.surface.monitoring import Counts, ReadCounts

_PAGE = 100


def list_definitions(_: surface.ListDefinitions) -> Talk[list[DefinitionRow]]:
    told = yield from _all()
    return [_row(each, version) for each in told for version in each["versions"]]


def read_counts(_: ReadCounts) -> Talk[Counts]:
    told = yield from _all()
    return {
        (each["key"], version["version"]): records.counts(version["counts"])
        for each in told
        for version in each["versions"]
    }


def enable_definition(asked: surface.EnableDefinition) -> Talk[None]:
    yield from _change(asked.key, "enable", asked.by)


def disable_definition(asked: surface.DisableDefinition) -> Talk[None]:
    yield from _change(asked.key, "disable", asked.by)


def retire_definition(asked: surface.RetireDefinition) -> Talk[None]:
    yield from _change(asked.key, "retire", asked.by)


def remove_definition(asked: surface.RemoveDefinition) -> Talk[None]:
    refuse_name(asked.by)
    yield Asked("DELETE", _path(asked.key), query=given_only({"version": asked.version}), repeatable=False)


def pause_definition(asked: surface.PauseDefinition) -> Talk[None]:
    yield from _change(asked.key, "pause", asked.by, pause_json(asked.reason, asked.until))


def resume_definition(asked: surface.ResumeDefinition) -> Talk[None]:
    yield from _change(asked.key, "resume", asked.by)


def pause_all(asked: surface.PauseAll) -> Talk[None]:
    refuse_name(asked.by)
    yield Asked("POST", "/v1/system/pause", body=pause_json(asked.reason, asked.until))


def resume_all(asked: surface.ResumeAll) -> Talk[None]:
    refuse_name(asked.by)
    yield Asked("POST", "/v1/system/resume")


def read_system_pause(_: surface.ReadSystemPause) -> Talk[Pause | None]:
    return records.pause((yield Asked("GET", "/v1/system")).json()["pause"])


def override_definition(asked: surface.OverrideDefinition) -> Talk[None]:
    refuse_name(asked.by)
    body = {
        "concurrency": asked.concurrency, "keyConcurrency": asked.key_concurrency,
        "rateLimit": _rate(asked.rate_limit, asked.key), "priority": asked.priority, "maxAttempts": asked.max_attempts,
        "backoff": _backoff(asked.backoff), "timeout": seconds(asked.timeout, f"{asked.key}: timeout"),
        "logLevel": asked.log_level,
    }  # fmt: skip
    yield Asked("PUT", f"{_path(asked.key)}/overrides", body=given_only(body))


def pause_json(reason: str, until: datetime | None) -> dict[str, Any]:
    given.instant(until, "until")
    return given_only({"reason": reason, "until": iso(until)})


def _change(key: str, verb: str, by: str, body: object = None) -> Talk[None]:
    refuse_name(by)
    yield Asked("POST", f"{_path(key)}/{verb}", body=body)


def _path(key: str) -> str:
    check_key(key)
    return f"/v1/definitions/{path_part(key, 'The key of a definition')}"


def _all() -> Talk[list[dict[str, Any]]]:
    found: list[dict[str, Any]] = []
    query: dict[str, Any] = {"limit": _PAGE}
    while True:
        told = (yield Asked("GET", "/v1/definitions", query=query)).json()
        found += told["definitions"]
        if told["nextCursor"] is None:
            return found
        query["cursor"] = told["nextCursor"]


def _rate(value: RateLimit | str | int | None, key: str) -> dict[str, Any] | None:
    if value is None:
        return None
    if isinstance(value, int) and value == 0:
        return {"count": 0}
    rate = read_rate(value, key)  # type: ignore[arg-type]
    return None if rate is None else {"count": rate.count, "period": rate.period, "perKey": rate.per_key}


def _backoff(value: float | Sequence[float] | RetryPolicy | None) -> Any:
    if value is None:
        return None
    policy = backoff_from(value)
    facts = policy.to_json()
    facts.pop("kind")
    if isinstance(policy, Backoff):
        return facts
    (delay,) = facts.values()
    return delay


def _row(told: Mapping[str, Any], version: Mapping[str, Any]) -> DefinitionRow:
    retired = told["retired"]
    return DefinitionRow(
        lane=0,
        definition=_definition(told["key"], version),
        enabled=told["enabled"],
        pause=records.pause(told["pause"]),
        overrides=_overrides(told["overrides"]),
        registered_at=records.instant(version["registeredAt"]),
        error=version["error"],
        retired=None if retired is None else Retirement(retired["by"], records.instant(retired["at"])),
        declared_at=records.instant(version["declaredAt"]),
    )


def _definition(key: str, told: Mapping[str, Any]) -> Definition:
    rate = told["rateLimit"]
    return Definition(
        key=key,
        version=told["version"],
        description=told["description"],
        schema=records.text(told["schema"]) or "",
        phases=tuple(told["phases"]),
        default_params=records.text(told["defaultParams"]) or "{}",
        secret_fields=tuple(told["secretFields"]),
        priority=told["priority"],
        max_attempts=told["maxAttempts"],
        backoff=from_json(told["backoff"]),
        timeout=records.length(told["timeout"]),
        cancel_grace=round(told["cancelGrace"] * SECOND),
        isolation=told["isolation"],
        concurrency=told["concurrency"],
        concurrency_key=told["concurrencyKey"],
        key_concurrency=told["keyConcurrency"],
        rate_limit=None if rate is None else RateLimit(rate["count"], rate["period"], rate["perKey"]),
        stale_after=round(told["staleAfter"] * SECOND),
        delete_after=round(told["deleteAfter"] * SECOND),
        fingerprint=told["fingerprint"],
        hooks=tuple(told["hooks"]),
        memory=told["memory"],
        cpu=told["cpu"],
        files=told["files"],
        file_size=told["fileSize"],
        processes=told["processes"],
        environment=tuple(told["environment"]),
        secret_environment=tuple(told["secretEnvironment"]),
        reach=told["reach"],
        log_level=told["logLevel"],
        handler=told["handler"],
        source=told["source"],
    )


def _overrides(told: Mapping[str, Any]) -> dict[str, object]:
    """The overrides as the store keeps them."""
    rate = told["rateLimit"]
    found: dict[str, object] = {
        "concurrency": told["concurrency"], "key_concurrency": told["keyConcurrency"], "priority": told["priority"],
        "max_attempts": told["maxAttempts"], "backoff": told["backoff"], "timeout": records.length(told["timeout"]),
        "log_level": told["logLevel"],
    }  # fmt: skip
    if rate is not None:
        found["rate_count"] = rate["count"]
        if rate["period"] is not None:
            found |= {"rate_period": round(rate["period"] * SECOND), "rate_per_key": rate["perKey"]}
    return {name: value for name, value in found.items() if value is not None}
