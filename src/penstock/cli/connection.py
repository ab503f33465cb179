"""Requests of commands to the API: to a server over the network, or to a store within this process."""

from __future__ import annotations

import getpass
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from cyclopts import Group, Parameter

from penstock.cli.exit_codes import ApiError
from penstock.client.exchange import LOST, NOT_NOW
from penstock.client.lines import Lines, Received
from penstock.domain.errors import InvalidInput, PenstockError, StoreUnavailable

if TYPE_CHECKING:
    import httpx2

    from penstock import Penstock
    from penstock.cli.store_requests import StoreRequests
    from penstock.config.project_file import Config

_PATIENCE = 30.0
_QUIET = 40.0
"""A stream sends something every 15 seconds; after this many seconds without data it counts as dead."""
_TRIES = 3
_LONGEST_REST = 5.0
_CONNECTION = Group("Where and how", sort_key=100)


@Parameter(name="*")
@dataclass(frozen=True)
class Common:
    """Options of every command that uses the API."""

    server: Annotated[
        str | None, Parameter(group=_CONNECTION, help="The server's URL; its token is PENSTOCK_TOKEN or a profile's.")
    ] = None
    store: Annotated[
        str | None, Parameter(group=_CONNECTION, help="The store's URL, to work on it without a server.")
    ] = None
    profile: Annotated[
        str | None, Parameter(group=_CONNECTION, help="Server and token from ~/.config/penstock/profiles.toml.")
    ] = None
    json: Annotated[
        bool, Parameter(group=_CONNECTION, negative="", help="Print the API's answer: one JSON document.")
    ] = False


DEFAULTS = Common()


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer of the API."""

    status: int
    text: str
    headers: Mapping[str, str]

    @property
    def data(self) -> Any:
        return json.loads(self.text) if self.text else None


class Connection:
    """Sends requests to one server, or to the API on a store."""

    def __init__(
        self,
        http: Callable[[], httpx2.Client],
        name: str,
        *,
        remote: bool,
        answers: Callable[[], StoreRequests] | None = None,
    ) -> None:
        """`http` makes the client; requests that `answers` can handle do not need it."""
        self.name = name
        self.remote = remote
        self._make_http = http
        self._make_answers = answers
        self._answers: StoreRequests | None = None
        self._made: httpx2.Client | None = None
        self._closed = threading.Event()

    def get(self, path: str, **query: Any) -> Answer:
        return self.ask("GET", path, query=query)

    def post(self, path: str, body: object = None, **options: Any) -> Answer:
        return self.ask("POST", path, body=body, **options)

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = False,
        patience: float | None = _PATIENCE,
    ) -> Answer:
        """Send a request; repeat it if its answer is lost and repeating is harmless."""
        if not headers and (text := self._answered(method, path, _given(query), body)) is not None:
            return Answer(200, text, {})
        arguments: dict[str, Any] = {
            "headers": {"Penstock-Reader": "cli", **(headers or {})},
            "params": _given(query),
            "timeout": patience,
        }
        if body is not None:
            arguments["content"] = _written(body)
            arguments["headers"]["Content-Type"] = "application/json"
        import httpx2

        tries = _TRIES if self.remote else 1
        for left in reversed(range(tries)):
            try:
                found = self._http.request(method, path, **arguments)
            except httpx2.TransportError as error:
                never_left = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
                if not left or not (method == "GET" or repeatable or never_left):
                    raise self._unreachable(error) from None
                time.sleep(0.2)
                continue
            except UnicodeEncodeError as error:
                raise _unsendable(error) from None
            # A proxy may have timed out although the server has handled the request.
            unknown = found.status_code in LOST and (method == "GET" or repeatable)
            if left and (unknown or found.status_code in NOT_NOW):
                time.sleep(_rest(found))
                continue
            if found.status_code >= 300:
                raise refusal(found.status_code, found.content)
            return Answer(found.status_code, found.text, found.headers)
        raise AssertionError("the last try answers")

    def events(self, path: str, *, after: str | None = None, **query: Any) -> Iterator[Received]:
        """Yield events without end; after a disconnect, continue after the last event."""
        import httpx2

        lost = 0
        while not self._closed.is_set():
            lines = Lines()
            headers = {
                "Accept": "text/event-stream",
                "Penstock-Reader": "cli",
                **({} if after is None else {"Last-Event-ID": after}),
            }
            try:
                with self._http.stream("GET", path, params=_given(query), headers=headers, timeout=_QUIET) as answer:
                    if answer.status_code != 200:
                        raise refusal(answer.status_code, answer.read())
                    lost = 0
                    for part in answer.iter_bytes():
                        for event in filter(None, map(lines.feed, lines.split(part))):
                            after = event.id or after
                            if event.kind not in ("ping", "bye"):
                                yield event
            except httpx2.TransportError as error:
                lost += 1
                if lost > _TRIES * 3 or self._closed.is_set():
                    raise self._unreachable(error) from None
            except UnicodeEncodeError as error:
                raise _unsendable(error) from None
            self._closed.wait(min(_LONGEST_REST, 0.2 * 2.0**lost))

    def close(self) -> None:
        self._closed.set()
        if self._answers is not None:
            self._answers.close()
        if self._made is not None:
            self._made.close()

    @property
    def _http(self) -> httpx2.Client:
        if self._made is None:
            self._made = self._make_http()
        return self._made

    def _answered(self, method: str, path: str, query: Mapping[str, Any], body: object) -> str | None:
        """Answer a common request on a store without the web framework; return None for other requests."""
        if self._make_answers is None:
            return None
        if self._answers is None:
            self._answers = self._make_answers()
        try:
            return self._answers.ask(method, path, query, body)
        except PenstockError as error:
            # Convert the error as the API does.
            from penstock.http.errors import request_error_of

            found = request_error_of(error)
            raise ApiError(found.code, found.detail, found.hint, found.details) from None

    def _unreachable(self, error: Exception) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self.name} does not answer: {type(error).__name__}: {str(error)[:200]}.",
            hint="Start a server with `penstock serve`, or use --store without a server.",
        )


def path(*parts: str) -> str:
    """Return a path of the API; parts are quoted."""
    try:
        return "/v1/" + "/".join(quote(each, safe="") for each in parts)
    except UnicodeEncodeError as error:
        raise _unsendable(error) from None


def refusal(status: int, body: bytes) -> ApiError:
    """Return the error in an answer."""
    try:
        data = json.loads(body)["error"]
        return ApiError(data["code"], data["message"], data["hint"], data["details"])
    except (ValueError, KeyError, TypeError):
        text = body[:200].decode(errors="replace")
        return ApiError("unavailable", f"The server answered {status}: {text!r}.", "Is this a penstock server?")


@contextmanager
def connect(common: Common) -> Iterator[Connection]:
    """Open the API that the options, the environment or penstock.toml name."""
    found = _opened(common)
    try:
        yield found
    finally:
        found.close()


def operator() -> str:
    """Return the user's name, for the audit."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):
        return "cli"


