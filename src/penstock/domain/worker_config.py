"""The stored configuration of all workers: what an operator changes while they run.

As JSON it is one object in camelCase; missing fields have their defaults, and null means the worker's own setting.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from penstock.domain import payload
from penstock.domain.errors import InvalidInput
from penstock.domain.instant import SECOND

SETTING = "worker"
"""The name under which the store keeps it."""

_MOST_CUSTOM = 65_536
_BY, _AT = "disabledBy", "disabledAt"
_YEAR = 365 * 86_400.0
_STRICT = 10**15
"""An ageing interval, in microseconds, that no job outlives: 31 years for each step."""


@dataclass(frozen=True, slots=True)
class RetentionDefaults:
    """Retention periods for definitions that declare none, in seconds."""

    stale_after: float | None = None
    delete_after: float | None = None


@dataclass(frozen=True, slots=True)
class AlertThresholds:
    """Thresholds of alerts; times are in seconds."""

    failure_rate: float = 0.1
    window: float = 900.0
    """How far back failures are counted, in whole minutes."""
    least_sample: int = 20
    """The fewest ended jobs of a definition in the window for which a failure rate is computed."""
    depth: int = 100
    stuck: float = 300.0
    """How much longer than usual a job may run, or report no progress after its first report."""
    endpoint_failures: int = 5
    """The consecutive failed tries of an endpoint that raise an alert."""


@dataclass(frozen=True, slots=True)
class DefaultLimits:
    """Limits of an attempt with process isolation whose definition sets none."""

    memory: int | None = None
    cpu: int | None = None
    files: int | None = None
    file_size: int | None = None
    processes: int | None = None


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """The configuration of every worker of a store; None: the worker's own setting. Times are in seconds."""

    enabled: bool = True
    """Whether workers claim jobs; running jobs continue in any case."""
    slots: int | None = None
    inline_slots: int | None = None
    poll: float | None = None
    lease: float | None = None
    heartbeat: float | None = None
    drain: float | None = None
    cancel_grace: float | None = None
    ageing: float = 600.0
    """The waiting time that counts as one step of priority; 0: priorities are strict."""
    retention: RetentionDefaults = field(default_factory=RetentionDefaults)
    alerts: AlertThresholds = field(default_factory=AlertThresholds)
    limits: DefaultLimits = field(default_factory=DefaultLimits)
    custom: str = "{}"
    """A JSON object of the application's own, as text; handlers see it as `ctx.settings`."""

    def __post_init__(self) -> None:
        _check(self, _RANGES, "")
        for name, ranges in _PARTS.items():
            _check(getattr(self, name), ranges, f"{payload.camel(name)}.")
        if not isinstance(self.enabled, bool):
            raise InvalidInput(f"enabled of the worker configuration must be true or false, not {self.enabled!r:.80}.")
        if self.lease is not None and self.heartbeat is not None and too_slow(self.heartbeat, self.lease):
            raise InvalidInput(
                f"A heartbeat every {self.heartbeat:g} s is too slow for a lease of {self.lease:g} s.",
                hint="The lease should last for at least three heartbeats.",
            )
        if not isinstance(self.custom, str) or not isinstance(payload.decode(self.custom, "custom"), dict):
            raise InvalidInput("custom of the worker configuration must be a JSON object.")
        if len(self.custom.encode()) > _MOST_CUSTOM:
            raise InvalidInput(
                f"custom of the worker configuration may have {_MOST_CUSTOM} bytes of JSON.",
                hint="Every attempt is handed it: keep large data elsewhere.",
            )


def ageing_interval(config: WorkerConfig) -> int:
    """The microseconds of waiting that one step of priority is worth."""
    return max(1, round(config.ageing * SECOND)) if config.ageing else _STRICT


@dataclass(frozen=True, slots=True)
class Disabled:
    """Which operator disabled the workers, and when."""

    by: str
    at: datetime


def margin(lease: float) -> float:
    """How long before its lease ends a worker stops trusting it."""
    return max(0.2 * lease, min(1.0, 0.3 * lease))


def too_slow(heartbeat: float, lease: float) -> bool:
    """Whether a lease would end when one heartbeat is not answered."""
    return heartbeat * 2 > lease - margin(lease)


def parse(value: object) -> WorkerConfig:
    """A configuration from JSON that comes from outside."""
    return merged(WorkerConfig(), value)


def merged(config: WorkerConfig, changes: object) -> WorkerConfig:
    """A configuration with changes from JSON; parts are changed field by field, `custom` as a whole."""
    found: dict[str, Any] = {}
    for name, given in _named(changes, _FIELDS, "the worker configuration").items():
        if name == "custom":
            found[name] = payload.encode(_object(given, "custom of the worker configuration"), "custom")
        elif name in _PARTS:
            part = getattr(config, name)
            known = [each.name for each in fields(part)]
            found[name] = replace(part, **_named(given, known, f"{name} of the worker configuration"))
        else:
            found[name] = given
    return replace(config, **found)


