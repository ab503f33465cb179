"""Makes orders: parameters are checked and completed by what is known of their definition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.definitions.signature import KeyOf, Validator, concurrency_key
from penstock.domain import payload
from penstock.domain.errors import InvalidInput
from penstock.domain.hints import Hint
from penstock.surface.orders import EnqueueOptions, Order


@dataclass(frozen=True, slots=True)
class OrderMaker:
    """Makes orders for jobs of one definition, and validates their parameters."""

    key: str
    version: int
    validator: Validator
    defaults: str
    """Default parameters of each order, as JSON text."""
    key_of: KeyOf | None
    """How to get a concurrency key; empty if only code that is not loaded can compute it."""

    def order(self, params: Mapping[str, Any], options: EnqueueOptions, *, decoded: bool = False) -> Order:
        """Return an order; parameters that were `decoded` from JSON are only validated against the schema."""
        text = self.validator.text(params, self.defaults, decoded=decoded)
        if self.key_of is not None and options.concurrency_key is None:
            options = replace(options, concurrency_key=self._concurrency_key(text, self.key_of))
        return Order(self.key, self.version, text, options)

    def order_from_job(self, order: Order) -> Order:
        """Return an order from code inside a job, validated again; it has its key if only code can compute it."""
        text = self.validator.text(payload.load(order.params), self.defaults, decoded=True)  # type: ignore[arg-type]
        options = order.options
        if self.key_of and options.concurrency_key is None:
            options = replace(options, concurrency_key=self._concurrency_key(text, self.key_of))
        return order._replace(params=text, options=options)

    def _concurrency_key(self, params: str, key_of: KeyOf) -> str | None:
        if not key_of:
            raise InvalidInput(
                f"Only the code of {self.key!r} can compute the concurrency key, and it is not loaded here.",
                hint=Hint(
                    "Give the key: concurrency_key=….",
                    cli="Give the key: --concurrency-key KEY.",
                    http="Send the key as `concurrencyKey`.",
                ),
            )
        return concurrency_key(params, key_of, self.validator)
