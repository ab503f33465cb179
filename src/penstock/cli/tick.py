"""`penstock tick`: one pass of everything that is timed, for hosts that only have cron."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter

from penstock.cli import worker_flags as flag
from penstock.cli.log_flags import LogFormat, LogLevel, configure
from penstock.cli.worker import chosen_outward, chosen_settings, chosen_source, new_loop
from penstock.config.project_file import load
from penstock.runtime import processes


def tick(
    target: flag.Target = None,
    /,
    *,
    jobs: flag.Jobs = None,
    drain: Annotated[bool, Parameter(help="Run the jobs that wait as well.", negative="")] = False,
    store: flag.OtherStore = None,
    slots: Annotated[int | None, flag.setting("slots", "Jobs that run at once.")] = None,
    user: flag.User = None,
    allow_root: flag.AllowRoot = None,
    log_format: LogFormat = "console",
    log_level: LogLevel = "warning",
) -> None:
    """Queue what is due, tick schedules, rescue and retire jobs, then end; exit code 1 when something failed.

    What was done is printed as one line of JSON.
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
