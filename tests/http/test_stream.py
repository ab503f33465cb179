"""Event streams from a real server: nothing missed, nothing doubled, nobody held up by another."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import httpx2
import pytest

from penstock import Penstock
from penstock.domain.event import Event
from penstock.http.streaming.hub import StreamBuffer
from penstock.storage.commands import feed
from tests.conftest import Counts
from tests.http.conftest import NewServer
from tests.http.streams import (
    STREAM,
    Message,
    Refused,
    StreamServer,
    answers,
    ended,
    enqueue,
    forget_a_job,
    parsed,
    reading,
    run,
    unchunked,
    until,
)
from tests.waiting import wait_until, wait_until_async

CLIENTS = 20


class TestSequence:
    def test_each_client_gets_what_the_table_has_over_reconnects_and_a_restart(
        self, app: Penstock, new_server: NewServer, counts: Counts
    ) -> None:
        total, step = counts(ci=500, soak=5000), counts(ci=25, soak=100)
        first = new_server()
        heard: list[list[Message]] = [[] for _ in range(CLIENTS)]

        async def follow() -> None:
            clients = [
                asyncio.create_task(_follow(first, total, each, random.Random(n))) for n, each in enumerate(heard)
            ]
            for written in range(step, total + 1, step):
                if written == total // 2:
                    stopping = asyncio.create_task(asyncio.to_thread(first.stop))
                    await asyncio.to_thread(_write, app, step)
                    await stopping
                    new_server(port=first.port)
                else:
                    await asyncio.to_thread(_write, app, step)
                # Some keep up with what is written, some come behind.
                await wait_until_async(
                    lambda most=written: sum(len(each) >= most for each in heard) >= CLIENTS // 3,  # type: ignore[misc]
                    "a third of the clients has heard everything so far",
                    30,
                )
            await asyncio.gather(*clients)

        run(follow(), 110)

        table = _table(app)
        assert len(table) == total
        for messages in heard:
            assert sorted(each.seq for each in messages) == sorted(each.seq for each in table)
            in_order = _by_job((each.data["jobId"], each.seq) for each in messages)
            assert in_order == _by_job((each.job_id, each.seq) for each in table)
        if app.store.dialect == "sqlite":
            assert all([each.seq for each in messages] == [each.seq for each in table] for messages in heard)

    # SQLite has one writer at a time: nothing is committed late.
    @pytest.mark.parametrize("app", ["postgres-18"], indirect=True)
    def test_what_is_committed_late_comes_once_to_whoever_came_in_between(
        self, app: Penstock, server: StreamServer
    ) -> None:
        store: Any = app.store
        begin = store.run(feed.tip())

        async def follow(transaction: contextlib.ExitStack) -> None:
            connection = transaction.enter_context(store.connect())
            transaction.enter_context(connection.transaction())
            late = enqueue(app, connection=connection)
            early = [enqueue(app) for _ in range(3)]
            async with reading(server.url, last=begin) as first:
                heard = [await anext(first) for _ in early]
                # Comes back into the midst of what it had, while the transaction is open.
                async with reading(server.url, last=heard[0].id) as second:
                    again = [await anext(second) for _ in early[1:]]
                    await wait_until_async(lambda: len(server.streams._live) == 2, "both are served by the hub")
                    await asyncio.to_thread(transaction.close)
                    afterwards = await asyncio.to_thread(enqueue, app)

                    assert [each.data["jobId"] for each in heard] == early
                    assert again == heard[1:]
                    for messages in (first, second):
                        assert [(await anext(messages)).data["jobId"] for _ in range(2)] == [late, afterwards]

        with contextlib.ExitStack() as transaction:
            run(follow(transaction))

    @pytest.mark.parametrize("path", ["/v1/events", "/v1/jobs/{}/events"])
    def test_what_happens_before_the_hub_serves_a_stream_comes_once(
        self, app: Penstock, server: StreamServer, path: str
    ) -> None:
        job = enqueue(app)
        join = server.streams.join

        async def late(buffer: StreamBuffer, cursor: str | None) -> str:
            await asyncio.to_thread(app.jobs.cancel, job)
            joined: str = await join(buffer, cursor)
            return joined

        server.streams.join = late

        async def follow() -> list[str]:
            async with reading(server.url, path.format(job), after="origin") as messages:
                heard = [await anext(messages), await anext(messages)]
                await asyncio.to_thread(app.jobs.retry, job)
                return [each.event for each in [*heard, await anext(messages)]]

        assert run(follow()) == ["job.enqueued", "job.cancelled", "job.enqueued"]

    def test_a_client_that_has_seen_more_than_the_hub_waits_for_it(self, app: Penstock, server: StreamServer) -> None:
        async def follow() -> list[str]:
            async with reading(server.url) as first, contextlib.AsyncExitStack() as stack:
                await wait_until_async(lambda: server.streams._live, "the first stream is served by the hub")
                with _not_looking(server):
                    job = await asyncio.to_thread(enqueue, app)
                    second = await stack.enter_async_context(reading(server.url, after="origin"))
                    heard = [await anext(second)]
                    await wait_until_async(lambda: server.streams._joining, "the second one waits for the hub")
                await asyncio.to_thread(app.jobs.cancel, job)
                assert [(await anext(first)).event for _ in range(2)] == ["job.enqueued", "job.cancelled"]
                return [each.event for each in [*heard, await anext(second)]]

        assert run(follow()) == ["job.enqueued", "job.cancelled"]

    def test_a_client_that_names_no_cursor_hears_what_happens_from_now_on(
        self, app: Penstock, server: StreamServer
    ) -> None:
        enqueue(app)

        async def follow() -> Message:
            async with reading(server.url) as messages:
                after = enqueue(app)
                message = await anext(messages)
                assert message.data["jobId"] == after
                return message

        message = run(follow())

        assert message.event == message.data["type"] == "job.enqueued"
        assert message.data["job"]["status"] == "queued"
        assert message.data["deletedJobId"] is None

    def test_what_is_started_on_one_server_is_watched_on_the_other(self, new_server: NewServer) -> None:
        here, there = new_server(), new_server()

        async def follow() -> None:
            async with reading(there.url) as messages, httpx2.AsyncClient(base_url=here.url, trust_env=False) as http:
                started = await http.post("/v1/jobs", json={"definitionKey": "work", "params": {"text": "x"}})
                message = await anext(messages)
                assert message.data["jobId"] == started.json()["jobId"]
                await http.post(f"/v1/jobs/{message.data['jobId']}/cancel")
                assert (await anext(messages)).event == "job.cancelled"

        run(follow())

    def test_a_cursor_that_is_too_old_makes_the_client_begin_anew(self, app: Penstock, server: StreamServer) -> None:
        old = app.store.run(feed.tip())
        forget_a_job(app)

        async def follow() -> list[Message]:
            async with reading(server.url, last=old) as messages:
                (resync,) = await until(messages, "resync")
                enqueue(app)
                return [resync, await anext(messages)]

        resync, next_one = run(follow())

        assert resync.id is not None
        assert next_one.event == "job.enqueued"
        assert [each.type for each in app.events.follow(after=resync.id, timeout=0)] == ["job.enqueued"]

    def test_where_a_snapshot_was_asked_for_beginning_anew_means_a_new_one(
        self, app: Penstock, server: StreamServer
    ) -> None:
        old = app.store.run(feed.tip())
        forget_a_job(app)
        job = enqueue(app)

        async def follow() -> list[Message]:
            async with reading(server.url, last=old, snapshot="true") as messages:
                return await until(messages, "snapshot.end")

        heard = run(follow())

        assert [(each.event, each.id is None) for each in heard] == [
            ("resync", True), ("snapshot", True), ("snapshot.end", False),
        ]  # fmt: skip
        assert heard[1].data["job"]["jobId"] == job

    def test_a_feed_that_is_cut_off_before_the_hub_comes_makes_all_clients_begin_anew(
        self, app: Penstock, server: StreamServer
    ) -> None:
        async def follow() -> list[str]:
            async with reading(server.url) as messages:
                await wait_until_async(lambda: server.streams._live, "the stream is served by the hub")
                with _not_looking(server):
                    await asyncio.to_thread(forget_a_job, app)
                heard = await until(messages, "resync")
                await asyncio.to_thread(enqueue, app)
                return [each.event for each in [*heard, await anext(messages)]]

        assert run(follow()) == ["resync", "job.enqueued"]


class TestStream:
    def test_its_headers_keep_caches_and_proxies_from_holding_it_back(self, server: StreamServer) -> None:
        async def begin() -> tuple[httpx2.Headers, bytes]:
            async with (
                httpx2.AsyncClient(trust_env=False) as http,
                http.stream("GET", f"{server.url}/v1/events", headers={"Accept": STREAM}) as answer,
            ):
                return answer.headers, await anext(answer.aiter_bytes())

        headers, first = run(begin())

        assert headers["content-type"] == "text/event-stream; charset=utf-8"
        assert headers["cache-control"] == "no-cache"
        assert headers["x-accel-buffering"] == "no"
        assert "content-length" not in headers
        assert first == b"retry: 2000\n\n"

    def test_a_ping_with_the_time_comes_every_now_and_then(self, new_server: NewServer) -> None:
        server = new_server(ping_every=0.05)

        async def follow() -> list[Message]:
            async with reading(server.url) as messages:
                return [await anext(messages) for _ in range(3)]

        pings = run(follow())

        assert [each.event for each in pings] == ["ping"] * 3
        assert len({each.data["at"] for each in pings}) == 3

    def test_a_server_that_stops_says_goodbye_at_once(self, app: Penstock, server: StreamServer) -> None:
        job = enqueue(app)

        async def follow() -> tuple[list[list[Message]], float]:
            async with (
                reading(server.url) as all_events,
                reading(server.url, f"/v1/jobs/{job}/events", last="99999999") as one_job,
            ):
                await wait_until_async(lambda: len(server.streams._live) == 2, "both streams are served by the hub")
                begun = time.monotonic()
                stopping = asyncio.create_task(asyncio.to_thread(server.stop))
                heard = [await ended(all_events), await ended(one_job)]
                await stopping
                return heard, time.monotonic() - begun

        heard, seconds = run(follow())

        assert [[each.event for each in messages] for messages in heard] == [["bye"], ["bye"]]
        assert seconds < 1
        assert list(app.events.follow(after=heard[0][0].id, timeout=0)) == []

    def test_a_server_that_stops_takes_no_more_streams(self, server: StreamServer) -> None:
        server.call(server.streams.close)
        wait_until(lambda: server.streams._closed, "the streams are closed")

        answer = httpx2.get(f"{server.url}/v1/events", headers={"Accept": STREAM}, trust_env=False)

        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
        assert answer.headers["retry-after"]

    def test_there_are_only_so_many_at_once(self, new_server: NewServer) -> None:
        server = new_server(max_streams=2)

        async def crowd() -> httpx2.Response:
            async with reading(server.url), reading(server.url), httpx2.AsyncClient(trust_env=False) as http:
                return await http.get(f"{server.url}/v1/events", headers={"Accept": STREAM})

        refused = run(crowd())

        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "too_many_streams")
        assert refused.headers["retry-after"]
        wait_until(lambda: server.streams.count == 0, "the others have left")
        run(_begin_and_leave(server))

    def test_it_works_in_an_application_that_this_one_is_mounted_in(self, app: Penstock, new_server: NewServer) -> None:
        server = new_server(mounted_at="/inside")

        async def follow() -> str:
            async with reading(f"{server.url}/inside") as messages:
                await asyncio.to_thread(enqueue, app)
                return (await anext(messages)).event

        assert run(follow()) == "job.enqueued"

    def test_nothing_is_read_when_nobody_listens(self, server: StreamServer) -> None:
        for _ in range(2):
            run(_begin_and_leave(server))

            wait_until(lambda: not server.streams._running, "the reading has ended")

    # Nobody counts the connections of a SQLite file.
    @pytest.mark.parametrize("app", ["postgres-18"], indirect=True)
    def test_streams_need_no_connection_each(self, app: Penstock, server: StreamServer) -> None:
        async def crowd() -> int:
            async with contextlib.AsyncExitStack() as stack:
                streams = [await stack.enter_async_context(reading(server.url)) for _ in range(60)]
                enqueue(app)
                heard = [(await anext(each)).event for each in streams]
                assert heard == ["job.enqueued"] * len(streams)
                return _connections(app)

        assert run(crowd()) < 20

    def test_whoever_may_not_read_any_more_is_cut_off_within_seconds(self, app: Penstock, server: StreamServer) -> None:
        revoked, kept = app.tokens.create("one", "viewer"), app.tokens.create("two", "viewer")

        async def follow() -> None:
            async with (
                reading(server.url, token=revoked.text) as gone,
                reading(server.url, token=kept.text) as stays,
            ):
                await asyncio.to_thread(app.tokens.revoke, revoked.token.id)
                async with asyncio.timeout(6):
                    with pytest.raises(httpx2.RemoteProtocolError):
                        await ended(gone)
                enqueue(app)
                assert (await anext(stays)).event == "job.enqueued"

        run(follow())

    def test_secret_parameters_are_masked(self, app: Penstock, server: StreamServer) -> None:
        async def follow() -> Message:
            async with reading(server.url) as messages:
                await asyncio.to_thread(app.enqueue, "work", {"text": "x", "password": "hunter2"})
                return await anext(messages)

        assert "hunter2" not in str(run(follow()).data)


class TestStalledClient:
    def test_it_is_dropped_and_holds_up_nobody_and_can_come_back(self, app: Penstock, new_server: NewServer) -> None:
        server = new_server(stream_buffer=20)
        text = "x" * 20_000

        async def follow() -> None:
            stalled = await asyncio.to_thread(_stalled, server)
            async with reading(server.url) as messages:
                await wait_until_async(lambda: len(server.streams._live) == 2, "both streams are served by the hub")
                for _ in range(1000):
                    jobs = [enqueue(app, text=text) for _ in range(5)]
                    assert [(await anext(messages)).data["jobId"] for _ in jobs] == jobs
                    if server.streams.count == 1:
                        break
                assert server.streams.count == 1, "the one who does not read is still there"
            had = [each async for each in parsed(_rest_of(stalled))]
            table = [each.seq for each in _table(app)]
            assert len(had) < len(table)
            async with reading(server.url, last=had[-1].id) as messages:
                had += [await anext(messages) for _ in range(len(table) - len(had))]
            assert [each.seq for each in had] == table

        run(follow())


async def _follow(server: StreamServer, total: int, heard: list[Message], chance: random.Random) -> None:
    """Hear all events from the first one on, over connections that are cut every now and then."""
    last = None
    while len(heard) < total:
        try:
            async with reading(server.url, last=last, after="origin") as messages:
                patience = chance.randint(1, max(2, total // 4))
                async for each in messages:
                    last = each.id or last
                    if each.event.startswith("job."):
                        heard.append(each)
                        patience -= 1
                    if patience == 0 or len(heard) >= total:
                        break
        except (httpx2.TransportError, Refused):
            await wait_until_async(lambda: answers(server.port), "the server is there again")


def _write(app: Penstock, count: int) -> None:
    """Cause so many events, from several threads."""
    limits = [count // 4] * 3
    limits.append(count - sum(limits))
    threads = [threading.Thread(target=_write_share, args=(app, limit)) for limit in limits]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def _write_share(app: Penstock, count: int) -> None:
    while count:
        job = enqueue(app)
        count -= 1
        if count:
            app.jobs.cancel(job)
            count -= 1


def _table(app: Penstock) -> list[Event]:
    return list(app.events.follow(after="origin", timeout=0))


def _by_job(events: Iterable[tuple[str | None, int]]) -> dict[str | None, list[int]]:
    """The numbers of each job's events, in the order in which they came."""
    found: dict[str | None, list[int]] = {}
    for job, seq in events:
        found.setdefault(job, []).append(seq)
    return found


