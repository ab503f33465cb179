"""Which lines of a stack belong to the code that runs handlers, and not to a handler."""

from __future__ import annotations

import os

_PACKAGE = os.path.dirname(os.path.dirname(__file__))
_ROOMS = tuple(
    os.path.join(_PACKAGE, room, "") for room in ("worker", "background", "isolation", "execution", "runtime")
)


def is_own(filename: str) -> bool:
    """Whether a file is part of penstock's worker, or of a process of a job."""
    return filename.startswith(_ROOMS)
