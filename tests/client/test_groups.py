"""`Penstock` and `Client` have the same groups, one class each; both carry out the operations, with few exceptions."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from penstock import Client, Conflict, Penstock
from penstock.client.table import ROUTES
from penstock.operations.table import OPERATIONS
from penstock.surface.jobs import WaitForJob
from penstock.surface.session import Operation

GROUPS = ("jobs", "definitions", "schedules", "workers", "webhooks", "tokens", "events", "monitoring", "audit")
NOT_OVER_HTTP = {
    "definitions.declared", "definitions.register", "schedules.declare", "schedules.declared", "webhooks.settings",
    "tokens.authenticate", "tokens.open_session", "tokens.session_token", "tokens.close_session",
    "tokens.take_allowance", "tokens.needs_token", "tokens.open_access", "tokens.count_usable", "events.follow",
    "monitoring.totals", "monitoring.clock_marks", "monitoring.set_clock_marks_back",
}  # fmt: skip
"""What only an application on the store can do."""


def operations() -> list[type[Operation[Any]]]:
    return [each for each in Operation.__subclasses__() if "__slots__" in vars(each)]


def test_an_application_and_a_client_have_the_same_groups() -> None:
    app, client = Penstock("sqlite://"), Client("http://127.0.0.1:1")

    for name in GROUPS:
        assert type(getattr(app, name)) is type(getattr(client, name)), name
    for shared in ("enqueue", "get", "close"):
        assert inspect.signature(getattr(Penstock, shared)) == inspect.signature(getattr(Client, shared)), shared


def test_an_application_carries_every_operation_out() -> None:
    assert set(OPERATIONS) == set(operations())


def test_a_client_has_a_route_for_all_operations_but_these() -> None:
    without = {each.call for each in operations() if each not in ROUTES and each is not WaitForJob}

    assert without == NOT_OVER_HTTP


@pytest.mark.parametrize("group", GROUPS)
def test_operations_are_named_by_the_calls_that_make_them(group: str) -> None:
    calls = {each.call for each in operations() if each.call.startswith(f"{group}.")}

    members = {f"{group}.{name}" for name in dir(getattr(Penstock("sqlite://"), group).__class__)}
    assert calls
    assert calls <= members


@pytest.mark.parametrize("group", GROUPS)
def test_each_call_has_a_twin_for_event_loops_with_the_same_signature(group: str) -> None:
    kind = type(getattr(Penstock("sqlite://"), group))
    calls = {name: call for name, call in vars(kind).items() if inspect.isfunction(call) and not name.startswith("_")}
    plain = [name for name in calls if not _is_twin(name, calls) and name != "declare"]

    assert plain
    for name in plain:
        twin = calls["awaited" if name == "wait" else f"a{name}"]
        assert list(inspect.signature(calls[name]).parameters.values()) == list(
            inspect.signature(twin).parameters.values()
        ), name


def test_what_has_no_route_is_refused_by_name() -> None:
    with Client("http://127.0.0.1:1") as client:
        with pytest.raises(Conflict, match=r"client\.definitions\.register is not possible"):
            client.definitions.register()
        with pytest.raises(Conflict, match=r"client\.events\.follow is not possible"):
            asyncio.run(_follow(client))


async def _follow(client: Client) -> None:
    await client.events.afollow()


def _is_twin(name: str, calls: dict[str, Any]) -> bool:
    return name == "awaited" or (name.startswith("a") and name[1:] in calls)
