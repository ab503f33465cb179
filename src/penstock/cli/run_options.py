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
    """A flag for a setting of workers; what penstock.toml says counts where it is not given."""
    return Parameter(help=text, show_default=lambda _: getattr(_DEFAULT, name))


Target = Annotated[str | None, Parameter(help="The application: module:app, or a file such as jobs.py:app.")]
Jobs = Annotated[str | None, Parameter(help="A folder of job files instead of an application.")]
OtherStore = Annotated[str | None, Parameter(help="Another store than the application names.")]
Watch = Annotated[bool, Parameter(help="Load the code anew when its files change.", negative="")]
Slots = Annotated[int | None, setting("slots", "Jobs that run at once, each in a process of its own.")]
InlineSlots = Annotated[int | None, setting("inline_slots", "Inline jobs that run at once.")]
Lease = Annotated[float | None, setting("lease", "Seconds after which a silent worker counts as dead.")]
Heartbeat = Annotated[float | None, setting("heartbeat", "Seconds between heartbeats.")]
Poll = Annotated[float | None, setting("poll", "Seconds between unasked looks for jobs.")]
Drain = Annotated[float | None, setting("drain", "Seconds that jobs may go on after a stop.")]
CancelGrace = Annotated[
    float | None, setting("cancel_grace", "Seconds to stop for a cancelled attempt whose definition does not say.")
]
StopGrace = Annotated[float | None, setting("stop_grace", "Seconds between asking jobs to stop and killing them.")]
User = Annotated[str | None, Parameter(help="Run jobs as this user (needs root).")]
AllowRoot = Annotated[bool | None, setting("allow_root", "Let jobs run as root.")]
Environment = Annotated[
    tuple[str, ...] | None, Parameter(help="An environment variable that all jobs may see.", negative="")
]


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


LogFormat = Annotated[
    Format, Parameter(help="How the log is written to stderr: for people, or one JSON object a line.",
                      env_var="PENSTOCK_LOG_FORMAT")
]  # fmt: skip
LogLevel = Annotated[
    Level, Parameter(help="The least level of what is logged; debug tells of every attempt.",
                     env_var="PENSTOCK_LOG_LEVEL")
]  # fmt: skip

__all__ = ["LogFormat", "LogLevel", "configure"]
