"""What every queue must do. An adapter's test file makes a `Broker` fixture and inherits these tests.

A queue may carry ids (a broker) or only wake (the database): tests speak of messages that arrive, and of ids only
where a message has one.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from penstock import JobHandle, Order, Penstock
from penstock.definitions.orders import EnqueueOptions
from penstock.domain.ids import IdSource
from penstock.domain.ports.queue import Message, Queue
from penstock.launch import services
from tests.storage.tables import change
from tests.waiting import wait_until, wait_until_async
from tests.worker.fleet import PATIENCE, ROOT, Gate, Stage, WorkerProcess

QUIET = 0.3
LONG = 15.0
GARBAGE = ["", "garbage", "\x00", "\ud800", "x" * 10_000, "01890a5d-ac96-774b-bcce-b302099a8057"]
_ids = IdSource(lambda: time.time_ns() // 1_000_000, lambda size: bytes(size))


class Broker(ABC):
    """One broker with nothing in it: what the tests need of an adapter."""

    wakes_all = True
    """Each message wakes every receiver; otherwise one of them gets it."""

    adapter = ""
    """The import path of what makes such a queue, as applications name it; for `WorkerConformance`."""
    environment: Mapping[str, str] = {}
    """Environment variables by which that finds the broker."""

    def left(self) -> object:
        """Messages that the broker has and that are not acknowledged; falsy: none. For `WorkerConformance`."""
        raise NotImplementedError

    @abstractmethod
    def queue(self) -> Queue:
        """A new queue on the broker."""

    def program(self) -> str:
        """Python text that makes such a queue and calls it `queue`; for `SharedQueueConformance`."""
        raise NotImplementedError

    def stop(self) -> None:
        """Take the broker away; for `ServerQueueConformance`."""
        raise NotImplementedError

    def start(self) -> None:
        """Bring it back."""
        raise NotImplementedError

    @abstractmethod
    def in_use(self) -> object:
        """What queues hold of the broker now: sockets, files, connections. Falsy: nothing."""


class QueueConformance:
    """The tests; a subclass for each adapter."""

    @pytest.fixture
    async def queue(self, broker: Broker) -> AsyncIterator[Queue]:
        queue = broker.queue()
        await settled(queue)
        yield queue
        await queue.aclose()

    async def test_publish_wakes_a_receiver(self, queue: Queue) -> None:
        queue.publish([new_id()])

        assert await queue.receive(LONG)

    async def test_publish_wakes_a_receiver_that_waits_already(self, queue: Queue) -> None:
        waiting = asyncio.create_task(received(queue))
        await wait_until_async(lambda: waiting_inside(waiting), "the receiver waits")

        queue.publish([new_id()])

        assert await waiting

    async def test_publish_wakes_a_receiver_of_another_queue_object(self, broker: Broker, queue: Queue) -> None:
        publisher = broker.queue()

        publisher.publish([new_id()])

        assert await queue.receive(LONG)
        await publisher.aclose()

    async def test_what_is_published_quickly_comes_together(self, queue: Queue) -> None:
        for _ in range(200):
            queue.publish([new_id()])

        calls = 0
        while await queue.receive(1.0):
            calls += 1

        assert 1 <= calls < 100

    async def test_what_came_while_nobody_received_is_received_later(self, queue: Queue) -> None:
        queue.publish([new_id()])
        assert await queue.receive(LONG)

        queue.publish([new_id()])
        arrived = asyncio.create_task(received(queue))

        assert await arrived

    async def test_receive_ends_with_nothing_when_the_time_is_over(self, queue: Queue) -> None:
        began = time.monotonic()

        messages = await queue.receive(QUIET)

        assert list(messages) == []
        assert QUIET * 0.9 <= time.monotonic() - began < QUIET + 2

    async def test_publishing_nothing_wakes_nobody(self, queue: Queue) -> None:
        queue.publish([])

        assert not await queue.receive(QUIET)

    async def test_a_receiver_that_was_cancelled_can_receive_again(self, queue: Queue) -> None:
        waiting = asyncio.create_task(received(queue))
        await wait_until_async(lambda: waiting_inside(waiting), "the receiver waits")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

        queue.publish([new_id()])

        assert await queue.receive(LONG)

    async def test_many_receivers_are_served(self, broker: Broker, queue: Queue) -> None:
        queues = [broker.queue() for _ in range(5)]
        for each in queues:
            await settled(each)
        waiting = [asyncio.create_task(received(each)) for each in queues]
        await wait_until_async(lambda: all(map(waiting_inside, waiting)), "all receivers wait")

        await self._publish_until_served(queue, waiting)

        assert all(await asyncio.gather(*waiting))
        for each in queues:
            await each.aclose()

    async def test_receivers_that_share_a_queue_object_are_all_served(self, broker: Broker, queue: Queue) -> None:
        waiting = [asyncio.create_task(received(queue)) for _ in range(3)]
        await wait_until_async(lambda: all(map(waiting_inside, waiting)), "all receivers wait")

        if broker.wakes_all:
            queue.publish([new_id()])
        else:
            await self._publish_until_served(queue, waiting)

        assert all(await asyncio.gather(*waiting))

    async def _publish_until_served(self, queue: Queue, waiting: Sequence[asyncio.Task[bool]]) -> None:
        """Publish once for each receiver; again while one of them took the messages of several together."""
        for _ in range(20):
            for task in waiting:
                if not task.done():
                    queue.publish([new_id()])
            await asyncio.wait(waiting, timeout=QUIET)

    async def test_any_thread_may_publish(self, queue: Queue) -> None:
        together = threading.Barrier(4)

        def publish(_: int) -> None:
            together.wait()
            for _ in range(25):
                queue.publish([new_id()])

        with ThreadPoolExecutor(4) as pool:
            await asyncio.to_thread(lambda: list(pool.map(publish, range(4))))

        assert await queue.receive(LONG)

    async def test_acknowledging_twice_or_nothing_does_no_harm(self, queue: Queue) -> None:
        queue.publish([new_id()])
        messages = await queue.receive(LONG)

        await queue.acknowledge(messages)
        await queue.acknowledge(messages)
        await queue.acknowledge([])
        queue.publish([new_id()])

        assert await queue.receive(LONG)

    async def test_garbage_and_unknown_ids_do_no_harm(self, queue: Queue) -> None:
        queue.publish(GARBAGE)
        for each in GARBAGE:
            queue.publish([each])

        while messages := await queue.receive(1.0):
            await queue.acknowledge(messages)
        queue.publish([new_id()])

        assert await queue.receive(LONG)

    async def test_a_message_says_no_more_than_an_id(self, queue: Queue) -> None:
        job_id = new_id()

        queue.publish([job_id])

        assert {message.job_id for message in await queue.receive(LONG)} <= {None, job_id}

    async def test_publish_never_blocks(self, queue: Queue) -> None:
        began = time.monotonic()

        for _ in range(500):
            queue.publish([new_id()])

        assert time.monotonic() - began < 5

    async def test_closing_releases_everything_and_may_be_done_twice(self, broker: Broker, queue: Queue) -> None:
        await queue.aclose()
        await wait_until_async(lambda: not broker.in_use(), "nothing is in use any more")
        mine = broker.queue()
        await settled(mine)
        mine.publish([new_id()])
        assert await mine.receive(LONG)
        assert broker.in_use()

        await mine.aclose()
        await mine.aclose()

        await wait_until_async(lambda: not broker.in_use(), "nothing is in use any more")

    async def test_a_closed_queue_publishes_without_an_error(self, queue: Queue) -> None:
        await queue.aclose()

        queue.publish([new_id()])

    def test_a_queue_can_be_used_in_one_event_loop_after_another(self, broker: Broker) -> None:
        queue = broker.queue()

        async def once() -> bool:
            await settled(queue)
            queue.publish([new_id()])
            return bool(await queue.receive(LONG))

        async def end() -> None:
            await queue.aclose()

        assert asyncio.run(once())
        assert asyncio.run(once())
        asyncio.run(end())


class SharedQueueConformance(QueueConformance):
    """The same, and what is said between processes."""

    async def test_publish_wakes_a_receiver_in_another_process(self, broker: Broker, queue: Queue) -> None:
        program = broker.program() + RECEIVE
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readline(), LONG) == b"ready\n"

        queue.publish([new_id()])

        assert await asyncio.wait_for(process.stdout.readline(), LONG) == b"received\n"
        assert await process.wait() == 0

    async def test_publish_in_another_process_wakes_a_receiver_here(self, broker: Broker, queue: Queue) -> None:
        program = broker.program() + PUBLISH.format(ids=[new_id()])

        done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", program], timeout=LONG)

        assert done.returncode == 0
        assert await queue.receive(LONG)


class ServerQueueConformance(SharedQueueConformance):
    """The same, and what happens while the server is away."""

    async def test_publish_neither_raises_nor_blocks_while_the_broker_is_away_and_works_again_later(
        self, broker: Broker, queue: Queue
    ) -> None:
        other = broker.queue()
        other.publish([new_id()])
        assert await queue.receive(LONG)
        broker.stop()
        began = time.monotonic()
        for _ in range(50):
            queue.publish([new_id()])
            other.publish([new_id()])
        elapsed = time.monotonic() - began
        gone = await queue.receive(QUIET)

        broker.start()  # in this thread, with which a server dies
        await settled(queue)

        async def arrives() -> Sequence[Message]:
            other.publish([new_id()])
            return await queue.receive(QUIET)

        assert elapsed < 5
        assert list(gone) == []
        assert await wait_until_async(arrives, "messages arrive again", timeout=60)
        await other.aclose()


RECEIVE = """
import asyncio

