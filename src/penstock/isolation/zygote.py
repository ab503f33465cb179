"""The zygote: a small process that has the user's code loaded and forks a child for each attempt.

It is started by exec, has one thread and no socket but its own. It is the only parent of attempts, so only it may
signal them by process id. It is also the watchdog of a frozen supervisor: when the trust of the worker ends, it kills.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import select
import signal
import socket
import struct
import sys
import traceback
from collections import deque
from dataclasses import dataclass
from typing import Any

from penstock.domain import payload
from penstock.domain.errors import PenstockError
from penstock.execution import handlers
from penstock.execution.handlers import Application
from penstock.isolation import child, confinement, large_pages, preload
from penstock.isolation.opened_files import OpenedFiles
from penstock.isolation.rehearsal import rehearse
from penstock.isolation.wire import FORKS_AT_ONCE, Frame, Unpacker, pack, pack_text
from penstock.runtime import processes, stop_signals
from penstock.runtime.own_frames import is_own

_SWEEP_SECONDS = 0.005
_ANNOUNCE_SECONDS = 0.02
_SWEEP_LONGEST = 10.0
_ROOM = socket.CMSG_LEN(3 * FORKS_AT_ONCE * struct.calcsize("i"))
_CHUNK = 65_536
_STOP_SIGNALS = frozenset(map(int, stop_signals.STOP_SIGNALS))


@dataclass(slots=True)
class _Attempt:
    number: int
    pid: int
    forked_at: float
    untrusted: bool = False


class Zygote:
    """Forks, signals and reaps attempts at the request of the worker."""

    def __init__(self, line: socket.socket, app: Application, files: OpenedFiles) -> None:
        self._line = line
        self._app = app
        self._pid = os.getpid()
        self._children = processes.Children(self._pid)
        self._frames = Unpacker()
        self._descriptors: deque[list[int]] = deque()
        """The descriptors that came with each fork request."""
        self._attempts: dict[int, _Attempt] = {}
        self._by_number: dict[int, _Attempt] = {}
        self._unannounced: dict[int, _Attempt] = {}
        self._ended: list[bytes] = []
        self._ended_at = 0.0
        self._trusted_until = float("inf")
        self._trusted = True
        self._leaving = False
        self._signalled = False
        self._handles = {(each.definition.key, each.definition.version): each for each in app.definitions.declared}
        self._wake, wake = socket.socketpair()
        self._wake.setblocking(False)
        wake.setblocking(False)
        self._waker = wake
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._inherited = confinement.Inherited.find(files)

    def serve(self) -> None:
        """Serve requests until the worker has gone, or until it has asked to leave and no attempt is left."""
        poll = select.poll()
        line, wake = self._line.fileno(), self._wake.fileno()
        poll.register(line, select.POLLIN)
        poll.register(wake, select.POLLIN)
        # After each fork every page that is written has to be copied, so only necessary work is done here.
        while not (self._leaving and not self._attempts and not self._ended):
            ready = dict(poll.poll(self._patience()))
            if line in ready and not self._receive():
                return
            if processes.boot_time() >= self._trusted_until:
                self._kill_untrusted()
            if wake in ready:
                self._handle_signals(os.read(wake, 4096))
            if self._ended:
                self._report()
            if self._unannounced:
                self._announce()

    def _patience(self) -> float | None:
        """Milliseconds until there is something to do without a request."""
        if self._ended:
            return _SWEEP_SECONDS * 1000
        if self._unannounced:
            return _ANNOUNCE_SECONDS * 1000
        if self._trusted_until == float("inf") or not self._attempts:
            return None
        return max(0.0, self._trusted_until - processes.boot_time()) * 1000 + 1

    def _receive(self) -> bool:
        """Read requests of the worker; False when it has gone."""
        try:
            data, descriptors, flags, _ = self._line.recvmsg(_CHUNK, _ROOM)
        except ConnectionError:
            # The worker was killed before it had read everything.
            return False
        if not data:
            return False
        if descriptors or flags & socket.MSG_CTRUNC:
            self._descriptors.append([each for _, _, numbers in descriptors for each in memoryview(numbers).cast("i")])
        for frame in self._frames.feed(data):
            self._execute(frame)
        return True

    def _execute(self, frame: Frame) -> None:
        match frame["do"]:
            case "fork":
                self._fork(frame["numbers"])
            case "trust":
                self._trusted_until = frame["until"]
                self._trusted = frame["until"] > processes.boot_time()
            case "signal":
                attempt = self._by_number.get(frame["number"])
                if attempt is not None:
                    os.kill(attempt.pid, frame["signal"])
            case "kill":
                attempt = self._by_number.get(frame["number"])
                if attempt is not None:
                    processes.kill_tree([attempt.pid])
            case "leave":
                self._leaving = True

    def _fork(self, numbers: list[int]) -> None:
        """Fork a child for each of these attempts before anything is recorded: pages that are written between two forks
        have to be copied."""
        given = self._descriptors.popleft() if self._descriptors else []
        pids: list[int | OSError] = [0] * len(numbers)
        for place in range(len(numbers)):
            try:
                if len(given) < 3 * len(numbers):
                    raise OSError("its zygote cannot open more files, and has none for the line and the output")
                if not self._trusted:
                    raise OSError("the lease of the worker cannot be proved")
                forked = os.fork()
            except OSError as error:
                pids[place] = error
                continue
            if forked == 0:
                line, output, errors = given[3 * place : 3 * place + 3]
                child.run_child(self._app, self._handles, (line, output, errors), self._pid, self._inherited)
            pids[place] = forked
        for fd in given:
            os.close(fd)
        now = processes.boot_time()
        for number, pid in zip(numbers, pids, strict=True):
            if isinstance(pid, OSError):
                self._send(pack({"say": "unforked", "number": number, "error": str(pid)}))
                continue
            attempt = _Attempt(number, pid, now)
            self._attempts[pid] = self._by_number[number] = self._unannounced[pid] = attempt

    def _handle_signals(self, signals: bytes) -> None:
        """Act on signals, each a byte."""
        if not self._signalled and not _STOP_SIGNALS.isdisjoint(signals):
            # Only the worker stops because of it. From now on it may explain how attempts end.
            self._signalled = True
            self._send(pack({"say": "signalled"}))
        self._reap()

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            attempt = self._attempts.pop(pid, None)
            self._unannounced.pop(pid, None)
            if attempt is not None:
                del self._by_number[attempt.number]
                self._ended_at = self._ended_at or processes.boot_time()
                self._ended.append(_report(attempt, status, usage))

    def _report(self) -> None:
        """Report ended attempts, once no process that they had started is alive."""
        orphans = set(self._children.look()).difference(self._attempts)
        if orphans:
            processes.kill_tree(orphans)
            if processes.boot_time() < self._ended_at + _SWEEP_LONGEST:
                return
        ended, self._ended, self._ended_at = self._ended, [], 0.0
        self._send(b"".join(ended))

    def _announce(self) -> None:
        """Report the process ids of attempts; most attempts end before the worker needs them."""
        now = processes.boot_time()
        for attempt in list(self._unannounced.values()):
            if now - attempt.forked_at < _ANNOUNCE_SECONDS:
                return
            del self._unannounced[attempt.pid]
            self._send(pack({"say": "forked", "number": attempt.number, "pid": attempt.pid}))

    def _kill_untrusted(self) -> None:
        """Kill all attempts, because the worker cannot prove its lease any more."""
        self._trusted_until = float("inf")
        self._trusted = False
        for attempt in self._attempts.values():
            attempt.untrusted = True
        processes.kill_tree(self._attempts)

    def kill_all(self) -> None:
        """Kill all processes below this one, within bounded time: none may outlive it."""
        deadline = processes.boot_time() + _SWEEP_LONGEST
        while processes.boot_time() < deadline:
            left = processes.children(self._pid)
            if not left:
                return
            processes.kill_tree(left)
            with contextlib.suppress(ChildProcessError):
                while os.wait4(-1, os.WNOHANG)[0]:
                    pass
            select.select([], [], [], _SWEEP_SECONDS)

    def _send(self, data: bytes) -> None:
        try:
            self._line.sendall(data)
        except ConnectionError:
            # The worker has gone, which the next read finds as well.
            return


def main(room: list[bytes]) -> None:
    """Load the application that the first frame names, report its definitions, then serve.

    `room` is memory that is freed for the loaded code."""
    line = socket.socket(fileno=int(sys.argv[1]))
    line.set_inheritable(False)
    unpacker = Unpacker()
    orders: list[Frame] = []
    while not orders:
        data = line.recv(_CHUNK)
        if not data:
            return
        orders = unpacker.feed(data)
    order = orders[0]
    processes.adopt_orphans()
    app: Application | None = None
    confinement.reserve_descriptors()
    try:
        with preload.watched() as found:
            app = handlers.load(order["app"], order["folder"], order.get("call"))
        found.refuse(order.get("allow_threads", False))
        # From here on it ends with its line to the worker. Before, a signal ends it, even during a long import.
        stop_signals.ignore()
        # Measured here: the worker may not look into this process where it is not root.
        memory, closed = processes.memory([os.getpid()]), found.files.closed
        line.sendall(pack({"say": "loaded", "memory": memory, "closed": closed, **preload.description(app)}))
    except BaseException as error:
        line.sendall(pack({"say": "failed", "error": _problem(error), "traceback": _traceback(error)}))
        return
    confinement.prepare([name for each in app.definitions.declared for name in each.definition.visible])
    child.prepare_output()
    payload.prepare()
    room.clear()
    gc.collect()
    processes.give_back_memory()
    gc.freeze()
    gc.disable()
    zygote = Zygote(line, app, found.files)
    rehearse(app)
    large_pages.gather()
    try:
        zygote.serve()
    finally:
        zygote.kill_all()


def _report(attempt: _Attempt, status: int, usage: resource.struct_rusage) -> bytes:
    # Formatted by hand: an encoder takes more steps than everything else that is done for an ended attempt.
    cpu, memory = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
    untrusted = "true" if attempt.untrusted else "false"
    return pack_text(
        f'{{"say":"exited","number":{attempt.number},"status":{status},"cpu":{cpu:.6f},"memory":{memory},'
        f'"untrusted":{untrusted}}}'
    )


def _problem(error: BaseException) -> str:
    return str(error) if isinstance(error, PenstockError) else f"{type(error).__name__}: {error}"


def _traceback(error: BaseException) -> str:
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not is_own(each.filename)]
    shown: list[Any] = [each for each in frames if "importlib" not in each.filename]
    return "".join(traceback.format_list(shown))
