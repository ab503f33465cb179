"""An application whose jobs attack their worker, its zygote, its store and each other, and say what they could do."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock import Context, Penstock

app = Penstock(os.environ.get("PENSTOCK_TEST_STORE", "sqlite://"))

DONE = "done"
_QUICK: dict[str, Any] = {"backoff": 0, "max_attempts": 1, "cancel_grace": 1, "timeout": 60}
_PTRACE_ATTACH = 16
_PTRACE_DETACH = 17
_PIDFD_OPEN, _PIDFD_GETFD = 434, 438
_WRITABLE_FILES = ("oom_score_adj", "coredump_filter", "comm")


def attempt(call: Callable[[], object]) -> str:
    """What the system says to a call: "done", or the name of its refusal."""
    try:
        call()
    except OSError as error:
        return type(error).__name__ if error.errno is None else errno_name(error.errno)
    return DONE


def errno_name(number: int) -> str:
    import errno

    return errno.errorcode.get(number, str(number))


def worker_and_zygote() -> dict[str, int]:
    zygote = os.getppid()
    facts = Path(f"/proc/{zygote}/stat").read_text().rpartition(")")[2].split()
    return {"worker": int(facts[1]), "zygote": zygote}


def read(path: str) -> Callable[[], object]:
    def call() -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.read(descriptor, 1)
        finally:
            os.close(descriptor)

    return call


def checked(call: Callable[..., int], *given: Any) -> Callable[[], int]:
    """A call of the C library that raises when it fails."""

    def checking() -> int:
        status = call(*given)
        if status < 0:
            raise OSError(ctypes.get_errno(), "refused")
        return status

    return checking


def inspect(pid: int) -> dict[str, str]:
    """Try each way to look into a process that the kernel has."""
    libc = ctypes.CDLL(None, use_errno=True)
    found = {name: attempt(read(f"/proc/{pid}/{name}")) for name in ("environ", "maps", "auxv", "smaps_rollup")}
    found["mem"] = attempt(lambda: os.close(os.open(f"/proc/{pid}/mem", os.O_RDWR)))
    for name in ("cwd", "root", "exe", "fd/0", "fd/3"):
        found[name] = attempt(lambda name=name: os.readlink(f"/proc/{pid}/{name}"))  # type: ignore[misc]
    for number in range(4):
        path = f"/proc/{pid}/fd/{number}"
        found[f"open fd/{number}"] = attempt(lambda path=path: os.close(os.open(path, os.O_WRONLY)))  # type: ignore[misc]
    pidfd = libc.syscall(_PIDFD_OPEN, pid, 0)
    found["pidfd_getfd"] = attempt(checked(libc.syscall, _PIDFD_GETFD, pidfd, 3, 0))
    local = ctypes.create_string_buffer(8)
    vector = struct.pack("NN", ctypes.addressof(local), 8)
    found["process_vm_readv"] = attempt(checked(libc.process_vm_readv, pid, vector, 1, struct.pack("NN", 0, 8), 1, 0))
    found["ptrace"] = attempt(checked(libc.ptrace, _PTRACE_ATTACH, pid, 0, 0))
    if found["ptrace"] == DONE:
        os.waitpid(pid, 0x40000000)  # __WALL
        libc.ptrace(_PTRACE_DETACH, pid, 0, 0)
    return found


def _inspect(ctx: Context, pid: int | None = None) -> Any:
    if pid is not None:
        return inspect(pid)
    return {name: inspect(each) for name, each in worker_and_zygote().items()}


def _status(ctx: Context) -> dict[str, str]:
    lines = Path("/proc/self/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _open(ctx: Context, *paths: str) -> dict[str, str]:
    return {path: attempt(read(path) if os.path.isfile(path) else lambda path=path: os.listdir(path)) for path in paths}  # type: ignore[misc]


def _signal(ctx: Context, number: int, pid: int | None = None) -> dict[str, str]:
    """Send a signal, 0 for the question whether it could be sent."""
    targets = worker_and_zygote() if pid is None else {"job": pid}
    return {name: attempt(lambda each=each: os.kill(each, number)) for name, each in targets.items()}  # type: ignore[misc]


def _end_zygote(ctx: Context, number: int, times: int) -> str:
    """Do so in the first attempts of this job."""
    if ctx.fence <= times:
        os.kill(os.getppid(), number)
        time.sleep(60)
    return "still here"


def _privileged(ctx: Context) -> dict[str, str]:
    """What only capabilities allow."""
    libc = ctypes.CDLL(None, use_errno=True)
    Path("own").touch()
    return {
        "chown": attempt(lambda: os.chown("own", 1, 1)),
        "mount": attempt(checked(libc.mount, b"none", b".", b"tmpfs", 0, None)),
        "setuid": attempt(lambda: os.setuid(1)),
        "setgroups": attempt(lambda: os.setgroups([0])),
        "chroot": attempt(lambda: os.chroot(".")),
        "nice": attempt(lambda: os.nice(-5)),
        "port": attempt(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)),
        "hostname": attempt(lambda: socket.sethostname(socket.gethostname())),
    }


def _forge(ctx: Context, wait: bool, *frames: str) -> str:
    """Write frames past all that would keep the line in order; each is its whole data in hexadecimal digits."""
    for each in frames:
        data = bytes.fromhex(each)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while data:
                data = data[os.write(3, data) :]
    if wait:
        time.sleep(60)
    return "still here"


def _ask_without_end(ctx: Context, megabytes: int) -> str:
    """Ask again and again and read no answer."""
    body = b'{"say":"ask","ask":"read","job_id":"%s"}' % (b"x" * 60_000)
    frame = len(body).to_bytes(4, "big") + body
    for _ in range(megabytes * 16):
        data = frame
        while data:
            data = data[os.write(3, data) :]
    return "still here"


def _pass_descriptors(ctx: Context, times: int) -> str:
    """Send open descriptors to the worker."""
    frame = b'{"say":"progress","percent":1,"message":null,"phase":null}'
    with socket.socket(fileno=os.dup(3)) as line, open(os.devnull, "rb") as null:
        for _ in range(times):
            socket.send_fds(line, [len(frame).to_bytes(4, "big") + frame], [null.fileno()] * 50)
    return "sent"


def _plant(ctx: Context, outside: str) -> list[str]:
    """Leave links where the worker will look for folders and files of its own."""
    own = Path.cwd()
    (own / "link").symlink_to(outside)
    said = []
    for name in [f"{number}" for number in range(1, 100)]:
        if not (own.parent / name).exists():
            said.append(attempt(lambda name=name: (own.parent / name).symlink_to(outside)))  # type: ignore[misc]
    said.append(attempt(lambda: own.rename(own.parent / "moved")))
    if said[-1] == DONE:
        own.symlink_to(outside)
    return said


def _victim(ctx: Context, path: str) -> None:
    """Say where it is and hold a secret, until it is cancelled."""
    Path("secret").write_text("of the victim")
    Path(path).write_text(f"{os.getpid()} {os.getcwd()}")
    time.sleep(60)


def _bomb(ctx: Context) -> None:
    """Fork and fork again, for a bounded time, so that a bomb that goes off unhindered does not end the machine."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            os.fork()
        except OSError:
            time.sleep(0.1)
    os._exit(0)


