"""Job files inside of one's own program."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from penstock.config.worker_settings import WorkerSettings
from penstock.domain.errors import InvalidInput, NotFound
from penstock.domain.states import Status
from penstock.launch.embedded import Engine
from tests.waiting import wait_until_async
from tests.worker.fleet import Stage

SETTINGS = WorkerSettings(allow_root=os.getuid() == 0, poll=0.2, heartbeat=0.5, lease=3, stop_grace=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    jobs = tmp_path / "jobs"
    (jobs / "reports").mkdir(parents=True)
    (jobs / "hello.py").write_text('"""Say hello."""\n\ndef run(ctx, name: str = "you"):\n    return f"hello {name}"\n')
    (jobs / "reports" / "daily.py").write_text("schedule = '0 3 * * *'\ntimezone = 'Europe/Paris'\ndef run(ctx): ...\n")
    (jobs / "broken.py").write_text("def run(ctx)\n")
    return jobs


def engine(stage: Stage, folder: Path) -> Engine:
    return Engine(str(folder), stage.url, schema=stage.schema, settings=SETTINGS)


@pytest.mark.anyio
async def test_files_are_listed_with_their_schedules_and_problems(stage: Stage, folder: Path) -> None:
    jobs = engine(stage, folder)

    found = await jobs.load()

    assert [(each.name, each.file, each.schedule, each.timezone) for each in found] == [
        (None, "broken.py", None, None),
        ("hello", "hello.py", None, None),
        ("reports.daily", "reports/daily.py", "0 3 * * *", "Europe/Paris"),
    ]
    assert (found[0].line, found[1].description) == (1, "Say hello.")
    with pytest.raises(InvalidInput, match="loaded already"):
        await jobs.load()
    await jobs.shutdown()


@pytest.mark.anyio
async def test_runs_of_a_file_are_its_newest_jobs(stage: Stage, folder: Path) -> None:
    jobs = engine(stage, folder)
    await jobs.load()
    made = [await stage.app.aenqueue("hello", {"name": str(number)}) for number in range(3)]

    for each in made:
        await each.awaited(30)

    runs = await jobs.runs("hello", limit=2)
    assert [run.result for run in runs] == ["hello 2", "hello 1"]
    with pytest.raises(NotFound):
        await jobs.runs("nothing")
    await jobs.shutdown()


@pytest.mark.anyio
async def test_reload_takes_over_and_shutdown_waits_for_what_runs(stage: Stage, folder: Path) -> None:
    jobs = engine(stage, folder)
    await jobs.load()
    (folder / "hello.py").write_text("import time\ndef run(ctx):\n    time.sleep(1.5)\n    return 'slow'\n")

    found = await jobs.reload()
    job = await stage.app.aenqueue("hello")
    await wait_until_async(lambda: _is(job, Status.RUNNING), "the job runs")
    await jobs.shutdown()

    assert [each.name for each in found] == [None, "hello", "reports.daily"]
    assert (await job.arefresh()).result == "slow"


@pytest.mark.anyio
async def test_shutdown_with_a_bound_gives_back_what_does_not_end(stage: Stage, folder: Path) -> None:
    (folder / "hello.py").write_text("import time\ndef run(ctx):\n    time.sleep(600)\n")
    jobs = engine(stage, folder)
    await jobs.load()
    job = await stage.app.aenqueue("hello")
    await wait_until_async(lambda: _is(job, Status.RUNNING), "the job runs")

    await asyncio.wait_for(jobs.shutdown(timeout=0.2), 30)

    found = await job.arefresh()
    assert (found.status, found.attempts) == ("queued", 0)


async def _is(job: object, status: Status) -> bool:
    found = await job.arefresh()  # type: ignore[attr-defined]
    return bool(found.status is status)
