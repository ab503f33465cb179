"""`/v1/definitions` and `/v1/system`: list, pause, disable, retire and override definitions; pause all of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from penstock.domain.access import Role
from penstock.domain.definition import Definition, DefinitionRow, RateLimit
from penstock.domain.errors import NotFound
from penstock.domain.instant import SECOND, to_datetime
from penstock.domain.job_json import iso, listed, spliced
from penstock.domain.retry import Backoff
from penstock.domain.states import Status
from penstock.http import answers
from penstock.http.answers import page, pause_facts
from penstock.http.authentication import Call, Caller
from penstock.http.routing import Route, endpoint, json_text
from penstock.http.schemas import definitions as shapes
from penstock.http.schemas.base import PageLimit

router: APIRouter = APIRouter(route_class=Route)


@endpoint(router, "GET", "/v1/definitions", role=Role.VIEWER, answer=shapes.DefinitionList)
async def list_definitions(
    call: Call,
    limit: Annotated[PageLimit, Query()] = 100,
    cursor: Annotated[str | None, Query()] = None,
) -> Response:
    """List the known definitions by key, each with all its versions."""
    known = await _KnownDefinitions.read(call)
    keys, following = page(list(known.rows), str, limit, cursor)
    return json_text(listed("definitions", [known.text(key) for key in keys], nextCursor=following))


@endpoint(
    router,
    "POST",
    "/v1/definitions/{key:key}/pause",
    role=Role.ADMIN,
    answer=shapes.Definition,
    errors=("not_found",),
)
async def pause_definition(call: Call, key: str, body: shapes.PauseRequest) -> Response:
    """Stop starting jobs of a definition until it is resumed, or until a time; running jobs continue."""
    await call.app.definitions.apause(key, body.reason, until=body.until, by=call.by)
    return await _response(call, key)


@endpoint(
    router, "POST", "/v1/definitions/{key:key}/resume", role=Role.ADMIN, answer=shapes.Definition,
    errors=("not_found",),
)  # fmt: skip
async def resume_definition(call: Call, key: str) -> Response:
    """Resume a paused definition."""
    await call.app.definitions.aresume(key, by=call.by)
    return await _response(call, key)


@endpoint(
    router, "POST", "/v1/definitions/{key:key}/enable", role=Role.ADMIN, answer=shapes.Definition,
    errors=("not_found",),
)  # fmt: skip
async def enable_definition(call: Call, key: str) -> Response:
    """Allow the creation of jobs of a definition again."""
    await call.app.definitions.aenable(key, by=call.by)
    return await _response(call, key)


@endpoint(
    router, "POST", "/v1/definitions/{key:key}/disable", role=Role.ADMIN, answer=shapes.Definition,
    errors=("not_found",),
)  # fmt: skip
async def disable_definition(call: Call, key: str) -> Response:
    """Refuse the creation of jobs of a definition; existing jobs continue."""
    await call.app.definitions.adisable(key, by=call.by)
    return await _response(call, key)


@endpoint(
    router, "POST", "/v1/definitions/{key:key}/retire", role=Role.ADMIN, answer=shapes.Definition,
    errors=("not_found", "conflict"),
)  # fmt: skip
async def retire_definition(call: Call, key: str) -> Response:
    """Retire a definition that no code declares any more: refuse new jobs, and disable the schedules of its code.

    Waiting jobs stay, and can be cancelled. Code that declares it again, or `enable`, reverses this.
    """
    await call.app.definitions.aretire(key, by=call.by)
    return await _response(call, key)


@endpoint(
    router, "DELETE", "/v1/definitions/{key:whole}", role=Role.ADMIN, answer=None, status=204,
    errors=("not_found", "conflict"),
)  # fmt: skip
async def remove_definition(
    call: Call, key: str, version: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None
) -> Response:
    """Remove a definition, or one version of it, with the schedules of its code.

    Its ended jobs stay readable until retention deletes them. Code that declares it again registers it as new.
    """
    await call.app.definitions.aremove(key, version=version, by=call.by)
    return Response(status_code=204)


@endpoint(
    router, "PUT", "/v1/definitions/{key:key}/overrides", role=Role.ADMIN, answer=shapes.Definition,
    errors=("not_found",),
)  # fmt: skip
async def override_limits(call: Call, key: str, body: shapes.OverridesRequest) -> Response:
    """Override limits and options of the code; what is left out returns to the code's value."""
    rate = body.rate_limit
    limit = None if rate is None else RateLimit(rate.count, rate.period, rate.per_key) if rate.count else 0
    await call.app.definitions.aoverride(
        key, concurrency=body.concurrency, key_concurrency=body.key_concurrency, rate_limit=limit,
        priority=body.priority, max_attempts=body.max_attempts, backoff=_policy(body.backoff), timeout=body.timeout,
        log_level=body.log_level, by=call.by,
    )  # fmt: skip
    return await _response(call, key)


@endpoint(
    router, "GET", "/v1/definitions/{key:whole}", role=Role.VIEWER, answer=shapes.Definition, errors=("not_found",)
)
async def get_definition(call: Call, key: str) -> Response:
    """Return one definition with all its versions. A key may contain `/`, which may be quoted as `%2F`."""
    return await _response(call, key)


