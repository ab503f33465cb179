"""What enqueue refuses; nothing is written then, in whichever way it was asked."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from penstock import InvalidInput, NotFound, Penstock
from tests.definitions import shapes

NOW = datetime(2030, 1, 1, tzinfo=UTC)

REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"run_at": datetime(2030, 1, 1)}, "run_at has no time zone"),
    ({"run_at": date(2030, 1, 1)}, "run_at must be a datetime"),
    ({"run_at": "2030-01-01T00:00:00Z"}, "run_at must be a datetime"),
    ({"run_at": 1_900_000_000}, "run_at must be a datetime"),
    ({"run_at": NOW, "delay": 5}, "`run_at` or `delay`, not both"),
    ({"delay": -1}, "delay must be between 0 seconds and 100 years"),
    ({"delay": timedelta(seconds=-1)}, "delay must be between"),
    ({"delay": math.nan}, "delay must be between"),
    ({"delay": math.inf}, "delay must be between"),
    ({"delay": 1e12}, "delay must be between"),
    ({"delay": "5"}, "delay must be seconds or a timedelta"),
    ({"delay": True}, "delay must be seconds or a timedelta"),
    ({"delay": None}, "delay must be seconds or a timedelta"),
    ({"priority": 21}, "priority must be an integer from 0 to 20"),
    ({"priority": -1}, "priority must be an integer from 0 to 20"),
    ({"priority": "high"}, "priority must be an integer from 0 to 20"),
    ({"priority": 1.0}, "priority must be an integer from 0 to 20"),
    ({"priority": True}, "priority must be an integer from 0 to 20"),
    ({"max_attempts": 0}, "max_attempts must be 1 to 1000"),
    ({"max_attempts": 1001}, "max_attempts must be 1 to 1000"),
    ({"max_attempts": 2.0}, "max_attempts must be an integer"),
    ({"max_attempts": True}, "max_attempts must be an integer"),
    ({"idempotency_key": ""}, "idempotency_key must have 1 to 500 characters, not 0"),
    ({"idempotency_key": "x" * 501}, "idempotency_key must have 1 to 500 characters, not 501"),
    ({"idempotency_key": 7}, "idempotency_key must be a text"),
    ({"idempotency_key": "a\x00b"}, "idempotency_key holds a NUL"),
    ({"idempotency_key": "a\ud800"}, "idempotency_key holds a NUL or half of a surrogate"),
    ({"unique": ""}, "unique must have 1 to 500"),
    ({"unique": 1}, "unique must be a text"),
    ({"unique": "x" * 501}, "unique must have 1 to 500"),
    ({"unique": "\x00"}, "unique holds a NUL"),
    ({"concurrency_key": ""}, "concurrency_key must have 1 to 500"),
    ({"concurrency_key": 5}, "concurrency_key must be a text"),
    ({"reference": "ab"}, "a reference is a pair"),
    ({"reference": ("order",)}, "a reference is a pair"),
    ({"reference": ("order", "7", "8")}, "a reference is a pair"),
    ({"reference": ("order", None)}, "a reference is a pair"),
    ({"reference": ("order", 7)}, "reference's id must be a text"),
    ({"reference": ("", "7")}, "reference's type must have 1 to 500"),
    ({"reference": {"order": "7"}}, "a reference is a pair"),
    ({"tags": "urgent"}, "tags must be a list of texts"),
    ({"tags": ["a", 5]}, "tags must be a list of texts"),
    ({"tags": [""]}, "a tag must have 1 to 500"),
    ({"tags": ["a\x00"]}, "a tag holds a NUL"),
    ({"tags": {"a": 1}}, "tags must be a list of texts"),
    ({"tags": 5}, "tags must be a list of texts"),
    ({"tags": [str(number) for number in range(101)]}, "at most 100 tags, not 101"),
    ({"webhook_url": "example.com/hook"}, "webhook_url must be an http or https URL"),
    ({"webhook_url": "ftp://example.com"}, "webhook_url must be an http or https URL"),
    ({"webhook_url": "https://"}, "webhook_url must be an http or https URL"),
    ({"webhook_url": "https://a b/"}, "webhook_url must be an http or https URL"),
    ({"webhook_url": "https://[::1/"}, "webhook_url must be an http or https URL"),
    ({"webhook_url": "https://x:99999/"}, "webhook_url must be an http or https URL"),
    ({"webhook_url": "http://x.example/"}, "it is not encrypted"),
    ({"webhook_url": "https://10.0.0.1/"}, "its host is an address"),
    ({"webhook_url": "https://localhost/"}, "it leads to this host"),
    ({"webhook_url": "https://x.example:22/"}, "port 22 is not allowed"),
    ({"webhook_url": "https://x/" + "a" * 2000}, "webhook_url must have 1 to 2000"),
    ({"parent_id": "42"}, "'42' is not an id"),
    ({"parent_id": 42}, "An id is a text, not 42"),
    ({"traceparent": "x" * 501}, "traceparent must have 1 to 500"),
    ({"traceparent": "t a=b"}, "traceparent must have no spaces"),
    ({"traceparent": "t", "tracestate": 5}, "tracestate must be a text, not 5"),
]


@pytest.mark.parametrize(("options", "problem"), REFUSALS, ids=[str(options)[:60] for options, _ in REFUSALS])
def test_an_option_that_is_wrong_is_refused_and_nothing_is_written(
    memory_app: Penstock, options: dict[str, Any], problem: str
) -> None:
    work = memory_app.job("work")(shapes.plain)

    with pytest.raises(InvalidInput, match=problem):
        work.options(**options).enqueue("a")
    with pytest.raises(InvalidInput, match=problem):
        memory_app.enqueue("work", {"to": "a"}, **options)
    with pytest.raises(InvalidInput, match=problem):
        memory_app.enqueue_many([work.order("good"), work.options(**options).order("a")])

    assert memory_app.jobs.list().jobs == []


@pytest.mark.parametrize(
    ("key", "params", "options", "problem"),
    [
        ("work", {"to": "a"}, {"priorty": 5}, "'priorty' is not an option of enqueue.*Did you mean 'priority'"),
        ("work", {"to": "a"}, {"due": NOW}, "'due' is not an option of enqueue.*There are: run_at, delay"),
        (5, {"to": "a"}, {}, "named by a text and an integer, not by 5"),
        ("work", {"to": "a"}, {"definition_version": "1"}, "named by a text and an integer, not by 'work' and '1'"),
        ("work", [1], {}, "Parameters of 'work' must be a mapping"),
        ("work", {"to": 5}, {}, "do not fit at /to"),
        ("work", {}, {}, '"to" is a required property'),
        ("work", {"to": "a", 5: 6}, {}, "'5' was unexpected"),
    ],
)
def test_by_name_wrong_names_and_parameters_are_refused(
    memory_app: Penstock, key: str, params: Any, options: dict[str, Any], problem: str
) -> None:
    memory_app.job("work")(shapes.plain)

    with pytest.raises(InvalidInput, match=problem):
        memory_app.enqueue(key, params, **options)

    assert memory_app.jobs.list().jobs == []


@pytest.mark.parametrize(("key", "version"), [("nothing", None), ("work", 2)])
def test_a_definition_that_nobody_knows_is_not_found(app: Penstock, key: str, version: int | None) -> None:
    app.job("work")(shapes.plain).enqueue("a")

    with pytest.raises(NotFound, match=key):
        app.enqueue(key, {"to": "a"}, definition_version=version)


async def test_the_async_calls_refuse_the_same(memory_app: Penstock) -> None:
    work = memory_app.job("work")(shapes.plain)

    with pytest.raises(InvalidInput, match="delay must be between"):
        await work.options(delay=-1).aenqueue("a")
    with pytest.raises(InvalidInput, match="'priorty' is not an option"):
        await memory_app.aenqueue("work", {"to": "a"}, priorty=1)

    assert (await memory_app.jobs.alist()).jobs == []


@pytest.mark.parametrize(
    "ask",
    [
        lambda app: app.enqueue("half\ud800"),
        lambda app: app.definitions.pause("half\ud800", "why"),
        lambda app: app.jobs.count(cap=2**63),
        lambda app: app.audit.list(before=2**63),
    ],
    ids=["key", "pause", "count", "audit"],
)
def test_what_no_store_can_take_is_refused_as_bad_input(app: Penstock, ask: Callable[[Penstock], object]) -> None:
    with pytest.raises(InvalidInput, match="cannot take what was given"):
        ask(app)


async def test_the_same_is_refused_in_a_loop(app: Penstock) -> None:
    with pytest.raises(InvalidInput, match="cannot take what was given"):
        await app.aenqueue("half\ud800")
