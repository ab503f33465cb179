"""`/v1/workers` and `/v1/worker/config`: who works, and what holds for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from fastapi import APIRouter
from starlette.responses import Response

from penstock.core import worker_config as rules
from penstock.core.access import Role
from penstock.core.errors import InvalidInput
from penstock.core.shape import iso, listed, spliced
from penstock.core.worker import WorkerRow
from penstock.core.worker_config import WorkerConfig
from penstock.web.callers import Call, Caller
from penstock.web.revisions import TAGGED, Expected, etag
from penstock.web.routing import Route, endpoint, json_text
from penstock.web.shapes import workers as shapes

router = APIRouter(route_class=Route)


@endpoint(router, "GET", "/v1/workers", role=Role.VIEWER, answer=shapes.WorkerList)
async def list_workers(call: Call) -> Response:
    """The workers that the store knows, in the order in which they came."""
    workers, definitions = await asyncio.gather(call.app.aworkers(), call.app.adefinitions_known())
    lanes = {row.lane: (row.definition.key, row.definition.version) for row in definitions}
    return json_text(listed("workers", [_worker_text(each, lanes) for each in workers]))


@endpoint(router, "GET", "/v1/worker/config", role=Role.VIEWER, answer=shapes.WorkerConfig, also={200: TAGGED})
async def get_config(call: Call) -> Response:
    """What holds for every worker; what looks like a secret in `custom` is shown to super admins only."""
    return _config_told(call, *await call.app.aworker_config())


@endpoint(
    router, "PUT", "/v1/worker/config", role=Role.SUPER_ADMIN, answer=shapes.WorkerConfig, also={200: TAGGED},
    refusals=("revision_conflict",),
)  # fmt: skip
async def replace_config(call: Call, asked: shapes.WorkerConfigAsked, expected: Expected) -> Response:
    """Replace all that holds for every worker; a body that leaves a field out is refused."""
    wanted = rules.parse(asked.model_dump(by_alias=True))
    return _config_told(call, *await call.app.aset_worker_config(wanted, revision=expected, by=call.by))


@endpoint(
    router, "PATCH", "/v1/worker/config", role=Role.SUPER_ADMIN, answer=shapes.WorkerConfig, also={200: TAGGED},
    refusals=("revision_conflict",),
)  # fmt: skip
async def change_config(call: Call, asked: shapes.WorkerConfigPatch, expected: Expected) -> Response:
    """Change what the body names; running workers learn of it with their next heartbeat. `custom` is one value."""
    if not asked.model_fields_set:
        raise InvalidInput("Nothing is to be changed.", hint="Name a field, such as slots or enabled.")
    changes = asked.model_dump(by_alias=True, exclude_unset=True)
    return _config_told(call, *await call.app.aset_worker_config(changes, revision=expected, by=call.by))


def _config_told(call: Caller, config: WorkerConfig, revision: int) -> Response:
    facts = rules.as_json(config)
    del facts["custom"]
    custom = config.custom
    if call.role is None or not call.role.covers(Role.SUPER_ADMIN):
        custom = call.site.settings.secrets.mask((), custom)
    return json_text(spliced({**facts, "revision": revision}, {"custom": custom}), headers=etag(revision))


def _worker_text(worker: WorkerRow, lanes: Mapping[int, tuple[str, int]]) -> str:
    loaded = sorted(lanes[lane] for lane in worker.lanes if lane in lanes)
    facts = {
        "workerId": worker.id,
        "name": worker.name,
        "host": worker.host,
        "pid": worker.pid,
        "slots": worker.slots,
        "codeVersion": worker.code_version,
        "definitions": [{"key": key, "version": version} for key, version in loaded],
        "startedAt": iso(worker.started_at),
        "heartbeatAt": iso(worker.heartbeat_at),
        "leaseExpiresAt": iso(worker.lease_until),
        "live": worker.live,
        "ended": worker.ended,
        "duties": [
            {
                "name": duty.name,
                "lastSuccessAge": duty.last_success_age,
                "errors": duty.errors,
                "lastError": duty.last_error,
            }
            for duty in worker.duties
        ],
    }
    return spliced(facts, {})
