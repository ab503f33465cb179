"""`penstock tick`: one pass of everything that is timed, for hosts that only have cron."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter

from penstock.cli.log_flags import LogFormat, LogLevel, configure
from penstock.cli.worker import chosen_outward, chosen_settings, chosen_source, new_loop, setting
from penstock.config import load


def tick(
    target: Annotated[str | None, Parameter(help="The application: module:app, or a file such as jobs.py:app.")] = None,
    /,
    *,
    jobs: Annotated[str | None, Parameter(help="A folder of job files instead of an application.")] = None,
    drain: Annotated[bool, Parameter(help="Run the jobs that wait as well.", negative="")] = False,
    store: Annotated[str | None, Parameter(help="Another store than the application names.")] = None,
    slots: Annotated[int | None, setting("slots", "Jobs that run at once.")] = None,
    user: Annotated[str | None, Parameter(help="Run jobs as this user (needs root).")] = None,
    allow_root: Annotated[bool | None, setting("allow_root", "Let jobs run as root.")] = None,
    log_format: LogFormat = "console",
    log_level: LogLevel = "warning",
) -> None:
    """Queue what is due, tick schedules, rescue and retire jobs, then end; exit code 1 when something failed.

    What was done is printed as one line of JSON.
    """
    from penstock import node

    configure(log_format, log_level)
    # Nobody waits for jobs beyond the pass itself: each runs to its end.
    found = load()
    settings = chosen_settings(found, slots=slots, user=user, allow_root=allow_root, poll=0.2, drain=1e9)
    source = chosen_source(found, target, jobs, store)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        done = runner.run(node.tick(source, store=store, settings=settings, drain=drain, **chosen_outward(found)))
    print(json.dumps(asdict(done)))
    sys.exit(1 if done.errors else 0)
