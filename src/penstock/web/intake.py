"""Creation over HTTP: jobs that are asked for at the same time share a transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from penstock.app import Penstock
from penstock.conversation import Talk
from penstock.core.definition import Definition
from penstock.core.errors import NotFound, PenstockError
from penstock.core.job import Created, Draft
from penstock.orders import EnqueueOptions, Order
from penstock.stores.verbs import admin
from penstock.web.settings import WebSettings

_MOST = 500
Wanted = tuple[str, Mapping[str, Any], int | None, EnqueueOptions]
"""A definition's key, parameters, its version if one was named, and options."""
_Asked = tuple[Draft, "asyncio.Future[Created]"]


class Intake:
    """Collects what is asked for while a transaction is on its way; the next one takes all of it."""

    def __init__(self, app: Penstock, settings: WebSettings) -> None:
        self._app = app
        self._settings = settings
        self._waiting: list[_Asked] = []
        self._working: asyncio.Task[None] | None = None

    async def order(self, key: str, params: Mapping[str, Any], version: int | None, options: EnqueueOptions) -> Order:
        """The order for one job, checked against its definition."""
        try:
            return await self._app._ado(self._app._order(key, params, version, options))
        except NotFound as error:
            if error.kind != "definition" or not self._settings.unknown_definitions:
                raise
        # Nobody has made it known yet: its jobs wait for a worker that does, and nobody checks them till then.
        await self._app.store.arun(admin.register([Definition(key, version or 1)]))
        return await self._app._ado(self._app._order(key, params, version, options))

    async def orders(self, wanted: Iterable[Wanted], orders: list[Order]) -> None:
        """Add the orders for many jobs, one after the other up to the first that cannot be had."""
        waiting = iter(wanted)
        while (each := await self._app._ado(self._known(waiting, orders))) is not None:
            orders.append(await self.order(*each))

    def _known(self, wanted: Iterator[Wanted], orders: list[Order]) -> Talk[Wanted | None]:
        """Go on up to the first whose definition nobody has made known yet."""
        for each in wanted:
            try:
                orders.append((yield from self._app._order(*each)))
            except NotFound:
                return each
        return None

    async def create(self, order: Order, by: str) -> Created:
        """Create one job; the answer comes when it is committed."""
        draft = await self._app._ado(self._app._draft(order, actor=str(by)))
        future: asyncio.Future[Created] = asyncio.get_running_loop().create_future()
        self._waiting.append((draft, future))
        if self._working is None:
            self._working = asyncio.create_task(self._work())
        return await future

    async def create_many(self, orders: list[Order], by: str) -> list[Created]:
        """Create jobs, all or none."""
        return await self._app._ado(self._app._create(orders, actor=str(by)))

    async def _work(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
                await self._commit(batch)
        finally:
            self._working = None

    async def _commit(self, batch: list[_Asked]) -> None:
        """One transaction for all; when one of them is refused, each has its own."""
        try:
            created = await self._app._ado(self._app._keep_drafts([draft for draft, _ in batch]))
        except PenstockError as error:
            if len(batch) == 1:
                _fail(batch[0][1], error)
                return
            for each in batch:
                await self._commit([each])
        except BaseException as error:
            for _, future in batch:
                _fail(future, error)
            if not isinstance(error, Exception):
                raise
        else:
            for (_, future), answer in zip(batch, created, strict=True):
                if not future.done():
                    future.set_result(answer)


def _fail(future: asyncio.Future[Created], error: BaseException) -> None:
    if future.done():
        return
    if isinstance(error, Exception):
        future.set_exception(error)
    else:
        future.cancel()
