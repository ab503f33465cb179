"""Signals as a shell sets them for the programs that it starts."""

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def ignored(*numbers: signal.Signals) -> Iterator[None]:
    """Start programs that find these signals ignored, as `nohup program &` in a shell does."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
