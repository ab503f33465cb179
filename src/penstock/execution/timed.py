"""`ctx.timed(...)`: a line in the job's log with a duration."""

from __future__ import annotations

import time
from collections.abc import Mapping
from logging import Logger
from types import TracebackType
from typing import Any


class Timed:
    """Logs at its end what was done and for how long; for `with` and `async with`."""

    def __init__(self, logger: Logger, what: str, details: Mapping[str, Any]) -> None:
        self._logger = logger
        self._what = what
        self._details = details
        self._begun = 0.0

    def __enter__(self) -> None:
        self._begun = time.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        seconds = time.monotonic() - self._begun
        details = dict(self._details) if kind is None else {**self._details, "error": kind.__name__}
        self._logger.info("%s", self._what, extra={"duration": seconds, "details": details})

    async def __aenter__(self) -> None:
        self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)
