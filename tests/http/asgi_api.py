"""A server in the test's own process: requests are made through the ASGI application, without a socket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
from fastapi import FastAPI

from penstock import Penstock
from penstock.config.server_settings import WebSettings
from penstock.domain.access import AuditEntry, Role
from penstock.http.application import create
from tests.http.document import document
from tests.http.shapes import check_against_document

ADDRESS = "http://127.0.0.1:7367"
SETUP_CODE = "K7QF-2M9X-PD4T"
REQUEST_ID = "request-of-the-test"


class WebApi:
    """An application, its server, and a caller on this host."""

    def __init__(self, app: Penstock, portal: Any, settings: WebSettings | None = None, **options: Any) -> None:
        self.app = app
        self.web: FastAPI = create(app, settings, setup_code=SETUP_CODE, **options)
        # The same for every server, and to work it out takes longer than most tests.
        self.web.openapi_schema = document()
        self._portal = portal
        self._token: str | None = None

    def request(self, method: str, path: str, *, client: str = "127.0.0.1", **options: Any) -> httpx2.Response:
        """Make one request; `client` is the address that it seems to come from."""
        (answer,) = self.requests([(method, path, {"client": client, **options})])
        return answer

    def requests(self, calls: Iterable[tuple[str, str, dict[str, Any]]]) -> list[httpx2.Response]:
        """Make several requests, one after another; each is a method, a path and options."""

        async def ask_all() -> list[httpx2.Response]:
            return [await self._ask(method, path, **options) for method, path, options in calls]

        answers: list[httpx2.Response] = self._portal.call(ask_all)
        return answers

    async def _ask(
        self, method: str, path: str, *, client: str = "127.0.0.1", base: str = ADDRESS, checked: bool = True,
        headers: Any = (), coded: bool = True, **options: Any,
    ) -> httpx2.Response:  # fmt: skip
        """Without `checked` the answer may be one that the document does not tell of; `coded`: with the setup code."""
        sent = httpx2.Headers(headers or ())
        if coded:
            sent.setdefault("X-Penstock-Setup-Code", SETUP_CODE)
        sent.setdefault("X-Request-Id", REQUEST_ID)
        if self._token is not None:
            sent.setdefault("Authorization", f"Bearer {self._token}")
        transport = httpx2.ASGITransport(self.web, client=(client, 5))
        async with httpx2.AsyncClient(transport=transport, base_url=base) as http:
            answer = await http.request(method, path, headers=sent, **options)
        if checked:
            check_against_document(self.web, method, path.partition("?")[0], answer)
        return answer

    def get(self, path: str, **options: Any) -> httpx2.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, json: Any = None, **options: Any) -> httpx2.Response:
        return self.request("POST", path, **({} if json is None else {"json": json}), **options)

    def put(self, path: str, json: Any = None, **options: Any) -> httpx2.Response:
        return self.request("PUT", path, json=json, **options)

    def patch(self, path: str, json: Any = None, **options: Any) -> httpx2.Response:
        return self.request("PATCH", path, json=json, **options)

    def delete(self, path: str, **options: Any) -> httpx2.Response:
        return self.request("DELETE", path, **options)

    def token(self, role: Role | str, name: str | None = None, **options: Any) -> str:
        """A new token with this role; from now on the server is closed to those without one."""
        text = self.app.create_token(name or f"a {role}", role, **options).text
        self.web.state.server.token_policy._closed = (-1.0, True)
        return text

    @contextmanager
    def as_(self, role: Role | str) -> Iterator[None]:
        """Meanwhile all requests are made with a token of this role."""
        before, self._token = self._token, self.token(role)
        yield
        self._token = before

    def newest_audit(self, action: str) -> AuditEntry:
        """The newest entry of an action; it must come from a request of this test."""
        entries = self.app.audit(limit=1, action=action)
        assert entries, f"nothing was audited as {action}"
        assert entries[0].request_id == REQUEST_ID
        return entries[0]


def refused(answer: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    """The error of an answer that must have this status and this code."""
    assert answer.status_code == status, answer.text
    error: dict[str, Any] = answer.json()["error"]
    assert error["code"] == code, error
    return error


def told(answer: httpx2.Response, status: int = 200) -> Any:
    """The body of an answer that must have this status."""
    assert answer.status_code == status, answer.text
    return answer.json() if answer.content else None
