"""Heartbeats: a thread with a connection of its own that extends the worker's lease while the event loop runs.

A heartbeat extends the lease from the moment when the loop has run last, so a worker whose loop is blocked loses it.
Trust ends at that moment plus lease minus margin, on the boot clock. A late answer does not prolong it, and reclaim
begins only after the whole lease has passed on the store's clock. A second thread watches for the end of trust, because
a request may be under way when it comes.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

from penstock.config.worker_settings import WorkerSettings
from penstock.domain.errors import LeaseLost, PenstockError
from penstock.domain.worker import HeartbeatAnswer
from penstock.runtime.processes import boot_time
from penstock.worker.loop_progress import LoopProgress

_SHORTEST_PAUSE = 0.25
_POLLS = 20
_SHORTEST_PATIENCE = 6.0
"""A busy machine may keep a loop from running for some seconds: that must not end a very short lease."""
_SHORTEST_GRACE = 2.0
_LAST_WORDS_SECONDS = 1.0
EXIT_UNTRUSTED = 75
"""The exit status of a worker that lost its lease while inline jobs ran, or while its loop was blocked."""

log: logging.Logger = logging.getLogger("penstock.worker")


class Heartbeat(threading.Thread):
    """Sends heartbeats until it is stopped or the lease is lost."""

    def __init__(
        self,
        beat: Callable[[float], HeartbeatAnswer],
        settings: WorkerSettings,
        progress: LoopProgress,
        *,
        trusted: Callable[[float, HeartbeatAnswer], None],
        distrusted: Callable[[str], None],
        failed: Callable[[], None],
        unkillable: Callable[[], bool],
    ) -> None:
        """`beat` extends the lease to this number of seconds from now."""
        super().__init__(name="penstock-heartbeat", daemon=True)
        self._beat = beat
        self._settings = settings
        self._progress = progress
        self._trusted = trusted
        self._distrusted = distrusted
        self._failed = failed
        self._unkillable = unkillable
        self._wanted = threading.Event()
        self._stopped = threading.Event()
        self._closed = threading.Event()
        self._warned_at = 0.0
        self._ending = threading.Lock()
        self._watch = threading.Thread(target=self._watch_trust, name="penstock-trust", daemon=True)
        self._answered = False
        self.trusted_until: float = boot_time() + self._bound
        self.beats: int = 0

    def beat_soon(self) -> None:
        """Send a heartbeat soon."""
        self._wanted.set()

    def stop(self) -> None:
        self._closed.set()
        self._stop_threads()

    def end(self, why: str) -> None:
        """Report once that the lease is lost; end the process where inline jobs could not be ended otherwise."""
        with self._ending:
            if self._stopped.is_set():
                return
            if self._unkillable():
                self._exit(f"{why}; jobs run inside of this process")
            self._stop_threads()
        self._distrusted(why)

    def run(self) -> None:
        self._watch.start()
        while not self._stopped.is_set():
            self._wanted.clear()
            begun = boot_time()
            why = self._once()
            if why is not None:
                self.end(why)
                return
            # Extra heartbeats are limited in number, and a store that does not answer is asked only now and then. A
            # slow store is asked again immediately: the lease has to outlast two answers.
            took = boot_time() - begun if self._answered else 0.0
            self._stopped.wait(max(0.0, _SHORTEST_PAUSE - took))
            if self._answered:
                self._wanted.wait(max(0.0, self._settings.heartbeat - max(took, _SHORTEST_PAUSE)))

    def _once(self) -> str | None:
        """Send a heartbeat; the reason if the lease is lost."""
        begun = boot_time()
        blocked = begun - self._progress.at
        if blocked >= self._patience / 2:
            self._warn(blocked)
        # How long ago the loop has run, as far as that shortens the lease.
        proved = begun - max(0.0, blocked - (self._patience - self._bound))
        self._answered = False
        try:
            answer = self._beat(self._settings.lease - (begun - proved))
        except LeaseLost as error:
            return str(error)
        except Exception as error:
            if not isinstance(error, PenstockError):
                log.exception("a heartbeat failed")
            self._failed()
            return f"no heartbeat came through: {error}" if boot_time() >= self.trusted_until else None
        if boot_time() >= self.trusted_until:
            # The answer came too late: the zygote has acted already.
            return "a heartbeat took longer than the trust lasted"
        self._answered = True
        self.trusted_until = proved + self._bound
        self.beats += 1
        self._trusted(self.trusted_until, answer)
        return None

    def _watch_trust(self) -> None:
        while not self._stopped.wait(max(0.0, self.trusted_until - boot_time())):
            if boot_time() >= self.trusted_until:
                blocked = boot_time() - self._progress.at
                self.end(
                    f"the event loop has not run for {blocked:.1f} s"
                    if blocked >= self._patience / 2
                    else "no heartbeat was answered in time"
                )
        if not self._closed.is_set():
            self._end_blocked_process()

    def _end_blocked_process(self) -> None:
        """End the worker's own process if its loop is blocked and does not act on the loss of the lease."""
        lost_at, grace = boot_time(), max(_SHORTEST_GRACE, self._settings.margin)
        # Counted, because a process that was stopped and continued finds the time over before its loop has run.
        for _ in range(_POLLS):
            if self._closed.wait(grace / _POLLS) or self._progress.at > lost_at:
                return
        if self._settings.own_process:
            self._exit("the event loop is blocked")
        self._progress.report(logging.CRITICAL, "the lease is lost and the event loop of this process is blocked")

    def _warn(self, seconds: float) -> None:
        """Log once for each time that the loop is blocked."""
        if self._warned_at != self._progress.at:
            self._warned_at = self._progress.at
            self._progress.report(logging.WARNING, f"the event loop has not run for {seconds:.1f} s")

    def _exit(self, why: str) -> None:
        # The loop may be blocked in writing to the log.
        text = f"the lease is lost: {why}; the worker ends"
        last = threading.Thread(target=self._progress.report, args=(logging.CRITICAL, text), daemon=True)
        last.start()
        last.join(_LAST_WORDS_SECONDS)
        os._exit(EXIT_UNTRUSTED)

    def _stop_threads(self) -> None:
        self._stopped.set()
        self._wanted.set()

    @property
    def _bound(self) -> float:
        """How long a heartbeat may be unanswered."""
        return self._settings.lease - self._settings.margin

    @property
    def _patience(self) -> float:
        """How long the loop may be blocked."""
        return max(self._bound, _SHORTEST_PATIENCE)
