"""Schedules from the options that users give."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from datetime import datetime
from typing import Any, TypedDict

from penstock.definitions import enqueue_options as given
from penstock.definitions.handles import DefinitionHandle
from penstock.definitions.orders import PLAIN, EnqueueOptions
from penstock.definitions.signature import plain_text
from penstock.domain.errors import Hint, InvalidInput, InvalidSchedule, refuse_unknown
from penstock.domain.instant import Duration, microseconds, to_datetime
from penstock.domain.schedule import recurrence
from penstock.domain.schedule.schedule import Kind, Missed, Overlap, Schedule

SCHEDULE_OPTIONS = ("schedule", "timezone", "missed", "missed_max", "missed_window", "overlap", "jitter")
"""The options of `@app.job` for a schedule."""

_RHYTHMS = ("cron", "every", "at")
_ONE_RHYTHM = Hint(
    "Give one of cron, every and at.", cli="Give one of --cron, --every and --at.", http="Send `kind` and `expression`."
)
_KEPT_OPTIONS = ("priority", "concurrency_key")
_INTERVAL = re.compile(r"\s*\d+[dhms]")


class ScheduleFacts(TypedDict, total=False):
    """The options of a schedule, by name."""

    cron: str | None
    every: Duration | str | None
    at: datetime | None
    start: datetime | None
    params: Mapping[str, Any] | None
    definition_version: int | None
    priority: int | None
    concurrency_key: str | None
    timezone: str
    missed: str
    missed_max: int
    missed_window: Duration | None
    overlap: str
    jitter: Duration
    enabled: bool


FACTS = tuple(ScheduleFacts.__annotations__)


@contextmanager
def naming(key: str) -> Iterator[None]:
    """Convert errors to `InvalidSchedule` with the schedule's name."""
    try:
        yield
    except InvalidInput as error:
        prefix = f"Schedule {key!r}: "
        if isinstance(error, InvalidSchedule) and error.message.startswith(prefix):
            raise
        raise InvalidSchedule(f"{prefix}{error.message}", hint=error.hint) from error


def schedule_from(key: str, definition: object, facts: Mapping[str, Any]) -> Schedule:
    """Return a new schedule; its parameters are not validated yet."""
    name = given.short_text(key, "A schedule's key", 200)
    if name is None:
        raise InvalidSchedule("A schedule needs a key.", hint="Use 1 to 200 characters.")
    with naming(name):
        refuse_unknown(facts, FACTS, "a fact of a schedule")
        if all(facts.get(each) is None for each in _RHYTHMS):
            raise InvalidSchedule("it has no time.", hint=_ONE_RHYTHM)
        made = Schedule(name, definition_key(definition), Kind.CRON, "", **_from_handle(definition))
        # Missing options must not replace those of the handle.
        return changed(made, {each: facts[each] for each in facts if facts[each] is not None})


def changed(schedule: Schedule, facts: Mapping[str, Any]) -> Schedule:
    """Return a schedule with some options replaced."""
    with naming(schedule.key):
        refuse_unknown(facts, FACTS, "a fact of a schedule")
        return replace(schedule, **_when(facts), **_plain(facts))


def definition_key(definition: object) -> str:
    """Return the key of a schedule's definition."""
    if isinstance(definition, DefinitionHandle):
        return definition.key
    if not isinstance(definition, str):
        raise InvalidSchedule(f"A schedule runs a definition or its key, not {definition!r:.80}.")
    return definition


def declared_with_job(key: str, options: dict[str, Any]) -> dict[str, Any] | None:
    """Remove the schedule's options from those of `@app.job`, and return them."""
    found = {name: options.pop(name) for name in SCHEDULE_OPTIONS if name in options}
    if found and "schedule" not in found:
        raise InvalidSchedule(
            f"{key}: {', '.join(sorted(found))} without a schedule.", hint='Say when, as in schedule="0 3 * * *".'
        )
    when = found.pop("schedule", None)
    if when is None:
        return None
    if isinstance(when, str):
        return {"every" if _INTERVAL.match(when) else "cron": when, **found}
    return {"at" if isinstance(when, datetime) else "every": when, **found}


