"""Controls of definitions: pause, enable, override; a part of the control port."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from penstock.domain.definition import FOR_ATTEMPTS, FOR_JOBS, Definition, Pause, check_override
from penstock.domain.errors import InvalidInput, NotFound
from penstock.domain.instant import DAY, SECOND
from penstock.domain.plan import Statement, Steps, writes
from penstock.storage.commands import audit, limits
from penstock.storage.commands import definition_text as forms

SYSTEM = "*"
"""The key of the whole system."""

_MOST = 2**31 - 1
_SHORTEST_PERIOD = SECOND // 1000
_PAUSE = ("pause_reason", "pause_by", "pause_at", "pause_until")
_LIMITS = ("concurrency", "key_concurrency", "rate_count", "rate_period", "rate_per_key")
_COLUMNS = ("enabled", *_PAUSE, *_LIMITS, *FOR_JOBS, "overrides", "retired_at", "retired_by")
_OVERRIDABLE = (*_LIMITS, *FOR_JOBS, *FOR_ATTEMPTS)


@writes
def pause(key: str, pause: Pause | None, *, by: str) -> Steps[None]:
    control = yield from (_hold(key) if key == SYSTEM else hold_definition(key))
    changed = dict(zip(_PAUSE, _pause_columns(pause), strict=True))
    what = "system" if key == SYSTEM else "definition"
    yield from save(key, control, changed, f"{what}.resume" if pause is None else f"{what}.pause", by)


@writes
def enable(key: str, enabled: bool, *, by: str) -> Steps[None]:
    control = yield from hold_definition(key)
    changed: dict[str, Any] = {"enabled": enabled}
    if enabled and control["retired_at"] is not None:
        changed |= {"retired_at": None, "retired_by": None}
    yield from save(key, control, changed, "definition.enable" if enabled else "definition.disable", by)


@writes
def override(key: str, overrides: Mapping[str, object], *, by: str) -> Steps[None]:
    """Names that are left out keep the value of the code; limits that of the newest version."""
    _check(key, overrides)
    control = yield from hold_definition(key)
    ((body,),) = yield Statement("newest_body", {"key": key})
    definition, _, problem = forms.read(key, 1, body, "{}")
    if problem is not None:
        raise forms.unreadable(key, None, problem)
    wanted = {**own_limits(definition), **_limits_of(overrides)}
    if wanted["rate_count"] and not wanted["rate_period"]:
        raise InvalidInput(
            f"{key}: a rate_count needs a rate_period.", hint="Give it in microseconds: 1000000 is a second."
        )
    changed = {**wanted, **{name: overrides.get(name) for name in FOR_JOBS}, "overrides": json.dumps(dict(overrides))}
    yield from save(key, control, changed, "definition.override", by)
    if limits_of_keys(wanted) != limits_of_keys(control):
        yield from limits.touch(limit_key for (limit_key,) in (yield Statement("blocked_keys_of", {"key": key})))


def hold_definition(key: str) -> Steps[dict[str, Any]]:
    """Lock and return the controls of a definition."""
    if key == SYSTEM:
        raise NotFound("definition", key, hint="The whole system can be paused, but this needs one definition.")
    control = yield from _hold(key)
    if not (yield Statement("versions_of", {"key": key})):
        raise _unknown(key)
    return control


def save(key: str, control: Mapping[str, Any], changed: Mapping[str, Any], action: str, by: str) -> Steps[None]:
    """Save changed controls; running workers read them."""
    yield Statement("save_control", {"key": key, **control, **changed})
    yield Statement("bump_controls", {"by": by})
    before = {name: value for name, value in control.items() if name in changed}
    yield audit.entry(by, action, key, before, dict(changed))


def own_limits(definition: Definition) -> dict[str, Any]:
    """Return the limits that a definition declares, as columns."""
    rate = definition.rate_limit
    return {
        "concurrency": definition.concurrency,
        "key_concurrency": definition.key_concurrency,
        "rate_count": rate.count if rate else 0,
        "rate_period": round(rate.period * SECOND) if rate else 0,
        "rate_per_key": bool(rate and rate.per_key),
    }


def limits_of_keys(wanted: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the limits that decide how many jobs of a concurrency key are admitted."""
    rate = (wanted["rate_count"], wanted["rate_period"]) if wanted["rate_per_key"] else None
    return wanted["key_concurrency"], rate


def limits_in_force(definition: Definition, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits of a definition with an operator's overrides; a count without a period is no rate."""
    wanted = {**own_limits(definition), **_limits_of(overrides)}
    return wanted if wanted["rate_period"] else {**wanted, "rate_count": 0}


def _limits_of(overrides: Mapping[str, Any]) -> dict[str, Any]:
    return {name: overrides[name] for name in _LIMITS if name in overrides}


def _hold(key: str) -> Steps[dict[str, Any]]:
    found = yield Statement("hold_control", {"key": key})
    if not found:
        raise _unknown(key)
    control = dict(zip(_COLUMNS, found[0], strict=True))
    return control | {name: bool(control[name]) for name in ("enabled", "rate_per_key")}


def _unknown(key: str) -> NotFound:
    return NotFound("definition", key, hint=forms.UNREGISTERED)


def _pause_columns(pause: Pause | None) -> tuple[object, ...]:
    return (None,) * 4 if pause is None else (pause.reason, pause.by, pause.at, pause.until)


def _check(key: str, overrides: Mapping[str, object]) -> None:
    for name, value in overrides.items():
        if name not in _OVERRIDABLE:
            raise InvalidInput(f"{key}: {name!r} cannot be overridden.", hint=f"These can: {', '.join(_OVERRIDABLE)}.")
        if name not in _LIMITS:
            check_override(key, name, value)
            continue
        if name == "rate_per_key":
            if not isinstance(value, bool):
                raise InvalidInput(f"{key}: rate_per_key must be true or false, not {value!r}.")
            continue
        least, most = (_SHORTEST_PERIOD, DAY) if name == "rate_period" else (0, _MOST)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise InvalidInput(f"{key}: {name} must be an integer from {least} to {most}, not {value!r}.")
