"""The worker's end of a zygote: starts it, sends it requests, reads its reports and those of its children."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.domain.definition import Definition
from penstock.domain.errors import InvalidDefinition
from penstock.domain.schedule.schedule import Schedule
from penstock.isolation.preload import definition_from, schedule_from
from penstock.isolation.wire import FORKS_AT_ONCE, MAX_ANSWER, Frame, Unpacker, pack, pack_text
from penstock.runtime import processes
from penstock.runtime.service import log

_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_CHUNK = 65_536
_DEATH_SECONDS = 5.0
LOAD_SECONDS = 300.0
_SEND_MILLISECONDS = 50
_SEND_SECONDS = 5.0
"""Seconds for which a zygote may read nothing while its line is full."""

_TOO_MUCH = frozenset({errno.ETOOMANYREFS, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_CLOSED = (
    "The application opened descriptors that jobs cannot share while it was imported: %s. They are closed in jobs. "
    "Open them inside of functions, or as a resource: app.resource(...)."
)

_starting = threading.Lock()
_zygotes: set[int] = set()
"""The zygotes among the children of this process."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a child ended."""

    code: int | None = None
    signal: int | None = None
    cpu_seconds: float | None = None
    peak_memory: int | None = None
    untrusted: bool = False
    """The zygote killed it, because the worker could not prove its lease."""
    lost: bool = False
    """Its zygote died, and the child with it."""
    unforked: str | None = None
    """Why no process was forked."""


class Fork:
    """A child of the zygote, with the worker's ends of its line and of its output."""

    def __init__(self, number: int, line: socket.socket, output: int, errors: int) -> None:
        self.number = number
        self.line = line
        self.output = output
        self.errors = errors
        self.pid: int | None = None
        self.ended: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()


