"""The demo: a server with a worker, the jobs of the scenes, and the decisions that they need."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock.app import Penstock
from penstock.config.server_settings import ServerSettings
from penstock.config.worker_settings import WorkerSettings
from penstock.demo import scenes
from penstock.demo.scenes import Scene
from penstock.domain.errors import FeedGone, InvalidInput, NotFound, RevisionConflict, WaitTimeout
from penstock.domain.instant import MINUTE
from penstock.domain.job import Job
from penstock.domain.states import Status
from penstock.http.server import Server, bound
from penstock.launch.serve import Plan, serve
from penstock.launch.sources import AppSource
from penstock.storage import ports
from penstock.surface.job_handle import JobHandle

TARGET = "penstock.demo.jobs:app"
_PATIENCE = 90.0
_LOOK = 0.05
_WHO = "demo"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class SceneResult:
    """The result of one scene."""

    definition: str
    shows: str
    job: Job | None
    as_expected: bool
    """Whether it ended as the scene requires."""


class Demo:
    """One run of the demo on the data in a folder."""

    def __init__(self, data: Path | None = None, port: int | None = None, *, say: Say) -> None:
        self.folder: Path = (data or scenes.folder()).absolute()
        self._store = scenes.url(self.folder)
        self._port = port
        self._say = say
        self._app = Penstock(self._store)

    async def stay(self) -> None:
        """Show the jobs and their events until a signal."""
        await self._run_with_server(self._show())

    async def finish(self) -> list[SceneResult]:
        """Run every scene to its end, including reviews, and stop; return nothing if a signal came first."""
        ended: list[SceneResult] = []

        async def play() -> None:
            made = await self._begin()
            ended.extend(await self._complete(made))
            # Like Ctrl-C: everything is closed in order.
            signal.raise_signal(signal.SIGTERM)

        await self._run_with_server(play())
        return ended

    async def _run_with_server(self, work: Coroutine[Any, Any, None]) -> None:
        """Serve, and do the work once requests are answered; raise errors of either."""
        answers = asyncio.Event()

        def ready(server: Server) -> None:
            self._print_addresses(server)
            answers.set()

        working: asyncio.Future[None] | None = None
        try:
            plan = await asyncio.to_thread(self._prepare)
            serving = asyncio.ensure_future(serve(plan, ready=ready))
            waiting = asyncio.ensure_future(answers.wait())
            await asyncio.wait([serving, waiting], return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if answers.is_set():
                working = asyncio.ensure_future(work)
                await asyncio.wait([serving, working], return_when=asyncio.FIRST_COMPLETED)
                if working.done() and working.exception() is not None:
                    signal.raise_signal(signal.SIGTERM)
            await serving
            if working is not None and working.done() and not working.cancelled():
                working.result()
        finally:
            if working is None:
                work.close()
            elif not working.done():
                working.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await working
            await self._app.aclose()

    def _prepare(self) -> Plan:
        """Make the folder, find a port, and make the first tick due."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput(
                f"{self.folder} cannot be used: {error.strerror}.", hint="Name another folder: --data DIR."
            ) from None
        self._make_first_tick_due()
        return Plan(
            source=AppSource(TARGET, str(self.folder)),
            store=self._store,
            # Its jobs are penstock's own code, so they may run as root.
            worker=WorkerSettings(poll=0.5, drain=1.0, stop_grace=1.0, allow_root=os.getuid() == 0, name=_WHO),
            server=ServerSettings(port=self._free_port()),
        )

    def _free_port(self) -> int:
        """Return the requested port; by default the usual one, or any if that one is in use."""
        if self._port is not None:
            return self._port
        usual = ServerSettings().port
        try:
            for each in bound("127.0.0.1", usual):
                each.close()
        except InvalidInput:
            return 0
        return usual

    def _make_first_tick_due(self) -> None:
        """On a new store, count the current minute as missed, so that the first tick is immediate."""
        from penstock.demo import jobs

        (declared,) = jobs.app.schedules.declared
        now = self._app.store.run(ports.admin.clock())
        first = replace(declared, owner="code", origin=TARGET, next_run_at=now - now % MINUTE)
        with contextlib.suppress(RevisionConflict):
            self._app.store.run(ports.schedules.save(first, by=_WHO, revision=0))

    def _print_addresses(self, server: Server) -> None:
        (address,) = server.addresses
        self._say(f"  dashboard  {address}/")
        self._say(f"  API        {address}/v1/jobs, described at {address}/docs")
        self._say(f"  data       {self.folder / scenes.FILE} (kept between runs)")
        self._say(f"  code       {Path(__file__).with_name('jobs.py')}")

    async def _begin(self) -> dict[Scene, JobHandle[Any]]:
        """Create the jobs of all scenes."""
        self._say("")
        made: dict[Scene, JobHandle[Any]] = {}
        for scene in scenes.SCENES:
            made[scene] = await self._app.aenqueue(scene.definition, scene.params, **scene.options)
            self._say(f"  {made[scene].id}  {scene.definition:<15} {scene.shows}")
        again = await self._app.aenqueue(scenes.REPORT.definition, scenes.REPORT.params, **scenes.REPORT.options)
        if not again.created:
            self._say(f"  {again.id}  {again.job.definition_key:<15} requested again: the same job")
        from penstock.demo import jobs

        batch = await self._app.aenqueue_many([jobs.thumbnail.order(number) for number in range(scenes.HOW_MANY)])
        self._say(f"  {batch[-1].id}  {scenes.MANY:<15} the last of {len(batch)} inline jobs, made in one commit")
        return made

    async def _show(self) -> None:
        events = await self._app.events.afollow(type="job.*")
        shown = {handle.id: handle.job.definition_key for handle in (await self._begin()).values()}
        self._say("")
        self._say("  Events follow; try the dashboard, or: penstock jobs list --store " + self._store)
        self._say("  Ctrl-C ends the demo.")
        self._say("")
        with contextlib.suppress(FeedGone):
            async for event in events:
                if event.job_id is None or event.type == "job.progress":
                    continue
                if event.job_id not in shown:
                    shown[event.job_id] = await self._definition_of(event.job_id)
                if shown[event.job_id] != scenes.MANY:
                    self._say(f"  {event.at:%H:%M:%S}  {event.type:<21} {shown[event.job_id]:<15} {event.job_id}")

    async def _definition_of(self, job_id: str) -> str:
        try:
            return (await self._app.jobs.aread(job_id)).definition_key
        except NotFound:
            return "deleted"

    async def _complete(self, made: dict[Scene, JobHandle[Any]]) -> list[SceneResult]:
        """Decide the review, cancel the endless job, and wait for all jobs."""
        if await self._reaches(made[scenes.REVIEW], Status.REVIEW_NEEDED):
            await self._app.jobs.aapprove(made[scenes.REVIEW].id, by=_WHO, note="fine")
        if await self._reaches(made[scenes.ENDLESS], Status.RUNNING):
            await self._app.jobs.acancel(made[scenes.ENDLESS].id, by=_WHO)
        ended = [await self._end_of(scene, handle) for scene, handle in made.items()]
        return [*ended, await self._tick(), await self._all_of_many()]

    async def _end_of(self, scene: Scene, handle: JobHandle[Any]) -> SceneResult:
        job = await self._ended(handle.id)
        as_expected = job.status is scene.ends and scene.attempts in (None, job.attempts)
        return SceneResult(scene.definition, scene.shows, job, as_expected)

    async def _tick(self) -> SceneResult:
        """Return the newest tick of the schedule."""
        shows = "a cron schedule: every minute, each minute once"
        found: list[Job] = []

        async def came() -> bool:
            found.extend((await self._app.jobs.alist(definition_key=scenes.TICK, limit=1)).jobs)
            return bool(found)

        if not await _until(came):
            return SceneResult(scenes.TICK, shows, None, False)
        job = await self._ended(found[0].id)
        return SceneResult(scenes.TICK, shows, job, job.status is Status.SUCCEEDED and job.scheduled_for is not None)

    async def _all_of_many(self) -> SceneResult:
        async def none_waits() -> bool:
            waiting = (Status.SCHEDULED, Status.QUEUED, Status.RUNNING)
            counts = [await self._app.jobs.acount(definition_key=scenes.MANY, status=each) for each in waiting]
            return not any(each.value for each in counts)

        done = await _until(none_waits)
        last = (await self._app.jobs.alist(definition_key=scenes.MANY, limit=1)).jobs[0]
        failed = await self._app.jobs.acount(definition_key=scenes.MANY, status=Status.FAILED)
        shows = f"the last of {scenes.HOW_MANY} coroutines in the worker's own loop"
        return SceneResult(scenes.MANY, shows, last, done and not failed.value)

    async def _reaches(self, handle: JobHandle[Any], status: Status) -> bool:
        """Wait until a job has a status; return False if it ends otherwise."""

        async def settled() -> bool:
            job = await self._app.jobs.aread(handle.id)
            return job.status is status or job.status.terminal

        await _until(settled)
        return (await self._app.jobs.aread(handle.id)).status is status

    async def _ended(self, job_id: str) -> Job:
        """Return a job once it has ended, or as it is after the timeout."""
        try:
            return await self._app.jobs.awaited(job_id, _PATIENCE)
        except WaitTimeout:
            return await self._app.jobs.aread(job_id)


async def _until(holds: Callable[[], Awaitable[bool]]) -> bool:
    """Poll until a condition holds; return False after the timeout."""
    deadline = asyncio.get_running_loop().time() + _PATIENCE
    while not await holds():
        if asyncio.get_running_loop().time() > deadline:
            return False
        await asyncio.sleep(_LOOK)
    return True
