"""The defaults that the code has, for each table of the guides that states some."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any, get_overloads

from penstock import Backoff, Penstock
from penstock.config.settings import BY_NAME, SETTINGS
from penstock.config.worker_settings import WorkerSettings
from penstock.domain.definition import Definition
from penstock.domain.worker_config import WorkerConfig, as_json
from penstock.surface.orders import EnqueueOptions
from penstock.surface.schedules import Schedules
from tests.docs.limits import deadlines
from tests.docs.stated import Row

_JOB = get_overloads(Penstock.job)[1]
_SCHEDULE = inspect.signature(Schedules.declare).parameters
_OPTIONS = {each.name: each.default for each in fields(EnqueueOptions)}
_FLAGS = {each.flag: each.default for each in SETTINGS if each.flag} | {"--watch": False}
_EMPTY: tuple[Any, ...] = (None, (), {}, "", False)
_UNITS = {"s": 1, "days": 86_400, "MiB": 1024**2, "KiB": 1024}


def _of_job(name: str) -> Any:
    found = inspect.signature(_JOB).parameters[name].default
    return Definition(key="work").backoff if name == "backoff" else 1 if name == "key_concurrency" else found


SOURCES: dict[tuple[str, str], Callable[[str], Any]] = {
    ("docs/guide/enqueue.md", "Options of @app.job"): _of_job,
    ("docs/guide/enqueue.md", "Options for one job"): _OPTIONS.__getitem__,
    ("docs/guide/http.md", "Settings"): lambda name: BY_NAME[f"web.{name}"].default,
    ("docs/guide/webhooks.md", "Where to"): lambda name: BY_NAME[f"webhooks.{name}"].default,
    ("docs/guide/job-files.md", "Resources of handlers"): lambda name: BY_NAME[name.strip("[]")].default,
    ("docs/guide/schedules.md", "From code"): lambda name: _SCHEDULE[name].default,
    ("docs/guide/workers.md", "Run jobs"): lambda name: _FLAGS[name],
    ("docs/guide/configuration.md", "The stored worker configuration"): as_json(WorkerConfig()).__getitem__,
    ("docs/guide/stores.md", "PostgreSQL"): lambda name: deadlines()[name],
}
"""By page and heading: what gives the default of a name in the table there."""

WORDS: dict[str, tuple[Any, ...]] = {
    "none": _EMPTY, "any": _EMPTY, "any error": _EMPTY, "no": (False,), "null": (None,), "now": (None,),
    "docstring": (None,), "the definition's": (None,), "the application's": (None,), "that of the folder": (None,),
    "the newest": (None,), "one of them": (None,), "1970": (None,), "the worker's": (None,), "the host's": ("",),
    "2 × cores": (WorkerSettings().slots,), "0 (none)": (0,),
}  # fmt: skip
"""What words in a column of defaults stand for."""

IN_PARTS = {
    ("docs/guide/configuration.md", "limits", "all null"): lambda found: set(found.values()) == {None},
    ("docs/guide/configuration.md", "retention", "both null"): lambda found: set(found.values()) == {None},
    ("docs/guide/configuration.md", "alerts", "see below"): lambda found: len(found) == 6,
    ("docs/guide/webhooks.md", "retries", "nine, see above"): lambda found: len(found) == 9,
    ("docs/guide/webhooks.md", "ports", "443, 8443"): lambda found: found == (443, 8443),
}
"""Defaults that are several values: what must be true of them."""

ELSEWHERE = {
    ("SECURITY.md", "Secure by default"),
    ("docs/guide/isolation.md", "How a job gets its process"),
    ("docs/guide/job-files.md", "[worker]"),
}
"""Tables, and names, whose defaults are not values."""


def problem(row: Row) -> str | None:
    """What is wrong with a stated default; None: it is the code's."""
    where = f"{row.page}:{row.line}: `{row.name}`"
    if {(row.page, row.heading), (row.page, row.name)} & ELSEWHERE:
        return None
    source = SOURCES.get((row.page, row.heading))
    if source is None:
        return f"{where} is in a table that nothing compares: say in SOURCES of {__name__} where its defaults are."
    try:
        found = source(row.name)
    except KeyError:
        return f"{where} does not exist in the code: correct the name, or the source of this table in {__name__}."
    if (row.page, row.name, row.default) in IN_PARTS:
        fits = IN_PARTS[row.page, row.name, row.default](found)
    else:
        try:
            fits = _fits(row.default, row.name, found)
        except ValueError:
            return (
                f"{where}: {row.default!r} cannot be read: write a value, or say in WORDS of {__name__} what it means."
            )
    return None if fits else f"{where} is stated as {row.default}, and the code has {found!r}: correct the page."


def _fits(text: str, name: str, found: Any) -> bool:
    if text.startswith("the worker's, "):
        # The definition itself says the same, or nothing.
        text, found = text.removeprefix("the worker's, "), getattr(WorkerSettings(), name)
    if text in WORDS:
        return any(found == each and type(found) is type(each) for each in WORDS[text])
    if text == found:
        return True
    plain = text.strip("`")
    if plain.startswith("Backoff("):
        numbers = {key: float(value) for key, value in re.findall(r"(\w+)=([\d.]+)", plain)}
        return bool(found == Backoff(**numbers))
    if plain in ("true", "false"):
        return found is (plain == "true")
    if plain == "{}":
        return bool(found == {})
    if text.startswith("`") and not plain[0].isdigit():
        return bool(found == plain.strip('"'))
    if plain.count(".") == 3:
        return bool(found == plain)
    number, _, unit = plain.partition(" ")
    if unit and unit not in _UNITS:
        raise ValueError(unit)
    return bool(float(number) * _UNITS.get(unit, 1) == found)
