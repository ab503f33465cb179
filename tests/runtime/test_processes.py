"""What is known of processes without asking anybody."""

from __future__ import annotations

import os
import subprocess
import sys

from penstock.runtime.processes import Children
from tests.waiting import wait_until


def test_children_are_seen_when_they_come_and_not_once_they_are_reaped() -> None:
    looks = Children(os.getpid())
    before = set(looks.look())

    sleepers = [subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in range(3)]
    try:
        assert {each.pid for each in sleepers} == set(looks.look()) - before
    finally:
        for each in sleepers:
            each.communicate(b"\n")

    wait_until(lambda: not {each.pid for each in sleepers} & set(looks.look()), "none of them is left")


def test_who_has_gone_has_no_children() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()

    assert Children(gone.pid).look() == []
