"""A coroutine of a job's process runs as under `asyncio.run`, but has no loop made that it does not need."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextvars import ContextVar
from typing import Any

import pytest

from penstock.execution import coroutines, handler_run
from penstock.execution.coroutines import LazyLoop
from penstock.runtime.stop_signals import ASK
from tests.worker.fleet import open_descriptors

Work = Callable[[list[Any]], Coroutine[Any, Any, Any]]

NAME: ContextVar[str] = ContextVar("NAME", default="nobody")


class Stops:
    """Handles a request to stop as the stopper of a child does."""

    def __init__(self) -> None:
        self.call: Callable[[], object] | None = None

    def __call__(self, *_: object) -> None:
        assert self.call is not None
        self.call()

    def redirect(self, call: Callable[[], object] | None) -> None:
        self.call = call


@pytest.fixture
def stops() -> Iterator[Stops]:
    handler = Stops()
    before = signal.signal(ASK, handler)
    yield handler
    signal.signal(ASK, before)


async def returns(seen: list[Any]) -> str:
    seen.append(asyncio.current_task() is not None)
    return "done"


async def raises(seen: list[Any]) -> None:
    raise LookupError("no such thing")


async def exits(seen: list[Any]) -> None:
    sys.exit(3)


async def is_interrupted(seen: list[Any]) -> None:
    raise KeyboardInterrupt


async def exits_later(seen: list[Any]) -> None:
    await asyncio.sleep(0)
    sys.exit(3)


async def cancels_itself(seen: list[Any]) -> None:
    raise asyncio.CancelledError("enough")


async def knows_its_loop(seen: list[Any]) -> None:
    loop = asyncio.get_running_loop()
    seen += [loop.is_running(), loop.is_closed(), loop.get_debug(), asyncio.get_event_loop() is loop]
    seen += [len(asyncio.all_tasks()), isinstance(loop, asyncio.SelectorEventLoop), hasattr(loop, "no_such_thing")]
    await asyncio.sleep(0)
    seen += [loop.is_running(), len(asyncio.all_tasks()), asyncio.get_running_loop() is loop]


async def waits(seen: list[Any]) -> str:
    await asyncio.sleep(0.001)
    return "waited"


async def waits_for_a_thread(seen: list[Any]) -> int:
    return await asyncio.to_thread(lambda: 7)


async def waits_for_a_future_of_a_thread(seen: list[Any]) -> int:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[int] = loop.create_future()
    threading.Thread(target=lambda: loop.call_soon_threadsafe(future.set_result, 8)).start()
    return await future


async def runs_out_of_time(seen: list[Any]) -> None:
    async with asyncio.timeout(0.001):
        await asyncio.sleep(60)


async def starts_others(seen: list[Any]) -> int:
    async with asyncio.TaskGroup() as group:
        first, second = group.create_task(waits(seen)), group.create_task(waits_for_a_thread(seen))
    seen.append(first.result())
    return second.result()


async def leaves_a_task_behind(seen: list[Any]) -> str:
    async def other() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            seen.append("the other was cancelled")

    seen.append(asyncio.create_task(other()))
    await asyncio.sleep(0)
    seen[-1] = "started"
    return "left"


async def leaves_a_task_that_never_began(seen: list[Any]) -> str:
    async def other() -> None:
        seen.append("began")

    task = asyncio.get_running_loop().create_task(other())
    task.add_done_callback(lambda _: seen.append("over"))
    return "left"


async def numbers(seen: list[Any]) -> AsyncIterator[int]:
    try:
        yield 1
    finally:
        seen.append("closing")
        await asyncio.sleep(0)
        seen.append("closed")


KEPT: list[Any] = []


async def leaves_a_generator_open(seen: list[Any]) -> int:
    KEPT.append(numbers(seen))
    return int(await anext(KEPT[-1]))


async def drops_a_generator(seen: list[Any]) -> int:
    one = await anext(numbers(seen))
    for _ in range(5):
        # A turn of the loop, in which it goes on with the generator.
        await asyncio.sleep(0)
    return one


async def starts_a_program(seen: list[Any]) -> bytes:
    program = await asyncio.create_subprocess_exec("echo", "hello", stdout=asyncio.subprocess.PIPE)
    return (await program.communicate())[0]


async def has_a_context(seen: list[Any]) -> str:
    before = NAME.get()
    NAME.set("somebody")
    await asyncio.sleep(0)
    return before + NAME.get()


async def forgets_an_error(seen: list[Any]) -> str:
    asyncio.get_running_loop().set_exception_handler(lambda _, told: seen.append(told["message"]))
    asyncio.create_task(raises(seen))  # noqa: RUF006
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    gc.collect()
    return "forgotten"


ALL = [
    returns, raises, exits, is_interrupted, exits_later, cancels_itself, knows_its_loop, waits, waits_for_a_thread,
    waits_for_a_future_of_a_thread, runs_out_of_time, starts_others, leaves_a_task_behind,
    leaves_a_task_that_never_began, leaves_a_generator_open, drops_a_generator, starts_a_program, has_a_context,
    forgets_an_error,
]  # fmt: skip


@pytest.mark.parametrize("work", ALL)
def test_it_is_the_same_as_under_asyncio_run(stops: Stops, work: Work) -> None:
    before, hooks = open_descriptors(), sys.get_asyncgen_hooks()
    expected = _came_of(work, asyncio.run)

    assert _came_of(work, coroutines.run) == expected
    assert stops.call is None
    assert sys.get_asyncgen_hooks() == hooks
    assert asyncio._get_running_loop() is None
    assert open_descriptors() <= before
    assert NAME.get() == "nobody"


@pytest.mark.parametrize("work", [returns, raises, exits, cancels_itself])
def test_no_loop_is_made_for_what_never_waits(stops: Stops, monkeypatch: pytest.MonkeyPatch, work: Work) -> None:
    monkeypatch.setattr(asyncio.SelectorEventLoop, "__init__", lambda *_: pytest.fail("a loop was made"))

    _came_of(work, coroutines.run)


def test_what_is_no_coroutine_can_be_awaited_all_the_same(stops: Stops) -> None:
    class Later:
        def __await__(self) -> Iterator[Any]:
            return waits([]).__await__()

    assert coroutines.run(Later()) == "waited"


@pytest.mark.parametrize("moment", ["before it waits", "while it waits"])
def test_a_request_to_stop_cancels_it_where_it_waits(stops: Stops, moment: str) -> None:
    reached: list[str] = []

    async def work() -> None:
        if moment == "while it waits":
            await asyncio.sleep(0)
        os.kill(os.getpid(), ASK)
        reached.append("what does not wait is not stopped")
        try:
            await asyncio.sleep(60)
        finally:
            reached.append("cleaned up")

    with pytest.raises(asyncio.CancelledError):
        coroutines.run(work())
    assert reached == ["what does not wait is not stopped", "cleaned up"]


def test_a_request_for_one_that_never_waits_comes_too_late(stops: Stops) -> None:
    async def work() -> str:
        os.kill(os.getpid(), ASK)
        return "done"

    assert coroutines.run(work()) == "done"


def test_a_request_to_stop_never_finds_the_loop_closed() -> None:
    found: list[bool] = []
    call: list[Callable[[], object]] = []

    def stop_by(wanted: Callable[[], object] | None) -> None:
        if wanted is not None:
            call.append(wanted)
        else:
            # The last moment at which it may come.
            call[-1]()
            found.append(True)

    assert coroutines.run_stoppable(returns([]), stop_by) == "done"
    assert found == [True]


def test_a_thread_may_run_one(stops: Stops) -> None:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(coroutines.run(waits([]))))
    thread.start()
    thread.join(30)

    assert found == ["waited"]


def test_a_thread_that_wakes_it_may_come_while_the_loop_is_being_made(stops: Stops) -> None:
    for _ in range(200):
        assert coroutines.run(waits_for_a_future_of_a_thread([])) == 8


def test_a_thread_that_comes_when_all_is_over_is_told_so(stops: Stops) -> None:
    async def work() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    loop = coroutines.run(work())

    with pytest.raises(RuntimeError, match="closed"):
        loop.call_soon_threadsafe(print)
    assert loop.is_closed()


def test_the_loop_that_an_application_has_chosen_is_taken(stops: Stops) -> None:
    class Chosen(asyncio.SelectorEventLoop):
        pass

    class Policy(asyncio.DefaultEventLoopPolicy):
        def new_event_loop(self) -> asyncio.AbstractEventLoop:
            return Chosen()

    async def kind() -> type:
        return type(asyncio.get_running_loop())

    asyncio.set_event_loop_policy(Policy())
    try:
        assert coroutines.run(kind()) is Chosen
    finally:
        asyncio.set_event_loop_policy(None)
    assert coroutines.run(kind()) is LazyLoop


def test_a_loop_that_watches_its_tasks_watches_from_the_first_step_on(
    stops: Stops, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def watched() -> bool:
        return asyncio.get_running_loop().get_debug()

    monkeypatch.setenv("PYTHONASYNCIODEBUG", "1")

    assert coroutines.run(watched())


def test_nothing_is_left_for_the_collector_of_garbage() -> None:
    gc.collect()
    gc.disable()
    try:
        coroutines.run_stoppable(returns([]), lambda _: None)
        assert gc.collect() == 0
    finally:
        gc.enable()


async def _fails_after(turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)
    raise LookupError("no such thing")


def test_an_error_is_the_same_before_and_after_the_first_wait(stops: Stops) -> None:
    marks, texts = set(), set()
    for turns in range(3):
        with pytest.raises(LookupError) as caught:
            coroutines.run(_fails_after(turns))
        kept = handler_run.failure(caught.value.with_traceback(caught.tb.tb_next))
        marks.add(kept.fingerprint)
        texts.add(kept.traceback)

    assert len(marks) == len(texts) == 1
    assert "asyncio/" not in texts.pop()


def _came_of(work: Work, run: Callable[[Any], Any]) -> tuple[str, list[Any]]:
    """What it returned or raised, and what was seen meanwhile."""
    seen: list[Any] = []
    try:
        value = run(work(seen))
    except BaseException as error:
        return f"{type(error).__name__}: {error.args!r}", seen
    return repr(value), seen


async def _has_begun(work: Coroutine[Any, Any, Any]) -> coroutines.StartedCoroutine:
    return coroutines.StartedCoroutine(work, work.send(None))


def test_what_has_begun_goes_on_by_itself_and_returns_to_whoever_awaits_it() -> None:
    async def work() -> str:
        task = asyncio.current_task()
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        return "the same task" if asyncio.current_task() is task else "another"

    async def main() -> Any:
        return await (await _has_begun(work()))

    assert asyncio.run(main()) == "the same task"


def test_what_has_begun_can_be_cancelled_and_may_go_on_all_the_same() -> None:
    async def work() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            return "after all"
        raise AssertionError("nobody cancelled it")

    async def main() -> Any:
        task = asyncio.current_task()
        assert task is not None
        begun = await _has_begun(work())
        asyncio.get_running_loop().call_soon(task.cancel)
        return await begun

    assert asyncio.run(main()) == "after all"


def test_what_has_begun_raises_and_is_closed_like_any_other() -> None:
    closed: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(0)
            raise LookupError("no such thing")
        finally:
            closed.append("closed")

    async def main() -> Any:
        with pytest.raises(LookupError, match="no such thing"):
            await (await _has_begun(work()))
        steps = (await _has_begun(work())).__await__()
        next(steps)
        steps.close()

    asyncio.run(main())
    assert closed == ["closed", "closed"]
