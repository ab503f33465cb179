"""The flags of commands that run jobs: what to run, and how to work."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from penstock.config.worker_settings import WorkerSettings

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
