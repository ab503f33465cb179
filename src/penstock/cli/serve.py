"""`penstock serve`: run the HTTP API, the timed work and a worker in one process."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from penstock.cli import run_options as flag
from penstock.cli.run_options import (
    LogFormat,
    LogLevel,
    chosen_outward,
    chosen_settings,
    chosen_source,
    configure,
    new_loop,
)
from penstock.config.project_file import Config, load
from penstock.config.worker_settings import WorkerSettings
from penstock.domain.errors import InvalidInput, hint_for
from penstock.runtime import processes

if TYPE_CHECKING:
    from penstock.http.server import Server
    from penstock.launch.sources import Source


def serve(
    target: flag.Target = None,
    /,
    *,
    jobs: flag.Jobs = None,
    store: Annotated[str | None, Parameter(help="The store; by default the application's.")] = None,
    host: Annotated[
        str | None, Parameter(help="The address to listen on; by default from penstock.toml, or 127.0.0.1.")
    ] = None,
    port: Annotated[int | None, Parameter(help="The port; by default from penstock.toml, or 7367.")] = None,
    watch: flag.Watch = False,
    no_worker: Annotated[
        bool, Parameter(help="Run no jobs: only serve the API and do the timed work.", negative="")
    ] = False,
    slots: flag.Slots = None,
    inline_slots: flag.InlineSlots = None,
    lease: flag.Lease = None,
    heartbeat: flag.Heartbeat = None,
    poll: flag.Poll = None,
    drain: flag.Drain = None,
    cancel_grace: flag.CancelGrace = None,
    stop_grace: flag.StopGrace = None,
    user: flag.User = None,
    allow_root: flag.AllowRoot = None,
    environment: flag.Environment = None,
    name: Annotated[str | None, Parameter(help="A name for the worker; the host's by default.")] = None,
    log_format: LogFormat = "console",
    log_level: LogLevel = "info",
) -> None:
    """Serve the HTTP API and run jobs until SIGTERM or Ctrl-C; a second signal does not wait for running jobs.

    Without an application and job files it serves the API and does the timed work of the store. Exit code 2 if it
    cannot be started with these options.

    """
    processes.refuse_inspection()
    configure(log_format, log_level)
    try:
        found = load()
        worker = chosen_settings(
            found, slots=slots, inline_slots=inline_slots, lease=lease, heartbeat=heartbeat, poll=poll, drain=drain,
            cancel_grace=cancel_grace,
            stop_grace=stop_grace, user=user, allow_root=allow_root, environment=environment, name=name,
        )  # fmt: skip
        flags = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
        run(found, _source(found, target, jobs, store), store, flags, worker, working=not no_worker, watch=watch)
    except InvalidInput as error:
        print(f"penstock: {error.message} {hint_for('cli', error.hint)}".rstrip(), file=sys.stderr)
        sys.exit(2)


def run(
    found: Config,
    source: Source | None,
    store: str | None,
    flags: Mapping[str, Any],
    worker: WorkerSettings,
    *,
    working: bool = True,
    watch: bool = False,
    ready: Callable[[Server], None] | None = None,
) -> None:
    """Serve until a signal; `flags` are settings of the server from options."""
    from penstock.config.server_settings import configured
    from penstock.launch.serve import Plan, serve

    outward = chosen_outward(found)
    web, server = configured({**found.web, **flags}, outward["secrets"])
    plan = Plan(
        source=source,
        store=store,
        address=(found if store is None else replace(found, store=store)).address if source is None else None,
        working=working,
        watch=watch,
        worker=worker,
        web=web,
        server=server,
        **outward,
    )
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(serve(plan, ready=_settled(ready or _say)))


def _source(found: Config, target: str | None, jobs: str | None, store: str | None) -> Source | None:
    """Return the code to serve; None if only a store is given."""
    nothing_named = target is None and jobs is None and found.app is None and found.jobs is None
    if nothing_named and (store is not None or found.store is not None):
        return None
    return chosen_source(found, target, jobs, store)


def _settled(ready: Callable[[Server], None]) -> Callable[[Server], None]:
    """Return a function that runs once everything is loaded and requests are answered."""

    def begin(server: Server) -> None:
        processes.tune_memory()
        ready(server)

    return begin


def _say(server: Server) -> None:
    print(f"penstock serving on {' and '.join(server.addresses)}", flush=True)
    warn_if_open(server)


def warn_if_open(server: Server) -> None:
    """Warn that the server requires no token, and print the setup code for the first one."""
    if server.setup_code is None:
        return
    print(
        "penstock: THERE IS NO TOKEN YET. Every program and user on this host can read and change all jobs.\n"
        "  A proxy on this host can let others in. To require tokens:\n"
        "    penstock tokens create NAME --role super_admin\n"
        "  or make the first one in the dashboard under Settings, Tokens.\n"
        f"  The dashboard asks for this setup code: {server.setup_code}",
        file=sys.stderr,
        flush=True,
    )
