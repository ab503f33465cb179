"""Timed work that publishes ready jobs again: a queue may have lost their messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.domain.job_list import JobFilter
from penstock.domain.ports.admin import AdminPort
from penstock.domain.ports.control import ControlPort
from penstock.domain.ports.store import Store
from penstock.domain.states import Status
from penstock.runtime.pace import ALONE, Pace

_EVERY = 15.0
_AGE = 15.0
_BATCH = 1000


class Republisher:
    """Publishes the jobs that have been ready for a while."""

    def __init__(
        self,
        store: Store,
        control: ControlPort,
        admin: AdminPort,
        publish: Callable[[Sequence[str]], None],
        pace: Pace = ALONE,
    ) -> None:
        self._store = store
        self._control = control
        self._admin = admin
        self._publish = publish
        self._pace = pace
        self._after: str | None = None

    async def tick(self) -> float:
        return 0.0 if await self.once() else self._pace.rest(_EVERY)

    async def once(self, age: float = _AGE) -> bool:
        """One batch of jobs that were created more than `age` seconds ago; True when there are more."""
        before = await self._store.arun(self._admin.clock()) - int(age * 1e6)
        which = JobFilter(status=(Status.QUEUED,), created_to=before)
        ids = await self._store.arun(self._control.select(which, _BATCH, self._after))
        self._after = ids[-1] if len(ids) == _BATCH else None
        if ids:
            self._publish(ids)
        return self._after is not None
