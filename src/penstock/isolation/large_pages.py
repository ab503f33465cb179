"""Memory of a zygote in large pages: a fork copies, and an exit removes, one entry for each instead of hundreds.

Those entries were a quarter of what a small job costs. What a child writes to is copied in small pages as ever.
Where the system has no large pages, nothing changes.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Iterator

_MADV_COLLAPSE = 25
"""Since Linux 6.1; older ones refuse it."""

_MOST_SECONDS = 0.5
_WORTHWHILE = 0.75
"""A large page takes its whole size: memory with a smaller part in use stays in small pages."""

_RESERVED = 10 << 20
"""Most of what Python and penstock take before the user's own modules are loaded; more would stay half used."""

_BLOCK = 512
"""The largest that Python's own allocator deals with. It takes a MiB at a time from the system for them."""

_HEADER = bytes.__basicsize__
_EVERY = 1900
"""Fewer than the blocks of a MiB: one block of each such number is kept, so that no MiB is given back early."""

_libc = ctypes.CDLL(None)


def reserve() -> list[bytes]:
    """Let Python take memory for the code that is loaded next in one piece, and not between the libraries, where no
    large page fits; it is held as long as the result is."""
    blocks = [b""] * (_RESERVED // _BLOCK)
    for place in range(len(blocks)):
        blocks[place] = bytes(_BLOCK - _HEADER)
    return blocks[::_EVERY]


def gather() -> int:
    """Collapse this process's private memory into large pages where possible; how many were made."""
    made = 0
    with contextlib.suppress(OSError, ValueError):
        size = _page_size()
        end = time.monotonic() + _MOST_SECONDS
        for place in list(_places(size)):
            if time.monotonic() > end:
                break
            if _used(place, size) >= _WORTHWHILE:
                made += _libc.madvise(ctypes.c_void_p(place), ctypes.c_size_t(size), _MADV_COLLAPSE) == 0
    return made


def _page_size() -> int:
    with open("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "rb") as file:
        return int(file.read())


def _places(size: int) -> Iterator[int]:
    """Where a large page could be: in memory of this process alone that belongs to no file."""
    with open("/proc/self/maps", encoding="ascii", errors="replace") as file:
        for line in file:
            span, rights, _, _, inode, *name = line.split()
            if rights == "rw-p" and inode == "0" and name in ([], ["[heap]"]):
                begin, end = (int(each, 16) for each in span.split("-"))
                yield from range(-(-begin // size) * size, end - size + 1, size)


def _used(place: int, size: int) -> float:
    """Which part of it is there."""
    pages = (ctypes.c_ubyte * (size // os.sysconf("SC_PAGE_SIZE")))()
    if _libc.mincore(ctypes.c_void_p(place), ctypes.c_size_t(size), pages) != 0:
        return 0.0
    return sum(each & 1 for each in pages) / len(pages)
