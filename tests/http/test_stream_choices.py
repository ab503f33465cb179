"""What a client may choose: a snapshot first, some kinds, one definition, one job."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock import Penstock
from penstock.storage.commands import feed
from tests.http.conftest import NewServer
from tests.http.streams import Message, StreamServer, ended_job, enqueue, reading, run, until
from tests.waiting import wait_until_async


class TestSnapshot:
    def test_the_jobs_that_have_not_ended_come_first(self, app: Penstock, server: StreamServer) -> None:
        ended_job(app)
        jobs = [enqueue(app) for _ in range(450)]

        async def follow() -> list[Message]:
            async with reading(server.url, snapshot="true") as messages:
                heard = await until(messages, "snapshot.end")
                enqueue(app)
                return [*heard, await anext(messages)]

        *shown, end, live = run(follow())

        assert {each.event for each in shown} == {"snapshot"}
        assert sorted(each.data["job"]["jobId"] for each in shown) == sorted(jobs)
        assert end.data["jobs"] == len(jobs)
        assert live.event == "job.enqueued"

    def test_whoever_comes_back_gets_no_second_one(self, app: Penstock, server: StreamServer) -> None:
        enqueue(app)

        async def follow() -> Message:
            async with reading(server.url, snapshot="true") as messages:
                *_, end = await until(messages, "snapshot.end")
            enqueue(app)
            async with reading(server.url, last=end.id, snapshot="true") as messages:
                return await anext(messages)

        assert run(follow()).event == "job.enqueued"

    def test_it_shows_what_the_filter_means(self, app: Penstock, server: StreamServer) -> None:
        enqueue(app)
        other = enqueue(app, "other")

        async def follow() -> list[Message]:
            async with reading(server.url, snapshot="true", definitionKey="other") as messages:
                return await until(messages, "snapshot.end")

        shown, _ = run(follow())

        assert shown.data["job"]["jobId"] == other


class TestFilters:
    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ({"type": "job.cancelled"}, ["job.cancelled", "job.cancelled"]),
            ({"type": ["job.cancelled", "job.enqueued"], "definitionKey": "work"}, ["job.enqueued", "job.cancelled"]),
            ({"type": "job.*", "definitionKey": "other"}, ["job.enqueued", "job.cancelled"]),
            ({"type": "worker.*"}, []),
        ],
    )
    def test_only_what_is_wanted_comes_whether_missed_or_live(
        self, app: Penstock, server: StreamServer, query: dict[str, Any], expected: list[str]
    ) -> None:
        origin = app.store.run(feed.tip())

        def act() -> None:
            for key in ("work", "other"):
                app.jobs.cancel(enqueue(app, key))

        async def follow() -> list[str]:
            act()
            async with reading(server.url, last=origin, **query) as messages:
                heard = [(await anext(messages)).event for _ in expected]
                await wait_until_async(lambda: server.streams._live, "the stream is served by the hub")
                await asyncio.to_thread(act)
                return heard + [(await anext(messages)).event for _ in expected]

        assert run(follow()) == expected * 2

    def test_a_stream_can_be_of_some_jobs(self, app: Penstock, server: StreamServer) -> None:
        jobs = [enqueue(app) for _ in range(3)]

        async def follow() -> list[str]:
            async with reading(server.url, jobId=jobs[1:]) as messages:
                for each in jobs:
                    await asyncio.to_thread(app.jobs.cancel, each)
                return [(await anext(messages)).data["jobId"] for _ in jobs[1:]]

        assert run(follow()) == jobs[1:]

    def test_the_deletion_of_a_job_is_told_by_its_definition_too(self, app: Penstock, server: StreamServer) -> None:
        job = ended_job(app)

        async def follow() -> Message:
            async with reading(server.url, definitionKey="work") as messages:
                await asyncio.to_thread(app.jobs.delete, job)
                return await anext(messages)

        message = run(follow())

        assert (message.event, message.data["job"], message.data["deletedJobId"]) == ("job.deleted", None, job)

    def test_a_client_that_wants_nothing_that_happens_does_not_grow_old(
        self, app: Penstock, new_server: NewServer
    ) -> None:
        server = new_server(ping_every=0.05)

        async def follow() -> None:
            async with reading(server.url, type="worker.*") as messages:
                first = await anext(messages)
                await asyncio.to_thread(enqueue, app)
                assert len(list(app.events.follow(after=first.id, timeout=0))) == 1
                ping = await anext(messages)
                while list(app.events.follow(after=ping.id, timeout=0)):
                    ping = await anext(messages)
                assert ping.event == "ping"

        run(follow())


class TestOneJob:
    def test_its_events_come_from_the_first_one_on_by_their_numbers(self, app: Penstock, server: StreamServer) -> None:
        job, other = enqueue(app), enqueue(app)

        async def follow() -> list[Message]:
            async with reading(server.url, f"/v1/jobs/{job}/events") as messages:
                heard = [await anext(messages)]
                await asyncio.to_thread(app.jobs.cancel, other)
                await asyncio.to_thread(app.jobs.cancel, job)
                return [*heard, await anext(messages)]

        heard = run(follow())

        assert [each.event for each in heard] == ["job.enqueued", "job.cancelled"]
        assert [each.id for each in heard] == [str(each.seq) for each in heard]
        assert {each.data["jobId"] for each in heard} == {job}

    def test_whoever_comes_back_goes_on_behind_its_number(self, app: Penstock, server: StreamServer) -> None:
        job = ended_job(app)

        async def follow() -> list[str]:
            path = f"/v1/jobs/{job}/events"
            async with reading(server.url, path) as messages:
                first = await anext(messages)
            async with reading(server.url, path, last=first.id) as messages:
                heard = [await anext(messages)]
                await asyncio.to_thread(app.jobs.retry, job)
                return [each.event for each in [*heard, await anext(messages)]]

        assert run(follow()) == ["job.cancelled", "job.enqueued"]

    def test_the_job_itself_can_come_first(self, app: Penstock, server: StreamServer) -> None:
        job = ended_job(app)

        async def follow() -> list[Message]:
            async with reading(server.url, f"/v1/jobs/{job}/events", snapshot="true") as messages:
                return await until(messages, "job.cancelled")

        shown, end, *events = run(follow())

        assert (shown.event, shown.data["job"]["status"]) == ("snapshot", "cancelled")
        assert (end.event, end.id) == ("snapshot.end", "0")
        assert [each.event for each in events] == ["job.enqueued", "job.cancelled"]

    def test_many_clients_of_many_jobs_each_hear_of_theirs(self, app: Penstock, server: StreamServer) -> None:
        jobs = [enqueue(app) for _ in range(10)]

        async def follow(job: str) -> list[str]:
            async with reading(server.url, f"/v1/jobs/{job}/events") as messages:
                return [each.data["jobId"] for each in await until(messages, "job.cancelled")]

        async def all_of_them() -> list[list[str]]:
            clients = [asyncio.create_task(follow(each)) for each in jobs]
            for each in jobs:
                await asyncio.to_thread(app.jobs.cancel, each)
            return await asyncio.gather(*clients)

        assert run(all_of_them()) == [[each, each] for each in jobs]
