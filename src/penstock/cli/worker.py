"""`penstock worker`: claim jobs and run them."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Annotated

from cyclopts import Parameter

from penstock.engine.settings import WorkerSettings

_DEFAULT = WorkerSettings()


def worker(
    target: Annotated[str, Parameter(help="The application: module:app, or a file such as jobs.py:app.")],
    /,
    *,
    store: Annotated[str | None, Parameter(help="Another store than the application names.")] = None,
    slots: Annotated[int, Parameter(help="Jobs that run at once, each in a process of its own.")] = _DEFAULT.slots,
    inline_slots: Annotated[int, Parameter(help="Inline jobs that run at once.")] = _DEFAULT.inline_slots,
    ahead: Annotated[int, Parameter(help="Jobs to claim before there is a slot for them.")] = _DEFAULT.ahead,
    lease: Annotated[float, Parameter(help="Seconds after which a silent worker counts as dead.")] = _DEFAULT.lease,
    heartbeat: Annotated[float, Parameter(help="Seconds between heartbeats.")] = _DEFAULT.heartbeat,
    poll: Annotated[float, Parameter(help="Seconds between unasked looks for jobs.")] = _DEFAULT.poll,
    drain: Annotated[float, Parameter(help="Seconds that jobs may go on after a stop.")] = _DEFAULT.drain,
    stop_grace: Annotated[
        float, Parameter(help="Seconds between asking jobs to stop and killing them.")
    ] = _DEFAULT.stop_grace,
    hook_timeout: Annotated[
        float, Parameter(help="Seconds that a hook may take before it is killed.")
    ] = _DEFAULT.hook_timeout,
    user: Annotated[str | None, Parameter(help="Run jobs as this user (needs root).")] = None,
    allow_root: Annotated[bool, Parameter(help="Let jobs run as root.", negative="")] = False,
    env: Annotated[tuple[str, ...], Parameter(help="An environment variable that all jobs may see.")] = (),
    allow_preload_threads: Annotated[
        bool, Parameter(help="Load applications that start threads on import.", negative="")
    ] = False,
    name: Annotated[str, Parameter(help="What this worker is called in lists; by default the host's name.")] = "",
) -> None:
    """Claim jobs and run them until SIGTERM or Ctrl-C; a second one does not wait for running jobs."""
    from penstock.serve import work

    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s", datefmt="%H:%M:%S"
    )
    settings = WorkerSettings(
        slots=slots, inline_slots=inline_slots, ahead=ahead, lease=lease, heartbeat=heartbeat, poll=poll, drain=drain,
        stop_grace=stop_grace, hook_timeout=hook_timeout, user=user, allow_root=allow_root, environment=env,
        allow_preload_threads=allow_preload_threads, name=name,
    )  # fmt: skip
    with asyncio.Runner(loop_factory=_loop) as runner:
        runner.run(work(target, store=store, settings=settings))


def _loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
