"""An application that has been in use for long: very many ended jobs of one definition."""

from __future__ import annotations

from penstock import Penstock
from penstock.storage.commands import admin
from tests.storage.large_store import Filling, Kind


def load(app: Penstock, key: str, count: int, seconds_apart: float = 0.2) -> None:
    """Let a definition have had so many jobs, the last one just now; nobody else may write meanwhile."""
    lane = app.store.run(admin.definition(key)).lane
    Filling(app.store, [lane], count, seconds_apart).add_ended(Kind())
