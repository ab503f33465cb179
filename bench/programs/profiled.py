"""`python -m bench.programs.profiled FILE WHAT worker …`: `penstock worker …`, which tells at its end what it did.

WHAT is `functions` (own time of Python functions) or `statements` (of SQLite). FILE is JSON.
"""

from __future__ import annotations

import cProfile
import json
import pstats
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from bench.programs.counting import Counter
from penstock.cli import main as penstock


def main(file: str, what: str, *arguments: str) -> None:
    sys.argv = ["penstock", *arguments]
    told = {"functions": _functions, "statements": _statements}[what]()
    try:
        penstock()
    finally:
        Path(file).write_text(json.dumps(told()), encoding="utf-8")


def _functions() -> Callable[[], Any]:
    """Calls and seconds of processor time by function, from the first job on; a profile for each thread's stack."""
    profiles: list[cProfile.Profile] = []

    def begin(*_: object) -> None:
        profiles.append(cProfile.Profile(time.thread_time))
        profiles[-1].enable()

    count = Counter.__call__

    def first(counter: Counter) -> None:
        Counter.__call__ = count  # type: ignore[method-assign]
        begin()
        count(counter)

    Counter.__call__ = first  # type: ignore[method-assign]
    if sys.version_info < (3, 12):  # later one profile sees all threads, and there may be no second
        threading.setprofile(begin)

    def told() -> list[tuple[str, int, float]]:
        stats = pstats.Stats(*profiles)
        found = stats.stats.items()  # type: ignore[attr-defined]
        return [(_place(*function), calls, own) for function, (_, calls, own, _, _) in found]

    return told


def _place(file: str, line: int, name: str) -> str:
    """Where a function is; built-in ones have no file."""
    if file == "~":
        return name
    path = Path(file)
    return f"{path.parent.name}/{path.name}:{line} {name}"


def _statements() -> Callable[[], Any]:
    """Calls and seconds by text, between the first step of a statement and its end."""
    began: dict[int, int] = {}
    told: dict[str, tuple[int, float]] = {}

    def note(event: dict[str, Any]) -> None:
        if event["code"] == apsw.SQLITE_TRACE_STMT:
            began[event["id"]] = time.perf_counter_ns()
        elif (begin := began.pop(event["id"], None)) is not None:
            calls, seconds = told.get(event["sql"], (0, 0.0))
            told[event["sql"]] = (calls + 1, seconds + (time.perf_counter_ns() - begin) / 1e9)

    def watch(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_STMT | apsw.SQLITE_TRACE_PROFILE, note)

    apsw.connection_hooks.append(watch)
    return lambda: told


if __name__ == "__main__":
    main(*sys.argv[1:])
