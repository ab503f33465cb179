"""What penstock asks of a store for definitions that no code declares any more; a part of the control port."""

from __future__ import annotations

from typing import Protocol

from penstock.domain.plan import Plan


class UndeclaredPort(Protocol):
    """Definitions whose code is gone. `register` brings a retired or removed one back."""

    def retire_definition(self, key: str, *, by: str) -> Plan[None]:
        """Refuse the creation of jobs of a definition, and disable the schedules that code has declared for it. Jobs
        that wait stay as they are; ended ones cannot be retried. A live worker that has it loaded or an enabled
        schedule of an operator: `Conflict` naming them. Unknown: `NotFound`."""
        ...

    def remove_definition(self, key: str, *, version: int | None = None, by: str) -> Plan[None]:
        """List a definition, or one version of it, no longer, and delete the schedules that code has declared for it.

        Ended jobs stay readable until retention deletes them, with their secret parameters masked; idempotency keys
        stay as long as they would. With its last version, what operators said goes too. An unfinished job, a live
        worker that has it loaded or an enabled schedule of an operator: `Conflict` naming them. When a transaction that
        began before has created a job of it, `tidy` lists it again."""
        ...
