"""`penstock worker`: claim jobs and run them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from penstock.background.archive import Archive
from penstock.cli import worker_flags as flag
from penstock.cli.log_flags import LogFormat, LogLevel, configure
from penstock.config.project_file import Config, load
from penstock.config.worker_settings import WorkerSettings
from penstock.domain.errors import InvalidInput
from penstock.domain.secrets.policy import SecretPolicy
from penstock.runtime import processes

if TYPE_CHECKING:
    from penstock.launch.sources import Source


def worker(
    target: flag.Target = None,
    /,
    *,
    jobs: flag.Jobs = None,
    watch: flag.Watch = False,
    store: flag.OtherStore = None,
    slots: flag.Slots = None,
    inline_slots: flag.InlineSlots = None,
    ahead: Annotated[int | None, flag.setting("ahead", "Jobs to claim before there is a slot for them.")] = None,
    lease: flag.Lease = None,
    heartbeat: flag.Heartbeat = None,
    poll: flag.Poll = None,
    drain: flag.Drain = None,
    cancel_grace: flag.CancelGrace = None,
    stop_grace: flag.StopGrace = None,
    hook_timeout: Annotated[
        float | None, flag.setting("hook_timeout", "Seconds that a hook may take before it is killed.")
    ] = None,
    user: flag.User = None,
    allow_root: flag.AllowRoot = None,
    environment: flag.Environment = None,
    allow_preload_threads: Annotated[
        bool | None, flag.setting("allow_preload_threads", "Load applications that start threads on import.")
    ] = None,
    name: Annotated[
        str | None, Parameter(help="What this worker is called in lists; by default the host's name.")
    ] = None,
    log_format: LogFormat = "console",
    log_level: LogLevel = "info",
) -> None:
    """Claim jobs and run them until SIGTERM or Ctrl-C; a second one does not wait for running jobs.

    What is not given is as penstock.toml says, else as shown here.
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


def chosen_settings(found: Config, **flags: Any) -> WorkerSettings:
    """How to work: as the flags say that were given, else as penstock.toml does."""
    given = {name: value for name, value in flags.items() if value is not None}
    return WorkerSettings(**{**found.worker, **given})


def chosen_outward(found: Config) -> dict[str, Any]:
    """What penstock.toml and the environment say about webhooks, secrets and the archive."""
    secrets = SecretPolicy(found.secret_patterns)
    archive = None if found.archive is None else Archive(found.archive, secrets)
    return {"webhooks": found.webhooks, "secrets": secrets, "archive": archive}


def chosen_source(found: Config, target: str | None, jobs: str | None, store: str | None) -> Source:
    """What to run: as the flags say, else as penstock.toml does."""
    from penstock.launch.sources import AppSource, FilesSource

    if target is not None and jobs is not None:
        raise InvalidInput("Give an application or --jobs, not both.")
    if target is None and jobs is None:
        target, jobs = found.app, found.jobs
    if target is not None and ("://" in target or "=" in target):
        raise InvalidInput(
            "The application is named as module:app; what was given in its place looks like the address of a store.",
            hint="Say --store for that.",
        )
    if jobs is not None:
        address = {**(found if store is None else replace(found, store=store)).address}
        return FilesSource(jobs, address, name=found.name, resources=found.resources)
    if target is None:
        raise InvalidInput(
            "Nothing to run was named.", hint="Give module:app or --jobs DIR, or say app or jobs in penstock.toml."
        )
    return AppSource(target)


def new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
