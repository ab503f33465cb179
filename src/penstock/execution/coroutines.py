"""Running a coroutine outside of any loop, with one that is made only if the coroutine needs it.

A process that was just forked pays about as much for asyncio's loop as for its fork: hundreds of pages are copied,
three descriptors opened and closed again. Many coroutines end without ever having waited.
"""

from __future__ import annotations

import _signal
import asyncio
import os
import sys
import threading
from asyncio import events
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from types import CoroutineType
from typing import Any

from penstock.runtime.stop_signals import ASK

StopBy = Callable[[Callable[[], object] | None], object]
"""Takes what is to be called when the process is asked to stop, or None for what it did before."""

_DEVELOPED = sys.flags.dev_mode


def run(work: Any) -> Any:
    """Run a coroutine, or something else that can be awaited, to its end; a request to stop cancels it."""
    # Only the main thread may handle signals. The plain function makes no enum of what it finds.
    main = threading.current_thread() is threading.main_thread()
    stop_by = getattr(_signal.getsignal(ASK) if main else None, "redirect", None)
    return asyncio.run(_awaited(work)) if stop_by is None else run_stoppable(work, stop_by)


def run_stoppable(work: Any, stop_by: StopBy) -> Any:
    """The same where something handles the request."""
    if type(work) is not CoroutineType or not _is_usual():
        return asyncio.run(_stoppable(work, stop_by))
    loop = LazyLoop()
    task = loop.first_task(work)
    stop_by(lambda: loop.call_soon_threadsafe(task.cancel))
    try:
        loop.take_first_step()
        return task.result() if task.done() and not loop.made else loop.run_until_complete(task)
    except (SystemExit, KeyboardInterrupt):
        # The task keeps it as well, and would warn that it was never retrieved.
        task.exception()
        raise
    finally:
        # First this: a request to stop must not find the loop closed.
        stop_by(None)
        if not loop.close_unmade():
            # Cancels what is left of its tasks, closes its generators, waits for its threads.
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.get_loop()


def _is_usual() -> bool:
    """Whether the usual loop is wanted: no other policy, no debug mode."""
    policy = events._event_loop_policy  # type: ignore[attr-defined]
    usual = policy is None or type(policy).__module__ == "asyncio.unix_events"
    return usual and not _DEVELOPED and not os.environ.get("PYTHONASYNCIODEBUG")


async def _stoppable(work: Any, stop_by: StopBy) -> Any:
    task, loop = asyncio.ensure_future(work), asyncio.get_running_loop()
    stop_by(lambda: loop.call_soon_threadsafe(task.cancel))
    try:
        return await task
    finally:
        stop_by(None)


async def _awaited(work: Any) -> Any:
    return await work


class StartedCoroutine:
    """A coroutine that has taken its first step and waits for something; awaiting this continues it."""

    __slots__ = ("_coroutine", "_waits_for")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], waits_for: object) -> None:
        self._coroutine = coroutine
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, Any]:
        waits_for = self._waits_for
        try:
            while True:
                try:
                    answer = yield waits_for
                except GeneratorExit:
                    self._coroutine.close()
                    raise
                except BaseException as error:
                    waits_for = self._coroutine.throw(error)
                else:
                    waits_for = self._coroutine.send(answer)
        except StopIteration as end:
            return end.value


_making = threading.RLock()
_OWN = frozenset(("made", "_in_making", "_stepping", "_first"))


class LazyLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, made when its first task needs more of it than that it is there.

    The attributes of such a loop are missing until then: reading or setting one makes the loop.
    """

    made: bool = False
    _in_making = False
    _stepping = False
    _first: tuple[Context, Callable[[], object]]

    def __init__(self) -> None:
        """Not yet: see `_make`."""

    def __getattr__(self, name: str) -> Any:
        with _making:
            self._make()
            if name in self.__dict__:
                return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _OWN:
            with _making:
                self._make()
        super().__setattr__(name, value)

    def _make(self) -> None:
        if not self.made and not self._in_making:
            self._in_making = True
            super().__init__()
            self.made, self._in_making = True, False

    def first_task(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task of this loop, whose first step is taken by hand."""
        self.__dict__["call_soon"] = self._keep_first
        task = asyncio.Task(work, loop=self)
        del self.__dict__["call_soon"]
        return task

    def _keep_first(self, callback: Callable[[], object], *, context: Context) -> None:
        self._first = context, callback

    def take_first_step(self) -> None:
        """Run the first task until it waits or ends, as the loop itself would."""
        context, step = self._first
        del self._first
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(self._asyncgen_firstiter_hook, self._asyncgen_finalizer_hook)
        events._set_running_loop(self)
        self._stepping = True
        try:
            context.run(step)
        finally:
            self._stepping = False
            events._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)

    def close_unmade(self) -> bool:
        """Be closed, unless it has been made."""
        with _making:
            if not self.made:
                self.__dict__["_closed"] = True
            return not self.made

    def is_running(self) -> bool:
        if self._stepping:
            # Code that makes the loop must not find it running.
            return not self._in_making
        return self.made and super().is_running()

    def get_debug(self) -> bool:
        return self.made and super().get_debug()

    def __del__(self) -> None:
        if self.made:
            super().__del__()
