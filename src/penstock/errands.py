"""What jobs ask of their worker, done on the worker's side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.app import Penstock
from penstock.core.job import Created, Job
from penstock.core.transitions import Status
from penstock.orders import Order


class StoreErrands:
    """Does what code inside jobs asks for, on the store of an application that need not have their definitions."""

    def __init__(self, app: Penstock) -> None:
        self._app = app

    def create(self, orders: Sequence[Mapping[str, Any]]) -> list[Created]:
        """Create the jobs that orders in JSON ask for, all or none."""
        read = [Order.from_json(each) for each in orders]
        return self._app._do(self._app._create(read))

    def read(self, job_id: str) -> Job:
        return self._app.read_job(job_id)

    def cancel(self, job_id: str) -> Status:
        return self._app.cancel_job(job_id)
