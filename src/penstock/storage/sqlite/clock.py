"""The clock of a SQLite store: wall time for due times, time since boot for leases."""

from __future__ import annotations

import ctypes
import sys
import time
from pathlib import Path
from typing import Protocol


class Clock(Protocol):
    """The clock of a SQLite store; both times are in microseconds."""

    boot: str
    """The id of the boot that the steady time counts from."""

    def read(self) -> tuple[int, int]:
        """The wall time since 1970, and the steady time since boot, which never jumps."""
        ...


class HostClock:
    """The clocks of this host. The steady one continues while the host sleeps."""

    def __init__(self) -> None:
        self.boot: str = _boot_id()
        self._steady = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC

    def read(self) -> tuple[int, int]:
        return time.time_ns() // 1000, time.clock_gettime_ns(self._steady) // 1000


class ManualClock:
    """A clock that is moved by hand, for tests."""

    def __init__(self, wall: int = 1_800_000_000_000_000, steady: int = 1_000_000_000, boot: str = "boot-1") -> None:
        self.wall: int = wall
        self.steady: int = steady
        self.boot = boot

    def read(self) -> tuple[int, int]:
        return self.wall, self.steady

    def advance(self, seconds: float) -> None:
        """Move both clocks."""
        self.wall += round(seconds * 1_000_000)
        self.steady += round(seconds * 1_000_000)

    def jump(self, seconds: float) -> None:
        """Set the wall clock only."""
        self.wall += round(seconds * 1_000_000)


def _boot_id() -> str:
    if sys.platform == "darwin" and (session := _boot_session()):
        return session
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return f"since-{round((time.time() - time.monotonic()) / 60)}"


def _boot_session() -> str:
    """The name that macOS gives to each boot; empty where it does not."""
    size = ctypes.c_size_t(64)
    text = ctypes.create_string_buffer(size.value)
    failed = ctypes.CDLL(None).sysctlbyname(b"kern.bootsessionuuid", text, ctypes.byref(size), None, 0)
    return "" if failed else text.value.decode()
