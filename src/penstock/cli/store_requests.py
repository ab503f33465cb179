"""Common requests of commands, answered on a store without the web framework.

Loading the framework costs more than the command. Other requests go through the framework; both use the same
functions for the work and for the shape of answers.

"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from penstock import Penstock
from penstock.domain.job import Created
from penstock.domain.job_json import created_text
from penstock.domain.secrets.policy import SecretPolicy
from penstock.domain.states import Status
from penstock.http import answers
from penstock.http.job_output import JobOutput
from penstock.operations import creation
from penstock.operations.session import Talk
from penstock.surface.orders import PLAIN

_FILTERS = {
    "definitionKey": "definition_key", "tag": "tag", "referenceType": "reference_type", "referenceId": "reference_id",
    "scheduleId": "schedule_id", "fingerprint": "fingerprint", "parentId": "parent_id",
    "error": "error",
}  # fmt: skip
_SORTS = {f"{sign}{name}" for sign in ("", "-") for name in ("createdAt", "finishedAt", "priority")}
_STATUSES = {status.value for status in Status}
_MOST = 500
Answering = Callable[[], Awaitable[str]]


class StoreRequests:
    """Answers requests with one application on a store, in the event loop of a command."""

    def __init__(self, app: Penstock, secrets: SecretPolicy, operator: str) -> None:
        self._app = app
        self._job_output = JobOutput(app, secrets)
        self._operator = operator
        self._runner = asyncio.Runner()

    def ask(self, method: str, path: str, query: Mapping[str, Any], body: object) -> str | None:
        """Return the answer as JSON text; None if the framework must handle the request."""
        find = self._find(method, path, query, body) if _is_sendable(query, body) else None
        return None if find is None else self._runner.run(_awaited(find))

    def close(self) -> None:
        self._runner.run(self._app.aclose())
        self._runner.close()

    def _find(self, method: str, path: str, query: Mapping[str, Any], body: object) -> Answering | None:
        if method == "POST" and path == "/v1/jobs" and not query:
            return self._creation(body)
        if method != "GET" or body is not None:
            return None
        if path == "/v1/jobs":
            return self._job_page(dict(query))
        plain: dict[str, Callable[[Penstock], Awaitable[str]]] = {
            "/v1/system": answers.system, "/v1/stats": answers.stats, "/v1/workers": answers.workers,
            "/v1/alerts": answers.alerts,
        }  # fmt: skip
        found = plain.get(path)
        return None if found is None or query else lambda: found(self._app)

    def _job_page(self, query: dict[str, Any]) -> Answering | None:
        sort, limit = query.pop("sort", "-createdAt"), query.pop("limit", 50)
        cursor, count = query.pop("cursor", None), query.pop("count", False)
        statuses = query.pop("status", None)
        params = answers.searched_params(query)
        query = {name: value for name, value in query.items() if not name.startswith(answers.PARAMS)}
        simple = (
            sort in _SORTS and type(limit) is int and 1 <= limit <= _MOST and type(count) is bool
            and (cursor is None or type(cursor) is str)
            and (statuses is None or (type(statuses) is list and _STATUSES.issuperset(statuses)))
            and all(name in _FILTERS and type(value) is str for name, value in query.items())
            and all(type(value) is str for value in (params or {}).values())
        )  # fmt: skip
        if not simple:
            return None
        which = {_FILTERS[name]: value for name, value in query.items()} | {"status": statuses, "params": params}
        return lambda: answers.job_page(self._app, self._job_output, which, sort, limit, cursor, count=count)

    def _creation(self, body: object) -> Answering | None:
        """Return the creation of a job from a definition and parameters only."""
        if type(body) is not dict or body.keys() != {"definitionKey", "params"}:
            return None
        key, params = body["definitionKey"], body["params"]
        if type(key) is not str or type(params) is not dict:
            return None

        async def create() -> str:
            return created_text(await self._app.session.ahold(self._create(key, params)))

        return create

    def _create(self, key: str, params: Mapping[str, Any]) -> Talk[Created]:
        maker = yield from creation.order_maker(self._app.session, key, None)
        order = maker.order(params, PLAIN, decoded=True)
        (created,) = yield from creation.create(self._app.session, [order], actor=self._operator)
        return created


def _is_sendable(query: Mapping[str, Any], body: object) -> bool:
    """Return whether a request can be encoded; the framework reports what is wrong with others."""
    try:
        json.dumps([dict(query), body], ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError):
        return False
    return True


async def _awaited(find: Answering) -> str:
    return await find()
