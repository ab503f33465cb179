"""Online backup: a copy of a SQLite store at one moment, made while other processes write."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from penstock.domain.errors import Conflict, Hint, InvalidInput, NotFound, StoreError
from penstock.storage import migrations
from penstock.storage.sqlite import files
from penstock.storage.sqlite.errors import translated

ReportProgress = Callable[[int, int], None]
"""Receives the number of copied pages and of all pages."""

_PAGES = 2_000


def back_up(source: str, target: str | Path, report: ReportProgress = lambda done, pages: None) -> int:
    """Copy the store in the file `source` to a new file; its size in bytes.

    The copy is checked and flushed before it gets its name: a file of that name is whole."""
    path = Path(target).absolute()
    if source == ":memory:":
        raise InvalidInput("A store in memory cannot be backed up.", hint="Use a file.")
    if not os.path.exists(source):
        raise NotFound(
            "SQLite file",
            source,
            hint=Hint("Name the file of a store.", cli="Name the store with --store.", http="Its operator must look."),
        )
    if path.exists():
        raise Conflict(f"{path} is there already, and no backup is written over a file.", hint="Name another one.")
    try:
        draft = _draft(path)
        try:
            with translated(f"SQLite file {source}"):
                _copy(source, draft, report)
            size = draft.stat().st_size
            _flush(draft)
            os.rename(draft, path)
            _flush(path.parent)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as failure:
        raise StoreError(f"{path} cannot be written: {failure.strerror or failure}.") from failure
    return size


def _draft(path: Path) -> Path:
    """A new file of a name that cannot be foreseen, for its user alone: the folder may be one that others write to."""
    file, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    os.close(file)
    return Path(name)


def _copy(source: str, draft: Path, report: ReportProgress) -> None:
    origin = files.connect(source, files.READ_WRITE)
    try:
        origin.set_busy_timeout(30_000)
        migrations.refuse_foreign(origin, f"SQLite file {source}")
        # A read transaction keeps the snapshot: without it each write of another process would restart the copy.
        origin.execute("BEGIN; SELECT count(*) FROM sqlite_schema")
        copy = files.connect(str(draft), files.READ_WRITE)
        try:
            with copy.backup("main", origin, "main") as running:
                while not running.done:
                    running.step(_PAGES)
                    report(running.page_count - running.remaining, running.page_count)
            copy.execute("PRAGMA journal_mode = DELETE")
            ((verdict,),) = copy.execute("PRAGMA quick_check(1)").fetchall()
            if verdict != "ok":
                raise StoreError(
                    f"The copy of {source} is damaged: {verdict}.",
                    hint=Hint("Check the store.", cli="Run `penstock db check`.", http="Its operator must check it."),
                )
        finally:
            copy.close()
    finally:
        origin.close()


def _flush(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
