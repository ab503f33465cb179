"""The context of a handler, its reporter, its resources, and timed blocks."""

from __future__ import annotations

import contextlib
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import datetime
from logging import Logger
from types import TracebackType
from typing import Any, Protocol

from penstock.domain import payload
from penstock.domain.attempt import Task
from penstock.domain.context import Cancelled, Decision, JobRequests
from penstock.domain.errors import InvalidInput
from penstock.domain.instant import maybe_datetime
from penstock.execution.handlers import Application

_LONGEST_TYPE = 100
_OURS = ("job.", "schedule.", "worker.", "alert.", "webhook.")


class Reporter(JobRequests, Protocol):
    """Takes the reports of an attempt: over a line to the worker, or directly."""

    def progress(self, percent: float, message: str | None, phase: str) -> None: ...

    def log(
        self, level: str, message: str, details: str | None, phase: str | None, *, duration: int | None = None
    ) -> None:
        """`duration` is in microseconds."""
        ...

    def event(self, kind: str, data: str | None) -> None: ...

    def phase_running(self, name: str, position: int) -> None: ...

    def phase_done(self, name: str, position: int, result: str) -> Awaitable[str] | str:
        """Keep the result of a phase; the answer, awaited if needed, is the committed result."""
        ...


class AttemptContext:
    """The `ctx` of a handler."""

    def __init__(
        self,
        task: Task,
        app: Application,
        reporter: Reporter,
        resources: Resources,
        total: int,
        children: ChildKeys | None = None,
    ) -> None:
        self._task = task
        self._app = app
        self._reporter = reporter
        self._total = total
        self._stopped = False
        self._children = children
        self._params: Mapping[str, Any] | None = None
        self.job_id: str = task.job_id
        self.definition: str = task.key
        self.reference: tuple[str, str] | None = task.reference
        self.tags: tuple[str, ...] = task.tags
        self.attempt: int = task.attempt
        self.max_attempts: int = task.max_attempts
        self.fence: int = task.fence
        self.schedule_id: str | None = task.schedule
        self.traceparent: str | None = task.traceparent
        self.tracestate: str | None = task.tracestate
        self.settings: Mapping[str, Any] = task.settings
        self.resources: Mapping[str, Any] = resources
        self.results: dict[str, Any] = {}
        if task.results:
            self.results |= {name: payload.load(text) for name, text in task.results.items()}
        self.phase = "run"
        self.position = 0

    @property
    def logger(self) -> logging.Logger:
        return logging.getLogger(f"penstock.job.{self.definition}")

    @property
    def params(self) -> Mapping[str, Any]:
        if self._params is None:
            given: Any = payload.load(self._task.params)
            self._params = given
        return self._params

    @property
    def scheduled_for(self) -> datetime | None:
        return maybe_datetime(self._task.scheduled_for)

    @property
    def review(self) -> Decision | None:
        decided = self._task.review
        if decided is None:
            return None
        result = decided.get("result")
        return Decision(
            verdict=decided["verdict"],
            by=decided.get("by"),
            note=decided.get("note"),
            note_asked=decided.get("note_asked"),
            result=None if result is None else payload.load(result),
        )

    @property
    def cancelled(self) -> bool:
        return self._stopped

    def stop(self) -> None:
        """Let the handler know that it was asked to stop."""
        self._stopped = True

    def timed(self, what: str, details: Mapping[str, Any] | None = None) -> Timed:
        return Timed(self.logger, str(what), details or {})

    def check_cancelled(self) -> None:
        if self._stopped:
            raise Cancelled("This attempt was asked to stop.")

    def progress(self, percent: float, message: str | None = None, stage: str | None = None) -> None:
        if isinstance(percent, bool) or not isinstance(percent, int | float) or percent != percent:
            raise InvalidInput(f"progress must be a number from 0 to 100, not {percent!r:.80}.")
        within = min(100.0, max(0.0, float(percent)))
        overall = (self.position + within / 100) / self._total * 100
        text = None if message is None else payload.sanitise_text(str(message), 500)
        self._reporter.progress(overall, text, self.phase if stage is None else payload.sanitise_text(str(stage), 200))

    def emit_event(self, type: str, payload: Mapping[str, Any] | None = None) -> None:
        if not isinstance(type, str) or not 0 < len(type) <= _LONGEST_TYPE or type.startswith(_OURS):
            raise InvalidInput(
                f"{type!r:.80} cannot be the type of an event.",
                hint=f"Use 1 to {_LONGEST_TYPE} characters and none of our prefixes: {', '.join(_OURS)}.",
            )
        self._reporter.event(type, None if payload is None else _event_data(payload))

    def enqueue(self, what: Any, params: Mapping[str, Any] | None = None, **options: Any) -> Any:
        given = dict(params or {})
        options.setdefault("parent_id", self.job_id)
        if isinstance(what, str):
            key, text = what, payload.encode(given, f"parameters of {what}")
            create: Callable[..., Any] = lambda **more: self._app.enqueue(what, given, **options, **more)  # noqa: E731
        else:
            key, text = what.key, what.order(**given).params
            create = lambda **more: what.options(**options, **more).enqueue(**given)  # noqa: E731
        if options.get("idempotency_key") is None:
            options.pop("idempotency_key", None)
            self._children = self._children or ChildKeys(self._task)
            return create(idempotency_key=self._children.key(self.phase, key, text))
        return create()


