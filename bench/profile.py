"""Where a job's microseconds go: processor time by process and thread, statements, functions of the worker's Python."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench import processor
from bench.draining import UNSETTLED, Drained, Draining
from bench.peers.contenders import PENSTOCK
from bench.statements import Asked, StatementLog, by_name, named
from tests.services import PostgresServer

JOBS = 40_000
FUNCTIONS = 25
STATEMENTS = 15


def run(server: PostgresServer, scale: float) -> str:
    """For each store three drains of one worker: as it is, with its statements timed, and with its functions timed."""
    count = max(500, round(JOBS * scale))
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        folder = Path(name)
        sqlite = f"sqlite:///{folder}/jobs.db"
        texts = [_profile(folder / "sqlite", sqlite, None, count)]
        texts.append(_profile(folder / "postgresql", server.create_database(), server, count))
    return "\n\n".join(texts)


def _profile(folder: Path, url: str, server: PostgresServer | None, count: int) -> str:
    with Draining(folder, url) as draining:
        draining.create(count)
        plain = draining.drain(meter=partial(processor.of_drain, server))
        draining.create(count)
        asked = _statements(draining, folder, url, server)
        draining.create(count)
        functions = _told(draining, folder, "functions")
    return "\n\n".join(
        [
            f"## {draining.app.store.dialect}, {count:,} jobs, one worker",
            _processors(plain),
            _asked(asked, count),
            _functions(functions, count),
        ]
    )


def _statements(draining: Draining, folder: Path, url: str, server: PostgresServer | None) -> Mapping[str, Asked]:
    """PostgreSQL times its statements itself; those of SQLite are timed in the worker."""
    if server is None:
        return by_name("sqlite", _told(draining, folder, "statements"))
    log = StatementLog(server, url).restart()
    draining.drain()
    asked = log.asked()
    asked.pop(named("postgres", UNSETTLED.replace("{s}", '"penstock".')), None)
    return asked


def _told(draining: Draining, folder: Path, what: str) -> Any:
    """What a worker tells at its end that looks at itself."""
    file = folder / f"{what}.json"
    arguments = (PENSTOCK.worker or ())[3:]
    draining.drain(command=(sys.executable, "-m", "bench.programs.profiled", str(file), what, *arguments))
    return json.loads(file.read_text(encoding="utf-8"))


def _processors(drained: Drained) -> str:
    lines = [
        f"{drained.rate:,.0f} jobs a second: {1e6 / drained.rate:.1f} µs a job by the clock.",
        "",
        "| processor time | µs a job |",
        "| --- | ---: |",
    ]
    for who, seconds in sorted(drained.spent.items(), key=lambda each: -each[1]):
        if (each := 1e6 * seconds / drained.jobs) >= 0.05:
            lines.append(f"| {who} | {each:.1f} |")
    return "\n".join([*lines, f"| all | {drained.processor:.1f} |"])


def _asked(asked: Mapping[str, Asked], count: int) -> str:
    lines = ["| statement | calls | ms a call | µs a job |", "| --- | ---: | ---: | ---: |"]
    for name, each in list(asked.items())[:STATEMENTS]:
        milliseconds = 1e3 * each.seconds / max(1, each.calls)
        lines.append(f"| `{name}` | {each.calls:,} | {milliseconds:.3f} | {1e6 * each.seconds / count:.2f} |")
    return "\n".join([*lines, f"| all | | | {1e6 * sum(each.seconds for each in asked.values()) / count:.2f} |"])


def _functions(told: Sequence[tuple[str, int, float]], count: int) -> str:
    """Own times are longer than without a profile, most of all those of small functions."""
    lines = ["| own processor time of functions, profiled | calls a job | µs a job |", "| --- | ---: | ---: |"]
    for place, calls, own in sorted(told, key=lambda each: -each[2])[:FUNCTIONS]:
        lines.append(f"| `{place}` | {calls / count:.2f} | {1e6 * own / count:.2f} |")
    return "\n".join(lines)
