"""What the code says about itself, as Markdown: signatures, docstrings, fields.

Everything is rendered here instead of by `inspect`, whose texts differ between versions of Python.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import textwrap
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

_WIDTH = 100


@dataclasses.dataclass(frozen=True, slots=True)
class FieldFacts:
    """One field of a record."""

    name: str
    type: str
    default: str
    note: str


def signature(function: Callable[..., Any], name: str, *, bound: bool = True) -> str:
    """A call as one would write it; over several lines when it is long."""
    given = inspect.signature(function)
    parameters = [each for each in given.parameters.values() if not (bound and each.name == "self")]
    parts = list(_parts(parameters))
    answer = "" if given.return_annotation is given.empty else f" -> {annotation(given.return_annotation)}"
    prefix = "async " if inspect.iscoroutinefunction(function) else ""
    line = f"{prefix}{name}({', '.join(parts)}){answer}"
    if len(line) <= _WIDTH:
        return line
    inside = "".join(f"    {part},\n" for part in parts)
    return f"{prefix}{name}(\n{inside}){answer}"


def annotation(value: Any) -> str:
    """Return a type as the source writes it."""
    if isinstance(value, str):
        return value
    return value.__name__ if isinstance(value, type) else str(value)


def doc(thing: object) -> str:
    """A docstring of the thing's own, as Markdown paragraphs."""
    text = getattr(thing, "__doc__", None)
    return inspect.cleandoc(text) if text else ""


def fields_of(record: type) -> list[FieldFacts]:
    """The fields of a dataclass or a named tuple, with the sentences that stand below them in the source."""
    notes = _notes(record)
    if not dataclasses.is_dataclass(record):
        defaults = getattr(record, "_field_defaults", {})
        return [
            FieldFacts(name, annotation(kind), _value(defaults[name]) if name in defaults else "", notes.get(name, ""))
            for name, kind in _written(record).items()
        ]
    return [
        FieldFacts(each.name, annotation(each.type), _default(each), notes.get(each.name, ""))
        for each in dataclasses.fields(record)
    ]


def public_members(owner: type) -> list[tuple[str, Any]]:
    """The public methods and properties of a class and of those of our bases, in the order of the source."""
    found: dict[str, Any] = {}
    for each in owner.__mro__:
        if each.__module__.startswith("penstock."):
            found = {**vars(each), **found} if found else dict(vars(each))
    return [
        (name, member)
        for name, member in found.items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    ]


def code(text: str, language: str = "python") -> str:
    return f"```{language}\n{text}\n```"


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; bars inside cells are escaped."""
    lines = [list(heads)]
    lines.append(["---"] * len(lines[0]))
    lines.extend([cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _parts(parameters: list[inspect.Parameter]) -> Iterable[str]:
    starred = False
    for index, each in enumerate(parameters):
        if each.kind is each.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        starred = starred or each.kind is each.VAR_POSITIONAL
        yield _parameter(each)
        following = parameters[index + 1].kind if index + 1 < len(parameters) else None
        if each.kind is each.POSITIONAL_ONLY and following is not each.POSITIONAL_ONLY:
            yield "/"


def _parameter(each: inspect.Parameter) -> str:
    stars = "*" if each.kind is each.VAR_POSITIONAL else "**" if each.kind is each.VAR_KEYWORD else ""
    text = f"{stars}{each.name}"
    if each.annotation is not each.empty:
        text += f": {annotation(each.annotation)}"
    if each.default is not each.empty:
        text += f" = {_value(each.default)}" if each.annotation is not each.empty else f"={_value(each.default)}"
    return text


def _value(value: object) -> str:
    return f"{type(value).__name__}.{value.name}" if isinstance(value, enum.Enum) else repr(value)


def _written(record: type) -> dict[str, Any]:
    """The types of a named tuple's fields as they stand in the source."""
    return {name: getattr(kind, "__forward_arg__", kind) for name, kind in inspect.get_annotations(record).items()}


def _default(each: dataclasses.Field[Any]) -> str:
    if each.default is not dataclasses.MISSING:
        return _value(each.default)
    if each.default_factory is not dataclasses.MISSING:
        return f"{getattr(each.default_factory, '__name__', '')}()"
    return ""


def _notes(record: type) -> dict[str, str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(record)))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    notes: dict[str, str] = {}
    for before, after in pairwise(body):
        if not (isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)):
            continue
        if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name):
            notes[before.target.id] = " ".join(str(after.value.value).split())
    return notes