def as_json(config: WorkerConfig) -> dict[str, Any]:
    """A configuration as an object for JSON."""
    facts: dict[str, Any] = {payload.camel(name): getattr(config, name) for name in _FIELDS}
    for name in _PARTS:
        part = getattr(config, name)
        facts[name] = {payload.camel(each.name): getattr(part, each.name) for each in fields(part)}
    return {**facts, "custom": payload.load(config.custom)}


def to_text(config: WorkerConfig, disabled: Disabled | None) -> str:
    """What the store keeps: the configuration, and while workers are disabled who said so."""
    said = {_BY: disabled.by, _AT: disabled.at.isoformat()} if disabled is not None and not config.enabled else {}
    return json.dumps({**as_json(config), **said}, ensure_ascii=False, separators=(",", ":"))


def from_text(text: str | None) -> WorkerConfig:
    """What the store has kept. A field that this release does not know is passed over: a later one may have it."""
    facts = {} if text is None else _kept(text)
    known: dict[str, Any] = {}
    for name in map(payload.camel, _FIELDS):
        if name in facts:
            known[name] = facts[name]
    for name in _PARTS:
        part = {payload.camel(each.name) for each in fields(getattr(_PLAIN, name))}
        said = _object(facts.get(name, {}), f"{name} of the worker configuration")
        known[name] = {key: value for key, value in said.items() if key in part}
    return parse(known)


def disabled_in(setting: Setting | None) -> Disabled | None:
    """Who disabled the workers, if what the store has kept says that they are and can be read."""
    if setting is None:
        return None
    try:
        facts = _kept(setting.value)
    except InvalidInput:
        return None
    if facts.get("enabled", True):
        return None
    if _BY not in facts:
        return Disabled(setting.updated_by, setting.updated_at)
    return Disabled(facts[_BY], datetime.fromisoformat(facts[_AT]))


def _kept(text: str) -> Mapping[str, Any]:
    return _object(payload.decode(text, "the worker configuration"), "the worker configuration")


def changes_between(before: WorkerConfig, after: WorkerConfig) -> tuple[dict[str, Any], dict[str, Any]]:
    """What was and what is, of the fields that differ; of `custom`, which may hold secrets, only that it does."""
    old, new = as_json(before), as_json(after)
    names = [name for name in new if old[name] != new[name]]
    told = [{name: "…" if name == "custom" else facts[name] for name in names} for facts in (old, new)]
    return told[0], told[1]


_PARTS: dict[str, dict[str, tuple[type, float, float]]] = {
    "retention": {"stale_after": (float, 0, 100 * _YEAR), "delete_after": (float, 0, 100 * _YEAR)},
    "alerts": {
        "failure_rate": (float, 0, 1),
        "window": (float, 60, 86_400),
        "least_sample": (int, 1, 1_000_000),
        "depth": (int, 0, 2**53),
        "stuck": (float, 0, _YEAR),
        "endpoint_failures": (int, 1, 1_000_000),
    },
    "limits": {
        "memory": (int, 10_000_000, 2**53),
        "cpu": (int, 1, 2**53),
        "files": (int, 16, 2**53),
        "file_size": (int, 0, 2**53),
        "processes": (int, 1, 2**53),
    },
}
_RANGES: dict[str, tuple[type, float, float]] = {
    "slots": (int, 1, 10_000),
    "inline_slots": (int, 1, 100_000),
    "poll": (float, 0.01, 3600),
    "lease": (float, 1, 3600),
    "heartbeat": (float, 0.1, 1200),
    "drain": (float, 0, 86_400),
    "cancel_grace": (float, 0, 86_400),
    "ageing": (float, 0, _YEAR),
}
_NEEDED = {"ageing", *(each.name for each in fields(AlertThresholds))}
_FIELDS = tuple(each.name for each in fields(WorkerConfig))


def _check(part: object, ranges: Mapping[str, tuple[type, float, float]], where: str) -> None:
    for name, (kind, least, most) in ranges.items():
        value = getattr(part, name)
        if value is None and name not in _NEEDED:
            continue
        number = isinstance(value, int) if kind is int else isinstance(value, int | float)
        if isinstance(value, bool) or not number or not least <= value <= most:
            what = "an integer" if kind is int else "a number"
            raise InvalidInput(
                f"{where}{payload.camel(name)} of the worker configuration must be {what} "
                f"from {least:.15g} to {most:.15g}, not {value!r:.80}."
            )


def _named(value: object, names: Sequence[str], what: str) -> dict[str, Any]:
    """The fields of a JSON object by the names that they have in Python; one that is unknown is refused."""
    known = {payload.camel(name): name for name in names}
    found: dict[str, Any] = {}
    for key, each in _object(value, what).items():
        if key not in known:
            raise InvalidInput(f"{key!r:.80} is not a field of {what}.", hint=_nearest(str(key), known))
        found[known[key]] = each
    return found


def _nearest(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), n=1)
    return f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(known)}."


def _object(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{what} must be an object, not {value!r:.80}.")
    return value


_PLAIN = WorkerConfig()


@dataclass(frozen=True, slots=True)
class Setting:
    """One stored setting."""

    name: str
    value: str
    revision: int
    updated_at: datetime
    updated_by: str
