"""The time limit of a test also ends the programs that the test has started.

pytest-timeout raises an error in the test, but a `with` or a `finally` that waits for a program would go on waiting.
It also stops its timer at the first failure, so that a fixture could take any time to clean up afterwards.
"""

import os
import signal
from collections.abc import Generator
from types import FrameType
from typing import Any

import pytest

from penstock.runtime import processes
from tests import services

_before = pytest.StashKey[set[int]]()
_settings = pytest.StashKey[Any]()


class TimeLimit:
    """Kills at the time limit of a test what it has started, and limits the time of its teardown, too."""

    def __init__(self) -> None:
        self._shared: set[int] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        """Notice the programs of fixtures that other tests share."""
        if fixturedef.scope == "function":
            return (yield)
        before = _children()
        try:
            return (yield)
        finally:
            self._shared |= _children() - before

    @pytest.hookimpl(wrapper=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Any) -> Generator[None, object, object]:
        item.stash.setdefault(_before, _children())
        item.stash[_settings] = settings
        answer = yield
        fail = signal.getsignal(signal.SIGALRM)
        if not callable(fail):
            return answer

        def kill_and_fail(number: int, frame: FrameType | None) -> None:
            try:
                fail(number, frame)
            except BaseException:
                others = item.stash[_before] | self._shared | services.running
                processes.kill_tree(_children() - others)
                raise

        signal.signal(signal.SIGALRM, kill_and_fail)
        return answer

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        if _settings in item.stash:
            item.ihook.pytest_timeout_set_timer(item=item, settings=item.stash[_settings])
        return (yield)


def _children() -> set[int]:
    return set(processes.children(os.getpid()))
