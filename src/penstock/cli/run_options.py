"""Options of commands that run jobs: what to run, how to run it, and how to log."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from penstock.background.archive import Archive
from penstock.config.logging import Format, Level, configure
from penstock.config.project_file import Config
from penstock.config.worker_settings import WorkerSettings
from penstock.domain.errors import InvalidInput
from penstock.domain.secrets.policy import SecretPolicy

if TYPE_CHECKING:
    from penstock.launch.sources import Source


_DEFAULT = WorkerSettings()


def setting(name: str, text: str) -> Parameter:
    """Return the option of a worker's setting; without it, the value of penstock.toml applies."""
    return Parameter(help=text, show_default=lambda _: getattr(_DEFAULT, name))


Target = Annotated[str | None, Parameter(help="The application: module:app, or a file such as jobs.py:app.")]
Jobs = Annotated[str | None, Parameter(help="A folder of job files, instead of an application.")]
OtherStore = Annotated[str | None, Parameter(help="Another store than the application's.")]
Watch = Annotated[bool, Parameter(help="Reload the code when its files change.", negative="")]
Slots = Annotated[int | None, setting("slots", "Concurrent jobs, each in its own process.")]
InlineSlots = Annotated[int | None, setting("inline_slots", "Concurrent inline jobs.")]
Lease = Annotated[float | None, setting("lease", "Seconds after which a silent worker counts as dead.")]
Heartbeat = Annotated[float | None, setting("heartbeat", "Seconds between heartbeats.")]
Poll = Annotated[float | None, setting("poll", "Seconds between two polls for jobs.")]
Drain = Annotated[float | None, setting("drain", "Seconds that jobs get to finish after a stop.")]
CancelGrace = Annotated[
    float | None, setting("cancel_grace", "Seconds for a cancelled attempt to stop, if its definition does not say.")
]
StopGrace = Annotated[float | None, setting("stop_grace", "Seconds between asking jobs to stop and killing them.")]
User = Annotated[str | None, Parameter(help="Run jobs as this user (needs root).")]
AllowRoot = Annotated[bool | None, setting("allow_root", "Let jobs run as root.")]
Environment = Annotated[
    tuple[str, ...] | None, Parameter(help="An environment variable that all jobs get.", negative="")
]


def chosen_settings(found: Config, **flags: Any) -> WorkerSettings:
    """Return the worker's settings: from options, else from penstock.toml."""
    given = {name: value for name, value in flags.items() if value is not None}
    return WorkerSettings(**{**found.worker, **given})


def chosen_outward(found: Config) -> dict[str, Any]:
    """Return the settings of webhooks, secrets and the archive."""
    secrets = SecretPolicy(found.secret_patterns)
    archive = None if found.archive is None else Archive(found.archive, secrets)
    return {"webhooks": found.webhooks, "secrets": secrets, "archive": archive}


def chosen_source(found: Config, target: str | None, jobs: str | None, store: str | None) -> Source:
    """Return the code to run: from options, else from penstock.toml."""
    from penstock.launch.sources import AppSource, FilesSource

    if target is not None and jobs is not None:
        raise InvalidInput("Give an application or --jobs, not both.")
    if target is None and jobs is None:
        target, jobs = found.app, found.jobs
    if target is not None and ("://" in target or "=" in target):
        raise InvalidInput(
            "Give the application as module:app; the argument looks like the URL of a store.",
            hint="Use --store for the URL of a store.",
        )
    if jobs is not None:
        address = {**(found if store is None else replace(found, store=store)).address}
        return FilesSource(jobs, address, name=found.name, resources=found.resources)
    if target is None:
        raise InvalidInput(
            "No application and no job files were given.",
            hint="Give module:app or --jobs DIR, or set app or jobs in penstock.toml.",
        )
    return AppSource(target)


def new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


LogFormat = Annotated[
    Format, Parameter(help="The format of the log on stderr: for people, or one JSON object a line.",
                      env_var="PENSTOCK_LOG_FORMAT")
]  # fmt: skip
LogLevel = Annotated[
    Level, Parameter(help="The lowest level of the log; debug logs every attempt.",
                     env_var="PENSTOCK_LOG_LEVEL")
]  # fmt: skip

__all__ = ["LogFormat", "LogLevel", "configure"]
