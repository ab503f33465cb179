"""Whether a server's store takes what is written: asked of the store now and then, however many ask the server."""

from __future__ import annotations

import asyncio
import logging
import math
import time

from penstock.app import Penstock
from penstock.domain.errors import PenstockError
from penstock.storage import ports

_FRESH = 2.0
"""Seconds for which an answer of the store is given again."""
_PATIENCE = 5.0
_MANY = 1_000_000
_ALWAYS = 2**62
_log = logging.getLogger("penstock.http")


class Readiness:
    """Knows what keeps a store from being ready; callers that ask at the same moment share one look at it."""

    def __init__(self, app: Penstock) -> None:
        self._app = app
        self._known: tuple[float, str | None] = (-math.inf, None)
        self._looking: asyncio.Task[str | None] | None = None

    async def problem(self) -> str | None:
        """Why the store is not ready; None when it is."""
        looked_at, problem = self._known
        if time.monotonic() - looked_at < _FRESH:
            return problem
        looking = self._looking
        if looking is None or looking.done() or looking.get_loop() is not asyncio.get_running_loop():
            looking = self._looking = asyncio.create_task(self._look())
        # A caller that goes away does not end the look that others wait for.
        return await asyncio.shield(looking)

    async def _look(self) -> str | None:
        _, before = self._known
        problem = await self._found()
        self._known = time.monotonic(), problem
        if problem is not None and problem != before:
            _log.warning("The store is not ready: %s", problem)
        return problem

    async def _found(self) -> str | None:
        try:
            async with asyncio.timeout(_PATIENCE):
                # It writes a row of its own, so that a store that can only be read is not ready.
                await self._app.atake_allowance("readyz", _MANY, 1)
                lanes = [each.lane for each in await self._app.adefinitions_known()]
                await self._app.store.arun(ports.jobs.claimable(lanes, _ALWAYS))
        except TimeoutError:
            return f"The store has not answered for {_PATIENCE:g} s."
        except PenstockError as error:
            return error.message
        return None