def _fill(ctx: Context) -> dict[str, str]:
    """Write a file that is too large, and open too many."""
    with open("large", "wb") as file:
        large = attempt(lambda: file.writelines(b"x" * 1_000_000 for _ in range(20)))
        with contextlib.suppress(OSError):
            file.close()
    opened: list[int] = []
    many = attempt(lambda: opened.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(200)))
    for each in opened:
        os.close(each)
    return {"large": large, "many": many}


def _daemon(ctx: Context, path: str) -> None:
    """Leave a process that has given up every tie that can be given up."""
    libc = ctypes.CDLL(None)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            libc.prctl(1, 0, 0, 0, 0)  # PR_SET_PDEATHSIG
            libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
                signal.signal(number, signal.SIG_IGN)
            os.closerange(0, 100)
            if os.fork() == 0:
                os.setsid()
                Path(path).write_text(str(os.getpid()))
            time.sleep(60)
        os._exit(0)
    while not Path(path).exists() or not Path(path).read_text():
        time.sleep(0.01)


ATTACKS: dict[str, Callable[..., Any]] = {
    "inspect": _inspect, "status": _status, "open": _open, "signal": _signal, "end_zygote": _end_zygote,
    "privileged": _privileged, "forge": _forge, "ask_without_end": _ask_without_end,
    "pass_descriptors": _pass_descriptors, "plant": _plant, "victim": _victim, "bomb": _bomb, "fill": _fill,
    "daemon": _daemon,
}  # fmt: skip


def run(ctx: Context, name: str, given: list[Any]) -> Any:
    return ATTACKS[name](ctx, *given)


attack = app.job("attack", **_QUICK)(run)
attack_within_limits = app.job("attack_within_limits", **_QUICK, processes=40, files=64, file_size="1MB")(run)


@app.job("honest", max_attempts=1)
def honest(number: int) -> int:
    return number + 1
