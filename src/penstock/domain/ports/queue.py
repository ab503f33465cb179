"""The port of queue adapters: they carry job ids to workers and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Message(Protocol):
    """One message of a queue: at most the id of a job."""

    @property
    def job_id(self) -> str | None: ...


class Queue(Protocol):
    """Carries job ids to workers. Messages are hints: the store decides.

    If every message is lost, all jobs still run, only later. Garbage, duplicates and unknown ids do no harm."""

    def publish(self, job_ids: Sequence[str]) -> None:
        """Announce committed jobs to workers. Never blocks, never raises, from any thread."""
        ...

    async def receive(self, timeout: float) -> Sequence[Message]:
        """Wait for messages, or until the timeout (empty). Messages that arrive together are returned together."""
        ...

    def is_listening(self) -> bool:
        """Return whether a message that is sent now would be received; if not, workers poll often."""
        ...

    async def acknowledge(self, messages: Sequence[Message]) -> None:
        """Do not deliver these again: their claim is committed, or was refused."""
        ...

    async def aclose(self) -> None:
        """Release what the adapter holds in this process."""
        ...
