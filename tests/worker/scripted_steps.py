"""The steps of scripted jobs, and the journal in which their attempts write."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import ctypes
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from penstock import Cancelled, Context, Fail, NeedsReview, Retry, Snooze
from penstock.runtime.stop_signals import ASK

JOURNAL = os.environ.get("PENSTOCK_TEST_JOURNAL", "")
Script = list[list[Any]]


class Journal:
    """Lines of JSON that attempts append, each with one write, so that no two of them mix."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def write(self, **facts: Any) -> None:
        line = json.dumps({**facts, "pid": os.getpid(), "at": time.clock_gettime(time.CLOCK_BOOTTIME)})
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        os.write(descriptor, f"{line}\n".encode())
        os.close(descriptor)

    def read(self) -> list[dict[str, Any]]:
        text = self.path.read_text() if self.path.exists() else ""
        return [json.loads(line) for line in text.splitlines()]


journal = Journal(JOURNAL)


def note(ctx: Context, what: str, **facts: Any) -> None:
    if JOURNAL:
        journal.write(job=ctx.job_id, fence=ctx.fence, attempt=ctx.attempt, what=what, **facts)


def _say(ctx: Context, text: str, times: int = 1) -> None:
    for _ in range(times):
        print(text)


def _flood(ctx: Context, stream: str, megabytes: int) -> None:
    block = b"x" * 99 + b"\n"
    descriptor = 1 if stream == "stdout" else 2
    for _ in range(megabytes * 10):
        os.write(descriptor, block * 1000)


def _raise(ctx: Context, text: str = "no good") -> None:
    raise ValueError(text)


def _raise_before(ctx: Context, attempt: int, text: str = "not yet") -> None:
    if ctx.attempt < attempt:
        raise ValueError(text)


def _die(ctx: Context, number: int) -> None:
    os.kill(os.getpid(), number)
    time.sleep(60)


def _segfault(ctx: Context) -> None:
    ctypes.string_at(0)


def _crash_before(ctx: Context, fence: int) -> None:
    if ctx.fence < fence:
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)


def _allocate(ctx: Context, megabytes: int, seconds: float = 30) -> None:
    held = [bytearray(1024 * 1024) for _ in range(megabytes)]
    time.sleep(seconds)
    del held


