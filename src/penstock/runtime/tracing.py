"""Spans of OpenTelemetry where the application uses it; where it does not, nothing is imported and nothing is done.

A job is enqueued in one span, and each attempt at it is a child of that span, in whichever process it runs; phases are
children of their attempt. The context travels as the job's `traceparent` and `tracestate`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from penstock.domain.attempt import Task
from penstock.domain.outcome import Outcome
from penstock.domain.states import Trigger
from penstock.domain.trace_context import valid_state
from penstock.runtime.release import version

_PARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_NAME = "penstock"
_FLUSH_MILLISECONDS = 2000


class EnqueueSpan:
    """The span in which jobs are made; it must be ended."""

    def __init__(self, span: Any, parent: str, state: str | None) -> None:
        self._span = span
        self.traceparent = parent
        """The value that jobs keep, so that their attempts are children of this span."""
        self.tracestate = state

    def fail(self, error: BaseException) -> None:
        _fail(self._span, error)

    def end(self, job_ids: Sequence[str] = ()) -> None:
        if len(job_ids) == 1:
            self._span.set_attribute("penstock.job_id", job_ids[0])
            self._span.set_attribute("messaging.message.id", job_ids[0])
        self._span.end()


class AttemptSpan:
    """The span of an attempt."""

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def ended(self, outcome: Outcome) -> Outcome:
        """Note how the attempt ended."""
        if self._span is not None:
            self._span.set_attribute("penstock.outcome", str(outcome.trigger))
            if outcome.trigger is Trigger.FAIL:
                kind = outcome.failure.type if outcome.failure is not None else str(outcome.cause)
                self._span.set_attribute("error.type", kind)
                self._span.set_status(_trace().StatusCode.ERROR)
        return outcome


def enqueue(keys: Sequence[str], parent: str | None, state: str | None = None) -> EnqueueSpan | None:
    """Begin the span in which jobs of these definitions are made, below `parent` or the span that is open here.

    None when spans are not recorded."""
    if (trace := _trace()) is None:
        return None
    name = keys[0] if len(set(keys)) == 1 else "jobs"
    facts = {"penstock.definition": name, "penstock.jobs": len(keys), **_messaging("publish", "send", name)}
    if len(keys) > 1:
        facts["messaging.batch.message_count"] = len(keys)
    span = _tracer(trace).start_span(
        f"publish {name}", context=_below(trace, _span_context(trace, parent, state)), kind=trace.SpanKind.PRODUCER,
        attributes=facts,
    )  # fmt: skip
    found = span.get_span_context()
    if not found.is_valid:
        return None
    traceparent = f"00-{found.trace_id:032x}-{found.span_id:016x}-{int(found.trace_flags):02x}"
    return EnqueueSpan(span, traceparent, found.trace_state.to_header() or None)


def on() -> bool:
    """Whether the application uses OpenTelemetry."""
    return _trace() is not None


def attempt(task: Task) -> AbstractContextManager[AttemptSpan]:
    """The span of an attempt, open while it runs; a retry has a link to where its job came from as well."""
    trace = _trace()
    return nullcontext(_UNSEEN) if trace is None else _attempt(trace, task)


def phase(name: str) -> AbstractContextManager[None]:
    """The span of a phase, below that of its attempt."""
    trace = _trace()
    return nullcontext() if trace is None else _open(trace, name, {"penstock.phase": name})


def flush() -> None:
    """Send recorded spans before the process ends, if that does not take long."""
    trace = _trace()
    send = None if trace is None else getattr(trace.get_tracer_provider(), "force_flush", None)
    if send is not None:
        send(_FLUSH_MILLISECONDS)


_UNSEEN = AttemptSpan()


def _tracer(trace: Any) -> Any:
    return trace.get_tracer(_NAME, version())


def _messaging(name: str, kind: str, definition: str) -> dict[str, Any]:
    """The attributes of the semantic conventions for messaging: the operation, and a definition as destination."""
    return {
        "messaging.system": _NAME, "messaging.operation.name": name, "messaging.operation.type": kind,
        "messaging.destination.name": definition,
    }  # fmt: skip


def _trace() -> Any:
    """The API, if the application has imported it; otherwise tracing costs nothing."""
    return sys.modules.get("opentelemetry.trace")


@contextmanager
def _attempt(trace: Any, task: Task) -> Iterator[AttemptSpan]:
    parent = _span_context(trace, task.traceparent, task.tracestate)
    links = [trace.Link(parent, {"penstock.attempt": task.attempt})] if parent is not None and task.fence > 1 else []
    facts = {
        "penstock.job_id": task.job_id, "penstock.definition": task.key, "penstock.version": task.version,
        "penstock.attempt": task.attempt, "penstock.fence": task.fence, "messaging.message.id": task.job_id,
        **_messaging("process", "process", task.key),
    }  # fmt: skip
    with _tracer(trace).start_as_current_span(
        f"process {task.key}", context=_below(trace, parent), kind=trace.SpanKind.CONSUMER, links=links,
        attributes=facts, record_exception=False, set_status_on_exception=False,
    ) as span:  # fmt: skip
        yield AttemptSpan(span)


@contextmanager
def _open(trace: Any, name: str, facts: Mapping[str, Any]) -> Iterator[None]:
    # The text of an error may hold secrets: only its class is recorded.
    with _tracer(trace).start_as_current_span(
        name, attributes=facts, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield
        except BaseException as error:
            _fail(span, error)
            raise


def _fail(span: Any, error: BaseException) -> None:
    span.set_attribute("error.type", type(error).__qualname__)
    span.set_status(_trace().StatusCode.ERROR)


def _below(trace: Any, parent: Any) -> Any:
    """The context below a span that came from elsewhere; None: the one that is open here."""
    return None if parent is None else trace.set_span_in_context(trace.NonRecordingSpan(parent))


def _span_context(trace: Any, parent: str | None, state: str | None) -> Any:
    parts = _PARENT.fullmatch(parent) if isinstance(parent, str) else None
    if parts is None:
        return None
    flags = trace.TraceFlags(int(parts[3], 16))
    valid = valid_state(state) if isinstance(state, str) else None
    found = trace.SpanContext(
        int(parts[1], 16), int(parts[2], 16), is_remote=True, trace_flags=flags,
        trace_state=None if valid is None else trace.TraceState.from_header([valid]),
    )  # fmt: skip
    return found if found.is_valid else None
