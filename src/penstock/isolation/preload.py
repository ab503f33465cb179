"""Loading an application into a process that will fork: checks for threads and sockets, and its description."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from penstock.domain.definition import Definition, RateLimit
from penstock.domain.errors import InvalidInput
from penstock.domain.retry import from_json
from penstock.domain.schedule.schedule import Kind, Missed, Overlap, Schedule
from penstock.execution.handlers import Application
from penstock.isolation.opened_files import OpenedFiles, is_datagram, open_numbers, opened_since
from penstock.runtime import processes
from penstock.runtime.own_frames import is_own

_WHY = "A process that is copied while it has threads or connections leaves broken ones in every copy."
_HINT = (
    "Start threads and open connections inside of functions (or as a resource: app.resource(…)), not on import. "
    "If you know that they do no harm, start the worker with --allow-preload-threads, or write "
    "allow_preload_threads = true below [worker] in penstock.toml."
)


class PreloadFindings:
    """Threads and connections that were made while user code was loaded, and where."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.sockets: list[str] = []
        self.files: OpenedFiles = OpenedFiles()
        """The descriptors that were opened; known after `refuse`."""
        self._before = processes.threads()
        self._numbers = open_numbers()

    def refuse(self, allowed: bool) -> None:
        """Raise when a fork would copy a thread or a connection."""
        self.files = opened_since(self._numbers, sockets=allowed)
        extra = processes.threads() - self._before
        opened = self._streams()
        if allowed or (extra <= 0 and not opened):
            return
        what = [f"{extra} thread(s) run" for _ in range(extra > 0)]
        what += [f"{len(opened)} socket(s) are open" for _ in range(bool(opened))]
        places = sorted({*self.threads, *self.sockets})
        where = f", begun at {', '.join(places[:5])}" if places else ""
        raise InvalidInput(f"After loading the application {' and '.join(what)}{where}. {_WHY}", hint=_HINT)

    def _streams(self) -> set[int]:
        """Sockets that were opened and that a copy of the process cannot use."""
        opened = open_numbers() - self._numbers
        return {number for number in opened if stat.S_ISSOCK(os.fstat(number).st_mode) and not is_datagram(number)}


@contextlib.contextmanager
def watched() -> Iterator[PreloadFindings]:
    """Note where threads are started and sockets are made inside the block."""
    found = PreloadFindings()
    watching = True

    def audit(event: str, args: tuple[Any, ...]) -> None:
        if watching and event == "socket.__new__":
            found.sockets.append(_place())

    started = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        found.threads.append(_place())
        started(thread)

    sys.addaudithook(audit)
    threading.Thread.start = start  # type: ignore[method-assign, assignment]
    try:
        yield found
    finally:
        watching = False
        threading.Thread.start = started  # type: ignore[method-assign]


def description(app: Application) -> dict[str, Any]:
    """The definitions and schedules of an application, as data for a process without its code."""
    definitions = []
    for handle in app.definitions.declared:
        definition = replace(handle.definition, schema=handle.schema)
        definitions.append({**asdict(definition), "backoff": definition.backoff.to_json()})
    return {
        "definitions": definitions,
        "schedules": [asdict(each) for each in app.schedules.declared],
        "address": None if app.address is None else dict(app.address),
        "extras": dict(app.extras),
    }


def schedule_from(data: dict[str, Any]) -> Schedule:
    """A schedule as `description` wrote it."""
    members = {"kind": Kind(data["kind"]), "missed": Missed(data["missed"]), "overlap": Overlap(data["overlap"])}
    return Schedule(**{**data, **members})


def definition_from(data: dict[str, Any]) -> Definition:
    """A definition as `description` wrote it."""
    facts = dict(data)
    for name, value in facts.items():
        if isinstance(value, list):
            facts[name] = tuple(value)
    facts["backoff"] = from_json(facts["backoff"])
    if facts["rate_limit"] is not None:
        facts["rate_limit"] = RateLimit(**facts["rate_limit"])
    return Definition(**facts)


def _place() -> str:
    """The innermost line of this stack that is neither ours nor of the standard library."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        ours = is_own(name) or name.startswith("<frozen")
        if not ours and ("site-packages" in name or not name.startswith(os.path.dirname(threading.__file__))):
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return "an unknown place"