def _allocate_below(ctx: Context, megabytes: int) -> None:
    """Processes below this one hold the memory, none of them very much."""
    each = "import time; x = bytearray(40 * 1024 * 1024); x[::4096] = b'1' * len(x[::4096]); time.sleep(60)"
    below = [subprocess.Popen([sys.executable, "-c", each]) for _ in range(megabytes // 40)]
    for process in below:
        process.wait()


def _spin(ctx: Context, seconds: float) -> None:
    """Use that much of a core, however long a busy machine takes to give it."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def _ignore(ctx: Context, number: int = ASK) -> None:
    signal.signal(number, signal.SIG_IGN)


def _take_default(ctx: Context, number: int) -> None:
    """Let a signal do again what it does by default."""
    signal.signal(number, signal.SIG_DFL)


def _run_program(ctx: Context, seconds: float) -> None:
    """Wait for a program, and fail if that does."""
    program = subprocess.Popen(["sleep", str(seconds)])
    note(ctx, "program", program=program.pid)
    if program.wait() != 0:
        raise ValueError(f"the program ended with {program.returncode}")


def _swallow(ctx: Context, seconds: float) -> None:
    """Go on whatever is raised."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(BaseException):
            time.sleep(end - time.monotonic())


def _c_sleep(ctx: Context, seconds: float) -> None:
    """Sleep in C, where no Python code can interrupt it."""
    libc = ctypes.PyDLL(None)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        libc.usleep(500_000)


def _daemonise(ctx: Context, seconds: float = 60) -> None:
    """Leave a process behind that has gone away from this one as far as it can."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            note(ctx, "daemon")
            os.closerange(0, 100)
            time.sleep(seconds)
        os._exit(0)
    # The process in between is reaped, so that nothing but the daemon is left.
    os.wait()
    while not any(line["what"] == "daemon" and line["job"] == ctx.job_id for line in journal.read()):
        time.sleep(0.01)


def _fork_bomb(ctx: Context, seconds: float = 20) -> None:
    """Fork and fork again; not for ever, so that a bomb that nobody defuses does not take the machine down."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            os.fork()
    os._exit(0)


def _time(ctx: Context, what: str, seconds: float, error: str = "") -> None:
    """Sleep within `ctx.timed`, note how long that took, and raise an error if one is named."""
    begun = time.monotonic()
    with ctx.timed(what, {"rows": 3}):
        inside = time.monotonic()
        time.sleep(seconds)
        slept = time.monotonic() - inside
        if error:
            raise getattr(builtins, error)("no good")
    note(ctx, "timed", least=slept, most=time.monotonic() - begun)


def _progress(ctx: Context, times: int) -> None:
    for number in range(times):
        ctx.progress(number * 100 / max(1, times - 1), f"step {number}")


def _look(ctx: Context) -> None:
    """Write down what this process sees of itself."""
    import resource

    limits = {
        name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}")) for name in ("CORE", "NOFILE", "FSIZE", "CPU")
    }
    status = Path("/proc/self/status").read_text()
    umask = os.umask(0)
    os.umask(umask)
    note(
        ctx,
        "look",
        environ=dict(os.environ),
        environ_file=_environ_file(),
        descriptors={name: _link(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")},
        uid=os.getresuid(),
        groups=os.getgroups(),
        cwd=os.getcwd(),
        mode=os.stat(".").st_mode & 0o777,
        owner=os.stat(".").st_uid,
        umask=umask,
        limits=limits,
        session=os.getsid(0),
        no_new_privileges="NoNewPrivs:\t1" in status,
        oom_score=Path("/proc/self/oom_score_adj").read_text().strip(),
        threads=len(os.listdir("/proc/self/task")),
        sigterm=str(signal.getsignal(signal.SIGINT)),
        parent=os.getppid(),
    )


def _environ_file() -> list[str]:
    try:
        return Path("/proc/self/environ").read_text().strip("\x00").split("\x00")
    except PermissionError:
        return []


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _raise_named(ctx: Context, name: str, text: str = "no good") -> None:
    raise getattr(builtins, name)(text)


def _break_pipe(ctx: Context) -> None:
    """Write where nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    os.write(writing, b"x")


def _grow(ctx: Context, megabytes: int) -> None:
    with open("large", "wb") as file:
        for _ in range(megabytes):
            file.write(b"x" * 1_000_000)


def _mess(ctx: Context, outside: str) -> None:
    """Leave files, folders that may not be written to, and a link out of here."""
    Path("deep/deeper").mkdir(parents=True)
    Path("deep/deeper/file").write_text("x")
    Path("link").symlink_to(outside)
    Path("deep/link").symlink_to(Path(outside).parent)
    Path("deep/closed/inner").mkdir(parents=True)
    Path("deep/closed").chmod(0)
    Path("deep/deeper").chmod(0o500)
    Path("deep").chmod(0o500)
    note(ctx, "mess", cwd=os.getcwd())


def _write_line(ctx: Context, data: str, times: int = 1) -> None:
    """Write to the line to the worker, past all that would keep it in order; the data is in hexadecimal digits."""
    os.write(3, bytes.fromhex(data) * times)


def _forge(ctx: Context, frame: str) -> None:
    body = frame.encode()
    os.write(3, len(body).to_bytes(4, "big") + body)
    time.sleep(30)


def _dice(ctx: Context) -> None:
    import random

    numpy = sys.modules.get("numpy")
    note(ctx, "dice", random=random.random(), numpy=None if numpy is None else numpy.random.random())


def _wait_for_cancel(ctx: Context) -> None:
    """Do nothing until somebody asks to stop, without being told by an exception."""
    with contextlib.suppress(Cancelled):
        while not ctx.cancelled:
            time.sleep(0.01)


def _catch_cancel(ctx: Context, seconds: float) -> None:
    with contextlib.suppress(Cancelled):
        time.sleep(seconds)


def _swallow_cancel_and_raise(ctx: Context, seconds: float) -> None:
    _catch_cancel(ctx, seconds)
    raise ValueError("not that")


def _fail_before(ctx: Context, fence: int, text: str) -> None:
    if ctx.fence < fence:
        raise Fail(text)


def _sleep_before(ctx: Context, fence: int, seconds: float) -> None:
    if ctx.fence < fence:
        time.sleep(seconds)


def _hold_interpreter_before(ctx: Context, fence: int, seconds: int) -> None:
    """Sleep in one call of C that lets no other thread of Python run."""
    if ctx.fence < fence:
        ctypes.PyDLL(None).sleep(seconds)


def _log_exception(ctx: Context, text: str) -> None:
    try:
        raise ValueError(text)
    except ValueError:
        ctx.logger.exception("it went wrong")


def _fork_and_go_on(ctx: Context) -> None:
    """Both processes go on with the script; only one of them is the attempt."""
    if pid := os.fork():
        note(ctx, "forked", child=pid, status=os.waitpid(pid, 0)[1])
    else:
        raise ValueError("in the wrong process")


def _speak_below(ctx: Context) -> None:
    """Log, and then try to report for the job from a fork of its process."""
    if pid := os.fork():
        os.waitpid(pid, 0)
        return
    ctx.logger.info("from below")
    try:
        ctx.progress(50)
    except Exception as error:
        note(ctx, "refused", error=str(error))
    os._exit(0)


def _pool(ctx: Context, processes: int) -> None:
    import multiprocessing

    with multiprocessing.get_context("fork").Pool(processes) as pool:
        note(ctx, "pool", total=sum(pool.map(abs, range(-100, 0))))


def _end_forks(ctx: Context, most: int) -> None:
    """Ask forks of this process to end as soon as they are there, until one does not."""
    for count in range(most):
        if (pid := os.fork()) == 0:
            time.sleep(60)
            os._exit(0)
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + 10
        while not (ended := os.waitpid(pid, os.WNOHANG)[0]) and time.monotonic() < deadline:
            time.sleep(0.0005)
        if not ended:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            note(ctx, "ended", forks=count)
            return
    note(ctx, "ended", forks=most)


def _facts(ctx: Context) -> None:
    note(
        ctx,
        "facts",
        definition=ctx.definition,
        params=dict(ctx.params),
        reference=ctx.reference,
        tags=ctx.tags,
        most=ctx.max_attempts,
        phase=ctx.phase,
        settings=dict(ctx.settings),
        traceparent=ctx.traceparent,
        tracestate=ctx.tracestate,
        review=ctx.review,
    )


def _zombies(ctx: Context, count: int) -> None:
    """Leave dead processes behind that have come down to this one, which does not know of them."""
    for _ in range(count):
        pid = os.fork()
        if pid == 0:
            if os.fork() == 0:
                os._exit(0)
            os._exit(0)
        os.waitpid(pid, 0)
    time.sleep(0.5)


class Strange(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


def _raise_strange(ctx: Context) -> None:
    raise Strange


MADE: dict[str, Callable[[], Any]] = {
    "object": object,
    "set": lambda: {1},
    "wide": lambda: "ä" * 500_000,
    "large": lambda: "x" * (1024 * 1024 + 1),
    "date": lambda: datetime(2026, 1, 2, tzinfo=UTC),
}
WORDS: dict[str, Callable[..., Any]] = {
    "sleep": lambda ctx, seconds: time.sleep(seconds),
    "print": _say,
    "complain": lambda ctx, text: print(text, file=sys.stderr),
    "flood": _flood,
    "raise": _raise,
    "raise_before": _raise_before,
    "exit": lambda ctx, code: sys.exit(code),
    "_exit": lambda ctx, code: os._exit(code),
    "die": _die,
    "segfault": _segfault,
    "crash_before": _crash_before,
    "allocate": _allocate,
    "allocate_below": _allocate_below,
    "spin": _spin,
    "ignore": _ignore,
    "take_default": _take_default,
    "run_program": _run_program,
    "swallow": _swallow,
    "c_sleep": _c_sleep,
    "daemonise": _daemonise,
    "fork_bomb": _fork_bomb,
    "progress": _progress,
    "log": lambda ctx, level, text: getattr(ctx.logger, level)(text),
    "log_more": lambda ctx, text, details: ctx.logger.info(text, extra={"details": details}),
    "log_strange": lambda ctx, text: ctx.logger.info(text, extra={"details": {"what": object}, "duration": "long"}),
    "time": _time,
    "event": lambda ctx, kind, data: ctx.emit_event(kind, data),
    "event_flood": lambda ctx, count, size: [ctx.emit_event("flood", {"n": n, "x": "x" * size}) for n in range(count)],
    "note": lambda ctx, what: note(ctx, what),
    "look": _look,
    "read": lambda ctx, path: Path(path).read_bytes(),
    "check": lambda ctx: ctx.check_cancelled(),
    "retry": lambda ctx, after=None: (_ for _ in ()).throw(Retry("again", after=after)),
    "fail": lambda ctx, text: (_ for _ in ()).throw(Fail(text)),
    "snooze_before": lambda ctx, fence: (_ for _ in ()).throw(Snooze(0)) if ctx.fence < fence else None,
    "review": lambda ctx, text, data: (_ for _ in ()).throw(NeedsReview(text, data)),
    "raise_named": _raise_named,
    "break_pipe": _break_pipe,
    "close_line": lambda ctx: os.closerange(3, 100),
    "remove_home": lambda ctx: shutil.rmtree(os.environ["HOME"]),
    "zombies": _zombies,
    "raise_strange": _raise_strange,
    "fork_and_go_on": _fork_and_go_on,
    "speak_below": _speak_below,
    "pool": _pool,
    "end_forks": _end_forks,
    "facts": _facts,
    "log_exception": _log_exception,
    "write_bytes": lambda ctx, descriptor, data: os.write(descriptor, bytes.fromhex(data)),
    "fail_before": _fail_before,
    "sleep_before": _sleep_before,
    "hold_interpreter_before": _hold_interpreter_before,
    "say_progress": lambda ctx, percent, text: ctx.progress(percent, text),
    "wait_for_cancel": _wait_for_cancel,
    "catch_cancel": _catch_cancel,
    "swallow_cancel_and_raise": _swallow_cancel_and_raise,
    "grow": _grow,
    "mess": _mess,
    "write_line": _write_line,
    "forge": _forge,
    "dice": _dice,
    "use": lambda ctx, name: note(ctx, "used", value=ctx.resources[name]),
    "stdlib_log": lambda ctx, level, text: getattr(logging.getLogger("other"), level)(text),
    "close_output": lambda ctx: sys.stdout.close(),
    "cancel_task": lambda ctx: (_ for _ in ()).throw(asyncio.CancelledError("by myself")),
    "cancel_self": lambda ctx: (_ for _ in ()).throw(Cancelled("by myself")),
    "kill_worker": lambda ctx: os.kill(os.getppid(), signal.SIGKILL),
}
