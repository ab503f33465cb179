"""Jobs to be created, as a server takes them."""

from __future__ import annotations

import json
import uuid
from typing import Any

from penstock.domain.instant import microseconds
from penstock.domain.job_json import iso
from penstock.surface import enqueue_options as given
from penstock.surface.orders import EnqueueOptions, Order


def order_json(order: Order) -> dict[str, Any]:
    """An order; without an idempotency key it gets one, so that it can be sent twice."""
    body = {"definitionKey": order.key, "params": json.loads(order.params), **options_json(order.options)}
    if order.version:
        body["definitionVersion"] = order.version
    return body


def options_json(options: EnqueueOptions) -> dict[str, Any]:
    """The options that were given."""
    given.instant(options.run_at, "run_at")
    named: dict[str, Any] = {
        "runAt": iso(options.run_at),
        "delay": microseconds(options.delay, "delay") / 1e6 or None,
        "priority": options.priority,
        "maxAttempts": options.max_attempts,
        "idempotencyKey": options.idempotency_key or f"client-{uuid.uuid4().hex}",
        "unique": options.unique or None,
        "concurrencyKey": options.concurrency_key,
        "reference": None if options.reference is None else dict(zip(("type", "id"), options.reference, strict=True)),
        "tags": list(options.tags) or None,
        "webhookUrl": options.webhook_url,
        "parentId": options.parent_id,
        "traceparent": options.traceparent,
        "tracestate": options.tracestate,
    }
    return {name: value for name, value in named.items() if value is not None}
