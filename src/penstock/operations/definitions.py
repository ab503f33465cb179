"""What operators say about definitions and the whole system: enable, pause, other limits."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from penstock.definitions import enqueue_options as given
from penstock.definitions.decorator import rate_limit as read_rate
from penstock.definitions.handles import PYTHON
from penstock.domain.definition import Pause, RateLimit
from penstock.domain.errors import Hint, InvalidInput
from penstock.domain.instant import SECOND, Duration, microseconds
from penstock.domain.maintenance import ClockMark
from penstock.domain.plan import Plan
from penstock.domain.retry import RetryPolicy, backoff_from
from penstock.operations.session import Conversation, Talk
from penstock.storage.commands import admin, control, maintenance
from penstock.storage.commands.definition_controls import SYSTEM

_MARKS = 1000


class Operating(Conversation):
    """Speaks of definitions by key, all versions at once; workers are told at once."""

    def enable(self, key: str, *, by: str = PYTHON) -> None:
        """Allow the creation of jobs of a definition again."""
        return self._do(self._enable(key, by))

    async def aenable(self, key: str, *, by: str = PYTHON) -> None:
        return await self._ado(self._enable(key, by))

    def disable(self, key: str, *, by: str = PYTHON) -> None:
        """Refuse the creation of jobs of a definition; those that are there go on."""
        return self._do(self._disable(key, by))

    async def adisable(self, key: str, *, by: str = PYTHON) -> None:
        return await self._ado(self._disable(key, by))

    def retire_definition(self, key: str, *, by: str = PYTHON) -> None:
        """Refuse the creation of jobs of a definition that no code declares any more.

        Schedules that code has declared for it are disabled. Jobs that wait keep waiting, and can be cancelled. Code
        that declares it again, or `enable`, brings it back. `Conflict` names live workers that have it loaded, and
        enabled schedules of operators.
        """
        return self._do(self._retire_definition(key, by))

    async def aretire_definition(self, key: str, *, by: str = PYTHON) -> None:
        return await self._ado(self._retire_definition(key, by))

    def remove_definition(self, key: str, *, version: int | None = None, by: str = PYTHON) -> None:
        """List a definition no longer, or one version of it, with the schedules that code has declared for it.

        Its ended jobs stay readable until retention deletes them. Code that declares it again brings it back, as new.
        `Conflict` names unfinished jobs, live workers that have it loaded, and enabled schedules of operators.
        """
        return self._do(self._remove_definition(key, version, by))

    async def aremove_definition(self, key: str, *, version: int | None = None, by: str = PYTHON) -> None:
        return await self._ado(self._remove_definition(key, version, by))

    def pause(self, key: str, reason: str, *, until: datetime | None = None, by: str = PYTHON) -> None:
        """Start no job of a definition until it is resumed, or until a time; those that run go on."""
        return self._do(self._pause(key, reason, until, by))

    async def apause(self, key: str, reason: str, *, until: datetime | None = None, by: str = PYTHON) -> None:
        return await self._ado(self._pause(key, reason, until, by))

    def resume(self, key: str, *, by: str = PYTHON) -> None:
        """Let the jobs of a paused definition start again."""
        return self._do(self._resume(key, by))

    async def aresume(self, key: str, *, by: str = PYTHON) -> None:
        return await self._ado(self._resume(key, by))

    def pause_all(self, reason: str, *, until: datetime | None = None, by: str = PYTHON) -> None:
        """Start no job of any definition until all is resumed, or until a time."""
        return self._do(self._pause_all(reason, until, by))

    async def apause_all(self, reason: str, *, until: datetime | None = None, by: str = PYTHON) -> None:
        return await self._ado(self._pause_all(reason, until, by))

    def resume_all(self, *, by: str = PYTHON) -> None:
        """End the pause of the whole system; definitions that are paused by themselves stay so."""
        return self._do(self._resume_all(by))

    async def aresume_all(self, *, by: str = PYTHON) -> None:
        return await self._ado(self._resume_all(by))

    def system_pause(self) -> Pause | None:
        """Why the whole system stands still; None when it does not."""
        return self._do(self._system_pause())

    async def asystem_pause(self) -> Pause | None:
        return await self._ado(self._system_pause())

    def clock_marks(self) -> list[ClockMark]:
        """List instants that were written while the clock was ahead and that schedules, jobs or rates wait for.

        All those of schedules, and up to 1000 of each other kind."""
        return self._do(self._clock_marks())

    async def aclock_marks(self) -> list[ClockMark]:
        return await self._ado(self._clock_marks())

    def set_clock_marks_back(self, *, by: str = PYTHON) -> list[ClockMark]:
        """Set these instants back, once the clock is right again; those that were found. The audit names them."""
        return self._do(self._set_clock_marks_back(by))

    async def aset_clock_marks_back(self, *, by: str = PYTHON) -> list[ClockMark]:
        return await self._ado(self._set_clock_marks_back(by))

    def override(
        self,
        key: str,
        *,
        concurrency: int | None = None,
        key_concurrency: int | None = None,
        rate_limit: RateLimit | str | int | None = None,
        priority: int | None = None,
        max_attempts: int | None = None,
        backoff: float | Sequence[float] | RetryPolicy | None = None,
        timeout: Duration | None = None,
        log_level: str | None = None,
        by: str = PYTHON,
    ) -> None:
        """Hold other limits and options than the code's; what is left out returns to the code's own.

        A limit or a timeout of 0 means that there is none. Limits hold at once, `backoff`, `timeout` and `log_level`
        for attempts that begin later, `priority` and `max_attempts` for jobs that are created later and choose none
        themselves.
        """
        limits = (concurrency, key_concurrency, rate_limit)
        return self._do(self._override(key, limits, priority, max_attempts, backoff, timeout, log_level, by))

    async def aoverride(
        self,
        key: str,
        *,
        concurrency: int | None = None,
        key_concurrency: int | None = None,
        rate_limit: RateLimit | str | int | None = None,
        priority: int | None = None,
        max_attempts: int | None = None,
        backoff: float | Sequence[float] | RetryPolicy | None = None,
        timeout: Duration | None = None,
        log_level: str | None = None,
        by: str = PYTHON,
    ) -> None:
        limits = (concurrency, key_concurrency, rate_limit)
        return await self._ado(self._override(key, limits, priority, max_attempts, backoff, timeout, log_level, by))

    def _enable(self, key: str, by: str) -> Talk[None]:
        yield from self._say(control.enable(_definition(key), True, by=_who(by)))

    def _disable(self, key: str, by: str) -> Talk[None]:
        yield from self._say(control.enable(_definition(key), False, by=_who(by)))

    def _retire_definition(self, key: str, by: str) -> Talk[None]:
        yield from self._say(control.retire_definition(_definition(key), by=_who(by)))

    def _remove_definition(self, key: str, version: int | None, by: str) -> Talk[None]:
        wanted = None if version is None else given.integer(version, "version")
        yield from self._say(control.remove_definition(_definition(key), version=wanted, by=_who(by)))

    def _pause(self, key: str, reason: str, until: datetime | None, by: str) -> Talk[None]:
        yield from self._say(control.pause(_definition(key), _pause(reason, until, by), by=_who(by)))

    def _resume(self, key: str, by: str) -> Talk[None]:
        yield from self._say(control.pause(_definition(key), None, by=_who(by)))

    def _pause_all(self, reason: str, until: datetime | None, by: str) -> Talk[None]:
        yield from self._say(control.pause(SYSTEM, _pause(reason, until, by), by=_who(by)))

    def _resume_all(self, by: str) -> Talk[None]:
        yield from self._say(control.pause(SYSTEM, None, by=_who(by)))

    def _system_pause(self) -> Talk[Pause | None]:
        found: Pause | None = yield admin.system_pause()
        return found

    def _clock_marks(self) -> Talk[list[ClockMark]]:
        found: list[ClockMark] = yield maintenance.marks_ahead(_MARKS)
        return found

    def _set_clock_marks_back(self, by: str) -> Talk[list[ClockMark]]:
        found: list[ClockMark] = yield maintenance.set_back(by=_who(by), limit=_MARKS)
        self._ring()
        return found

    def _override(
        self,
        key: str,
        limits: tuple[int | None, int | None, RateLimit | str | int | None],
        priority: int | None,
        max_attempts: int | None,
        backoff: float | Sequence[float] | RetryPolicy | None,
        timeout: Duration | None,
        log_level: str | None,
        by: str,
    ) -> Talk[None]:
        concurrency, key_concurrency, rate_limit = limits
        wanted: dict[str, object] = {
            "concurrency": concurrency, "key_concurrency": key_concurrency, "priority": priority,
            "max_attempts": max_attempts, "backoff": None if backoff is None else _policy(backoff, key),
            "timeout": None if timeout is None else microseconds(timeout, f"{key}: timeout"),
            "log_level": log_level,
        }  # fmt: skip
        wanted = {name: value for name, value in wanted.items() if value is not None} | _rate(rate_limit, key)
        yield from self._say(control.override(_definition(key), wanted, by=_who(by)))

    def _say(self, plan: Plan[None]) -> Talk[None]:
        yield plan
        self._ring()


def _policy(backoff: float | Sequence[float] | RetryPolicy, key: str) -> dict[str, object]:
    try:
        return backoff_from(backoff).to_json()
    except InvalidInput as error:
        raise InvalidInput(f"{key}: backoff: {error.message}", hint=error.hint) from None


def _definition(key: object) -> str:
    """A definition's key; the one that stands for the whole system has calls of its own."""
    if not isinstance(key, str) or key == SYSTEM:
        raise InvalidInput(
            f"A definition is named by its key, not by {key!r:.80}.",
            hint=Hint(
                "Call pause_all(reason) or resume_all() for all definitions.",
                cli="Say --all in place of a key for all definitions.",
                http="POST /v1/system/pause and POST /v1/system/resume are for all definitions.",
            ),
        )
    return key


def _pause(reason: str, until: datetime | None, by: str) -> Pause:
    text = given.short_text(reason, "reason")
    if text is None:
        raise InvalidInput("A pause needs a reason.", hint="Others will ask why nothing runs.")
    return Pause(text, _who(by), time.time_ns() // 1000, given.instant(until, "until"))


def _rate(value: Any, key: str) -> dict[str, object]:
    if value is None:
        return {}
    if isinstance(value, int) and value == 0:
        return {"rate_count": 0}
    rate = read_rate(value, key)
    if rate is None:
        return {}
    return {"rate_count": rate.count, "rate_period": round(rate.period * SECOND), "rate_per_key": rate.per_key}


def _who(by: str) -> str:
    return given.actor(by) or PYTHON
