"""A user's queue adapter: made from its name, and guarded so that its failures reach no caller."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from penstock.domain.errors import InvalidInput
from penstock.domain.ports.queue import Message, Queue

_VERBS = ("publish", "receive", "acknowledge", "is_listening", "aclose")


def check_name(target: str) -> str:
    """The name of an adapter, which has the form `module:name`."""
    module, colon, name = target.partition(":")
    if not (colon and name.isidentifier() and all(part.isidentifier() for part in module.split("."))):
        raise InvalidInput(
            f"{target!r:.80} names no queue.",
            hint='Write the module and the function that makes the queue, such as queue="myproject.queues:make".',
        )
    return target


def load(target: str) -> Queue:
    """Call what `module:name` names, without arguments, and return the queue that it makes."""
    module, _, name = check_name(target).partition(":")
    make = getattr(_module(module, target), name, None)
    if not callable(make):
        raise InvalidInput(f"Queue {target!r}: the module has no function or class {name!r}.")
    queue: Any = make()
    if missing := [verb for verb in _VERBS if not callable(getattr(queue, verb, None))]:
        raise InvalidInput(
            f"Queue {target!r} made {type(queue).__name__}, which has no {', '.join(missing)}.",
            hint="An adapter has the methods of penstock.domain.ports.queue.Queue.",
        )
    return queue  # type: ignore[no-any-return]


def _module(name: str, target: str) -> ModuleType:
    """The module, which may be in the folder of the project, where commands are started."""
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or (error.name != name and not name.startswith(f"{error.name}.")):
            raise
        raise InvalidInput(
            f"Queue {target!r}: there is no module {name!r} in {folder} or on Python's path.",
            hint="Start the command in your project's folder, or install the project.",
        ) from error


log: logging.Logger = logging.getLogger("penstock")
_AGAIN = 1.0
_WORDS = {
    "publish": "publish; workers find the jobs when they look next",
    "receive": "receive; the worker looks for jobs all the same",
    "is_listening": "say whether it listens",
    "acknowledge": "acknowledge; messages may come again",
}


class GuardedQueue:
    """Passes calls to an adapter. An outage is one line in the log when it begins and one when it is over."""

    def __init__(self, queue: Callable[[], Queue]) -> None:
        """`queue` gives the adapter with every call, and may have to make it."""
        self._queue = queue
        self._failing: set[str] = set()

    def publish(self, job_ids: Sequence[str]) -> None:
        if not job_ids:
            return
        try:
            self._queue().publish(job_ids)
        except Exception as error:
            self._fail("publish", error)
        else:
            self._work("publish")

    async def receive(self, timeout: float) -> Sequence[Message]:
        try:
            messages = await self._queue().receive(timeout)
        except Exception as error:
            self._fail("receive", error)
            await asyncio.sleep(min(timeout, _AGAIN))
            return []
        self._work("receive")
        return messages

    def is_listening(self) -> bool:
        try:
            return self._queue().is_listening()
        except Exception as error:
            self._fail("is_listening", error)
            return False

    async def acknowledge(self, messages: Sequence[Message]) -> None:
        if not messages:
            return
        try:
            await self._queue().acknowledge(messages)
        except Exception as error:
            self._fail("acknowledge", error)
        else:
            self._work("acknowledge")

    async def aclose(self) -> None:
        """Nothing: the adapter belongs to the application."""

    def _fail(self, verb: str, error: Exception) -> None:
        if verb not in self._failing:
            self._failing.add(verb)
            log.warning("the queue fails to %s: %s: %.200s", _WORDS[verb], type(error).__name__, error)

    def _work(self, verb: str) -> None:
        if verb in self._failing:
            self._failing.discard(verb)
            log.info("the queue works again: %s", verb)
