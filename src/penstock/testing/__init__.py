"""For users' tests: jobs run in the test's own process, on a store in memory, with a clock that is moved by hand.

Everything but the processes is the engine's own: claims, phases, retries, endings, hooks, events.
"""

from penstock.testing.kit import Drained, TestApp, run

__all__ = ["Drained", "TestApp", "run"]
