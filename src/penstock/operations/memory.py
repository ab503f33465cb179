"""What an application remembers of its store for a moment, so that it does not ask for it each time."""

from __future__ import annotations

from penstock.definitions.signature import Validator
from penstock.domain.access import Holder
from penstock.domain.definition import DefinitionRow, Routed

Routes = dict[tuple[str, int], Routed]
"""Where jobs of each definition and version go, as far as it was read."""


class Memory:
    """Facts that were read from the store of an application."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Read everything again when it is next needed."""
        # New dictionaries: a thread that is just reading the old ones is not disturbed.
        self.routes: Routes = {}
        self.rows: dict[tuple[str, int | None], tuple[float, DefinitionRow]] = {}
        self.holders: dict[tuple[str, str], tuple[float, Holder]] = {}
        self.validators: dict[tuple[str, str], Validator] = {}