async def main():
    while await queue.receive(0.5):
        pass
    print("ready", flush=True)
    messages = await queue.receive(15)
    print("received" if messages else "nothing", flush=True)
    await queue.acknowledge(messages)
    await queue.aclose()

asyncio.run(main())
"""

PUBLISH = """
import asyncio
queue.publish({ids!r})
asyncio.run(queue.aclose())
"""


async def settled(queue: Queue) -> None:
    """Receive what comes of itself, until it is quiet: to begin to listen may count as a message."""
    while messages := await queue.receive(QUIET):
        await queue.acknowledge(messages)


async def received(queue: Queue) -> bool:
    return bool(await queue.receive(LONG))


def waiting_inside(task: asyncio.Task[bool]) -> bool:
    """Whether a task has come to where it waits for something."""
    return getattr(task, "_fut_waiter", None) is not None


def new_id() -> str:
    return _ids.new_id()


class WorkerConformance:
    """An adapter that is named by its import path, between real processes: enqueuers and workers.

    Workers poll the store so seldom that only messages can bring them jobs in time.
    """

    @pytest.fixture
    def app(self, stage: Stage, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Penstock]:
        """An enqueuer with the adapter."""
        for name, value in broker.environment.items():
            monkeypatch.setenv(name, value)
        app = Penstock(stage.url, schema=stage.schema, queue=broker.adapter)
        yield app
        app.close()

    def test_jobs_of_sync_and_async_enqueuers_run_by_their_messages(
        self, stage: Stage, broker: Broker, app: Penstock
    ) -> None:
        self._worker(stage, broker)

        jobs = [app.enqueue("work", {"number": 1}), asyncio.run(_aenqueue(app, 2))]
        jobs += app.enqueue_many([_order(app, number) for number in range(3, 53)])

        assert [job.result(PATIENCE) for job in jobs] == list(range(1, 53))
        wait_until(lambda: not broker.left(), "all messages are acknowledged")

    def test_garbage_duplicates_and_unknown_ids_are_acknowledged_and_dropped(
        self, stage: Stage, broker: Broker, app: Penstock
    ) -> None:
        worker = self._worker(stage, broker)

        app.queue.publish(GARBAGE)
        job = app.enqueue("work", {"number": 7})
        app.queue.publish([job.id, job.id, new_id()])

        assert job.result(PATIENCE) == 7
        app.queue.publish([job.id])
        wait_until(lambda: not broker.left(), "all messages are acknowledged")
        assert [each.number for each in stage.attempts(job)] == [1]
        assert app.enqueue("work", {"number": 8}).result(PATIENCE) == 8
        assert "Traceback" not in worker.output

    def test_a_message_waits_for_a_worker_that_has_a_free_slot(
        self, stage: Stage, broker: Broker, app: Penstock
    ) -> None:
        gate = Gate(stage.folder)
        for number in range(2):
            self._worker(stage, broker, "--slots", "1", gate=gate, name=f"project{number}")
        first = app.enqueue("gated")
        gate.wait()
        wait_until(lambda: not broker.left(), "the first message is acknowledged")

        second = app.enqueue("gated")
        gate.wait(2)
        gate.open()

        assert [first.result(PATIENCE), second.result(PATIENCE)] == [None, None]

    def test_a_cancel_reaches_the_worker_that_runs_the_job(self, stage: Stage, broker: Broker, app: Penstock) -> None:
        gate = Gate(stage.folder)
        self._worker(stage, broker, "--lease", "600", "--heartbeat", "120", gate=gate)
        job = app.enqueue("gated")
        gate.wait()

        job.cancel()

        assert app.wait_for(job.id, PATIENCE).status == "cancelled"

    def test_a_job_that_becomes_due_is_published(self, stage: Stage, broker: Broker, app: Penstock) -> None:
        self._worker(stage, broker)

        job = app.enqueue("work", {"number": 3}, delay=0.5)

        assert job.result(PATIENCE) == 3
        wait_until(lambda: not broker.left(), "all messages are acknowledged")

    def test_a_cycle_of_the_tick_command_publishes_jobs_whose_messages_are_lost(
        self, stage: Stage, broker: Broker, app: Penstock
    ) -> None:
        job = stage.app.job("lost")(_nothing).enqueue()
        change(stage.app.store, "UPDATE {s}job SET created_at = created_at - 60000000")

        asyncio.run(services.once(app))

        assert [each.job_id for each in asyncio.run(_received(app.queue))] == [job.id]

    def _worker(
        self, stage: Stage, broker: Broker, *flags: str, gate: Gate | None = None, name: str = "project"
    ) -> WorkerProcess:
        path = f"{stage.folder}{os.pathsep}{ROOT}"
        (stage.folder / f"{name}.py").write_text(
            f"from penstock import Penstock\n\n"
            f"app = Penstock({stage.url!r}, schema={stage.schema!r}, queue={broker.adapter!r})\n\n\n"
            f"@app.job('work')\ndef work(number: int) -> int:\n    return number\n\n\n"
            f"@app.job('gated')\ndef gated():\n    {gate.text if gate else 'pass'}\n"
        )
        environment = {**broker.environment, "PYTHONPATH": path}
        return stage.worker("--poll", "300", *flags, target=f"{name}:app", quick=False, environment=environment)


async def _received(queue: Queue) -> Sequence[Message]:
    return await queue.receive(LONG)


async def _aenqueue(app: Penstock, number: int) -> JobHandle[Any]:
    return await app.aenqueue("work", {"number": number})


def _order(app: Penstock, number: int) -> Order:
    maker = app._do(app._order_maker("work", None))
    return maker.order({"number": number}, EnqueueOptions())


def _nothing() -> None: ...
