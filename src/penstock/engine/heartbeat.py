"""Heartbeats: a thread with a connection of its own that keeps the worker's lease, whatever the loop is doing.

Trust ends at the start of the last answered request plus lease minus margin, on the boot clock. A late answer does
not prolong it, and reclaim begins only after the whole lease has passed on the store's clock. A second thread watches
for that moment, because a request may be under way when it comes.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

from penstock.core.errors import LeaseLost, PenstockError
from penstock.core.worker import Pulse
from penstock.engine.processes import boot_time
from penstock.engine.settings import WorkerSettings

_SHORTEST_PAUSE = 0.25
EXIT_UNTRUSTED = 75
"""The exit status of a worker that had to end because nothing else would have ended its inline jobs."""

log = logging.getLogger("penstock.engine")


class Heartbeat(threading.Thread):
    """Beats until it is stopped or the lease is gone."""

    def __init__(
        self,
        beat: Callable[[], Pulse],
        settings: WorkerSettings,
        *,
        trusted: Callable[[float, Pulse], None],
        distrusted: Callable[[str], None],
        failed: Callable[[], None],
        unkillable: Callable[[], bool],
    ) -> None:
        super().__init__(name="penstock-heartbeat", daemon=True)
        self._beat = beat
        self._settings = settings
        self._trusted = trusted
        self._distrusted = distrusted
        self._failed = failed
        self._unkillable = unkillable
        self._poked = threading.Event()
        self._stopped = threading.Event()
        self._ending = threading.Lock()
        self._watch = threading.Thread(target=self._watch_trust, name="penstock-trust", daemon=True)
        self._answered = False
        self.trusted_until = boot_time() + settings.lease - settings.margin
        self.beats = 0

    def poke(self) -> None:
        """Beat soon: there may be something to learn."""
        self._poked.set()

    def stop(self) -> None:
        self._stopped.set()
        self._poked.set()

    def end(self, why: str) -> None:
        """The lease is lost: say so, once; where nothing else would end what runs, end the process."""
        with self._ending:
            if self._stopped.is_set():
                return
            if self._unkillable():
                log.critical("the lease is lost (%s) and jobs run inside of this process: it ends", why)
                os._exit(EXIT_UNTRUSTED)
            self.stop()
        self._distrusted(why)

    def run(self) -> None:
        self._watch.start()
        while not self._stopped.is_set():
            self._poked.clear()
            why = self._once()
            if why is not None:
                self.end(why)
                return
            # Pokes are answered, but not in a stampede; and a store that does not answer is not asked all the time.
            self._stopped.wait(_SHORTEST_PAUSE)
            if self._answered:
                self._poked.wait(max(0.0, self._settings.heartbeat - _SHORTEST_PAUSE))

    def _once(self) -> str | None:
        """Beat; why the lease is lost, if it is."""
        begun = boot_time()
        self._answered = False
        try:
            pulse = self._beat()
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
        self.trusted_until = begun + self._settings.lease - self._settings.margin
        self.beats += 1
        self._trusted(self.trusted_until, pulse)
        return None

    def _watch_trust(self) -> None:
        while not self._stopped.wait(max(0.0, self.trusted_until - boot_time())):
            if boot_time() >= self.trusted_until:
                self.end("no heartbeat was answered in time")
