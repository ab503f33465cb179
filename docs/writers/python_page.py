"""The page of public Python names, from `penstock.__all__`."""

from __future__ import annotations

import dataclasses
import enum
import inspect
from typing import Any, get_overloads

import penstock
import penstock.testing
from docs.writers.inspected import code, doc, fields_of, public_members, signature, table
from penstock.surface.audit import Audit
from penstock.surface.definitions import Definitions
from penstock.surface.events import Events
from penstock.surface.jobs import Jobs
from penstock.surface.monitoring import Monitoring
from penstock.surface.schedules import Schedules
from penstock.surface.tokens import Tokens
from penstock.surface.webhooks import Webhooks
from penstock.surface.workers import Workers

# The async calls whose name is not the sync one's with an "a" in front.
_TWINS = {"awaited": "wait"}

_GROUPS = {
    "app.jobs": Jobs,
    "app.definitions.declared": Definitions,
    "app.schedules": Schedules,
    "app.workers": Workers,
    "app.webhooks": Webhooks,
    "app.tokens": Tokens,
    "app.events": Events,
    "app.monitoring": Monitoring,
    "app.audit": Audit,
}
"""The groups of calls of an application and of a client."""

_ALIASES = {
    "JsonObject": "A type, the same as `dict[str, JsonValue]`: a JSON object.",
    "JsonValue": "A type of pydantic's: None, `bool`, `int`, `float`, `str`, or a list or `dict` of such values.",
}


def write() -> str:
    things = {name: getattr(penstock, name) for name in penstock.__all__}
    aliases = {name: things.pop(name) for name in list(things) if not inspect.isclass(things[name])}
    errors = {name: each for name, each in things.items() if issubclass(each, BaseException)}
    others = {name: each for name, each in things.items() if name not in errors}
    verdicts = {name: errors.pop(name) for name in list(errors) if not issubclass(errors[name], penstock.PenstockError)}
    first = {"Penstock": others.pop("Penstock"), **_GROUPS, "Client": others.pop("Client")}
    first |= {name: others.pop(name) for name in ("DefinitionHandle", "JobHandle")}
    return "\n\n".join(
        [
            "# Python",
            "Every public name of `penstock`. A call that begins with `a` is the same call for an event loop.",
            *(_section(name, each) for name, each in {**first, **others}.items()),
            *(f"## {name}\n\n{_ALIASES[name]}" for name in aliases),
            *(_verdict(name, each) for name, each in verdicts.items()),
            "## penstock.testing",
            "For the tests of your own jobs; see the [guide](../guide/testing.md).",
            *(_section(name, getattr(penstock.testing, name)) for name in penstock.testing.__all__),
            "## Errors",
            table(
                ("error", "meaning"),
                ((f"[`{name}`](errors.md#{name.lower()})", doc(each)) for name, each in errors.items()),
            ),
        ]
    )


def _verdict(name: str, kind: Any) -> str:
    given = [] if kind.__init__ is BaseException.__init__ else [code(signature(kind.__init__, name))]
    return "\n\n".join([f"## {name}", *given, doc(kind)])


def _section(name: str, thing: Any) -> str:
    if inspect.isfunction(thing):
        return "\n\n".join([f"## {name}", code(signature(thing, name)), doc(thing)])
    parts = [f"## {name}", doc(thing)]
    if issubclass(thing, enum.Enum):
        parts.append(table(("member", "value"), ((f"`{each.name}`", f"`{each.value}`") for each in thing)))
    elif dataclasses.is_dataclass(thing) or issubclass(thing, tuple):
        rows = ((f"`{each.name}`", f"`{each.type}`", _code(each.default), each.note) for each in fields_of(thing))
        parts.append(table(("field", "type", "default", ""), rows))
    elif name == "Penstock":
        parts.append(code(signature(thing.__init__, name)))
    members = dict(public_members(thing))
    parts.extend(_member(name, each, member, members) for each, member in members.items())
    return "\n\n".join(part for part in parts if part)


def _member(owner: str, name: str, member: Any, siblings: dict[str, Any]) -> str:
    title = f"### {owner}.{name}"
    if isinstance(member, property):
        assert member.fget is not None
        answer = inspect.signature(member.fget).return_annotation
        return "\n\n".join(part for part in (title, f"A property: `{answer}`.", doc(member)) if part)
    calls = [each for each in get_overloads(member) if not _is_narrowed(each)] or [member]
    text = "\n".join(signature(each, name) for each in calls)
    return "\n\n".join(part for part in (title, code(text), doc(member) or _as_its_twin(name, siblings)) if part)


def _is_narrowed(overload: Any) -> bool:
    """Whether an overload is for type checkers only: it says more about `self` and nothing about the call."""
    return "self" in overload.__annotations__


def _as_its_twin(name: str, siblings: dict[str, Any]) -> str:
    twin = _TWINS.get(name, name.removeprefix("a"))
    return f"As `{twin}`, without blocking the event loop." if twin != name and twin in siblings else ""


def _code(text: str) -> str:
    return f"`{text}`" if text else ""
