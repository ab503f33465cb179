"""Which release of penstock is installed."""

from __future__ import annotations

from functools import cache


@cache
def version() -> str:
    """The version of the installed package."""
    # What reads it takes longer to import than most commands take otherwise.
    from importlib.metadata import version as installed

    return installed("penstock")
