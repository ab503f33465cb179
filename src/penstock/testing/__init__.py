"""For users' tests: jobs run in the test's process, on a store in memory, with a clock that the test moves.

Everything except the processes is the code of real workers: claims, phases, retries, endings, hooks, events.

"""

from penstock.testing.kit import Drained, TestApp, run

__all__ = ["Drained", "TestApp", "run"]
