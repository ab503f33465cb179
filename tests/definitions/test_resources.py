"""Resources: what handlers use, named by the application."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest

from penstock import InvalidDefinition, Penstock


class Connection:
    def __init__(self, place: str = "here") -> None:
        self.place = place


def connect() -> Connection:
    return Connection()


def pool() -> Iterator[Connection]:
    yield Connection()


async def later() -> None: ...


def needy(place: str) -> str:
    return place


def test_factories_are_registered_by_call_and_by_decorator(memory_app: Penstock) -> None:
    partial = functools.partial(needy, "there")

    given = memory_app.resource("db", connect)
    decorated = memory_app.resource("pool")(pool)
    memory_app.resource("class", Connection)
    memory_app.resource("partial", partial)

    assert (given, decorated) == (connect, pool)
    assert memory_app.resources == {"db": connect, "pool": pool, "class": Connection, "partial": partial}


def test_a_name_stands_for_one_factory(memory_app: Penstock) -> None:
    memory_app.resource("db", connect)
    memory_app.resource("db", connect)

    with pytest.raises(InvalidDefinition, match=r"'db' is defined twice: by .*connect and by .*pool"):
        memory_app.resource("db", pool)

    assert memory_app.resources == {"db": connect}


def test_two_lambdas_are_not_one(memory_app: Penstock) -> None:
    memory_app.resource("db", lambda: 1)

    with pytest.raises(InvalidDefinition, match="'db' is defined twice"):
        memory_app.resource("db", lambda: 2)


@pytest.mark.parametrize(
    ("name", "factory", "problem"),
    [
        ("db", 5, "Resource 'db' needs a function that makes it, not 5"),
        ("db", later, "Resource 'db' is made by an async def"),
        ("db", needy, "Resource 'db': its factory is called without arguments, and needs 'place'"),
        ("", connect, "'' cannot be the name of a resource"),
        (5, connect, "5 cannot be the name of a resource"),
    ],
)
def test_a_resource_that_is_wrong_is_refused(memory_app: Penstock, name: Any, factory: Any, problem: str) -> None:
    with pytest.raises(InvalidDefinition) as raised:
        memory_app.resource(name, factory)

    assert problem in raised.value.message
    assert memory_app.resources == {}
