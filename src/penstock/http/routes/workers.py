"""`/v1/workers` and `/v1/worker/config`: workers, and the configuration of all workers."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from penstock.domain import worker_config as rules
from penstock.domain.access import Role
from penstock.domain.errors import Hint, InvalidInput
from penstock.domain.job_json import spliced
from penstock.domain.worker_config import WorkerConfig
from penstock.http import answers
from penstock.http.authentication import Call, Caller
from penstock.http.headers import TAGGED, Expected, etag
from penstock.http.routing import Route, endpoint, json_text
from penstock.http.schemas import workers as shapes

router: APIRouter = APIRouter(route_class=Route)


@endpoint(router, "GET", "/v1/workers", role=Role.VIEWER, answer=shapes.WorkerList)
async def list_workers(call: Call) -> Response:
    """List workers in the order in which they started."""
    return json_text(await answers.workers(call.app))


@endpoint(router, "GET", "/v1/worker/config", role=Role.VIEWER, answer=shapes.WorkerConfig, also={200: TAGGED})
async def get_config(call: Call) -> Response:
    """Return the configuration of all workers; only super admins see secrets in `custom`."""
    return _config_response(call, *await call.app.aworker_config())


@endpoint(
    router, "PUT", "/v1/worker/config", role=Role.SUPER_ADMIN, answer=shapes.WorkerConfig, also={200: TAGGED},
    errors=("revision_conflict",),
)  # fmt: skip
async def replace_config(call: Call, body: shapes.WorkerConfigRequest, expected: Expected) -> Response:
    """Replace the configuration of all workers; a missing field is refused."""
    wanted = rules.parse(body.model_dump(by_alias=True))
    return _config_response(call, *await call.app.aset_worker_config(wanted, revision=expected, by=call.by))


@endpoint(
    router, "PATCH", "/v1/worker/config", role=Role.SUPER_ADMIN, answer=shapes.WorkerConfig, also={200: TAGGED},
    errors=("revision_conflict",),
)  # fmt: skip
async def change_config(call: Call, body: shapes.WorkerConfigPatch, expected: Expected) -> Response:
    """Change the fields in the body; running workers apply it at their next heartbeat. `custom` is one value."""
    if not body.model_fields_set:
        raise InvalidInput(
            "No change was given.",
            hint=Hint(
                'Name a setting, as in {"slots": 8}.',
                cli="Write name=value, such as slots=8.",
                http="Send a field, such as `slots` or `enabled`.",
            ),
        )
    changes = body.model_dump(by_alias=True, exclude_unset=True)
    return _config_response(call, *await call.app.aset_worker_config(changes, revision=expected, by=call.by))


def _config_response(call: Caller, config: WorkerConfig, revision: int) -> Response:
    facts = rules.as_json(config)
    del facts["custom"]
    custom = config.custom
    if call.role is None or not call.role.covers(Role.SUPER_ADMIN):
        custom = call.server.settings.secrets.mask((), custom)
    return json_text(spliced({**facts, "revision": revision}, {"custom": custom}), headers=etag(revision))
