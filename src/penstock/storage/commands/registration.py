"""Definitions: registered by code, read with the overrides of operators; a part of the admin port."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.domain import worker_config
from penstock.domain.definition import Definition, DefinitionRow, Pause, Retirement
from penstock.domain.errors import InvalidInput, NotFound
from penstock.domain.instant import SECOND
from penstock.domain.plan import Statement, Steps, reads, writes
from penstock.storage.commands import definition_text as forms
from penstock.storage.commands import limits, undeclared
from penstock.storage.commands.definition_controls import limits_in_force, limits_of_keys
from penstock.storage.commands.rows import Row

_LIMITS = ("concurrency", "key_concurrency", "rate_count", "rate_period", "rate_per_key")


@writes
def register(definitions: Sequence[Definition]) -> Steps[dict[tuple[str, int], int]]:
    ordered = sorted({(each.key, each.version): each for each in definitions}.items())
    newest = {key: each for (key, _), each in ordered}
    if not newest:
        return {}
    yield Statement("register_controls", columns={"key": list(newest)})
    held = yield Statement("hold_controls", columns={"key": list(newest)})
    yield from undeclared.return_declared(list(newest))
    times = yield from retention_periods([each for _, each in ordered])
    yield Statement(
        "register_definitions",
        columns={
            "key": [key for (key, _), _ in ordered],
            "version": [version for (_, version), _ in ordered],
            "body": [forms.to_text(each) for _, each in ordered],
            "source": [each.source for _, each in ordered],
            "stale_after": [each.stale_after for _, each in ordered],
            "delete_after": [each.delete_after for _, each in ordered],
            **(times or {}),
            "hooked": [_is_hooked(each) for _, each in ordered],
        },
    )
    lanes = {
        (key, version): lane for key, version, lane in (yield Statement("read_lanes", columns={"key": list(newest)}))
    }
    known = {key: max(version for each, version in lanes if each == key) for key in newest}
    yield from _take_over(held, {key: each for key, each in newest.items() if each.version == known[key]})
    return {pair: lanes[pair] for pair, _ in ordered}


@reads
def definitions() -> Steps[list[DefinitionRow]]:
    return [_row(row) for row in (yield Statement("read_definitions", {"key": None}))]


@reads
def definition(key: str, version: int | None = None) -> Steps[DefinitionRow]:
    known = [_row(row) for row in (yield Statement("read_definitions", {"key": key}))]
    found = [row for row in known if not row.removed or row.definition.version == version]
    if known and not found:
        raise forms.closed(key, known[-1].definition.version, None, removed=True)
    if not found:
        keys = [each for (each,) in (yield Statement("definition_keys"))]
        raise NotFound("definition", key, hint=_advice(key, keys))
    if version is not None:
        chosen = _of_version(found, key, version)
    else:
        served = _lanes((yield Statement("served_lanes")))
        chosen = max(found, key=lambda row: (row.lane in served, row.definition.version))
    if chosen.error is not None:
        raise forms.unreadable(key, chosen.definition.version, chosen.error)
    return chosen


def _take_over(held: Iterable[Row], newest: Mapping[str, Definition]) -> Steps[None]:
    """Apply the limits of the newest versions, except where an operator has overridden them."""
    changed: dict[str, dict[str, Any]] = {}
    freed: list[str] = []
    for key, overrides, *stored in held:
        if key not in newest:
            continue
        wanted = limits_in_force(newest[key], json.loads(overrides))
        before = dict(zip(_LIMITS, stored, strict=True))
        if wanted != before:
            changed[key] = wanted
            if limits_of_keys(wanted) != limits_of_keys(before):
                freed.append(key)
    if not changed:
        return
    columns = {name: [each[name] for each in changed.values()] for name in _LIMITS}
    yield Statement("save_limits", columns={"key": list(changed), **columns})
    yield Statement("bump_controls", {"by": "code"})
    for key in freed:
        yield from limits.touch(limit_key for (limit_key,) in (yield Statement("blocked_keys_of", {"key": key})))


def _is_hooked(definition: Definition) -> bool:
    """Return whether the store must save hook calls; `on_start` is called by the worker itself."""
    return any(name != "on_start" for name in definition.hooks)


def _row(row: Row) -> DefinitionRow:
    key, version, lane, body, enabled, reason, by, at, until, overrides, registered_at, now, *rest = row
    retired_at, retired_by, declared_at, removed = rest
    definition, wanted, error = forms.read(key, version, body, overrides)
    paused = at is not None and (until is None or until > now)
    return DefinitionRow(
        lane=lane,
        definition=definition,
        enabled=bool(enabled),
        pause=Pause(reason, by, at, until) if paused else None,
        overrides=wanted,
        registered_at=registered_at,
        error=error,
        retired=None if retired_at is None else Retirement(retired_by, retired_at),
        declared_at=declared_at,
        removed=bool(removed),
    )


def _of_version(found: Sequence[DefinitionRow], key: str, version: int) -> DefinitionRow:
    for row in found:
        if row.definition.version == version:
            return row
    there = ", ".join(str(row.definition.version) for row in found)
    raise NotFound("definition", f"{key} version {version}", hint=f"There is version {there}.")


def _lanes(texts: Iterable[Row]) -> set[int]:
    return {lane for (text,) in texts for lane in json.loads(text)}


def _advice(key: str, keys: Sequence[str]) -> str:
    near = difflib.get_close_matches(key, keys, n=3)
    if near:
        return f"Did you mean {' or '.join(map(repr, near))}?"
    return "Register it first; definitions come from code."


_PLAIN = Definition(key="plain")
"""A definition with default periods."""


def retention_periods(definitions: Sequence[Definition]) -> Steps[dict[str, list[int]] | None]:
    """Return the columns `stale_after` and `delete_after`; None: the worker configuration cannot be read."""
    found = yield Statement("find_setting", {"name": worker_config.SETTING})
    try:
        told = worker_config.from_text(found[0][1] if found else None).retention
    except InvalidInput:
        # Readers of the configuration report what is wrong with it.
        return None
    columns: dict[str, list[int]] = {}
    for name in ("stale_after", "delete_after"):
        said, plain = getattr(told, name), getattr(_PLAIN, name)
        default = plain if said is None else round(said * SECOND)
        own = [getattr(each, name) for each in definitions]
        columns[name] = [default if value == plain else value for value in own]
    return columns
