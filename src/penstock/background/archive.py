"""The archive: jobs that retention deletes, as lines of JSON, one file for each day.

A line is on the disk before its job is deleted. A crash in between leaves a line of a job that still exists, and a
second line when it is really deleted; no job is deleted without a line.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from penstock.domain.errors import StoreError
from penstock.domain.job_json import attempt_text, event_text, iso, job_text, log_text, phase_text, review_text, spliced
from penstock.domain.maintenance import ArchivedJob
from penstock.domain.secrets.policy import SecretPolicy

_LOOK_BACK = 65_536


class Archive:
    """A folder of files that only grow; several processes may write to it."""

    def __init__(self, folder: str | Path, secrets: SecretPolicy | None = None) -> None:
        self.folder: Path = Path(folder).absolute()
        self._secrets = secrets or SecretPolicy()

    def keep(self, remains: Sequence[ArchivedJob], now: datetime | None = None) -> Path:
        """Write a line for each job and flush it to the disk; the file that it went to."""
        now = now or datetime.now(UTC)
        text = "".join(f"{self.line(each, now)}\n" for each in remains)
        path = self.folder / f"{now.astimezone(UTC):%Y-%m-%d}.jsonl"
        try:
            self._append(path, text.encode())
        except OSError as error:
            raise StoreError(
                f"The archive {path} cannot be written: {error.strerror or error}; nothing was deleted.",
                hint="Check that the folder exists, its owner, and the space on its disk.",
            ) from error
        return path

    def line(self, remains: ArchivedJob, now: datetime) -> str:
        """One job with all its rows; secret parameters are masked."""
        job, fields = remains.job, remains.secret_fields
        params = "null" if fields is None else self._secrets.mask(fields, job.params_text)
        texts = {
            "job": job_text(job, params=params),
            "attempts": _listed([attempt_text(each) for each in remains.attempts]),
            "phases": _listed([phase_text(each) for each in remains.phases]),
            "reviews": _listed([review_text(each) for each in remains.reviews]),
            "logs": _listed([log_text(each) for each in remains.logs]),
            "events": _listed([event_text(each) for each in remains.events]),
        }
        # In JSON text a line end can only be between tokens.
        return spliced({"archivedAt": iso(now)}, texts).replace("\r", " ").replace("\n", " ")

    def _append(self, path: Path, data: bytes) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            _cut_torn_line(file)
            view = memoryview(data)
            while view:
                view = view[os.write(file, view) :]
            os.fsync(file)
        finally:
            os.close(file)
        self._flush_folder()

    def _flush_folder(self) -> None:
        """Flush the folder: a new file survives a loss of power only then."""
        folder = os.open(self.folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _cut_torn_line(file: int) -> None:
    """Remove an incomplete last line of a process that died; its job still exists."""
    size = end = os.fstat(file).st_size
    while end:
        start = max(0, end - _LOOK_BACK)
        found = os.pread(file, end - start, start).rfind(b"\n")
        if found >= 0:
            end = start + found + 1
            break
        end = start
    if end < size:
        os.ftruncate(file, end)


def _listed(items: Sequence[str]) -> str:
    return f"[{','.join(items)}]"
