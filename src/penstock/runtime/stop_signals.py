"""The signals that stop a worker, also when they reach its whole process tree, and what endings they explain.

systemd sends SIGTERM to every process of a service, a terminal sends SIGINT to a group. Only the worker acts on them:
zygote and attempts ignore them, and an attempt is asked to stop by a signal that nothing else sends.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable

from penstock.domain.outcome import Cause, Outcome
from penstock.domain.states import Trigger

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Each of them stops a worker in good order."""

ASK = int(signal.SIGRTMIN) + 6
"""The signal by which a worker has its zygote ask an attempt to stop."""

_OWN_ENDINGS = (Cause.RAISED, Cause.EXITED, Cause.SIGNALLED)
"""The causes of endings that the worker did not bring about."""

_NOTICE_SECONDS = 0.1
"""How long the zygote may take to report a signal that has ended something in an attempt already."""

_STOP_SECONDS = 2.0
"""How long the worker's own stop may come after the signal has reached other processes of its tree."""


def handle(stop: Callable[[], object]) -> None:
    """Call `stop` for each stop signal in the running loop; a SIGINT or SIGHUP that was ignored at the start, as in
    `nohup ... &`, stays ignored."""
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        if number == signal.SIGTERM or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, stop)


def ignore() -> None:
    """Ignore the stop signals in this process and its forks, but not in programs that they start."""
    for number in STOP_SIGNALS:
        signal.signal(number, _ignore)


def _ignore(number: int, frame: object) -> None:
    """SIG_IGN would be inherited by programs that a job starts; a handler is not."""


async def judge(outcome: Outcome, signalled: asyncio.Future[None], stopping: asyncio.Event) -> Outcome:
    """The outcome of an attempt, or a release when it failed because a stop signal has reached the process tree.

    A program that a handler had started may have died of that signal, and the handler have failed for want of it.
    `signalled`: the zygote has got such a signal. Signals come one after the other, so this waits for those missing.
    """
    if outcome.trigger is not Trigger.FAIL or outcome.cause not in _OWN_ENDINGS:
        return outcome
    if outcome.usage.signal not in STOP_SIGNALS:
        await asyncio.wait([signalled], timeout=_NOTICE_SECONDS)
        if not signalled.done():
            return outcome
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_STOP_SECONDS):
            await stopping.wait()
    return Outcome(Trigger.RELEASE, Cause.RELEASED, usage=outcome.usage) if stopping.is_set() else outcome


class StopRequest:
    """Whether a worker has been asked to stop: once to drain, twice to kill what runs."""

    def __init__(self) -> None:
        self.event: asyncio.Event = asyncio.Event()
        self.immediate: asyncio.Event = asyncio.Event()
        """Set by a second request: the drain is skipped."""

    @property
    def requested(self) -> bool:
        return self.event.is_set()

    def make(self) -> None:
        if self.event.is_set():
            self.immediate.set()
        self.event.set()
