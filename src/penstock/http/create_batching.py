"""Creation over HTTP: jobs that are asked for at the same time share a transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from penstock.app import Penstock
from penstock.config.server_settings import WebSettings
from penstock.definitions.orders import PLAIN, EnqueueOptions, Order, OrderMaker
from penstock.domain.definition import Definition
from penstock.domain.errors import NotFound, PenstockError
from penstock.domain.job import Created, Draft
from penstock.operations.session import Talk
from penstock.storage.commands import admin

_MOST = 500
Wanted = tuple[str, Mapping[str, Any], int | None, EnqueueOptions]
"""A definition's key, parameters as they were decoded from JSON, its version if one was named, and options."""
_Future = asyncio.Future[Created]
_Asked = tuple[Order | Draft, str, _Future]
"""A job, who asked for it, and who waits for the answer."""
_Makers = dict[tuple[str, int | None], OrderMaker]


class Intake:
    """Collects what is asked for while a transaction is on its way; the next one takes all of it."""

    def __init__(self, app: Penstock, settings: WebSettings) -> None:
        self._app = app
        self._settings = settings
        self._waiting: list[_Asked] = []
        self._working: asyncio.Task[None] | None = None

    async def order(
        self, key: str, params: Mapping[str, Any], version: int | None, options: EnqueueOptions, *,
        in_thread: bool = False,
    ) -> Order:  # fmt: skip
        """The order for one job, checked against its definition."""
        orders: list[Order] = []
        await self.orders([(key, params, version, options)], orders, in_thread=in_thread)
        return orders[0]

    async def orders(self, wanted: Iterable[Wanted], orders: list[Order], *, in_thread: bool = False) -> None:
        """Add the orders for many jobs, one after the other up to the first that cannot be had."""
        waiting, makers = iter(wanted), _Makers()
        hold = self._app._ado_in_thread if in_thread else self._app._ado
        while (unknown := await hold(self._known(waiting, makers, orders))) is not None:
            key, params, version, options = unknown
            # Nobody has made it known yet: its jobs wait for a worker that does, and nobody checks them till then.
            await self._app.store.arun(admin.register([Definition(key, version or 1)]))
            makers[key, version] = await self._app._ado(self._app._order_maker(key, version))
            orders.append(makers[key, version].order(params, options, decoded=True))

    def _known(self, wanted: Iterator[Wanted], makers: _Makers, orders: list[Order]) -> Talk[Wanted | None]:
        """Go on up to the first whose definition nobody has made known yet."""
        for each in wanted:
            key, params, version, options = each
            maker = makers.get((key, version))
            if maker is None:
                try:
                    maker = yield from self._app._order_maker(key, version)
                except NotFound as error:
                    if error.kind != "definition" or not self._settings.unknown_definitions:
                        raise
                    return each
                makers[key, version] = maker
            orders.append(maker.order(params, options, decoded=True))
        return None

    async def create(self, order: Order, by: str, scope: str = "", *, in_thread: bool = False) -> Created:
        """Create one job; the answer comes when it is committed. `scope` is that of its idempotency key."""
        asked: Order | Draft = order
        if in_thread or order.options is not PLAIN:
            # What is wrong with its options is told to this caller, whoever shares the transaction.
            hold = self._app._ado_in_thread if in_thread else self._app._ado
            (asked,) = await hold(self._app._drafts([order], actor=str(by), key_scope=scope))
        future: _Future = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, str(by), future))
        if self._working is None:
            self._working = asyncio.create_task(self._work())
        return await future

    async def create_many(
        self, orders: list[Order], by: str, scope: str = "", *, in_thread: bool = False
    ) -> list[Created]:
        """Create jobs, all or none."""
        hold = self._app._ado_in_thread if in_thread else self._app._ado
        return await hold(self._app._create(orders, actor=str(by), key_scope=scope))

    async def _work(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
                await self._commit(batch)
        finally:
            self._working = None

    async def _commit(self, batch: Sequence[_Asked]) -> None:
        """One transaction for all; when one of them is refused, each has its own."""
        drafts: Sequence[Order | Draft] = [asked for asked, _, _ in batch]
        try:
            drafts = ready = await self._app._ado(self._drafts(batch))
            created = await self._app._ado(self._app._keep_drafts(ready))
        except PenstockError as error:
            if len(batch) == 1:
                _fail(batch[0][2], error)
                return
            # The ids stay as they are: what was committed all the same is found again.
            for asked, (_, by, future) in zip(drafts, batch, strict=True):
                await self._commit([(asked, by, future)])
        except BaseException as error:
            for _, _, future in batch:
                _fail(future, error)
            if not isinstance(error, Exception):
                raise
        else:
            for (_, _, future), answer in zip(batch, created, strict=True):
                if not future.done():
                    future.set_result(answer)

    def _drafts(self, batch: Sequence[_Asked]) -> Talk[Sequence[Draft]]:
        """Make drafts of the orders among those who wait, all at once where one caller has sent them."""
        orders = [asked for asked, _, _ in batch if isinstance(asked, Order)]
        actors = {by for _, by, _ in batch}
        if len(orders) == len(batch) and len(actors) == 1:
            return (yield from self._app._drafts(orders, actor=actors.pop()))
        drafts: list[Draft] = []
        for asked, by, _ in batch:
            made = (yield from self._app._drafts([asked], actor=by)) if isinstance(asked, Order) else [asked]
            drafts += made
        return drafts


def _fail(future: _Future, error: BaseException) -> None:
    if future.done():
        return
    if isinstance(error, Exception):
        future.set_exception(error)
    else:
        future.cancel()
