"""`penstock serve`: the HTTP interface, the timed duties and a worker in one process."""

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
from penstock.domain.errors import InvalidInput
from penstock.domain.hints import hint_for
from penstock.runtime import processes

if TYPE_CHECKING:
    from penstock.http.server import Server
    from penstock.launch.sources import Source


def serve(
    target: flag.Target = None,
    /,
    *,
    jobs: flag.Jobs = None,
    store: Annotated[str | None, Parameter(help="The store, where no application names it, or another one.")] = None,
    host: Annotated[str | None, Parameter(help="Where to listen; 127.0.0.1 unless penstock.toml says more.")] = None,
    port: Annotated[int | None, Parameter(help="The port; 7367 unless penstock.toml says otherwise.")] = None,
    watch: flag.Watch = False,
    no_worker: Annotated[bool, Parameter(help="Run no jobs: only answer, and do what is timed.", negative="")] = False,
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
    """Answer over HTTP and run jobs until SIGTERM or Ctrl-C; a second one does not wait for running jobs.

    Without an application and without job files it answers and does what is timed for the store. Exit code 2 when it
    cannot be started as it was told.
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
    """Serve until a signal; `told` are settings of the server that flags gave."""
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
    """The code to serve; none where only a store was named."""
    nothing_named = target is None and jobs is None and found.app is None and found.jobs is None
    if nothing_named and (store is not None or found.store is not None):
        return None
    return chosen_source(found, target, jobs, store)


def _settled(ready: Callable[[Server], None]) -> Callable[[Server], None]:
    """What is done once everything is loaded and it serves."""

    def begin(server: Server) -> None:
        processes.settle_in()
        ready(server)

    return begin


def _say(server: Server) -> None:
    print(f"penstock serving on {' and '.join(server.addresses)}", flush=True)
    warn_if_open(server)


def warn_if_open(server: Server) -> None:
    """Warn of a server that needs no token, and print the code for its first one."""
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
