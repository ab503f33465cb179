"""The timed work that a worker wakes when there is something to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.runtime.service import Service


@dataclass(frozen=True, slots=True)
class BackgroundServices:
    """The timed work of one process, as it is handed to its worker."""

    promote: Service
    rescue: Service
    others: Sequence[Service] = ()
    """Schedules, housekeeping, alerts and webhooks, where this process does them."""

    @property
    def all(self) -> list[Service]:
        return [self.promote, self.rescue, *self.others]
