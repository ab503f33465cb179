"""`make bench`: measure penstock beside the raw limit and its peers, print tables, keep them in bench/README.md."""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench import beside, delays, driver, flat, fleet, http, isolated, limits, lists, profile, stores, ui
from tests.services import PostgresServer

FOLDER = Path(__file__).parent
BENCHMARKS = (
    "peers", "stores", "isolated", "limits", "delays", "driver", "http", "lists", "ui", "flat", "fleet", "profile",
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "what",
        nargs="?",
        choices=BENCHMARKS,
        default="peers",
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="how much to do, against the usual amount")
    parser.add_argument("--keep", action="store_true", help="write the figures into bench/README.md and results.json")
    parser.add_argument("--no-peers", action="store_true", help="leave out what has to be installed first")
    parser.add_argument("--peers", help="with whom penstock is compared, by default all: pgqueuer,graphile-worker,…")
    given = parser.parse_args()
    if given.what == "peers":
        result, text = beside.run(given.peers, given.rounds, given.scale)
        return _show(text, given, result)
    if given.what == "isolated":
        return _show(isolated.table(isolated.run(given.rounds, given.scale, with_peers=not given.no_peers)), given)
    if given.what == "ui":
        return _show(ui.run(given.rounds, given.scale), given)
    server = PostgresServer(18)
    server.start()
    try:
        if given.what == "driver":
            print(driver.table(driver.run(server.create_database(), given.rounds, given.scale)))
            return 0
        if given.what == "delays":
            return _show(delays.run(server.create_database(), given.scale), given)
        if given.what == "http":
            return _show(http.run(server.create_database(), given.rounds, given.scale), given)
        if given.what == "lists":
            return _show(lists.run(server.create_database(), given.scale), given)
        if given.what == "limits":
            return _show(limits.run(server.create_database(), given.rounds, given.scale), given)
        if given.what == "flat":
            return _show(flat.run(server, given.rounds, given.scale), given)
        if given.what == "fleet":
            return _show(fleet.run(server, given.scale), given)
        if given.what == "profile":
            print(profile.run(server, given.scale))
            return 0
        rows = stores.run(server.create_database, given.rounds, given.scale)
    finally:
        server.stop()
        server.remove()
    return _show(table(rows), given, rows)


def _show(text: str, given: argparse.Namespace, result: Any = None) -> int:
    """Print figures, and keep them in the place that the page has for them."""
    print(text)
    if given.keep and result is not None:
        file = FOLDER / "results.json"
        kept = {**json.loads(file.read_text(encoding="utf-8")), given.what: result}
        file.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    if given.keep:
        begin, end = f"<!-- {given.what}: begin -->", f"<!-- {given.what}: end -->"
        readme = FOLDER / "README.md"
        head, found, rest = readme.read_text(encoding="utf-8").partition(begin)
        if not found:
            raise SystemExit(f"{readme} has no place for {given.what}")
        readme.write_text(f"{head}{begin}\n{text}\n{end}{rest.partition(end)[2]}", encoding="utf-8")
    return 0


def table(rows: list[dict[str, Any]]) -> str:
    """The figures as a Markdown table."""
    lines = [
        f"{_date()}, {platform.python_implementation()} {platform.python_version()}, {_cores()} cores, "
        "PostgreSQL 18 (fsync and synchronous_commit on), SQLite in WAL mode with synchronous=FULL; jobs a second, "
        "medians.",
        "",
        "| store | measure | params | definitions | penstock | raw | ratio |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for row in sorted(rows, key=lambda each: (each["store"], each["measure"], each["params"], each["definitions"])):
        lines.append(
            f"| {row['store']} | {row['measure']} | `{row['params']}` | {row['definitions']} "
            f"| {row['ours']:,} | {row['raw']:,} | {row['ratio']:.2f} |"
        )
    return "\n".join(lines)


def _date() -> str:
    return subprocess.run(["date", "-u", "+%F"], capture_output=True, text=True, check=True).stdout.strip()


def _cores() -> str:
    return subprocess.run(["getconf", "_NPROCESSORS_ONLN"], capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
