"""A worker's end of a zygote: forks that are wanted at the same moment are asked for together, and none is mixed up."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.domain.attempt import Task
from penstock.isolation.confinement import Rules
from penstock.isolation.wire import FORKS_AT_ONCE
from penstock.isolation.zygote_process import Fork, ZygoteProcess
from tests.waiting import wait_until, wait_until_async
from tests.worker.fleet import ROOT, open_descriptors

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

CROWDED = """
import asyncio, json, os, resource, signal, sys
from pathlib import Path
from penstock.isolation import capabilities
from penstock.isolation.zygote_process import ZygoteProcess
from tests.isolation.test_zygote_process import Nursery


async def main():
    nursery = Nursery(await ZygoteProcess.start("spoken:app", sys.argv[1]), Path(sys.argv[1]))
    capabilities.give_up()  # root may have any number of descriptors under way
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.kill(nursery.zygote.pid, signal.SIGSTOP)
    forks = [nursery.fork("say", '{"text":"x"}') for _ in range(48)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, usual[1]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    unforked = [fork.ended.result().unforked for fork in forks if fork.ended.done()]
    resource.setrlimit(resource.RLIMIT_NOFILE, usual)
    os.kill(nursery.zygote.pid, signal.SIGCONT)
    exits = [await fork.ended for fork in forks]
    afterwards = (await nursery.fork("say", '{"text":"y"}').ended).code
    print(json.dumps({"forks": len(forks), "unforked": len(unforked), "reasons": sorted(set(unforked)),
                      "others": sum(each.code == 0 for each in exits), "afterwards": afterwards}))
    await nursery.zygote.close()

asyncio.run(main())
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


async def test_a_zygote_that_has_left_as_it_was_told_is_not_killed(
    nursery: Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    nursery.zygote.leave()
    # Without a turn of the event loop, which would notice the end.
    wait_until(lambda: _is_hung_up(nursery.zygote._line), "the zygote has closed its line")
    nursery.zygote.trust(1e9)

    await asyncio.wait_for(nursery.zygote.dead, 60)

    assert "its line is broken" not in caplog.text


def _is_hung_up(line: socket.socket) -> bool:
    watched = select.poll()
    watched.register(line, 0)
    return any(event & select.POLLHUP for _, event in watched.poll(0))


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

    # What could not even be asked for was never forked.
    assert all(each.lost or each.unforked for each in exits)
    nursery.forget()
    assert open_descriptors() < before


@pytest.mark.parametrize("most", [6, 16])
async def test_a_zygote_that_may_have_no_more_files_open_forks_nothing_and_goes_on(nursery: Nursery, most: int) -> None:
    running = nursery.fork("sleep")
    await wait_until_async(lambda: running.pid, "it runs")
    usual = resource.prlimit(nursery.zygote.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(nursery.zygote.pid, resource.RLIMIT_NOFILE, (most, usual[1]))

    exits = [await asyncio.wait_for(nursery.fork("say", '{"text":"x"}').ended, 30) for _ in range(2)]
    batch = [nursery.fork("say", '{"text":"x"}') for _ in range(8)]
    exits += [await asyncio.wait_for(fork.ended, 30) for fork in batch]

    assert {"cannot open more files" in (each.unforked or "") for each in exits if each.code is None} == {True}
    assert [each.unforked for each in exits[2:] if each.code == 0] == []
    resource.prlimit(nursery.zygote.pid, resource.RLIMIT_NOFILE, usual)
    fork = nursery.fork("say", '{"text":"again"}')
    assert (await asyncio.wait_for(fork.ended, 30)).code == 0
    assert os.read(fork.output, 100) == b"again\n"
    assert not running.ended.done(), "what ran before is untouched"


async def test_forks_whose_descriptors_cannot_be_sent_end_as_never_forked(tmp_path: Path) -> None:
    (tmp_path / "spoken.py").write_text(APPLICATION)
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", CROWDED, str(tmp_path)], capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["unforked"] > 0
    assert told["others"] == told["forks"] - told["unforked"]
    assert told["reasons"] == [
        "the zygote could not be asked for a fork: [Errno 109] Too many references: cannot splice"
    ]
    assert told["afterwards"] == 0


async def test_a_zygote_whose_line_is_broken_is_dead_and_what_was_wanted_is_never_forked(nursery: Nursery) -> None:
    running = nursery.fork("sleep")
    await wait_until_async(lambda: running.pid, "it runs")
    nursery.zygote._line.shutdown(socket.SHUT_WR)

    fork = nursery.fork("say", '{"text":"x"}')

    assert "could not be asked" in ((await asyncio.wait_for(fork.ended, 30)).unforked or "")
    assert not nursery.zygote.alive
    await asyncio.wait_for(nursery.zygote.dead, 60)
    assert (await asyncio.wait_for(running.ended, 30)).lost
