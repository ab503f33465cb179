"""Loading code into new zygotes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.isolation.zygote_process import ZygoteProcess
from penstock.launch.sources import Source
from penstock.runtime.service import log

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
