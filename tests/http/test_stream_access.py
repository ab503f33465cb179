"""A stream goes on only while its caller may read: whatever refuses the caller ends the stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest

from penstock import Penstock
from tests.http.conftest import NewServer
from tests.http.streams import Message, StreamServer, ended, enqueue, reading, run
from tests.storage.tables import change
from tests.waiting import wait_until

WRONG = {"Authorization": "Bearer pst_wrong"}


def test_a_revoked_token_loses_its_stream_where_the_address_shows_wrong_tokens(
    app: Penstock, new_server: NewServer
) -> None:
    server = new_server(failed_tokens=2)
    made = app.tokens.create("one", "viewer")
    show_wrong_tokens(server, 4)

    async def follow() -> None:
        async with reading(server.url, token=made.text) as messages:
            await asyncio.to_thread(app.tokens.revoke, made.token.id)
            await is_cut(messages)

    run(follow())


def test_an_expired_token_loses_its_stream_where_the_address_shows_wrong_tokens(
    app: Penstock, new_server: NewServer
) -> None:
    server = new_server(failed_tokens=2)
    made = app.tokens.create("one", "viewer", expires_in=3600)
    show_wrong_tokens(server, 4)

    async def follow() -> None:
        async with reading(server.url, token=made.text) as messages:
            await asyncio.to_thread(change, app.store, "UPDATE {s}token SET expires_at = 1")
            await is_cut(messages)

    run(follow())


def test_the_checks_of_streams_are_no_wrong_tokens_of_their_address(app: Penstock, new_server: NewServer) -> None:
    server = new_server(failed_tokens=1)
    made = app.tokens.create("one", "viewer")

    async def follow() -> None:
        async with (
            reading(server.url, token=made.text) as first,
            reading(f"http://localhost:{server.port}", token=made.text) as second,
        ):
            await asyncio.to_thread(app.tokens.revoke, made.token.id)
            await is_cut(first)
            await is_cut(second)

    run(follow())

    assert show_wrong_tokens(server, 2) == [401, 429]


def test_a_check_that_fails_ends_the_streams_of_its_caller_and_no_others(app: Penstock, server: StreamServer) -> None:
    unreadable, revoked, kept = (app.tokens.create(name, "viewer") for name in ("one", "two", "three"))
    spoil = f"UPDATE {{s}}token SET created_at = {2**62} WHERE id = '{unreadable.token.id}'"

    async def follow() -> None:
        async with (
            reading(server.url, token=unreadable.text) as first,
            reading(server.url, token=revoked.text) as second,
            reading(server.url, token=kept.text) as third,
        ):
            await asyncio.to_thread(change, app.store, spoil)
            await is_cut(first)
            await asyncio.to_thread(app.tokens.revoke, revoked.token.id)
            await is_cut(second)
            enqueue(app)
            assert (await anext(third)).event == "job.enqueued"

    run(follow())


async def is_cut(messages: AsyncIterator[Message]) -> None:
    async with asyncio.timeout(10):
        with pytest.raises(httpx2.RemoteProtocolError):
            await ended(messages)


def show_wrong_tokens(server: StreamServer, times: int) -> list[int]:
    """What the server answers to each."""
    with httpx2.Client(base_url=server.url, trust_env=False, verify=False) as http:
        wait_until(lambda: http.get("/v1/jobs").status_code == 401, "the server knows that it is closed")
        return [http.get("/v1/jobs", headers=WRONG).status_code for _ in range(times)]
