"""`penstock dev`: serve and run jobs during development."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from penstock.cli import run_options as flag
from penstock.cli import serve
from penstock.cli.run_options import LogFormat, LogLevel, chosen_settings, chosen_source, configure
from penstock.config.project_file import Config, load
from penstock.domain.errors import InvalidInput
from penstock.runtime import processes

if TYPE_CHECKING:
    from penstock.http.server import Server

_QUICK = {"poll": 0.5, "drain": 2.0, "stop_grace": 1.0}
_STORE = "sqlite:///jobs.db"
_FOLDER = "jobs"


def dev(
    target: flag.Target = None,
    /,
    *,
    jobs: Annotated[str | None, Parameter(help="A folder of job files; jobs/ by default.")] = None,
    store: Annotated[str | None, Parameter(help="The store; jobs.db in this folder by default.")] = None,
    port: Annotated[int | None, Parameter(help="The port; 7367, or any free one if that is taken.")] = None,
    slots: flag.Slots = None,
    environment: flag.Environment = None,
    log_format: LogFormat = "console",
    log_level: LogLevel = "info",
) -> None:
    """Serve, run jobs and do the timed work in one process; reload changed files, and log each attempt.

    Like serve --watch, but with shorter timeouts at the end, with root allowed, and with jobs/ and jobs.db by default.

    """
    processes.refuse_inspection()
    configure(log_format, log_level, attempts=True)
    found = _with_defaults(load(), target, jobs)
    worker = chosen_settings(
        replace(found, worker={**_QUICK, **found.worker}), slots=slots, environment=environment,
        allow_root=os.getuid() == 0 or None,
    )  # fmt: skip
    source = chosen_source(found, target, jobs, store)
    flags = {"host": "127.0.0.1", "port": _port(found, port)}
    serve.run(found, source, store, flags, worker, watch=True, ready=lambda server: _say(server, source.watched))


def _with_defaults(found: Config, target: str | None, jobs: str | None) -> Config:
    """Return the project's settings, with jobs/ and jobs.db by default."""
    if target is None and jobs is None and found.app is None and found.jobs is None:
        folder = found.folder / _FOLDER
        if not folder.is_dir():
            raise InvalidInput("There are no jobs here yet.", hint="Make some with penstock init, or name module:app.")
        found = replace(found, jobs=str(folder))
    return found if found.store is not None else replace(found, store=_STORE)


def _port(found: Config, port: int | None) -> int:
    """The port that was asked for; by default the usual one, or any if that one is taken."""
    from penstock.config.server_settings import ServerSettings
    from penstock.http.server import bound

    if port is not None:
        return port
    if "port" in found.web:
        return int(found.web["port"])
    usual = ServerSettings().port
    try:
        for each in bound("127.0.0.1", usual):
            each.close()
    except InvalidInput:
        print(f"penstock: port {usual} is taken, so another one is used", file=sys.stderr)
        return 0
    return usual


def _say(server: Server, watched: str) -> None:
    address = server.addresses[0]
    print(f"penstock serving on {address}", flush=True)
    print(f"  dashboard  {address}/", flush=True)
    print(f"  API        {address}/v1/jobs, described at {address}/docs", flush=True)
    print(f"  watching   {os.path.relpath(watched, Path.cwd())}", flush=True)
    serve.warn_if_open(server)
