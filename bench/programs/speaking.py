"""How the Python programs are spoken with.

`python -m bench.programs.speaking NAME produce` reads one JSON object a line, such as
`{"verb": "single", "count": 1000, "bytes": 0}`, and answers each with one. `… NAME work` runs until SIGTERM.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TextIO

from bench.programs.counting import STAMP

CALLERS = 32

Job = tuple[str, dict[str, Any]]


class Program(Protocol):
    """What a file of this folder offers."""

    def prepare(self, fresh: bool) -> None: ...
    def single(self, jobs: Sequence[Job]) -> None: ...
    def concurrent(self, groups: Sequence[Sequence[Job]]) -> None: ...
    def bulk(self, batches: Sequence[Sequence[Job]]) -> None: ...
    def left(self) -> int: ...
    def work(self) -> None: ...


def main(name: str, role: str) -> None:
    program: Any = importlib.import_module(f"bench.programs.{name}")
    if role == "work":
        program.work()
    else:
        _produce(program, _own_stdout())


def in_threads(single: Callable[[Sequence[Job]], None], groups: Sequence[Sequence[Job]]) -> None:
    """The callers at the same time, each in a thread; raise what one of them raised."""
    failures: list[BaseException] = []

    def caller(jobs: Sequence[Job]) -> None:
        try:
            single(jobs)
        except BaseException as error:  # carried to the thread that waits
            failures.append(error)

    threads = [threading.Thread(target=caller, args=(group,)) for group in groups]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def _produce(program: Program, answers: TextIO) -> None:
    for line in sys.stdin:
        order = json.loads(line)
        answer = _obey(program, order)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _obey(program: Any, order: dict[str, Any]) -> dict[str, Any]:
    verb = order["verb"]
    if verb == "prepare":
        program.prepare(order["fresh"])
        return {}
    if verb == "left":
        return {"left": program.left()}
    if verb == "drain":
        began = time.perf_counter()
        return {"count": program.drain(order["count"]), "seconds": time.perf_counter() - began}
    if verb == "stamp":
        program.single([(STAMP, {"sent": time.monotonic_ns()})])
        return {}
    if verb == "pick-up":
        _pick_up(program, order["count"], order["tally"])
        return {}
    params = {"text": "x" * order["bytes"]} if order["bytes"] else {}
    calls = {
        "single": lambda: _single(program, params, order["count"]),
        "concurrent": lambda: _concurrent(program, params, order["count"]),
        "bulk": lambda: _bulk(program, params, order["count"], order["batch"], order["definitions"]),
    }
    return {"seconds": calls[verb]()}


def _single(program: Program, params: dict[str, Any], count: int) -> float:
    """Seconds that one caller takes; it has made a job before, so that it is connected."""
    job = ("nothing_0", params)
    program.single([job])
    return _seconds(lambda: program.single([job] * (count - 1)))


def _concurrent(program: Program, params: dict[str, Any], count: int) -> float:
    job = ("nothing_0", params)
    program.concurrent([[job]] * CALLERS)
    return _seconds(lambda: program.concurrent([[job] * (count // CALLERS - 1)] * CALLERS))


def _bulk(program: Program, params: dict[str, Any], count: int, size: int, definitions: int) -> float:
    """Batches are of one definition each, for some peers take no others; all definitions have a turn."""
    size = max(1, min(size, count // definitions))
    batches = [
        [(f"nothing_{number % definitions}", params)] * min(size, count - start)
        for number, start in enumerate(range(0, count, size))
    ]
    return _seconds(lambda: program.bulk(batches))


def _seconds(task: Callable[[], object]) -> float:
    began = time.perf_counter()
    task()
    return time.perf_counter() - began


def _pick_up(program: Program, samples: int, tally: str) -> None:
    """One job at a time, each when the one before has been gone for a while and the worker is idle."""
    for _ in range(samples):
        before = os.stat(tally).st_size
        program.single([(STAMP, {"sent": time.monotonic_ns()})])
        deadline = time.monotonic() + 60
        while os.stat(tally).st_size == before:
            if time.monotonic() > deadline:
                raise TimeoutError("A job was not picked up within a minute.")
            time.sleep(0.002)
        time.sleep(random.uniform(0.01, 0.03))


def _own_stdout() -> TextIO:
    """The pipe for the answers; whatever else is printed goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


if __name__ == "__main__":
    main(*sys.argv[1:])
