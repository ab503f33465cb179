"""An adapter of somebody else's: it conforms, and real workers take their jobs from it."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import InvalidInput, Penstock
from penstock.domain.ports.queue import Queue
from tests.queues.conformance import Broker, SharedQueueConformance, WorkerConformance
from tests.queues.folder_queue import BrokenQueue, FolderQueue
from tests.worker.fleet import Stage

pytestmark = pytest.mark.xdist_group("folder-queue")

ADAPTER = "tests.queues.folder_queue:make"


class FolderBroker(Broker):
    wakes_all = False
    adapter = ADAPTER

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {"FOLDER_QUEUE": str(folder)}

    def queue(self) -> Queue:
        return FolderQueue(self.folder)

    def program(self) -> str:
        return f"from tests.queues.folder_queue import FolderQueue\nqueue = FolderQueue({str(self.folder)!r})\n"

    def in_use(self) -> object:
        return self._files("open")

    def left(self) -> object:
        return [*self._files("new"), *self._files("taken")]

    def _files(self, name: str) -> list[str]:
        place = self.folder / name
        return os.listdir(place) if place.exists() else []


class TestFolderQueue(SharedQueueConformance):
    @pytest.fixture
    def broker(self, tmp_path: Path) -> Broker:
        return FolderBroker(tmp_path / "queue")


class TestFolderQueueWithWorkers(WorkerConformance):
    @pytest.fixture
    def broker(self, tmp_path: Path) -> Broker:
        return FolderBroker(tmp_path / "queue")


@pytest.fixture
def broken(tmp_path: Path) -> Iterator[Penstock]:
    app = Penstock(f"sqlite:///{tmp_path}/jobs.db", queue=BrokenQueue())
    yield app
    app.close()


def test_an_adapter_that_fails_is_one_line_in_the_log_and_no_error(
    broken: Penstock, caplog: pytest.LogCaptureFixture
) -> None:
    @broken.job("work")
    def work() -> None: ...

    with caplog.at_level(logging.INFO, "penstock"):
        jobs = [work.enqueue(), asyncio.run(work.aenqueue()), *broken.enqueue_many([work.order()] * 3)]

    assert [job.refresh().status for job in jobs] == ["queued"] * 5
    lines = [each.getMessage() for each in caplog.records if "queue" in each.getMessage()]
    assert len(lines) == 1
    assert "ConnectionError: the broker is away" in lines[0]
    assert caplog.records[0].exc_info is None


@pytest.mark.parametrize("name", ["no_such_module_x:make", "tests.queues.folder_queue:nothing", "json:dumps"])
def test_an_adapter_that_cannot_be_made_fails_no_enqueue(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = Penstock(f"sqlite:///{tmp_path}/jobs.db", queue=name)

    job = app.job("work")(_nothing).enqueue()

    assert job.refresh().status == "queued"
    assert "the queue fails to publish" in caplog.text
    app.close()


@pytest.mark.parametrize("name", ["", "module", "module:", ":make", "a b:make", "redis://host"])
def test_what_names_no_adapter_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="names no queue"):
        Penstock("sqlite://", queue=name)


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        ("Queue('x')", "given as an object, which a worker cannot make"),
        ("'no_such_module_x:make'", "there is no module 'no_such_module_x'"),
        ("'json:dumps'", ""),
    ],
)
def test_a_worker_that_cannot_make_its_queue_says_so_and_does_not_start(
    quiet_stage: Stage, queue: str, said: str
) -> None:
    worker = quiet_stage.project(
        f"""
        from penstock import Penstock
        from tests.queues.folder_queue import FolderQueue as Queue

        app = Penstock({quiet_stage.url!r}, queue={queue})
        """,
        wait=False,
    )

    assert worker.wait() != 0
    assert said in worker.output
    assert "Traceback" not in worker.output or not said


def _nothing() -> None: ...
