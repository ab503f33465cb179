"""Event streams are shared out: no token and no address takes those of all others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
import pytest

from penstock import Penstock
from penstock.domain.access import Role
from tests.http.asgi_api import refused
from tests.http.conftest import NewServer
from tests.http.streams import STREAM, StreamServer, run
from tests.waiting import wait_until


@pytest.fixture
def tokens(app: Penstock) -> list[dict[str, str]]:
    return [{"Authorization": f"Bearer {app.tokens.create(name, Role.VIEWER).text}"} for name in ("a", "b", "c")]


@asynccontextmanager
async def streaming(server: StreamServer, headers: dict[str, str]) -> AsyncIterator[httpx2.Response]:
    """The answer to a request for a stream; a stream is open until the block is left."""
    asked = {"Accept": STREAM, **headers}
    async with (
        httpx2.AsyncClient(timeout=30, trust_env=False, verify=False) as http,
        http.stream("GET", f"{server.url}/v1/events", headers=asked) as answer,
    ):
        if answer.status_code != 200:
            await answer.aread()
        yield answer


def asked_together(server: StreamServer, *callers: dict[str, str]) -> list[httpx2.Response]:
    """The answers to requests for streams that are all open at the same time."""

    async def ask() -> list[httpx2.Response]:
        async with AsyncExitStack() as stack:
            return [await stack.enter_async_context(streaming(server, each)) for each in callers]

    answers: list[httpx2.Response] = run(ask())
    wait_until(lambda: server.streams.count == 0, "the streams have ended")
    return answers


def test_a_token_has_a_share_and_others_have_the_rest(new_server: NewServer, tokens: list[dict[str, str]]) -> None:
    server = new_server(max_streams=4, max_streams_per_token=2)
    first, second, _ = tokens

    for _ in range(3):
        answers = asked_together(server, first, first, first, second, second, second)

        assert [each.status_code for each in answers] == [200, 200, 429, 200, 200, 503]
        error = refused(answers[2], 429, "rate_limited")
        assert "2 open streams" in error["message"]
        assert answers[2].headers["retry-after"]


def test_sessions_count_for_their_token(new_server: NewServer, app: Penstock, tokens: list[dict[str, str]]) -> None:
    server = new_server(max_streams_per_token=2)
    text = tokens[0]["Authorization"].removeprefix("Bearer ")
    browsers = [{"Cookie": f"penstock_session={app.tokens.open_session(text)[0]}"} for _ in range(2)]

    answers = asked_together(server, tokens[0], *browsers, tokens[1])

    assert [each.status_code for each in answers] == [200, 200, 429, 200]


@pytest.mark.parametrize(
    ("own", "same", "other"),
    [("192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8::2", "2001:db8:1::1")],
)
def test_an_address_has_a_share_whatever_its_tokens_are(
    new_server: NewServer, tokens: list[dict[str, str]], own: str, same: str, other: str
) -> None:
    server = new_server(max_streams_per_address=2)

    def of(token: dict[str, str], address: str) -> dict[str, str]:
        return {**token, "X-Forwarded-For": address}

    answers = asked_together(
        server, of(tokens[0], own), of(tokens[1], same), of(tokens[2], own), of(tokens[0], other), of(tokens[2], other)
    )

    assert [each.status_code for each in answers] == [200, 200, 429, 200, 200]


def test_streams_that_end_early_give_their_share_back(new_server: NewServer, tokens: list[dict[str, str]]) -> None:
    server = new_server(max_streams_per_token=1, max_streams_per_address=1)
    wrong: list[dict[str, Any]] = [{**tokens[0], "Last-Event-ID": "nonsense"}, {**tokens[0], "Last-Event-ID": "x" * 90}]

    for _ in range(3):
        assert [each.status_code for each in asked_together(server, *wrong)] == [400, 400]
        assert [each.status_code for each in asked_together(server, tokens[0])] == [200]


def test_no_share_is_larger_than_what_there_is_where_nothing_is_said(new_server: NewServer) -> None:
    settings = new_server().web.state.server.settings

    assert settings.max_streams_per_token < settings.max_streams_per_address < settings.max_streams