@dataclass(frozen=True, slots=True)
class _KnownDefinitions:
    """All data that definitions are shown with, read at about the same time."""

    call: Caller
    rows: Mapping[str, Sequence[DefinitionRow]]
    counts: Mapping[tuple[str, int], Mapping[Status, int]]
    served: Sequence[frozenset[int]]
    """The lanes of each live worker."""

    @staticmethod
    async def read(call: Caller) -> _KnownDefinitions:
        known, counts, workers = await asyncio.gather(
            call.app.definitions.alist(), call.app.monitoring.acounts(), call.app.workers.alist()
        )
        rows: dict[str, list[DefinitionRow]] = {}
        for row in sorted(known, key=lambda row: -row.definition.version):
            rows.setdefault(row.definition.key, []).append(row)
        return _KnownDefinitions(call, rows, counts, [frozenset(each.lanes) for each in workers if each.live])

    def text(self, key: str) -> str:
        """Return a definition as JSON text."""
        rows = self.rows.get(key)
        if not rows:
            raise NotFound("definition", key, hint="Definitions come from code: a worker with that code registers it.")
        total: Counter[Status] = Counter()
        for row in rows:
            total.update(self.counts.get((key, row.definition.version), {}))
        facts = {
            "key": key,
            "enabled": rows[0].enabled,
            "pause": pause_facts(rows[0].pause),
            "retired": None
            if (retired := rows[0].retired) is None
            else {
                "by": retired.by,
                "at": iso(to_datetime(retired.at)),
            },
            "overrides": _override_facts(rows[0].overrides),
            "counts": _counted(total),
            "liveWorkers": self._workers(row.lane for row in rows),
        }
        return spliced(facts, {"versions": f"[{','.join(map(self._version, rows))}]"})

    def _workers(self, lanes: Iterable[int]) -> int:
        wanted = set(lanes)
        return sum(1 for each in self.served if each & wanted)

    def _version(self, row: DefinitionRow) -> str:
        definition = row.definition
        facts = {
            **_version_facts(definition),
            "registeredAt": iso(to_datetime(row.registered_at)),
            "updatedAt": iso(to_datetime(row.registered_at)),
            "declaredAt": iso(to_datetime(row.declared_at)),
            "counts": _counted(self.counts.get((definition.key, definition.version), {})),
            "liveWorkers": self._workers([row.lane]),
            "error": row.error,
        }
        secrets, fields = self.call.server.settings.secrets, definition.secret_fields
        texts = {
            "schema": secrets.schema(fields, definition.schema or "{}"),
            "defaultParams": secrets.mask(fields, definition.default_params),
        }
        return spliced(facts, texts)


async def _response(call: Caller, key: str) -> Response:
    return json_text((await _KnownDefinitions.read(call)).text(key))


def _policy(
    body: float | list[float] | shapes.ExponentialBackoff | None,
) -> float | list[float] | Backoff | None:
    return Backoff(body.base, body.max, body.jitter) if isinstance(body, shapes.ExponentialBackoff) else body


def _counted(counts: Mapping[Status, int]) -> dict[str, int]:
    return {status: counts[status] for status in Status if counts.get(status)}


def _override_facts(overrides: Mapping[str, Any]) -> dict[str, Any]:
    rate = None
    if "rate_count" in overrides:
        period = overrides.get("rate_period")
        rate = {
            "count": overrides["rate_count"],
            "period": period / SECOND if period else None,
            "perKey": bool(overrides.get("rate_per_key")),
        }
    return {
        "concurrency": overrides.get("concurrency"),
        "keyConcurrency": overrides.get("key_concurrency"),
        "rateLimit": rate,
        "priority": overrides.get("priority"),
        "maxAttempts": overrides.get("max_attempts"),
        "backoff": overrides.get("backoff"),
        "timeout": overrides["timeout"] / SECOND if "timeout" in overrides else None,
        "logLevel": overrides.get("log_level"),
    }


def _version_facts(definition: Definition) -> dict[str, Any]:
    rate = definition.rate_limit
    return {
        "version": definition.version,
        "description": definition.description,
        "phases": definition.phases,
        "secretFields": definition.secret_fields,
        "priority": definition.priority,
        "maxAttempts": definition.max_attempts,
        "backoff": definition.backoff.to_json(),
        "timeout": None if definition.timeout is None else definition.timeout / SECOND,
        "cancelGrace": definition.cancel_grace / SECOND,
        "isolation": definition.isolation,
        "concurrency": definition.concurrency,
        "concurrencyKey": definition.concurrency_key,
        "keyConcurrency": definition.key_concurrency,
        "rateLimit": None if rate is None else {"count": rate.count, "period": rate.period, "perKey": rate.per_key},
        "staleAfter": definition.stale_after / SECOND,
        "deleteAfter": definition.delete_after / SECOND,
        "fingerprint": definition.fingerprint,
        "hooks": definition.hooks,
        "memory": definition.memory,
        "cpu": definition.cpu,
        "files": definition.files,
        "fileSize": definition.file_size,
        "processes": definition.processes,
        "environment": definition.environment,
        "secretEnvironment": definition.secret_environment,
        "reach": definition.reach,
        "logLevel": definition.log_level,
        "handler": definition.handler,
        "source": definition.source,
    }


@endpoint(router, "GET", "/v1/system", role=Role.VIEWER, answer=shapes.System)
async def get_system(call: Call) -> Response:
    """Return whether the whole system is paused, and whether workers take jobs."""
    return await _system_response(call)


@endpoint(router, "POST", "/v1/system/pause", role=Role.ADMIN, answer=shapes.System)
async def pause_system(call: Call, body: shapes.PauseRequest) -> Response:
    """Stop starting jobs of all definitions until the system is resumed, or until a time."""
    await call.app.definitions.apause_all(body.reason, until=body.until, by=call.by)
    return await _system_response(call)


@endpoint(router, "POST", "/v1/system/resume", role=Role.ADMIN, answer=shapes.System)
async def resume_system(call: Call) -> Response:
    """End the pause of the whole system; definitions with a pause of their own stay paused."""
    await call.app.definitions.aresume_all(by=call.by)
    return await _system_response(call)


async def _system_response(call: Caller) -> Response:
    return json_text(await answers.system(call.app))
