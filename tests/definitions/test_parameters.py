"""Parameters: from type hints to a JSON Schema, from a call to JSON text, and back to what the hints ask for."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import ConfigDict, create_model

from penstock import InvalidDefinition, InvalidPayload, Penstock
from tests.definitions import shapes
from tests.definitions.shapes import Address, Colour, Level, Person, UserId

EVERYTHING: dict[str, Any] = {
    "text": "ä \U0001f600",
    "user": UserId(7),
    "colour": Colour.RED,
    "level": Level.HIGH,
    "home": Address("Main St", 5),
    "person": Person(name="Ada", addresses=[Address("Side St")]),
    "at": datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC),
    "day": date(2030, 1, 2),
    "length": timedelta(hours=1, seconds=-90),
    "which": UUID("01890a5d-ac96-774b-bcce-b302099a8057"),
    "price": Decimal("12.50"),
    "kind": "b",
    "maybe": None,
    "some": {1},
    "by_name": {"x": [1.5, 2.0]},
    "by_number": {1: "one", -2: "minus two"},
    "flags": {"fast": True},
    "path": Path("/a/b"),
    "small": 9,
    "either": "x",
}


def test_what_the_hints_ask_for_comes_back_as_it_was_given(memory_app: Penstock) -> None:
    handle = memory_app.job("work")(shapes.everything)

    params = handle.enqueue(**EVERYTHING).refresh().params_text

    assert handle.signature.arguments(params) == EVERYTHING


def test_json_values_stand_for_what_the_hints_ask_for(memory_app: Penstock) -> None:
    handle = memory_app.job("work")(shapes.everything)
    plain = json.loads(handle.order(**EVERYTHING).params)

    params = memory_app.enqueue("work", plain).refresh().params_text

    assert plain["colour"] == "red"
    assert plain["person"] == {"name": "Ada", "addresses": [{"street": "Side St", "number": 1}]}
    assert handle.signature.arguments(params) == EVERYTHING


@pytest.mark.parametrize(
    ("name", "value", "path"),
    [
        ("text", 5, "/text"),
        ("colour", "green", "/colour"),
        ("level", 3, "/level"),
        ("home", {"street": "x", "number": "five"}, "/home/number"),
        ("home", {"number": 5}, "/home"),
        ("person", {"name": "x", "addresses": [{"street": "a"}, {"street": 1}]}, "/person/addresses/1/street"),
        ("at", "soon", "/at"),
        ("day", "2030-13-01", "/day"),
        ("length", "a while", "/length"),
        ("which", "not-a-uuid", "/which"),
        ("kind", "c", "/kind"),
        ("maybe", "x", "/maybe"),
        ("some", [1, "x"], "/some/1"),
        ("by_name", {"a/b": {"~": 1}}, "/by_name/a~1b"),
        ("small", 10, "/small"),
        ("either", [], "/either"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_a_pointer_to_it(
    memory_app: Penstock, name: str, value: Any, path: str
) -> None:
    handle = memory_app.job("work")(shapes.everything)

    with pytest.raises(InvalidPayload) as raised:
        handle.order(**{**EVERYTHING, name: value})

    assert raised.value.path == path
    assert "work" in raised.value.message
    assert path in raised.value.message


@pytest.mark.parametrize(
    ("value", "path", "problem"),
    [
        (math.nan, "/anything", "nan"),
        (2**63, "/anything", "64 bits"),
        ({"x": "a\x00b"}, "/anything/x", "NUL"),
        (["\ud800"], "/anything/0", "surrogate"),
        (object(), "/anything", "type object"),
        ([1, [object()]], "/anything/1/0", "type object"),
        ({frozenset(): 1}, "/anything", "key of type frozenset"),
        (b"\xff", "/anything", "type bytes"),
        ("x" * 1024 * 1024, "", "larger"),
    ],
    ids=["nan", "big", "nul", "surrogate", "object", "inner", "key", "bytes", "large"],
)
def test_what_no_store_could_keep_is_refused(memory_app: Penstock, value: Any, path: str, problem: str) -> None:
    handle = memory_app.job("work")(shapes.everything)

    with pytest.raises(InvalidPayload, match=problem) as raised:
        handle.order(**{**EVERYTHING, "anything": value})

    assert raised.value.path == path


def test_a_datetime_without_a_time_zone_is_a_datetime(memory_app: Penstock) -> None:
    handle = memory_app.job("work")(shapes.everything)
    naive = datetime(2030, 1, 2, 3, 4, 5)

    params = handle.order(**{**EVERYTHING, "at": naive}).params

    assert handle.signature.arguments(params)["at"] == naive


def test_positions_and_names_may_be_mixed_and_defaults_stay_with_the_function(memory_app: Penstock) -> None:
    handle = memory_app.job("work")(shapes.plain)

    assert handle.order("a", copies=2).params == '{"to":"a","copies":2}'
    assert handle.order(to="a").params == '{"to":"a"}'
    assert handle.signature.arguments('{"to":"a"}') == {"to": "a"}


@pytest.mark.parametrize(
    ("args", "kwargs", "problem"),
    [
        ((), {}, '"to" is a required property'),
        (("a", 1, 2), {}, "takes 2 parameters by position, 3 were given"),
        (("a",), {"to": "b"}, "got 'to' twice"),
        (("a",), {"copys": 1}, "'copys' was unexpected.*Did you mean 'copies'"),
        (("a",), {"zzz": 1}, "'zzz' was unexpected.*Its parameters: to, copies"),
    ],
)
def test_a_call_that_the_function_would_not_take_is_refused(
    memory_app: Penstock, args: tuple[Any, ...], kwargs: dict[str, Any], problem: str
) -> None:
    handle: Any = memory_app.job("work")(shapes.plain)

    with pytest.raises(InvalidPayload, match=problem):
        handle.enqueue(*args, **kwargs)

    assert memory_app.jobs.list().jobs == []


def test_the_context_is_no_parameter_and_its_type_need_not_be_importable(memory_app: Penstock) -> None:
    handle: Any = memory_app.job("work")(shapes.with_context)

    order = handle.order("a", copies=3)

    assert handle.signature.takes_context
    assert order.params == '{"to":"a","copies":3}'
    assert sorted(json.loads(handle.schema)["properties"]) == ["copies", "to"]


def test_a_keyword_only_parameter_is_not_taken_by_position(memory_app: Penstock) -> None:
    handle: Any = memory_app.job("work")(shapes.with_context)

    with pytest.raises(InvalidPayload, match="takes 1 parameters by position"):
        handle.order("a", 3)


def test_double_stars_allow_any_further_name(memory_app: Penstock) -> None:
    handle: Any = memory_app.job("work")(shapes.with_rest)

    order = handle.order(1, second=2, self=3, rest=4)

    assert handle.signature.arguments(order.params) == {"first": 1, "second": 2, "self": 3, "rest": 4}
    with pytest.raises(InvalidPayload, match="takes 1 parameters by position"):
        handle.order(1, 2)


def test_without_hints_any_json_will_do(memory_app: Penstock) -> None:
    handle = memory_app.job("work")(shapes.without_hints)

    assert handle.order([1, {"x": None}], two="2").params == '{"one":[1,{"x":null}],"two":"2"}'


def test_parameters_may_have_names_that_mean_something_to_pydantic(memory_app: Penstock) -> None:
    handle = memory_app.job("work")(shapes.awkward_names)

    params = handle.order(1, "s", True, model_config=2, _private=3).params

    assert handle.signature.arguments(params) == {
        "json": 1, "schema": "s", "copy": True, "model_config": 2, "_private": 3,
    }  # fmt: skip


def test_a_default_that_is_no_json_stays_with_the_function(memory_app: Penstock) -> None:
    handle = memory_app.job("work")(shapes.sentinel)

    properties = json.loads(handle.schema)["properties"]

    assert properties["value"]["default"] == 3
    assert "default" not in properties["marker"]


def test_hints_that_cannot_become_a_schema_are_named_when_the_definition_is_used(memory_app: Penstock) -> None:
    handle: Any = memory_app.job("work")(shapes.unkept)

    with pytest.raises(InvalidDefinition, match=r"work: its type hints .* 'Elsewhere' is not defined") as raised:
        handle.enqueue(1)

    assert "JSON" in raised.value.hint


def test_a_type_that_json_cannot_carry_is_named_when_the_definition_is_used(memory_app: Penstock) -> None:
    def call(back: Callable[[], None], thread: Strange) -> None: ...

    handle: Any = memory_app.job("work")(call)

    with pytest.raises(InvalidDefinition, match=r"work: its type hints .*Strange"):
        handle.enqueue(1, 2)


class Strange:
    """Nothing that JSON could carry."""


def test_default_params_stand_behind_what_the_call_gives(memory_app: Penstock) -> None:
    handle = memory_app.job("work", default_params={"to": "nobody", "copies": 2})(shapes.plain)

    assert json.loads(handle.order(copies=5).params) == {"to": "nobody", "copies": 5}  # type: ignore[call-arg]
    assert memory_app.enqueue("work").job.params == {"to": "nobody", "copies": 2}


def test_a_secret_value_is_not_told_when_it_does_not_fit(memory_app: Penstock) -> None:
    handle: Any = memory_app.job("login", secret=["password"])(shapes.login)

    with pytest.raises(InvalidPayload) as raised:
        handle.enqueue("ada", "hunter2")

    assert raised.value.path == "/password"
    assert "hunter2" not in str(raised.value)


def test_a_long_value_is_not_told_as_a_whole(memory_app: Penstock) -> None:
    handle: Any = memory_app.job("login")(shapes.login)

    with pytest.raises(InvalidPayload) as raised:
        handle.enqueue("ada", "x" * 100_000)

    assert len(str(raised.value)) < 500


def test_equal_sets_are_equal_parameters(memory_app: Penstock) -> None:
    handle = memory_app.job("work")(shapes.everything)
    orders = [handle.order(**{**EVERYTHING, "some": numbers}) for numbers in ({8, 16, 1}, {1, 16, 8}, {16, 8, 1})]

    assert {json.dumps(json.loads(order.params)["some"]) for order in orders} == {"[1, 16, 8]"}


def test_a_value_that_contains_itself_is_refused(memory_app: Penstock) -> None:
    handle = memory_app.job("work")(shapes.everything)
    circle: list[Any] = [Colour.RED]
    circle += [circle, circle]

    with pytest.raises(InvalidPayload, match="contains itself") as raised:
        handle.order(**{**EVERYTHING, "anything": circle})

    assert raised.value.path == "/anything/1"


def test_texts_that_are_enums_are_kept_as_their_values(memory_app: Penstock) -> None:
    class Kind(str, Enum):  # noqa: UP042 - the older way to say it
        ONE = "one"

    handle = memory_app.job("work")(shapes.plain)

    assert handle.order(Kind.ONE).params == '{"to":"one"}'


def test_a_stored_value_that_no_longer_fits_is_refused_with_a_pointer(memory_app: Penstock) -> None:
    handle = memory_app.job("work")(shapes.login)

    with pytest.raises(InvalidPayload) as raised:
        handle.signature.arguments('{"user":"ada","password":"hunter2"}')

    assert raised.value.path == "/password"
    assert "hunter2" not in str(raised.value)


def test_a_handler_without_parameters_has_the_schema_that_pydantic_would_make(app: Penstock) -> None:
    @app.job("nothing")
    def nothing(ctx: Any) -> None: ...

    empty = create_model("Parameters", __config__=ConfigDict(extra="forbid", title="Parameters"))

    assert json.loads(nothing.schema) == empty.model_json_schema()


@pytest.mark.parametrize("depth", [65, 2_000, 100_000])
def test_values_that_are_nested_too_deep_are_refused_as_parameters(depth: int) -> None:
    app = Penstock("sqlite://")

    @app.job("take")
    def take(value: object) -> None: ...

    value: object = 1
    for _ in range(depth):
        value = [value]

    with pytest.raises(InvalidPayload, match="nested deeper than 64 levels"):
        app.enqueue("take", {"value": value})