def tick_options(schedule: Schedule, due: int | None) -> EnqueueOptions:
    """Return the options of a tick's job, except its parameters."""
    return EnqueueOptions(
        run_at=None if due is None else to_datetime(due),
        priority=schedule.priority,
        concurrency_key=schedule.concurrency_key,
    )


def _from_handle(definition: object) -> dict[str, Any]:
    """Return the options of a handle that a schedule can store."""
    if not isinstance(definition, DefinitionHandle):
        return {}
    options = definition._options
    lost = [
        each.name
        for each in fields(options)
        if each.name not in _KEPT_OPTIONS and getattr(options, each.name) != getattr(PLAIN, each.name)
    ]
    if lost or options.connection is not None:
        raise InvalidSchedule(
            f"it cannot keep the options {', '.join(lost or ['connection'])} of the definition given."
        )
    return {name: getattr(options, name) for name in _KEPT_OPTIONS}


def _when(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return kind and expression, if the options contain them."""
    said = [name for name in _RHYTHMS if facts.get(name) is not None]
    start = facts.get("start")
    if len(said) > 1:
        raise InvalidSchedule(f"{' and '.join(said)} are both given.", hint=_ONE_RHYTHM)
    if start is not None and said != ["every"]:
        raise InvalidSchedule(
            "start goes with every.",
            hint=Hint(
                "Give every=… as well.",
                cli="Give --every as well.",
                http='Send "kind": "interval" with an `expression`.',
            ),
        )
    if not said:
        return {}
    (name,) = said
    value = facts[name]
    if name == "cron":
        if not isinstance(value, str):
            raise InvalidSchedule(f"cron must be a text such as '0 3 * * *', not {value!r:.80}.")
        return {"kind": Kind.CRON, "expression": value}
    if name == "at":
        return {"kind": Kind.ONCE, "expression": to_datetime(given.instant(value, "at") or 0).isoformat()}
    if isinstance(value, str) and start is not None:
        raise InvalidSchedule(f"give the start of a textual interval within it: '{value:.80} from …'.")
    return {"kind": Kind.INTERVAL, "expression": value if isinstance(value, str) else recurrence.every(value, start)}


def _plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are fields of the schedule, with basic validation."""
    found: dict[str, Any] = {
        name: facts[name] for name in ("timezone", "priority", "definition_version") if name in facts
    }
    if found.get("definition_version") is not None:
        given.integer(found["definition_version"], "definition_version")
    if "concurrency_key" in facts:
        found["concurrency_key"] = given.short_text(facts["concurrency_key"], "concurrency_key")
    if "missed_max" in facts:
        found["missed_max"] = given.integer(facts["missed_max"], "missed_max")
    if "enabled" in facts:
        if not isinstance(facts["enabled"], bool):
            raise InvalidSchedule(f"enabled must be True or False, not {facts['enabled']!r:.80}.")
        found["enabled"] = facts["enabled"]
    if "missed" in facts:
        found["missed"] = _member("missed", facts["missed"], Missed)
    if "overlap" in facts:
        found["overlap"] = _member("overlap", facts["overlap"], Overlap)
    if "jitter" in facts:
        found["jitter"] = microseconds(facts["jitter"], "jitter")
    if "missed_window" in facts:
        window = facts["missed_window"]
        found["missed_window"] = None if window is None else microseconds(window, "missed_window")
    if facts.get("params") is not None:
        found["params_text"] = _params(facts["params"])
    return found


def _params(value: object) -> str:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"params must be a mapping by name, not {value!r:.80}.")
    return plain_text(dict(value), "params")


def _member(name: str, value: object, known: type[Missed] | type[Overlap]) -> Missed | Overlap:
    if not isinstance(value, str) or value not in list(known):
        raise InvalidSchedule(f"{name} is one of {', '.join(known)}, not {value!r:.80}.")
    return known(value)