class ChildKeys:
    """Makes the idempotency keys of a job's children, so that another attempt creates the same children."""

    def __init__(self, task: Task) -> None:
        self._job = task.job_id
        self._counts: dict[tuple[str, str, str], int] = {}

    def own(self, order: Mapping[str, Any], phase: str) -> dict[str, Any]:
        """An order with this job as its parent and with a key, unless it has others."""
        options = dict(order.get("options") or {})
        if options.get("parent_id") is None:
            options["parent_id"] = self._job
        if options.get("idempotency_key") is None:
            options["idempotency_key"] = self.key(phase, order["key"], order["params"])
        return {**order, "options": options}

    def key(self, phase: str, definition: str, params: str) -> str:
        """The key of the next child with these parameters that this phase asks for."""
        name = phase, definition, payload.digest(params)
        self._counts[name] = self._counts.get(name, 0) + 1
        return f"{self._job}/{phase}/{name[2]}/{self._counts[name]}"


class Resources(Mapping[str, Any]):
    """Opens what the application registered at its first use, and closes it in the opposite order."""

    def __init__(self, factories: Mapping[str, Callable[[], Any]]) -> None:
        self._factories = factories
        self._opened: dict[str, Any] = {}
        self._stack: contextlib.ExitStack | None = None

    def __getitem__(self, name: str) -> Any:
        if name not in self._opened:
            if name not in self._factories:
                known = ", ".join(sorted(self._factories)) or "none"
                raise KeyError(f"There is no resource {name!r}; registered: {known}.")
            self._opened[name] = self._open(self._factories[name])
        return self._opened[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(*error.args) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._factories)

    def __len__(self) -> int:
        return len(self._factories)

    def close(self) -> None:
        self._opened.clear()
        if self._stack is not None:
            self._stack.close()

    def _open(self, factory: Callable[[], Any]) -> Any:
        stack = self._stack = self._stack or contextlib.ExitStack()
        made = factory()
        if inspect.isgenerator(made):
            return stack.enter_context(contextlib.contextmanager(lambda: made)())
        if inspect.isawaitable(made):
            raise InvalidInput("A resource is made by a plain function or a generator, not by an async one.")
        if hasattr(made, "__enter__") and hasattr(made, "__exit__"):
            return stack.enter_context(made)
        if callable(getattr(made, "close", None)):
            stack.callback(made.close)
        return made


def _event_data(given: Mapping[str, Any]) -> str:
    text, _ = payload.sanitise(dict(given), "an event")
    return text


class Timed:
    """Logs at its end what was done and for how long; for `with` and `async with`."""

    def __init__(self, logger: Logger, what: str, details: Mapping[str, Any]) -> None:
        self._logger = logger
        self._what = what
        self._details = details
        self._begun = 0.0

    def __enter__(self) -> None:
        self._begun = time.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        seconds = time.monotonic() - self._begun
        details = dict(self._details) if kind is None else {**self._details, "error": kind.__name__}
        self._logger.info("%s", self._what, extra={"duration": seconds, "details": details})

    async def __aenter__(self) -> None:
        self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)
