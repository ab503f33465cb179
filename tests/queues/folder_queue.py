"""A queue adapter as a user would write one, in a module of its own: messages are files in a folder.

It imports nothing of penstock. One receiver gets each message; a message that was not acknowledged is kept in `taken`.
The folder is named by the environment variable FOLDER_QUEUE, or given to the class.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PAUSE = 0.01
_MOST = 100
_numbers = itertools.count()


@dataclass(frozen=True)
class FileMessage:
    """A message and the file that it is until it is acknowledged."""

    job_id: str | None
    file: Path


class FolderQueue:
    """A queue over one folder; any number of them may be open."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._presence: Path | None = None

    def publish(self, job_ids: Sequence[str]) -> None:
        for job_id in job_ids:
            self._join()
            name = f"{time.time_ns():020}-{os.getpid()}-{next(_numbers):09}"
            written = self._folder / f".{name}"
            written.write_text(json.dumps(job_id))
            written.rename(self._folder / "new" / name)

    async def receive(self, timeout: float) -> Sequence[FileMessage]:
        self._join()
        deadline = time.monotonic() + timeout
        while not (taken := self._take()) and time.monotonic() < deadline:  # noqa: ASYNC110 (a folder tells nothing)
            await asyncio.sleep(_PAUSE)
        return taken

    def is_listening(self) -> bool:
        return self._folder.is_dir()

    async def acknowledge(self, messages: Sequence[Any]) -> None:
        for each in messages:
            each.file.unlink(missing_ok=True)

    async def aclose(self) -> None:
        if self._presence is not None:
            self._presence.unlink(missing_ok=True)
            self._presence = None

    def _take(self) -> list[FileMessage]:
        taken = []
        for name in sorted(os.listdir(self._folder / "new"))[:_MOST]:
            file = self._folder / "taken" / name
            with contextlib.suppress(FileNotFoundError):
                (self._folder / "new" / name).rename(file)
                taken.append(FileMessage(json.loads(file.read_text()), file))
        return taken

    def _join(self) -> None:
        if self._presence is None:
            for name in ("new", "taken", "open"):
                (self._folder / name).mkdir(parents=True, exist_ok=True)
            self._presence = self._folder / "open" / f"{os.getpid()}-{next(_numbers)}"
            self._presence.touch()


class BrokenQueue:
    """An adapter whose broker is never there."""

    def publish(self, job_ids: Sequence[str]) -> None:
        raise ConnectionError("the broker is away")

    async def receive(self, timeout: float) -> Sequence[FileMessage]:
        raise ConnectionError("the broker is away")

    def is_listening(self) -> bool:
        raise ConnectionError("the broker is away")

    async def acknowledge(self, messages: Sequence[Any]) -> None:
        raise ConnectionError("the broker is away")

    async def aclose(self) -> None:
        raise ConnectionError("the broker is away")


def make() -> FolderQueue:
    """What an application names: `queue="tests.queues.folder_queue:make"`."""
    return FolderQueue(os.environ["FOLDER_QUEUE"])
