"""Types and functions that definitions of the tests are made of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NewType
from uuid import UUID

from pydantic import BaseModel, Field
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

if TYPE_CHECKING:
    from somewhere_that_is_not_installed import Elsewhere  # type: ignore[import-not-found]

UserId = NewType("UserId", int)
NOTHING = object()


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Address:
    street: str
    number: int = 1


class Person(BaseModel):
    name: str
    addresses: list[Address] = []


class Flags(TypedDict, total=False):
    fast: bool


def everything(
    text: str,
    user: UserId,
    colour: Colour,
    level: Level,
    home: Address,
    person: Person,
    at: datetime,
    day: date,
    length: timedelta,
    which: UUID,
    price: Decimal,
    kind: Literal["a", "b"],
    maybe: int | None,
    some: set[int],
    by_name: dict[str, list[float]],
    by_number: dict[int, str],
    flags: Flags,
    path: Path,
    small: Annotated[int, Field(ge=0, le=9)],
    either: int | str,
    anything: Any = None,
    defaulted: Colour = Colour.BLUE,
) -> None: ...


def plain(to: str, copies: int = 1) -> str:
    """Send something."""
    return f"{to} x {copies}"


async def asynchronous(to: str) -> int:
    return len(to)


def with_context(ctx: Elsewhere, to: str, *, copies: int = 1) -> Elsewhere: ...


def with_rest(first: int, **rest: int) -> None: ...


def without_hints(one, two=2):
    return one


def awkward_names(json: int, schema: str, copy: bool, model_config: int, _private: int = 0, self_: int = 0) -> None: ...


def unkept(callback: Elsewhere) -> None: ...


def sentinel(value: int = 3, marker: Any = NOTHING) -> None: ...


def login(user: str, password: int) -> None: ...
