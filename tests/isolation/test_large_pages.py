"""What a zygote has loaded lies in large pages, and is the same as before."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from penstock.isolation import large_pages

_SIZE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
_RELEASE = tuple(int(part) for part in os.uname().release.split(".")[:2])

needs_large_pages = pytest.mark.skipif(
    not _SIZE.exists() or _RELEASE < (6, 1), reason="this kernel makes no large pages when it is asked to"
)


@needs_large_pages
def test_memory_in_use_is_put_into_large_pages_and_keeps_what_it_holds() -> None:
    made, before, after, same = _said_by(_GATHERED).split()

    assert int(made) >= 3
    assert int(after) - int(before) >= 3 * int(_SIZE.read_text()) // 1024
    assert same == "True"


@needs_large_pages
def test_memory_that_is_hardly_used_stays_in_small_pages() -> None:
    before, after, grown = _said_by(_SPARSE).split()

    assert after == before
    assert int(grown) < 1024


@needs_large_pages
def test_what_is_loaded_into_reserved_memory_lies_in_one_piece() -> None:
    assert int(_said_by(_LOADED)) >= 4


def test_nothing_is_done_where_there_are_no_large_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> int:
        raise FileNotFoundError("hpage_pmd_size")

    monkeypatch.setattr(large_pages, "_page_size", missing)

    assert large_pages.gather() == 0


def test_reserved_memory_is_held_by_little() -> None:
    held = large_pages.reserve()

    assert sum(map(sys.getsizeof, held)) < 20_000


def _said_by(program: str) -> str:
    """What a process of its own prints, in which nothing else happens."""
    command = [sys.executable, "-c", textwrap.dedent(program)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout


_GATHERED = """
    from penstock.isolation import large_pages

    def large():
        with open("/proc/self/smaps_rollup") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("AnonHugePages"))

    kept = [str(number) * 40 for number in range(120_000)]
    before = large()
    made = large_pages.gather()
    print(made, before, large(), kept == [str(number) * 40 for number in range(120_000)])
"""

_SPARSE = """
    import mmap, os
    from penstock.isolation import large_pages

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024

    first = large_pages.gather()
    area = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for place in range(0, len(area), 1 << 20):
        area[place] = 1
    before = resident()
    print(first, large_pages.gather(), resident() - before)
"""

_LOADED = """
    from penstock.isolation import large_pages

    room = large_pages.reserve()
    import penstock.app
    from penstock.isolation import zygote

    room.clear()
    print(large_pages.gather())
"""
