"""Rehearsal: the steps of a child are run a few times in the zygote before the first fork.

Python learns while it runs: where attributes are found, which instructions are worth a special form. It writes that
into memory that a child shares with its zygote, so that a child that has to learn copies every page it learns on.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

from penstock.domain.attempt import Task
from penstock.domain.definition import Definition
from penstock.execution import coroutines
from penstock.execution.handlers import Application
from penstock.isolation import child, confinement
from penstock.isolation.confinement import Rules
from penstock.isolation.wire import pack, receive, send
from penstock.runtime import tracing

_TIMES = 20
"""Python gives code its special form after eight calls, and tries again where the first one did not fit."""

_TASK = Task("rehearsal", "rehearsal", 1, fence=1, attempt=1, max_attempts=1, params="{}")


def rehearse(app: Application) -> None:
    """Run an attempt that does nothing, as far as that has no lasting effect."""
    if tracing.on():
        # Each run would make a span.
        return
    rules = Rules("/", {"TZ": "UTC"}, memory=1, cpu=1, files=1, file_size=1)
    first = pack({"task": _TASK.to_json(), "rules": rules.to_json()})
    forked = _after_fork()
    for _ in range(_TIMES):
        for each in forked:
            each()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            send(ours.fileno(), first)
            frame = receive(theirs.fileno()) or {}
            task = Task.from_json(frame["task"])
            Rules(**frame["rules"])
            confinement.rehearse()
            child.run_task(app, _EmptyHandler(), task, theirs.fileno(), _leave_alone)
            coroutines.run_stoppable(_nothing(), _leave_alone)


def _after_fork() -> list[Callable[[], object]]:
    """The functions that Python's library runs in every fork; without effect in a process of one thread."""
    if threading.active_count() > 1:
        return []
    named = ((threading, "_after_fork"), (logging, "_after_at_fork_child_reinit_locks"))
    return [each for module, name in named if (each := getattr(module, name, None)) is not None]


def _leave_alone(*_: object) -> None:
    """Take over nothing: this process is no attempt."""


async def _nothing() -> None: ...


class _EmptyHandler:
    """A handler that does nothing, and the parameters that it takes."""

    name = "run"
    takes_context = False
    schema = "{}"
    definition = Definition("rehearsal")
    bare: Callable[[], Any] | None = None
    hooks: Mapping[str, Callable[..., Any]] = {}
    retry_on: tuple[type[BaseException], ...] = ()
    fatal_on: tuple[type[BaseException], ...] = ()

    @property
    def steps(self) -> tuple[_EmptyHandler]:
        return (self,)

    @property
    def signature(self) -> _EmptyHandler:
        return self

    def arguments(self, params: str) -> dict[str, Any]:
        return {}

    def function(self) -> None: ...

    def call(self, ctx: object, arguments: Mapping[str, Any]) -> None:
        return self.function(**arguments)
