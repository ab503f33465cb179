"""The five fields of a cron expression: how they are written, and what is wrong with those that cannot be read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cronsim import CronSim, CronSimError

from penstock.domain.errors import InvalidSchedule
from penstock.domain.hints import Hint

MAX_LENGTH = 500
ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
FIVE = "Give five: minute, hour, day of month, month, day of week."


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    allowed: str
    largest: int


_SHAPES = "ranges (1-5), lists (1,5) and steps (*/5)"
_FIELDS = (
    _Field("minute", f"0 to 59, *, {_SHAPES}", 59),
    _Field("hour", f"0 to 23, *, {_SHAPES}", 23),
    _Field("day of month", f"1 to 31, L (the last day), LW (the last weekday), *, {_SHAPES}", 31),
    _Field("month", f"1 to 12, JAN to DEC, *, {_SHAPES}", 12),
    _Field("day of week", f"0 to 7 (0 and 7 are Sunday), SUN to SAT, 5L, 1#2 or MON#2, *, {_SHAPES}", 7),
)
_HINTS = (
    (re.compile(r"\?"), "Write * instead of ?."),
    (re.compile(r"(^|,)[HR](\(|/|,|$)"), "Give a number; a schedule's jitter spreads the load."),
    (re.compile(r"\dW"), "The weekday nearest to a date cannot be said; LW is the month's last weekday."),
)
_WEEK_UNTIL_SUNDAY = re.compile(r"\b([1-6]|MON|TUE|WED|THU|FRI|SAT)-(?:SUN|0)\b")


def split(text: str) -> list[str]:
    """The five fields in upper case, names of the `@daily` kind written out, each one checked."""
    if len(text) > MAX_LENGTH:
        raise InvalidSchedule(
            f"The cron expression {text[:40]!r}… has {len(text)} characters; {MAX_LENGTH} are allowed.",
            hint="Say it with ranges and steps, or make several schedules.",
        )
    for character in text:
        if not (character == "\t" or " " <= character <= "~"):
            raise InvalidSchedule(
                f"The cron expression {text!r} holds {character!r}.",
                hint="Only ASCII letters, digits, signs, spaces and tabs are allowed.",
            )
    wanted = text.strip().lower()
    if wanted.startswith("@"):
        return _alias(text, wanted)
    parts = text.upper().split()
    if parts and "=" in parts[0]:
        raise InvalidSchedule(
            f"The cron expression {text!r} sets a variable.",
            hint=Hint(
                'The time zone is a fact of its own: timezone="Europe/Paris".',
                cli="The time zone is an option of its own: --timezone Europe/Paris.",
                http="The time zone is a field of its own: `timezone`.",
            ),
        )
    if len(parts) != 5:
        raise InvalidSchedule(f"The cron expression {text!r} has {len(parts)} fields.", hint=_number_of_fields(parts))
    parts[4] = _WEEK_UNTIL_SUNDAY.sub(r"\1-7", parts[4])
    for position, part in enumerate(parts):
        _check_field(text, position, part)
    return parts


def _alias(text: str, wanted: str) -> list[str]:
    if wanted in ALIASES:
        return ALIASES[wanted].split()
    hint = f"There are {', '.join(ALIASES)}."
    if wanted.startswith("@every"):
        hint = "Make it a schedule of the kind interval, such as 15m."
    if wanted == "@reboot":
        hint = "Nothing here starts with the machine: enqueue a job when your program starts."
    raise InvalidSchedule(f"The cron expression {text!r} is not known.", hint=hint)


def _number_of_fields(parts: list[str]) -> str:
    if len(parts) in (6, 7):
        return f"{FIVE} There is no field for seconds or years; an interval can be shorter than a minute."
    return FIVE


def _check_field(text: str, position: int, part: str) -> None:
    known = _FIELDS[position]
    try:
        _values(position, part)
    except CronSimError:
        hint = next((hint for pattern, hint in _HINTS if pattern.search(part)), f"Allowed: {known.allowed}.")
        raise _wrong(text, position, f"{part!r} is no {known.name}.", hint) from None
    for term in part.split(","):
        start, slash, step = term.partition("/")
        if not slash:
            continue
        single = start.startswith("L") or ("-" in start and len(_values(position, start)) == 1)
        if single or int(step) > known.largest:
            raise _wrong(
                text, position, f"the step of {term!r} leaves one {known.name}.", "Give that one without a step."
            )


def _values(position: int, part: str) -> set[Any]:
    """What one field stands for, every other one being open."""
    fields = ["*"] * 5
    fields[position] = part
    read = CronSim(" ".join(fields), datetime(2000, 1, 1))
    return (read.minutes, read.hours, read.days, read.months, read.weekdays)[position]


def _wrong(text: str, position: int, problem: str, hint: str) -> InvalidSchedule:
    return InvalidSchedule(f"The cron expression {text!r}, field {position + 1}: {problem}", hint=hint)
