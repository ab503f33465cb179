"""How values travel to PostgreSQL: as text whose type the statement says.

Arrays are written as literals here instead of by the driver, which names a type by what a list happens to
hold; the same statement would then be prepared again for each mixture of NULLs and sizes of numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.domain.plan import Statement


def bound(common: Mapping[str, Any], statement: Statement) -> dict[str, Any]:
    """The values of a statement, ready for the driver."""
    values = {**common, **statement.values}
    for name, value in statement.values.items():
        kind = type(value)
        if kind is int:
            values[name] = str(value)
        elif kind is list or kind is tuple:
            values[name] = array(value)
    if statement.columns is not None:
        for name, column in statement.columns.items():
            values[name] = array(column)
    return values


def array(values: Sequence[Any]) -> str:
    """A PostgreSQL array literal."""
    if not values:
        return "{}"
    first = values[0]
    if first is None and values.count(None) == len(values):
        return "{" + "NULL," * (len(values) - 1) + "NULL}"
    if type(first) is int and None not in values:
        return "{" + ",".join(map(str, values)) + "}"
    if type(first) is str and (texts := _texts(values)) is not None:
        return texts
    return "{" + ",".join(map(_element, values)) + "}"


def _texts(values: Sequence[Any]) -> str | None:
    """An array of texts, escaped all at once; None when they are not only texts."""
    try:
        # No text may hold a NUL: it stands between them until they are escaped.
        joined = "\0".join(values)
    except TypeError:
        return None
    if joined.count("\0") != len(values) - 1:
        return None
    if "\\" in joined:
        joined = joined.replace("\\", "\\\\")
    escaped = joined.replace('"', '\\"').replace("\0", '","')
    return f'{{"{escaped}"}}'


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        if "\\" in value or '"' in value:
            value = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{value}"'
    return repr(value) if isinstance(value, float) else str(value)
