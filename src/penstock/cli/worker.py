"""`penstock worker`: claim jobs and run them. `penstock tick`: do the timed work once."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

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
from penstock.config.project_file import load
from penstock.runtime import processes

if TYPE_CHECKING:
    pass


def worker(
    target: flag.Target = None,
    /,
    *,
    jobs: flag.Jobs = None,
    watch: flag.Watch = False,
    store: flag.OtherStore = None,
    slots: flag.Slots = None,
    inline_slots: flag.InlineSlots = None,
    ahead: Annotated[int | None, flag.setting("ahead", "Jobs to claim before a slot is free.")] = None,
    lease: flag.Lease = None,
    heartbeat: flag.Heartbeat = None,
    poll: flag.Poll = None,
    drain: flag.Drain = None,
    cancel_grace: flag.CancelGrace = None,
    stop_grace: flag.StopGrace = None,
    hook_timeout: Annotated[float | None, flag.setting("hook_timeout", "Seconds before a hook is killed.")] = None,
    user: flag.User = None,
    allow_root: flag.AllowRoot = None,
    environment: flag.Environment = None,
    allow_preload_threads: Annotated[
        bool | None, flag.setting("allow_preload_threads", "Load applications that start threads on import.")
    ] = None,
    name: Annotated[str | None, Parameter(help="The worker's name in lists; by default the host's name.")] = None,
    log_format: LogFormat = "console",
    log_level: LogLevel = "info",
) -> None:
    """Claim jobs and run them until SIGTERM or Ctrl-C; a second signal does not wait for running jobs.

    Options that are not given come from penstock.toml, else from the defaults shown here.

    """
    from penstock.launch.worker_process import work

    processes.refuse_inspection()
    configure(log_format, log_level)
    found = load()
    settings = chosen_settings(
        found, slots=slots, inline_slots=inline_slots, ahead=ahead, lease=lease, heartbeat=heartbeat, poll=poll,
        drain=drain, cancel_grace=cancel_grace, stop_grace=stop_grace, hook_timeout=hook_timeout, user=user,
        allow_root=allow_root, environment=environment, allow_preload_threads=allow_preload_threads, name=name,
    )  # fmt: skip
    source = chosen_source(found, target, jobs, store)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(work(source, store=store, settings=settings, watch=watch, **chosen_outward(found)))


def tick(
    target: flag.Target = None,
    /,
    *,
    jobs: flag.Jobs = None,
    drain: Annotated[bool, Parameter(help="Also run the waiting jobs.", negative="")] = False,
    store: flag.OtherStore = None,
    slots: Annotated[int | None, flag.setting("slots", "Concurrent jobs.")] = None,
    user: flag.User = None,
    allow_root: flag.AllowRoot = None,
    log_format: LogFormat = "console",
    log_level: LogLevel = "warning",
) -> None:
    """Queue due jobs, tick schedules, rescue and retire jobs once; exit code 1 if something failed.

    The result is printed as one line of JSON.

    """
    from penstock.launch import one_pass

    processes.refuse_inspection()
    configure(log_format, log_level)
    found = load()
    settings = chosen_settings(found, slots=slots, user=user, allow_root=allow_root, poll=0.2)
    source = chosen_source(found, target, jobs, store)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        done = runner.run(one_pass.tick(source, store=store, settings=settings, drain=drain, **chosen_outward(found)))
    print(json.dumps(asdict(done)))
    sys.exit(1 if done.errors else 0)
