"""A worker's end of a zygote: forks that are wanted at the same moment are asked for together, and none is mixed up."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.engine.confinement import Rules
from penstock.engine.task import Task
from penstock.engine.wire import FORKS_AT_ONCE
from penstock.engine.zygote_process import Fork, ZygoteProcess
from tests.engine.fleet import open_descriptors

APPLICATION = """
import time
from penstock import Penstock

app = Penstock("sqlite://")


@app.job("say")
def say(text: str) -> None:
    print(text)


@app.job("sleep")
def sleep() -> None:
    time.sleep(600)
"""


class Nursery:
    """A zygote, and the children that were wanted of it."""

    def __init__(self, zygote: ZygoteProcess, folder: Path) -> None:
        self.zygote = zygote
        self._folder = folder
        self._forks: list[Fork] = []

    def fork(self, key: str, params: str = "{}") -> Fork:
        task = Task("a-job", key, 1, fence=1, attempt=1, max_attempts=1, params=params)
        self._forks.append(self.zygote.fork({"task": task.to_json(), "rules": Rules(str(self._folder)).to_json()}))
        return self._forks[-1]

    def forget(self) -> None:
        """Close our ends of what the children have."""
        for fork in self._forks:
            fork.line.close()
            os.close(fork.output)
            os.close(fork.errors)
        self._forks.clear()


@pytest.fixture
async def nursery(tmp_path: Path) -> AsyncIterator[Nursery]:
    (tmp_path / "spoken.py").write_text(APPLICATION)
    made = Nursery(await ZygoteProcess.start("spoken:app", str(tmp_path)), tmp_path)
    yield made
    await made.zygote.close()
    made.forget()


async def test_children_that_are_wanted_at_once_each_have_their_own_line_and_output(nursery: Nursery) -> None:
    words = [f"word {n}" for n in range(2 * FORKS_AT_ONCE + 5)]
    forks = [nursery.fork("say", f'{{"text":"{word}"}}') for word in words]

    exits = [await asyncio.wait_for(fork.ended, 60) for fork in forks]

    assert {each.code for each in exits} == {0}
    assert [os.read(fork.output, 100).decode() for fork in forks] == [f"{word}\n" for word in words]
    assert all(b'"done"' in fork.line.recv(1000) for fork in forks)


async def test_they_are_asked_for_in_as_few_frames_as_can_be(nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []

    def watched(data: bytes, descriptors: list[int] | None = None) -> None:
        sent.append(len(descriptors or ()))
        send(data, descriptors)

    send = nursery.zygote._send
    monkeypatch.setattr(nursery.zygote, "_send", watched)
    forks = [nursery.fork("say", '{"text":"hello"}') for _ in range(FORKS_AT_ONCE + 1)]

    await asyncio.gather(*(fork.ended for fork in forks))

    assert sent == [3 * FORKS_AT_ONCE, 3]


async def test_a_child_can_be_killed_at_once(nursery: Nursery) -> None:
    fork = nursery.fork("sleep")
    nursery.zygote.kill(fork)

    assert (await asyncio.wait_for(fork.ended, 60)).signal == signal.SIGKILL


async def test_a_child_can_be_signalled_at_once(nursery: Nursery) -> None:
    fork = nursery.fork("sleep")
    nursery.zygote.signal(fork, signal.SIGUSR1)

    assert (await asyncio.wait_for(fork.ended, 60)).signal == signal.SIGUSR1


async def test_a_zygote_that_may_leave_still_runs_what_was_wanted_before(nursery: Nursery) -> None:
    fork = nursery.fork("say", '{"text":"goodbye"}')
    nursery.zygote.leave()

    assert (await asyncio.wait_for(fork.ended, 60)).code == 0
    await asyncio.wait_for(nursery.zygote.dead, 60)


async def test_what_is_wanted_of_a_zygote_that_is_closed_leaves_no_descriptor_behind(nursery: Nursery) -> None:
    before = open_descriptors()
    fork = nursery.fork("sleep")
    await nursery.zygote.close()

    assert (await fork.ended).lost
    nursery.forget()
    # The line to the zygote is closed as well.
    assert open_descriptors() < before


async def test_a_zygote_that_died_unseen_leaves_no_descriptor_behind(nursery: Nursery) -> None:
    before = open_descriptors()
    os.kill(nursery.zygote.pid, signal.SIGKILL)
    forks = [nursery.fork("sleep") for _ in range(3)]

    exits = [await asyncio.wait_for(fork.ended, 60) for fork in forks]

    assert all(each.lost for each in exits)
    nursery.forget()
    assert open_descriptors() < before
