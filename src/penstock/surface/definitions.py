"""`app.definitions`: the kinds of work that the store knows, and what operators decide about them."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Generic, TypeVar

from penstock.domain.definition import DefinitionRow, Pause, RateLimit
from penstock.domain.instant import Duration
from penstock.domain.retry import RetryPolicy
from penstock.surface.session import PYTHON, Operation, Session

H = TypeVar("H")


@dataclass(frozen=True, slots=True)
class ListDefinitions(Operation[list[DefinitionRow]]):
    call: ClassVar[str] = "definitions.list"


@dataclass(frozen=True, slots=True)
class DeclaredDefinitions(Operation[list[Any]]):
    call: ClassVar[str] = "definitions.declared"


@dataclass(frozen=True, slots=True)
class RegisterDefinitions(Operation[dict[tuple[str, int], int]]):
    call: ClassVar[str] = "definitions.register"


@dataclass(frozen=True, slots=True)
class EnableDefinition(Operation[None]):
    call: ClassVar[str] = "definitions.enable"
    key: str
    by: str


@dataclass(frozen=True, slots=True)
class DisableDefinition(Operation[None]):
    call: ClassVar[str] = "definitions.disable"
    key: str
    by: str


@dataclass(frozen=True, slots=True)
class RetireDefinition(Operation[None]):
    call: ClassVar[str] = "definitions.retire"
    key: str
    by: str


@dataclass(frozen=True, slots=True)
class RemoveDefinition(Operation[None]):
    call: ClassVar[str] = "definitions.remove"
    key: str
    version: int | None
    by: str


@dataclass(frozen=True, slots=True)
class PauseDefinition(Operation[None]):
    call: ClassVar[str] = "definitions.pause"
    key: str
    reason: str
    until: datetime | None
    by: str


@dataclass(frozen=True, slots=True)
class ResumeDefinition(Operation[None]):
    call: ClassVar[str] = "definitions.resume"
    key: str
    by: str


@dataclass(frozen=True, slots=True)
class PauseAll(Operation[None]):
    call: ClassVar[str] = "definitions.pause_all"
    reason: str
    until: datetime | None
    by: str


@dataclass(frozen=True, slots=True)
class ResumeAll(Operation[None]):
    call: ClassVar[str] = "definitions.resume_all"
    by: str


@dataclass(frozen=True, slots=True)
class ReadSystemPause(Operation[Pause | None]):
    call: ClassVar[str] = "definitions.system_pause"


@dataclass(frozen=True, slots=True)
class OverrideDefinition(Operation[None]):
    call: ClassVar[str] = "definitions.override"
    key: str
    concurrency: int | None
    key_concurrency: int | None
    rate_limit: RateLimit | str | int | None
    priority: int | None
    max_attempts: int | None
    backoff: float | Sequence[float] | RetryPolicy | None
    timeout: Duration | None
    log_level: str | None
    by: str


class Definitions(Generic[H]):
    """Definitions by key, all versions together; each call has a twin with an `a` in front, for event loops.

    Running workers learn of a change immediately. `H` is the type of the application's own handles.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def declared(self) -> builtins.list[H]:
        """The definitions that this application declares, in the order of declaration."""
        return self._session.do(DeclaredDefinitions())

    def list(self) -> builtins.list[DefinitionRow]:
        """The definitions that the store knows, whichever application registered them."""
        return self._session.do(ListDefinitions())

    async def alist(self) -> builtins.list[DefinitionRow]:
        return await self._session.ado(ListDefinitions())

    def register(self) -> dict[tuple[str, int], int]:
        """Make all definitions known to the store now, not with their first job; the lane of each."""
        return self._session.do(RegisterDefinitions())

    async def aregister(self) -> dict[tuple[str, int], int]:
        return await self._session.ado(RegisterDefinitions())

    def enable(self, key: str, *, by: str = PYTHON) -> None:
        """Allow the creation of jobs of a definition again."""
        return self._session.do(EnableDefinition(key, by))

    async def aenable(self, key: str, *, by: str = PYTHON) -> None:
        return await self._session.ado(EnableDefinition(key, by))

    def disable(self, key: str, *, by: str = PYTHON) -> None:
        """Refuse the creation of jobs of a definition; existing jobs go on."""
        return self._session.do(DisableDefinition(key, by))

    async def adisable(self, key: str, *, by: str = PYTHON) -> None:
        return await self._session.ado(DisableDefinition(key, by))

    def retire(self, key: str, *, by: str = PYTHON) -> None:
        """Refuse the creation of jobs of a definition that no code declares any more.

        Schedules that code has declared for it are disabled. Jobs that wait keep waiting, and can be cancelled. Code
        that declares it again, or `enable`, brings it back. `Conflict` names live workers that have it loaded, and
        enabled schedules of operators.
        """
        return self._session.do(RetireDefinition(key, by))

    async def aretire(self, key: str, *, by: str = PYTHON) -> None:
        return await self._session.ado(RetireDefinition(key, by))

    def remove(self, key: str, *, version: int | None = None, by: str = PYTHON) -> None:
        """List a definition no longer, or one version of it, with the schedules that code has declared for it.

        Its ended jobs stay readable until retention deletes them. Code that declares it again brings it back, as new.
        `Conflict` names unfinished jobs, live workers that have it loaded, and enabled schedules of operators.
        """
        return self._session.do(RemoveDefinition(key, version, by))

    async def aremove(self, key: str, *, version: int | None = None, by: str = PYTHON) -> None:
        return await self._session.ado(RemoveDefinition(key, version, by))

    def pause(self, key: str, reason: str, *, until: datetime | None = None, by: str = PYTHON) -> None:
        """Start no job of a definition until it is resumed, or until a time; running jobs go on."""
        return self._session.do(PauseDefinition(key, reason, until, by))

    async def apause(self, key: str, reason: str, *, until: datetime | None = None, by: str = PYTHON) -> None:
        return await self._session.ado(PauseDefinition(key, reason, until, by))

    def resume(self, key: str, *, by: str = PYTHON) -> None:
        """Let the jobs of a paused definition start again."""
        return self._session.do(ResumeDefinition(key, by))

    async def aresume(self, key: str, *, by: str = PYTHON) -> None:
        return await self._session.ado(ResumeDefinition(key, by))

    def pause_all(self, reason: str, *, until: datetime | None = None, by: str = PYTHON) -> None:
        """Start no job of any definition until all is resumed, or until a time."""
        return self._session.do(PauseAll(reason, until, by))

    async def apause_all(self, reason: str, *, until: datetime | None = None, by: str = PYTHON) -> None:
        return await self._session.ado(PauseAll(reason, until, by))

    def resume_all(self, *, by: str = PYTHON) -> None:
        """End the pause of the whole system; definitions that were paused one by one stay paused."""
        return self._session.do(ResumeAll(by))

    async def aresume_all(self, *, by: str = PYTHON) -> None:
        return await self._session.ado(ResumeAll(by))

    def system_pause(self) -> Pause | None:
        """The pause of the whole system; None when it is not paused."""
        return self._session.do(ReadSystemPause())

    async def asystem_pause(self) -> Pause | None:
        return await self._session.ado(ReadSystemPause())

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
        """Replace limits and options of the code; what is left out returns to the code's own.

        A limit or a timeout of 0 means that there is none. Limits hold immediately, `backoff`, `timeout` and
        `log_level` for attempts that begin later, `priority` and `max_attempts` for jobs that are created later and
        choose none themselves.
        """
        return self._session.do(
            OverrideDefinition(
                key, concurrency, key_concurrency, rate_limit, priority, max_attempts, backoff, timeout, log_level, by
            )
        )

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
        return await self._session.ado(
            OverrideDefinition(
                key, concurrency, key_concurrency, rate_limit, priority, max_attempts, backoff, timeout, log_level, by
            )
        )
