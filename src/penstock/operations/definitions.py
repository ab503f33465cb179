"""Carries out what operators decide about definitions: enable, pause, other limits."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from penstock.definitions.decorator import rate_limit as read_rate
from penstock.domain.definition import DefinitionRow, Pause
from penstock.domain.errors import InvalidInput
from penstock.domain.hints import Hint
from penstock.domain.instant import SECOND, microseconds
from penstock.domain.plan import Plan
from penstock.domain.retry import RetryPolicy, backoff_from
from penstock.operations.session import ApplicationSession, Talk
from penstock.storage.commands import admin, control
from penstock.storage.commands.definition_controls import SYSTEM
from penstock.surface import definitions as surface
from penstock.surface import enqueue_options as given


def list_definitions(_: ApplicationSession, __: surface.ListDefinitions) -> Talk[list[DefinitionRow]]:
    found: list[DefinitionRow] = yield admin.definitions()
    return [row for row in found if not row.removed]


def declared_definitions(session: ApplicationSession, _: surface.DeclaredDefinitions) -> Talk[list[Any]]:
    yield from ()
    return list(session.declarations.definitions.values())


def enable_definition(session: ApplicationSession, asked: surface.EnableDefinition) -> Talk[None]:
    yield from _change(session, control.enable(_key(asked.key), True, by=given.operator(asked.by)))


def disable_definition(session: ApplicationSession, asked: surface.DisableDefinition) -> Talk[None]:
    yield from _change(session, control.enable(_key(asked.key), False, by=given.operator(asked.by)))


def retire_definition(session: ApplicationSession, asked: surface.RetireDefinition) -> Talk[None]:
    yield from _change(session, control.retire_definition(_key(asked.key), by=given.operator(asked.by)))


def remove_definition(session: ApplicationSession, asked: surface.RemoveDefinition) -> Talk[None]:
    wanted = None if asked.version is None else given.integer(asked.version, "version")
    plan = control.remove_definition(_key(asked.key), version=wanted, by=given.operator(asked.by))
    yield from _change(session, plan)


def pause_definition(session: ApplicationSession, asked: surface.PauseDefinition) -> Talk[None]:
    pause = _pause(asked.reason, asked.until, asked.by)
    yield from _change(session, control.pause(_key(asked.key), pause, by=given.operator(asked.by)))


def resume_definition(session: ApplicationSession, asked: surface.ResumeDefinition) -> Talk[None]:
    yield from _change(session, control.pause(_key(asked.key), None, by=given.operator(asked.by)))


def pause_all(session: ApplicationSession, asked: surface.PauseAll) -> Talk[None]:
    pause = _pause(asked.reason, asked.until, asked.by)
    yield from _change(session, control.pause(SYSTEM, pause, by=given.operator(asked.by)))


def resume_all(session: ApplicationSession, asked: surface.ResumeAll) -> Talk[None]:
    yield from _change(session, control.pause(SYSTEM, None, by=given.operator(asked.by)))


def read_system_pause(_: ApplicationSession, __: surface.ReadSystemPause) -> Talk[Pause | None]:
    found: Pause | None = yield admin.system_pause()
    return found


def override_definition(session: ApplicationSession, asked: surface.OverrideDefinition) -> Talk[None]:
    key, backoff, timeout = asked.key, asked.backoff, asked.timeout
    wanted: dict[str, object] = {
        "concurrency": asked.concurrency, "key_concurrency": asked.key_concurrency, "priority": asked.priority,
        "max_attempts": asked.max_attempts, "backoff": None if backoff is None else _policy(backoff, key),
        "timeout": None if timeout is None else microseconds(timeout, f"{key}: timeout"),
        "log_level": asked.log_level,
    }  # fmt: skip
    wanted = {name: value for name, value in wanted.items() if value is not None} | _rate(asked.rate_limit, key)
    yield from _change(session, control.override(_key(key), wanted, by=given.operator(asked.by)))


def _change(session: ApplicationSession, plan: Plan[None]) -> Talk[None]:
    """Change a definition and wake the workers, so that they see it immediately."""
    yield plan
    session.connections.ring()


def _policy(backoff: float | Sequence[float] | RetryPolicy, key: str) -> dict[str, object]:
    try:
        return backoff_from(backoff).to_json()
    except InvalidInput as error:
        raise InvalidInput(f"{key}: backoff: {error.message}", hint=error.hint) from None


def _key(key: object) -> str:
    """A definition's key; the one that stands for the whole system has calls of its own."""
    if not isinstance(key, str) or key == SYSTEM:
        raise InvalidInput(
            f"A definition is named by its key, not by {key!r:.80}.",
            hint=Hint(
                "Call definitions.pause_all(reason) or definitions.resume_all() for all definitions.",
                cli="Say --all in place of a key for all definitions.",
                http="POST /v1/system/pause and POST /v1/system/resume are for all definitions.",
            ),
        )
    return key


def _pause(reason: str, until: datetime | None, by: str) -> Pause:
    text = given.short_text(reason, "reason")
    if text is None:
        raise InvalidInput("A pause needs a reason.", hint="Others will ask why nothing runs.")
    return Pause(text, given.operator(by), time.time_ns() // 1000, given.instant(until, "until"))


def _rate(value: Any, key: str) -> dict[str, object]:
    if value is None:
        return {}
    if isinstance(value, int) and value == 0:
        return {"rate_count": 0}
    rate = read_rate(value, key)
    if rate is None:
        return {}
    return {"rate_count": rate.count, "rate_period": round(rate.period * SECOND), "rate_per_key": rate.per_key}
