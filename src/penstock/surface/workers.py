"""`app.workers`: the processes that run jobs, and the configuration that holds for all of them."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.domain.worker import WorkerRow
from penstock.domain.worker_config import WorkerConfig
from penstock.surface.session import PYTHON, Operation, Session


@dataclass(frozen=True, slots=True)
class ListWorkers(Operation[list[WorkerRow]]):
    call: ClassVar[str] = "workers.list"


@dataclass(frozen=True, slots=True)
class ReadConfiguration(Operation[tuple[WorkerConfig, int]]):
    call: ClassVar[str] = "workers.configuration"


@dataclass(frozen=True, slots=True)
class ConfigureWorkers(Operation[tuple[WorkerConfig, int]]):
    call: ClassVar[str] = "workers.configure"
    changes: WorkerConfig | Mapping[str, Any]
    revision: int | None
    by: str


class Workers:
    """Workers and their configuration; each call has a twin with an `a` in front, for event loops.

    Running workers learn of a new configuration with their next heartbeat.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def list(self) -> builtins.list[WorkerRow]:
        """The workers that the store knows, including those that ended not long ago."""
        return self._session.do(ListWorkers())

    async def alist(self) -> builtins.list[WorkerRow]:
        return await self._session.ado(ListWorkers())

    def configuration(self) -> tuple[WorkerConfig, int]:
        """The stored configuration of all workers and its revision; 0 until the first change."""
        return self._session.do(ReadConfiguration())

    async def aconfiguration(self) -> tuple[WorkerConfig, int]:
        return await self._session.ado(ReadConfiguration())

    def configure(
        self, changes: WorkerConfig | Mapping[str, Any], *, revision: int | None = None, by: str = PYTHON
    ) -> tuple[WorkerConfig, int]:
        """Change the configuration of all workers: a `WorkerConfig` replaces it, a mapping (as in JSON) changes what it
        names. With a `revision` it must be the stored one: `RevisionConflict`."""
        return self._session.do(ConfigureWorkers(changes, revision, by))

    async def aconfigure(
        self, changes: WorkerConfig | Mapping[str, Any], *, revision: int | None = None, by: str = PYTHON
    ) -> tuple[WorkerConfig, int]:
        return await self._session.ado(ConfigureWorkers(changes, revision, by))