def _opened(common: Common) -> Connection:
    if sum(each is not None for each in (common.server, common.store, common.profile)) > 1:
        raise InvalidInput("Give one of --server, --store and --profile.")
    if common.server is not None:
        return _remote(common.server)
    from penstock.cli import profiles

    named = common.profile if common.profile or common.store else os.environ.get("PENSTOCK_PROFILE")
    if named:
        profile = profiles.read(named)
        return _remote(profile.server, profile.token)
    if common.store is None and (server := os.environ.get("PENSTOCK_SERVER")):
        return _remote(server)
    from penstock.config.project_file import load

    found = load()
    if common.store is not None:
        return _inside(replace(found, store=common.store))
    if os.environ.get("PENSTOCK_STORE") or (found.server is None and found.store is not None):
        return _inside(found)
    if found.server is not None:
        return _remote(found.server)
    raise InvalidInput(
        "No server and no store was given.",
        hint="Give --server http://127.0.0.1:7367 or --store sqlite:///jobs.db, or set one in penstock.toml.",
    )


def _remote(url: str, token: str | None = None) -> Connection:
    from penstock.cli import profiles
    from penstock.client.server import authorization, server_name

    name = server_name(url)
    headers = authorization(token or profiles.token())

    def http() -> httpx2.Client:
        import httpx2

        # Certificates are loaded for https only: that takes longer than a request.
        secure = url.strip().lower().startswith("https:")
        return httpx2.Client(
            base_url=url.rstrip("/"), headers=headers, timeout=_PATIENCE, follow_redirects=False, verify=secure
        )

    return Connection(http, f"The server at {name}", remote=True)


def _inside(found: Config) -> Connection:
    def answers() -> StoreRequests:
        from penstock.cli.store_requests import StoreRequests

        return StoreRequests(_application(found), SecretPolicy(found.secret_patterns), operator())

    from penstock.domain.secrets.policy import SecretPolicy

    return Connection(lambda: _framework(found), "The store", remote=False, answers=answers)


def _application(found: Config) -> Penstock:
    from penstock import Penstock

    app = Penstock(**found.address)
    app.webhooks.settings = found.webhooks
    return app


def _framework(found: Config) -> httpx2.Client:
    """Return a client of the whole API on the store, within this process."""
    import httpx2

    from penstock.client.inside import InsideTransport
    from penstock.config.server_settings import WebSettings
    from penstock.domain.secrets.policy import SecretPolicy
    from penstock.http.application import create

    app = _application(found)
    web = create(app, WebSettings(secrets=SecretPolicy(found.secret_patterns)), trusted=operator())

    async def closing() -> None:
        streams = web.state.server.streams
        streams.close()
        await streams.wait_closed()
        await app.aclose()

    return httpx2.Client(transport=InsideTransport(web, closing), base_url="http://127.0.0.1", timeout=_PATIENCE)


def _written(body: object) -> bytes:
    """Encode a body as JSON; an error names the value that JSON does not have."""
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        from penstock.domain import payload

        return payload.encode(body, "The request").encode()


def _unsendable(error: UnicodeEncodeError) -> InvalidInput:
    return InvalidInput(f"{error.object[:80]!a} contains text that cannot be sent.", hint="Use valid UTF-8.")


def _given(query: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (query or {}).items() if value not in (None, (), [])}


def _rest(found: httpx2.Response) -> float:
    """Return the seconds to wait before a retry."""
    wished = found.headers.get("retry-after", "1")
    return min(_LONGEST_REST, float(wished)) if wished.isdigit() else 1.0
