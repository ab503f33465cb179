"""Loading code into new zygotes, and reloading it when its files change."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from penstock.domain.errors import PenstockError, StoreUnavailable
from penstock.isolation.zygote_process import ZygoteProcess
from penstock.launch.sources import Source
from penstock.runtime.service import log

_RETRY_SECONDS = 2.0
_USUAL_LOAD_SECONDS = 5.0
_DEBOUNCE = 200
_CHECK_EVERY = 1000
"""How often to check that the watched folder is still the same one, in milliseconds."""

FileStamps = Mapping[str, tuple[int, int, int]]
"""Inode, time of change and size of each file, by its path."""


class CodeWatch:
    """Reloads code when its files change."""

    def __init__(self, loader: CodeLoader, reload: Callable[[], Awaitable[None]]) -> None:
        self._loader = loader
        self._reload = reload

    async def run(self, seen: FileStamps) -> None:
        """Reload whenever files differ from those last seen; after an error the last good code stays.

        A change while code has been loading for some seconds starts over: an import that hangs does not keep a repaired
        file from being loaded.
        """
        watched = self._loader.source.watched
        reload: asyncio.Future[None] = asyncio.ensure_future(asyncio.sleep(0))
        while True:
            try:
                async with contextlib.aclosing(changes(watched, seen)) as changed:
                    async for _ in changed:
                        await asyncio.wait([reload], timeout=_USUAL_LOAD_SECONDS)
                        if self._loader.is_loading_change:
                            reload.cancel()
                        await asyncio.wait([reload])
                        reload = asyncio.ensure_future(self.reload_or_log())
            except (OSError, RuntimeError) as error:
                log.error("%s cannot be watched: %s; next try in %.0f s", watched, error, _RETRY_SECONDS)
                await asyncio.sleep(_RETRY_SECONDS)
            except asyncio.CancelledError:
                reload.cancel()
                await asyncio.wait([reload])
                raise

    async def reload_or_log(self) -> None:
        """Reload; log what is wrong with the code, and try again while the store does not answer."""
        while True:
            try:
                await self._reload()
            except StoreUnavailable as error:
                log.warning("not reloaded: %s; next try in %.0f s", error, _RETRY_SECONDS)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            except PenstockError as error:
                log.error("not reloaded: %s", error)
            except Exception:
                log.exception("not reloaded")
            return


def file_stamps(folder: str) -> FileStamps:
    """The stamps of the Python files below a folder; none while the folder is missing."""
    found: dict[str, tuple[int, int, int]] = {}
    for place, inner, names in os.walk(folder):
        inner[:] = [each for each in inner if not each.startswith(".") and each not in ("__pycache__", "node_modules")]
        for path in (os.path.join(place, each) for each in names if each.endswith(".py")):
            with contextlib.suppress(OSError):
                facts = os.stat(path)
                found[path] = (facts.st_ino, facts.st_mtime_ns, facts.st_size)
    return found


async def changes(folder: str, seen: FileStamps) -> AsyncGenerator[None]:
    """Yield whenever the Python files below a folder differ from those last seen; the folder may come and go."""
    import watchfiles

    while True:
        identity = _identity(folder)
        if identity is None:
            await asyncio.sleep(_CHECK_EVERY / 1000)
        else:
            watching = watchfiles.awatch(
                folder, debounce=_DEBOUNCE, watch_filter=watchfiles.PythonFilter(),
                rust_timeout=_CHECK_EVERY, yield_on_timeout=True,
            )  # fmt: skip
            # A change from before the watch began makes no event.
            unsure = True
            async with contextlib.aclosing(watching):
                async for changed in watching:
                    if (changed or unsure) and (now := await asyncio.to_thread(file_stamps, folder)) != seen:
                        seen = now
                        yield
                    unsure = False
                    if _identity(folder) != identity:
                        break
        if (now := await asyncio.to_thread(file_stamps, folder)) != seen:
            seen = now
            yield


def _identity(folder: str) -> tuple[int, int] | None:
    try:
        facts = os.stat(folder)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


_LONG_LOAD_SECONDS = 10.0


class CodeLoader:
    """Starts zygotes that have the code of a source loaded, and logs the files that cannot be loaded."""

    def __init__(self, source: Source, *, allow_threads: bool) -> None:
        self.source = source
        self.problems: Sequence[Mapping[str, Any]] = ()
        """File, line and error of each file that could not be loaded."""
        self.is_loading_change: bool = False
        """Whether a zygote is loading changed code."""
        self._allow_threads = allow_threads

    async def load(self) -> ZygoteProcess:
        zygote = await self.source.zygote(self._allow_threads)
        known, self.problems = self.problems, zygote.extras.get("problems", ())
        for each in self.problems:
            if each not in known:
                _log_problem(each)
        return zygote

    async def load_change(self) -> ZygoteProcess:
        """Load the code as it is now, while the old code runs; log an import that takes long."""
        loading = asyncio.ensure_future(self.load())
        self.is_loading_change = True
        try:
            await asyncio.wait([loading], timeout=_LONG_LOAD_SECONDS)
            if not loading.done():
                log.warning(
                    "%s is still being loaded after %.0f s; jobs run with the code from before. The next change of a "
                    "file starts over.", self.source.origin, _LONG_LOAD_SECONDS,
                )  # fmt: skip
            return await loading
        finally:
            self.is_loading_change = False
            if not loading.done():
                loading.cancel()
                await asyncio.wait([loading])


def _log_problem(problem: Mapping[str, Any]) -> None:
    place = problem["file"] if problem["line"] is None else f"{problem['file']}:{problem['line']}"
    kept = " (its last good version still runs)" if problem.get("kept") else ""
    log.error("%s: %s%s", place, problem["error"], kept)
