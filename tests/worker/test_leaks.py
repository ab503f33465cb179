"""After many attempts a worker and its zygote hold no more than before."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.runtime import processes
from tests.conftest import Counts, Figures
from tests.worker.faults import Script, enqueue_many, state, statuses
from tests.worker.fleet import Stage, WorkerProcess

MEGABYTE = 1024 * 1024
ALLOWED_GROWTH = 8 * MEGABYTE
"""Memory that Python and the libraries keep for the next time; a leak of 30 kB an attempt would be more."""


@dataclass(frozen=True)
class Held:
    """What a worker and its zygote hold while nothing runs."""

    worker_descriptors: int
    zygote_descriptors: int
    children: int
    zombies: int
    folders: int
    worker_memory: int
    zygote_memory: int


def held(worker: WorkerProcess, temporary: Path) -> Held:
    zygote = worker.zygote
    below = processes.descendants(worker.pid)
    return Held(
        worker_descriptors=len(os.listdir(f"/proc/{worker.pid}/fd")),
        zygote_descriptors=len(os.listdir(f"/proc/{zygote}/fd")),
        children=len(below),
        zombies=sum(state(pid) == "Z" for pid in below),
        folders=len([each for each in temporary.glob("penstock-????????/*") if each.is_dir()]),
        worker_memory=processes.memory([worker.pid]),
        zygote_memory=processes.memory([zygote]),
    )


@pytest.mark.timeout(3600)
def test_attempts_leave_nothing_behind_in_the_worker(stage: Stage, counts: Counts, figures: Figures) -> None:
    temporary = stage.folder / "temporary"
    temporary.mkdir()
    slots = 4
    worker = stage.worker("--slots", str(slots), environment={"TMPDIR": str(temporary)})
    kinds: list[Script] = [[], [["print", "x" * 100]], [["raise"]], [["_exit", 3]], [["progress", 3]]]

    def run(many: int) -> None:
        before = statuses(stage)
        enqueue_many(stage, [kinds[number % len(kinds)] for number in range(many)])
        ended = {status: before.get(status, 0) + many * part // 5 for status, part in (("succeeded", 3), ("failed", 2))}
        stage.eventually(lambda: statuses(stage) == ended, f"{many} jobs have ended", 3000)
        stage.eventually(lambda: held(worker, temporary).children == 1, "only the zygote is left")

    # Pools fill, caches warm up and the allocator takes its share.
    run(100)
    before = held(worker, temporary)
    many = counts(300, 20_000)
    run(many)
    after = held(worker, temporary)

    figures("engine_leaks", store=stage.url.partition(":")[0], attempts=many, **difference(before, after))
    assert (after.children, after.zombies) == (1, 0)
    # Connections of the pool come and go; a leak would be one for each attempt.
    assert after.worker_descriptors <= before.worker_descriptors + 10
    assert after.zygote_descriptors == before.zygote_descriptors
    assert after.folders <= slots
    assert after.worker_memory <= before.worker_memory + ALLOWED_GROWTH
    assert after.zygote_memory <= before.zygote_memory + ALLOWED_GROWTH


def difference(before: Held, after: Held) -> dict[str, object]:
    return {
        "descriptors": f"{before.worker_descriptors}->{after.worker_descriptors}",
        "zygote_descriptors": f"{before.zygote_descriptors}->{after.zygote_descriptors}",
        "children": after.children,
        "zombies": after.zombies,
        "folders": f"{before.folders}->{after.folders}",
        "memory_mb": f"{before.worker_memory / MEGABYTE:.1f}->{after.worker_memory / MEGABYTE:.1f}",
        "zygote_memory_mb": f"{before.zygote_memory / MEGABYTE:.1f}->{after.zygote_memory / MEGABYTE:.1f}",
    }
