"""How a worker works: every knob it has, with its default."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from penstock.domain import worker_config
from penstock.domain.errors import InvalidInput
from penstock.domain.secrets.policy import SecretPolicy
from penstock.domain.worker import WorkerInfo
from penstock.domain.worker_config import WorkerConfig
from penstock.runtime.service import log

LIVE = ("slots", "inline_slots", "poll", "drain", "cancel_grace")
"""What a running worker takes over from the stored configuration."""
AT_START = ("lease", "heartbeat")
"""What a worker takes over when it starts, and keeps."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Settings of a worker process; times are in seconds."""

    slots: int = field(default_factory=lambda: 2 * (os.cpu_count() or 1))
    """Concurrent jobs with process isolation."""
    inline_slots: int = 100
    """Concurrent inline jobs, in the worker's event loop."""
    ahead: int = 0
    """Jobs that are claimed before there is a slot for them; they are not started, and given back when it stops."""
    lease: float = 15.0
    heartbeat: float = 3.0
    poll: float = 1.0
    """The longest time between two polls; with many workers that listen to the doorbell it is longer."""
    drain: float = 25.0
    """How long running jobs may continue after the worker was asked to stop."""
    stop_grace: float = 5.0
    """How long jobs have to clean up after they were asked to stop, before they are killed."""
    cancel_grace: float = 10.0
    """How long an attempt that is cancelled or timed out has to stop where its definition does not say."""
    rescue: float = 2.0
    """How often it looks for jobs of workers that are gone."""
    hook_timeout: float = 10.0
    user: str | None = None
    """The user as which jobs run; it takes root to choose another."""
    allow_root: bool = False
    """Let jobs run as root when the worker does."""
    environment: tuple[str, ...] = ()
    """Environment variables that all jobs may see, in addition to those that their definitions name."""
    allow_preload_threads: bool = False
    name: str = ""
    folder: str = ""
    """Where the private folders of jobs are made; by default under the system's folder for temporary files."""
    processes: int = 256
    """Processes that one job may have where its definition says nothing."""
    secrets: SecretPolicy = field(default_factory=SecretPolicy)
    """By which names secrets are known that no definition has declared."""
    own_process: bool = True
    """The worker has its process to itself, so that any child it did not start is an orphan of a job."""

    def __post_init__(self) -> None:
        for name in ("lease", "heartbeat", "poll", "rescue", "hook_timeout"):
            if not getattr(self, name) > 0:
                raise InvalidInput(f"{name} must be more than 0 seconds, not {getattr(self, name)!r}.")
        if not 0 <= self.cancel_grace <= 86_400:
            raise InvalidInput(f"cancel_grace must be from 0 to 86400 seconds, not {self.cancel_grace!r}.")
        for name in ("slots", "inline_slots"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise InvalidInput(f"{name} must be an integer of at least 1, not {getattr(self, name)!r}.")
        if worker_config.too_slow(self.heartbeat, self.lease):
            raise InvalidInput(
                f"A heartbeat every {self.heartbeat:g} s is too slow for a lease of {self.lease:g} s.",
                hint="The lease should last for at least three heartbeats.",
            )

    @property
    def margin(self) -> float:
        """How long before its lease ends a worker stops trusting it."""
        return worker_config.margin(self.lease)

    def introduction(self, worker: str, lanes: tuple[int, ...]) -> WorkerInfo:
        """What a worker with this id says of itself when it registers."""
        host = platform.node()
        return WorkerInfo(worker, self.name or host, host, os.getpid(), lanes, self.slots)


def configured(own: WorkerSettings, config: WorkerConfig, names: Sequence[str]) -> WorkerSettings:
    """A worker's own settings, with what the stored configuration says of these instead; what does not fit is said."""
    said = {name: getattr(config, name) for name in names if getattr(config, name) is not None}
    try:
        return replace(own, **said)
    except InvalidInput as error:
        log.error("%s of the worker configuration cannot be used here: %s", ", ".join(said), error)
        return own