async def _begin_and_leave(server: StreamServer) -> None:
    async with reading(server.url):
        await wait_until_async(lambda: server.streams._running, "the hub reads")


@contextlib.contextmanager
def _not_looking(server: StreamServer) -> Iterator[None]:
    """Meanwhile the hub does everything but read the feed."""
    looks = threading.Event()

    async def do_not_look() -> float:
        looks.set()
        return 0.01

    look, server.streams._read_page = server.streams._read_page, do_not_look
    assert looks.wait(10)
    yield
    server.streams._read_page = look


def _connections(app: Penstock) -> int:
    store: Any = app.store
    with store.connect() as connection:
        ((count,),) = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type LIKE 'client%'"
        ).fetchall()
    return int(count)


def _stalled(server: StreamServer) -> socket.socket:
    """A client that asks for the stream and then reads nothing."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", server.port))
    client.sendall(f"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAccept: {STREAM}\r\n\r\n".encode())
    return client


async def _rest_of(client: socket.socket) -> AsyncIterator[bytes]:
    """What lies in the connection yet, behind the head of the answer."""
    client.settimeout(10)
    text = b""
    with contextlib.closing(client):
        while chunk := await asyncio.to_thread(client.recv, 65536):
            text += chunk
    yield unchunked(text.partition(b"\r\n\r\n")[2])
