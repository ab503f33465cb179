"""Job files inside of your own program: load them, let them run, look at them, stop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from penstock.background.archive import Archive
from penstock.config.worker_settings import WorkerSettings
from penstock.domain.errors import InvalidInput, NotFound
from penstock.domain.job import Job
from penstock.launch.sources import FilesSource, stamp
from penstock.launch.worker_process import Node

_ENDLESS = float("inf")


@dataclass(frozen=True, slots=True)
class FileJob:
    """One job file: what it defines, or why it does not."""

    name: str | None
    file: str
    description: str = ""
    schedule: str | None = None
    timezone: str | None = None
    error: str | None = None
    line: int | None = None


Found: TypeAlias = list[FileJob]
Runs: TypeAlias = list[Job]


class Engine:
    """Runs a folder of job files in the event loop that calls `load()`; each job still has a process of its own."""

    def __init__(
        self,
        jobs: str,
        store: str,
        *,
        name: str | None = None,
        resources: Mapping[str, str] | None = None,
        settings: WorkerSettings | None = None,
        watch: bool = False,
        archive: str | None = None,
        **options: Any,
    ) -> None:
        """`archive` is a folder to which jobs are written before retention deletes them."""
        source = FilesSource(jobs, {"store": store, **options}, name=name, resources=resources)
        # Other children of this process are not orphans of jobs, and stopping waits until it is told otherwise.
        self._node = Node(
            source,
            settings=replace(settings or WorkerSettings(), own_process=False, drain=_ENDLESS),
            archive=None if archive is None else Archive(archive),
        )
        self._watch = watch
        self._tasks: list[asyncio.Future[None]] = []

    async def load(self) -> Found:
        """Load the files and begin to work; what there is."""
        if self._tasks:
            raise InvalidInput("The job files are loaded already.", hint="Call reload().")
        seen = await asyncio.to_thread(stamp, self._node.source.watched) if self._watch else {}
        worker = await self._node.load()
        self._tasks = [asyncio.ensure_future(worker.run())]
        if self._watch:
            self._tasks.append(asyncio.ensure_future(self._node.watch(seen)))
        return self.list()

    async def reload(self) -> Found:
        """Load the files anew; attempts that run keep their code."""
        await self._node.reload()
        return self.list()

    def list(self) -> Found:
        """All job files, those that cannot be loaded included."""
        zygote = self._node.worker.zygote
        schedules = {each.key: each for each in zygote.schedules}
        paths: Mapping[str, str] = zygote.extras["paths"]
        problems = {each["file"]: each for each in self._node.problems}
        found = []
        for each in zygote.definitions:
            when, problem = schedules.get(each.key), problems.pop(paths[each.key], None)
            job = FileJob(each.key, paths[each.key], each.description)
            if when is not None:
                job = replace(job, schedule=when.expression, timezone=when.timezone)
            if problem is not None:
                job = replace(job, error=problem["error"], line=problem["line"])
            found.append(job)
        found += [FileJob(None, file, error=each["error"], line=each["line"]) for file, each in problems.items()]
        return sorted(found, key=lambda each: each.file)

    async def runs(self, name: str, limit: int = 50) -> Runs:
        """The newest jobs of a file, the newest first."""
        if name not in {each.name for each in self.list()}:
            raise NotFound("job file", name)
        return (await self._node.app.ajobs(definition_key=name, limit=limit)).jobs

    async def shutdown(self, timeout: float | None = None) -> None:
        """Claim nothing more and wait for what runs, without bound unless told; then it is stopped and given back."""
        if not self._tasks:
            return
        worker, *others = self._tasks
        self._node.worker.stop()
        if timeout is not None:
            await asyncio.wait([worker], timeout=timeout)
            if not worker.done():
                self._node.worker.stop()
        await worker
        for each in others:
            each.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await each
        self._tasks = []
        await self._node.close()