class ZygoteProcess:
    """A running zygote; `definitions` are those that it has loaded."""

    def __init__(self, process: subprocess.Popen[bytes], line: socket.socket, loaded: Mapping[str, Any]) -> None:
        self._process = process
        self._line = line
        self._lock = threading.Lock()
        self._frames = Unpacker()
        self._forks: dict[int, Fork] = {}
        self._numbers = 0
        self._requested: list[tuple[int, list[int]]] = []
        """Forks that are not requested from the zygote yet, with the descriptors of each."""
        self._loop = asyncio.get_running_loop()
        self._leaving = False
        self._gone = False
        """Its line is closed."""
        self._broken: OSError | None = None
        """Why the line to it is broken, where the zygote has not closed it."""
        self.definitions: list[Definition] = [definition_from(each) for each in loaded["definitions"]]
        self.schedules: list[Schedule] = [schedule_from(each) for each in loaded["schedules"]]
        self.address: Mapping[str, Any] | None = loaded["address"]
        self.extras: Mapping[str, Any] = loaded["extras"]
        self.memory: int = loaded["memory"]
        """Its own memory, with everything loaded."""
        self.dead: asyncio.Future[None] = self._loop.create_future()
        self.signalled: asyncio.Future[None] = self._loop.create_future()
        """Done once it has got a signal that stops workers."""
        self._loop.add_reader(line.fileno(), self._read)

    @staticmethod
    async def start(
        app: str, folder: str, *, call: Mapping[str, Any] | None = None, allow_threads: bool = False
    ) -> ZygoteProcess:
        """Start a zygote that loads an application; `InvalidDefinition` has the reason when it cannot."""
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "penstock.isolation.zygote_start", str(theirs.fileno())]
        process = await asyncio.to_thread(_start_process, command, theirs.fileno(), folder)
        theirs.close()
        ours.setblocking(False)
        try:
            loop = asyncio.get_running_loop()
            order = {"app": app, "folder": folder, "call": call, "allow_threads": allow_threads}
            await loop.sock_sendall(ours, pack(order))
            loaded = await asyncio.wait_for(_first_frame(ours), LOAD_SECONDS)
            if loaded is None or loaded["say"] != "loaded":
                raise InvalidDefinition(_not_loaded(app, loaded))
        except BaseException:
            ours.close()
            process.kill()
            await asyncio.to_thread(process.wait)
            _zygotes.discard(process.pid)
            raise
        if loaded["closed"]:
            log.warning(_CLOSED, ", ".join(loaded["closed"]))
        return ZygoteProcess(process, ours, loaded)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def forks(self) -> int:
        """How many forks were requested."""
        return self._numbers

    @property
    def alive(self) -> bool:
        return not self._gone and self._broken is None and not self.dead.done()

    def fork(self, first: Mapping[str, Any]) -> Fork:
        """Fork a child; `first` is the first frame on its line."""
        self._numbers += 1
        ours, line = socket.socketpair()
        opened = [line.detach()]
        try:
            opened += os.pipe2(os.O_CLOEXEC)
            opened += os.pipe2(os.O_CLOEXEC)
        except OSError:
            _close_all(opened)
            ours.close()
            raise
        their_line, output, their_output, errors, their_errors = opened
        theirs = [their_line, their_output, their_errors]
        ours.setblocking(False)
        for end in (output, errors):
            os.set_blocking(end, False)
        fork = Fork(self._numbers, ours, output, errors)
        if self._gone:
            fork.ended.set_result(Exit(unforked="the zygote has died"))
            _close_all(theirs)
        else:
            self._forks[fork.number] = fork
            if not self._requested:
                self._loop.call_soon(self._request_forks)
            self._requested.append((fork.number, theirs))
        data = pack(first, MAX_ANSWER)
        with contextlib.suppress(BlockingIOError, ConnectionError):
            data = data[ours.send(data) :]
        if data:
            sending = self._loop.create_task(_send_rest(ours, data))
            fork.ended.add_done_callback(lambda _: sending.cancel())
        return fork

    def _request_forks(self) -> None:
        """Request all forks of this moment together: the zygote copies fewer pages between them.

        Forks that cannot be requested end as never forked."""
        requested, self._requested = self._requested, []
        for begin in range(0, len(requested), FORKS_AT_ONCE):
            some = requested[begin : begin + FORKS_AT_ONCE]
            descriptors = [each for _, theirs in some for each in theirs]
            numbers = ",".join(str(number) for number, _ in some)
            problem = self._send(pack_text(f'{{"do":"fork","numbers":[{numbers}]}}'), descriptors)
            _close_all(descriptors)
            if problem is not None:
                for fork in [self._forks[number] for number, _ in some if number in self._forks]:
                    self._end(fork, Exit(unforked=f"the zygote could not be asked for a fork: {problem}"))

    def signal(self, fork: Fork, number: int) -> None:
        self._request_forks()
        self._send(pack({"do": "signal", "number": fork.number, "signal": number}))

    def kill(self, fork: Fork) -> None:
        self._request_forks()
        self._send(pack({"do": "kill", "number": fork.number}))

    def trust(self, until: float) -> None:
        """Send until when, on the boot clock, attempts may run; from any thread."""
        self._send(pack({"do": "trust", "until": until}))

    def leave(self) -> None:
        """Let the zygote exit once its children have ended."""
        self._leaving = True
        self._request_forks()
        self._send(pack({"do": "leave"}))

    async def close(self) -> None:
        """End the zygote and all processes below it."""
        if self._gone:
            await self.dead
            return
        self._request_forks()
        self._gone = True
        self._loop.remove_reader(self._line.fileno())
        self._line.close()
        await asyncio.to_thread(self._wait_for_exit)
        _zygotes.discard(self.pid)
        if not self.dead.done():
            self.dead.set_result(None)
        for fork in list(self._forks.values()):
            self._end(fork, Exit(lost=True))

    def _send(self, data: bytes, descriptors: list[int] | None = None) -> OSError | None:
        """Send bytes to the zygote; the error when that failed, which breaks the line."""
        # The lock is held for a moment only: heartbeats send trust from their own thread.
        with self._lock:
            if self._gone or self._broken is not None:
                return self._broken or BrokenPipeError("the zygote has died")
            deadline = processes.boot_time() + _SEND_SECONDS
            while data:
                try:
                    sent = socket.send_fds(self._line, [data], descriptors) if descriptors else self._line.send(data)
                except OSError as error:
                    if isinstance(error, BlockingIOError) and processes.boot_time() < deadline:
                        room = select.poll()
                        room.register(self._line, select.POLLOUT)
                        room.poll(_SEND_MILLISECONDS)
                        continue
                    if descriptors and error.errno in _TOO_MUCH:
                        # Nothing was sent, and the next request may succeed.
                        return error
                    self._broken = error
                    with contextlib.suppress(RuntimeError):  # the loop is closed already
                        self._loop.call_soon_threadsafe(self._give_up, error)
                    return error
                data, descriptors = data[sent:], None
        return None

    def _give_up(self, error: OSError) -> None:
        """Kill the zygote, because its line is broken; its death ends all that it has forked."""
        if self._leaving and isinstance(error, BrokenPipeError):
            return  # It has closed its line after a request to leave.
        if not self._gone and self._process.poll() is None:
            log.error("the zygote %d is killed: its line is broken (%s)", self.pid, error)
            self._process.kill()

    def _read(self) -> None:
        try:
            data = self._line.recv(_CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._gone = True
            self._loop.remove_reader(self._line.fileno())
            self._loop.create_task(self._after_death())
            return
        for frame in self._frames.feed(data):
            self._handle(frame)

    def _handle(self, frame: Frame) -> None:
        if frame["say"] == "signalled":
            self.signalled.set_result(None)
            return
        fork = self._forks.get(frame["number"])
        if fork is None:
            return
        match frame["say"]:
            case "forked":
                fork.pid = frame["pid"]
            case "exited":
                self._end(fork, _exit(frame))
            case "unforked":
                self._end(fork, Exit(unforked=frame["error"]))

    def _end(self, fork: Fork, how: Exit) -> None:
        self._forks.pop(fork.number, None)
        if not fork.ended.done():
            fork.ended.set_result(how)

    async def _after_death(self) -> None:
        """The zygote has died: wait until its children are dead too, then report their ends."""
        self._line.close()
        await asyncio.to_thread(self._wait_for_exit)
        _zygotes.discard(self.pid)
        pids = [fork.pid for fork in self._forks.values() if fork.pid is not None]
        await asyncio.to_thread(_wait_for, pids)
        for fork in list(self._forks.values()):
            self._end(fork, Exit(lost=True))
        if not self.dead.done():
            self.dead.set_result(None)

    def _wait_for_exit(self) -> None:
        """Wait for the end of the process; kill one that goes on after it has closed its line."""
        try:
            self._process.wait(_DEATH_SECONDS * 3)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def sweep(known: set[int]) -> None:
    """Kill and reap children of this process that are neither known nor zygotes."""
    with _starting:
        orphans = [pid for pid in processes.children(os.getpid()) if pid not in known and pid not in _zygotes]
    if orphans:
        processes.kill_tree(orphans)
        _wait_for(orphans)


def _start_process(command: list[str], line: int, folder: str) -> subprocess.Popen[bytes]:
    """Start a zygote under the lock of `sweep`, which must not take it for an orphan."""
    environment = {**dict.fromkeys(_ONE_THREAD, "1"), **os.environ}
    with _starting:
        process = subprocess.Popen(
            command, pass_fds=[line], stdin=subprocess.DEVNULL, start_new_session=True, env=environment, cwd=folder
        )
        _zygotes.add(process.pid)
    return process


def _close_all(descriptors: Iterable[int]) -> None:
    for each in descriptors:
        os.close(each)


async def _first_frame(line: socket.socket) -> Frame | None:
    unpacker, loop = Unpacker(), asyncio.get_running_loop()
    while True:
        data = await loop.sock_recv(line, _CHUNK)
        if not data:
            return None
        frames = unpacker.feed(data)
        if frames:
            return frames[0]


async def _send_rest(line: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        await asyncio.get_running_loop().sock_sendall(line, data)


def _not_loaded(app: str, answer: Frame | None) -> str:
    if answer is None:
        return f"The process that loads {app!r} ended without an answer; its output has the reason."
    trace = f"\n{answer['traceback']}" if answer.get("traceback") else ""
    return f"{app!r} cannot be loaded: {answer['error']}{trace}"


def _exit(frame: Frame) -> Exit:
    status = frame["status"]
    return Exit(
        code=os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
        cpu_seconds=frame["cpu"],
        peak_memory=frame["memory"],
        untrusted=frame["untrusted"],
    )


def _wait_for(pids: list[int]) -> None:
    """Wait until these processes are gone: reaped if they have become ours, else without an entry in /proc."""
    deadline = processes.boot_time() + _DEATH_SECONDS
    left = set(pids)
    while left and processes.boot_time() < deadline:
        for pid in list(left):
            try:
                if os.waitpid(pid, os.WNOHANG)[0]:
                    left.discard(pid)
            except ChildProcessError:
                if not os.path.exists(f"/proc/{pid}"):
                    left.discard(pid)
        if left:
            time.sleep(0.005)


FrameHandler = Callable[[Frame], None]


class FrameReader:
    """Reads the frames of a child; invalid ones end the attempt, not the worker."""

    def __init__(self, line: socket.socket, handle: FrameHandler, broken: Callable[[str], None]) -> None:
        self._line = line
        self._handle = handle
        self._broken = broken
        self._frames = Unpacker()
        self._loop = asyncio.get_running_loop()
        self._open = True
        self._loop.add_reader(line.fileno(), self._read)

    def close(self) -> bool:
        """Read the rest and close the line; True when it ended in the middle of a frame."""
        while self._open and self._read():
            pass
        self._stop()
        self._line.close()
        return self._frames.waiting > 0

    def _read(self) -> bool:
        try:
            data = self._line.recv(_CHUNK)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data = b""
        if not data:
            self._stop()
            return False
        try:
            for frame in self._frames.feed(data):
                self._handle(frame)
        except Exception as error:
            self._stop()
            self._broken(f"{type(error).__name__}: {error}")
            return False
        return True

    def _stop(self) -> None:
        if self._open:
            self._open = False
            self._loop.remove_reader(self._line.fileno())
