"""A worker inside of your own program, for its application or for a folder of job files."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias, TypedDict, get_type_hints

from penstock.app import Penstock
from penstock.background.archive import Archive
from penstock.config.project_file import load
from penstock.config.worker_settings import WorkerSettings
from penstock.domain.errors import InvalidInput, NotFound, refuse_unknown
from penstock.domain.job import Job
from penstock.domain.secrets.policy import SecretPolicy
from penstock.launch.application_source import is_zygote, source_of
from penstock.launch.reload import file_stamps
from penstock.launch.sources import FilesSource
from penstock.launch.worker_host import WorkerHost
from penstock.operations.session import not_inside_a_job

_ENDLESS = float("inf")
_POLL_SECONDS = 0.02


class WorkerOptions(TypedDict, total=False):
    """Settings of a worker inside a program: those of `penstock worker`, with `_` for `-`; times are in seconds."""

    slots: int
    inline_slots: int
    ahead: int
    lease: float
    heartbeat: float
    poll: float
    drain: float
    cancel_grace: float
    stop_grace: float
    hook_timeout: float
    user: str
    allow_root: bool
    environment: tuple[str, ...]
    allow_preload_threads: bool
    name: str


class EmbeddedWorker:
    """A worker that runs the jobs of an application inside its program, as long as a block lasts.

    `with` runs it in a thread, `async with` in the event loop. The block begins when the worker is registered. At the
    end of the block the worker stops: it claims no more jobs, and running jobs have `drain` seconds to end.
    """

    def __init__(self, app: Penstock, options: WorkerOptions) -> None:
        refuse_unknown(options, tuple(get_type_hints(WorkerOptions)), "a setting of app.worker()")
        self._app = app
        self._options = options

    def __enter__(self) -> Self:
        self._host = _host_of(self._app, self._options)
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        begun: Future[None] = Future()
        thread = ThreadPoolExecutor(1, "penstock-worker")
        self._ended = thread.submit(self._work, begun)
        thread.shutdown(wait=False)
        try:
            wait([begun, self._ended], return_when=FIRST_COMPLETED)
        except BaseException:
            self._end()
            raise
        if self._ended.done():
            self._ended.result()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._ended.result()

    async def __aenter__(self) -> Self:
        self._block = _at_work(_host_of(self._app, self._options))
        await self._block.__aenter__()
        return self

    async def __aexit__(self, *failure: Any) -> None:
        await self._block.__aexit__(*failure)

    def _work(self, begun: Future[None]) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._until_stopped(begun))

    async def _until_stopped(self, begun: Future[None]) -> None:
        async with _at_work(self._host) as running:
            begun.set_result(None)
            stopping: asyncio.Future[Any] = asyncio.ensure_future(self._stopping.wait())
            await asyncio.wait([running, stopping], return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()

    def _end(self) -> None:
        """Stop the worker and wait for its end; a Ctrl-C during that stops the jobs that still run."""
        try:
            self._call(self._stopping.set)
            wait([self._ended])
        except BaseException:
            self._call(self._stopping.set)
            self._call(self._host.stop)
            wait([self._ended])
            raise

    def _call(self, function: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the worker has ended, and its loop is closed
            self._loop.call_soon_threadsafe(function)


def _host_of(app: Penstock, options: WorkerOptions) -> WorkerHost:
    """A host for the application; missing options come from `penstock.toml` and the environment."""
    if app._errands is not None:
        raise not_inside_a_job("app.worker")
    if is_zygote():
        raise InvalidInput(
            "app.worker() was called while a worker loads this module, and would start another worker.",
            hint='Call it below if __name__ == "__main__":, or in a function that the program calls.',
        )
    if app.address is None:
        raise InvalidInput(
            "The application keeps its jobs in memory or in a store object, which a worker cannot open.",
            hint='Give a URL: Penstock("sqlite:///jobs.db").',
        )
    found = load()
    secrets = SecretPolicy(found.secret_patterns)
    return WorkerHost(
        source_of(app),
        # The code may be loaded in another folder, in which a relative path would name another file.
        store=app.address["store"],
        settings=WorkerSettings(**{**found.worker, **options}, own_process=False),
        webhooks=found.webhooks,
        secrets=secrets,
        archive=None if found.archive is None else Archive(found.archive, secrets),
    )


@contextlib.asynccontextmanager
async def _at_work(host: WorkerHost) -> AsyncGenerator[asyncio.Future[None]]:
    """A host whose worker is registered; at the end of the block the worker stops."""
    try:
        worker = await host.load()
        running = asyncio.ensure_future(worker.run())
        try:
            while not worker.id and not running.done():  # noqa: ASYNC110 (registration has no event of its own)
                await asyncio.sleep(_POLL_SECONDS)
            if not running.done():
                yield running
        finally:
            host.stop()
            await running
    finally:
        await host.close()


@dataclass(frozen=True, slots=True)
class FileJob:
    """One job file: its definition, or its error."""

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
        # Other children of this process are not orphans of jobs, and stopping waits without a limit.
        self._host = WorkerHost(
            source,
            settings=replace(settings or WorkerSettings(), own_process=False, drain=_ENDLESS),
            archive=None if archive is None else Archive(archive),
        )
        self._watch = watch
        self._tasks: list[asyncio.Future[None]] = []

    async def load(self) -> Found:
        """Load the files, begin to work, and list the job files."""
        if self._tasks:
            raise InvalidInput("The job files are loaded already.", hint="Call reload().")
        seen = await asyncio.to_thread(file_stamps, self._host.source.watched) if self._watch else {}
        worker = await self._host.load()
        self._tasks = [asyncio.ensure_future(worker.run())]
        if self._watch:
            self._tasks.append(asyncio.ensure_future(self._host.watch(seen)))
        return self.list()

    async def reload(self) -> Found:
        """Load the files again; running attempts keep their code."""
        await self._host.reload()
        return self.list()

    def list(self) -> Found:
        """All job files, those that cannot be loaded included."""
        zygote = self._host.worker.zygote
        schedules = {each.key: each for each in zygote.schedules}
        paths: Mapping[str, str] = zygote.extras["paths"]
        problems = {each["file"]: each for each in self._host.problems}
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
        return (await self._host.app.ajobs(definition_key=name, limit=limit)).jobs

    async def shutdown(self, timeout: float | None = None) -> None:
        """Claim nothing more and wait for running jobs; after `timeout` they are stopped and released."""
        if not self._tasks:
            return
        worker, *others = self._tasks
        self._host.worker.stop()
        if timeout is not None:
            await asyncio.wait([worker], timeout=timeout)
            if not worker.done():
                self._host.worker.stop()
        await worker
        for each in others:
            each.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await each
        self._tasks = []
        await self._host.close()
