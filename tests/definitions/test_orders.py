"""Orders as JSON: what another process makes of them is what was ordered."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from penstock import InvalidInput, Order, Penstock
from tests.definitions import shapes

PARENT = "0199a000-0000-7000-8000-000000000000"
PLAIN = {"key": "work", "version": 1, "params": "{}", "checked": True, "options": {}}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"run_at": datetime(2030, 1, 2, 3, 4, 5, 6, tzinfo=UTC)},
        {"run_at": datetime(2030, 1, 2, tzinfo=timezone(timedelta(hours=5, minutes=30)))},
        {"delay": 1.5},
        {"priority": 0, "max_attempts": 9},
        {"idempotency_key": "k", "unique": "u", "concurrency_key": "c", "traceparent": "t", "tracestate": "a=b"},
        {"unique": True},
        {"reference": ("invoice", "17"), "tags": ("a", "b")},
        {"webhook_url": "https://example.org/x", "parent_id": PARENT},
    ],
)
def test_an_order_is_the_same_after_a_journey_as_json(memory_app: Penstock, options: dict[str, Any]) -> None:
    order = memory_app.job("work")(shapes.plain).options(**options).order("ä", copies=2)

    travelled = Order.from_json(json.loads(json.dumps(order.to_json())))

    assert travelled == order


def test_only_what_was_given_travels(memory_app: Penstock) -> None:
    handle = memory_app.job("work", version=2)(shapes.plain)

    order = handle.options(delay=timedelta(minutes=1), tags=["a"], priority=0).order("x")

    assert order.to_json() == {
        "key": "work",
        "version": 2,
        "params": '{"to":"x"}',
        "checked": True,
        "options": {"delay": 60.0, "tags": ["a"], "priority": 0},
    }


def test_a_connection_does_not_travel(memory_app: Penstock) -> None:
    order = memory_app.job("work")(shapes.plain).options(connection=object()).order("x")

    with pytest.raises(InvalidInput, match="An order for a connection cannot leave its process"):
        order.to_json()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"colour": 1}, "'colour' is not a part of an order"),
        ({"options": {"connection": 1}}, "'connection' is not a part of an order's options"),
        ({"options": {"colour": 1}}, "'colour' is not a part of an order's options"),
        ({"options": [1]}, "The options of an order are an object"),
        ({"options": {"run_at": "soon"}}, "work: 'soon' is not a date and time"),
        ({"options": {"run_at": 5}}, "work: 5 is not a date and time"),
        ({"key": 5}, "An order names its definition, not 5"),
        ({"checked": "no"}, "is checked or not"),
        ({"version": "1"}, "work: an order's version is an integer"),
        ({"version": True}, "work: an order's version is an integer"),
        ({"version": None}, "work: an order's version is an integer, not None"),
        ({"params": {}}, "work: an order's params are JSON as text"),
        ({"params": "[1]"}, "Parameters of 'work' must be an object"),
        ({"params": "{"}, "parameters of work is not valid JSON"),
        ({"params": '{"a":NaN}'}, "parameters of work"),
    ],
)
def test_what_no_order_would_write_is_refused(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        Order.from_json({**PLAIN, **change})

    assert problem in raised.value.message


def test_something_else_is_no_order() -> None:
    with pytest.raises(InvalidInput, match="An order is an object"):
        Order.from_json([])  # type: ignore[arg-type]
