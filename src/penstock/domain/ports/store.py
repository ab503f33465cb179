"""What a store is: it carries out plans in transactions, and wakes processes that wait for changes.

A port is the set of commands that one reader needs, in a file of its own: `JobsPort` for workers and creators,
`ControlPort` for operators, `SchedulesPort` for the scheduler, `FeedPort` for event readers, `AdminPort` for readers
and maintenance, `AccessPort` for authentication, `WebhooksPort` for webhook delivery. A store can be written from these
files alone. A command returns a `Plan`; `Store.run` (in the caller's thread) or `Store.arun` (in an event loop) carries
it out in one transaction and returns the result. Rules for all commands:

- **Time.** `now` (microseconds since 1970) replaces the store's own clock in tests; None means the clock itself.
  Durations, not instants, are passed wherever possible.
- **Fence.** Every write of an attempt names (job, fence, worker). It is done only while the job is running or
  cancelling under that fence and that worker holds it. Otherwise nothing is written: the caller gets `LeaseLost`, or,
  from commands that take many, the list of those refused.
- **Once.** Applying a transition twice is harmless; settling a recorded attempt is success for the worker that ran it.
- **One transaction.** A command's change, its events and its counts are committed together or not at all.
- **Errors.** `NotFound`, `Conflict` and others of `penstock.domain.errors`. The database's own errors are raised as
  `StoreError` or a subclass, after everything retryable was retried.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from penstock.domain.plan import Plan

T = TypeVar("T")


class Doorbell(Protocol):
    """Wakes processes that wait for changes of a store. A ring may get lost: callers must poll too."""

    def ring(self) -> None:
        """Wake every listener, here and in other processes. Never blocks for long, never raises, from any thread."""
        ...

    async def wait(self, timeout: float) -> bool:
        """Wait for a ring, or until the timeout. True: it rang, or a ring may have been lost."""
        ...

    def is_listening(self) -> bool:
        """Return whether it listens now."""
        ...

    def close(self) -> None:
        """Stop listening and ringing; from any thread."""
        ...

    async def aclose(self) -> None:
        """Do the same in an event loop; when it returns, no socket, file or connection is left."""
        ...


class Store(Protocol):
    """The single source of truth."""

    dialect: str
    known_schema: int
    """The newest version of the schema that this code knows."""

    @property
    def place(self) -> str:
        """The name of this store in messages, without passwords."""
        ...

    def open(self) -> None:
        """Connect, and check the schema or migrate it."""
        ...

    def close(self) -> None:
        """Close what this process opened; the next use opens the store again."""
        ...

    async def aclose(self) -> None:
        """Do the same in an event loop."""
        ...

    def run(self, plan: Plan[T], *, now: int | None = None) -> T:
        """Carry out a plan in one transaction, in the caller's thread. Works in threads and after a fork."""
        ...

    async def arun(self, plan: Plan[T], *, now: int | None = None) -> T:
        """Carry out a plan in an event loop, without blocking it."""
        ...

    def run_on(self, connection: Any, plan: Plan[T], *, now: int | None = None) -> T:
        """Carry out a plan on the caller's connection, inside its open transaction.

        The caller commits or rolls back, and the database's errors are not translated. Listeners are woken at the
        commit. Unfit connection: `InvalidInput`."""
        ...

    async def arun_on(self, connection: Any, plan: Plan[T], *, now: int | None = None) -> T:
        """Do the same on the caller's async connection."""
        ...

    def reserve(self, seconds: float) -> Store:
        """Return the same store with its own connections, for calls that must not wait for others.

        No statement and no wait takes longer than `seconds`: then `StoreUnavailable`. The caller closes it."""
        ...

    def extend_lease(self, worker: str, lease: int, *, now: int | None = None) -> bool:
        """Extend a live lease of a worker by `lease` microseconds from now, while a caller's transaction blocks writes.

        False where the store does not support it."""
        ...

    def forget_extension(self, worker: str) -> None:
        """Delete an extension, because a heartbeat was written again."""
        ...

    def doorbell(self) -> Doorbell:
        """Return a new bell of this store; the caller closes it."""
        ...
