"""Schedules through real workers: they tick, each instant once, whoever is killed meanwhile."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from penstock.domain.job import Job
from tests.conftest import Counts
from tests.storage.tables import change
from tests.worker.fleet import QUICK, Stage, WorkerProcess, command

pytestmark = pytest.mark.xdist_group("engine-schedules-live")

HEAD = """
import os
from penstock import Penstock

app = Penstock(os.environ["PENSTOCK_TEST_STORE"], schema=os.environ["PENSTOCK_TEST_SCHEMA"])

@app.job("work")
def work(word: str = "none"):
    return word
"""
OFTEN = "app.schedules.declare('often', work, every='1s', missed='all', params={'word': 'tick'})\n"


def start(stage: Stage, text: str, folder: str = "one", *flags: str) -> WorkerProcess:
    """A worker for an application `project:app` that stands in a folder of its own."""
    place = stage.folder / folder
    place.mkdir(exist_ok=True)
    (place / "project.py").write_text(HEAD + text)
    return command(stage, "worker", "project:app", *QUICK, *flags, folder=place)


def made(stage: Stage, schedule: str) -> list[Job]:
    return [job for job in stage.app.jobs.iterate(schedule_id=schedule) if job.scheduled_for is not None]


def seconds_of(jobs: list[Job]) -> list[int]:
    return sorted(round(job.scheduled_for.timestamp()) for job in jobs if job.scheduled_for is not None)


def has_ticked(stage: Stage, schedule: str, times: int) -> Callable[[], bool]:
    return lambda: len(made(stage, schedule)) >= times


def test_a_worker_makes_the_ticks_of_its_application_and_a_second_one_doubles_none(stage: Stage) -> None:
    text = OFTEN + "@app.job('own', schedule='1s')\ndef own():\n    return 'own'\n"
    start(stage, text)
    stage.eventually(has_ticked(stage, "often", 1), "the first worker ticks")
    start(stage, text, "two")
    stage.eventually(has_ticked(stage, "often", 4), "both go on")

    for key, result in (("often", "tick"), ("own", "own")):
        jobs = made(stage, key)
        assert stage.end(jobs[-1].id).result == result
        instants = seconds_of(jobs)
        assert instants == list(range(instants[0], instants[-1] + 1)), "no gap and no double"


def test_a_paused_schedule_makes_nothing_until_it_is_resumed(stage: Stage) -> None:
    start(stage, OFTEN + "app.schedules.declare('beside', work, every='1s')\n")
    stage.eventually(has_ticked(stage, "often", 1), "it ticks")

    stage.app.schedules.pause("often", "maintenance", by="ann")
    before, beside = len(made(stage, "often")), len(made(stage, "beside"))
    stage.eventually(has_ticked(stage, "beside", beside + 3), "the other one goes on")
    assert len(made(stage, "often")) == before

    stage.app.schedules.resume("often", by="ann")
    stage.eventually(has_ticked(stage, "often", before + 2), "it goes on")
    assert len(set(seconds_of(made(stage, "often")))) == len(made(stage, "often"))


def test_what_the_code_of_the_same_target_does_not_declare_any_more_is_removed(stage: Stage) -> None:
    first = start(stage, OFTEN + "app.schedules.declare('nightly', work, cron='0 3 * * *')\n", "old")
    stage.app.schedules.save("by hand", "work", cron="0 4 * * *", by="ann")
    stage.app.schedules.pause("nightly", "not now", by="ann")
    assert first.stop() == 0

    start(stage, "app.schedules.declare('nightly', work, cron='30 3 * * *')\n", "new")

    rows = {row.schedule.key: row for row in stage.app.schedules.list()}
    assert sorted(rows) == ["by hand", "nightly"]
    assert rows["nightly"].schedule.expression == "30 3 * * *"
    assert rows["nightly"].pause is not None, "a pause outlives a deployment"


@pytest.mark.crash
@pytest.mark.parametrize("workers", [2, 4])
def test_no_tick_is_lost_or_doubled_when_workers_are_killed(stage: Stage, counts: Counts, workers: int) -> None:
    number, seconds = counts(ci=10, soak=200), counts(ci=8, soak=60)
    chance = random.Random(workers)
    text = f"for each in range({number}):\n    app.schedules.declare(f's{{each}}', work, every='1s', missed='all')\n"
    running = [start(stage, text, f"w{each}") for each in range(workers)]
    begun, killed = time.monotonic(), 0

    while time.monotonic() - begun < seconds:
        stage.eventually(partial(_ticked_since, stage, _newest(stage, "s0")), "somebody ticks")
        victim = chance.randrange(workers)
        running[victim].kill()
        killed += 1
        running[victim] = start(stage, text, f"w{victim}")
    last = max(_newest(stage, f"s{each}") for each in range(number))
    stage.eventually(lambda: all(_newest(stage, f"s{each}") > last for each in range(number)), "all have come so far")

    assert killed >= 2
    for each in range(number):
        ticks = Counter(round(tick["scheduledFor"].timestamp()) for tick in stage.app.schedules.ticks(f"s{each}", 1000))
        jobs = Counter(seconds_of(made(stage, f"s{each}")))
        expected = set(range(min(jobs), last + 1))
        assert {instant for instant in jobs if instant <= last} == expected
        assert {instant for instant in ticks if instant <= last} == expected
        assert set(jobs.values()) == set(ticks.values()) == {1}


def _ticked_since(stage: Stage, before: int) -> bool:
    return _newest(stage, "s0") > before


def _newest(stage: Stage, schedule: str) -> int:
    """The second of its newest tick."""
    newest = stage.app.schedules.get(schedule).last_scheduled_at
    return 0 if newest is None else round(newest.timestamp())


def test_a_restart_after_minutes_raises_no_alert_about_what_its_first_pass_makes_up_for(stage: Stage) -> None:
    start(stage, "").ready().stop()
    for number in range(20):
        stage.app.schedules.save(f"late-{number}", "work", every=3600)
    change(stage.app.store, "UPDATE {s}schedule SET next_run_at = next_run_at - 2 * 3600000000")
    ended = {each.id for each in stage.app.workers.list()}

    worker = start(stage, "")

    def looked() -> bool:
        others = [each for each in stage.app.workers.list() if each.id not in ended]
        duties = [duty for each in others for duty in each.duties]
        return any(duty.name == "alert" and duty.last_success_age is not None for duty in duties)

    stage.eventually(looked, "the worker has looked for alerts")
    assert all(made(stage, f"late-{number}") for number in range(20))
    assert {each.alert.kind for each in stage.app.monitoring.alert_history()} == set()
    assert worker.alive
