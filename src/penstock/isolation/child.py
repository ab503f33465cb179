"""The child of the zygote: one attempt or one hook, from fork to exit. It never opens the store."""

from __future__ import annotations

import _signal
import contextlib
import gc
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, TextIO

from penstock.domain import errors, payload
from penstock.domain.attempt import Task
from penstock.domain.context import Cancelled
from penstock.domain.errors import Conflict, InvalidPayload, PenstockError
from penstock.domain.job import Created, Job
from penstock.domain.outcome import RETURNED_NOTHING, Cause, Failure, Outcome
from penstock.domain.states import Status, Trigger
from penstock.execution import coroutines, handler_run
from penstock.execution.context import AttemptContext, ChildKeys, Resources
from penstock.execution.handlers import Application, Handle
from penstock.execution.log_capture import JobRecords
from penstock.isolation import confinement, message_validation
from penstock.isolation.confinement import Inherited, Rules
from penstock.isolation.wire import Frame, WireError, job_from_json, pack, receive, send
from penstock.runtime import stamps, tracing
from penstock.runtime.stop_signals import ASK, STOP_SIGNALS

_LONGEST_MESSAGE = 65_536
"""The worker cuts further, after it has removed secrets."""

_TRIGGERS = (Trigger.SUCCEED, Trigger.FAIL, Trigger.SNOOZE, Trigger.ASK_REVIEW)
_FAILURE = tuple(each.name for each in fields(Failure))


def run_child(
    app: Application,
    handles: Mapping[tuple[str, int], Handle],
    descriptors: tuple[int, int, int],
    parent: int,
    inherited: Inherited,
) -> None:
    """Run one attempt or hook and exit; it does not return."""
    status = 1
    try:
        confinement.detach(inherited.signals)
        confinement.keep_only(*descriptors, inherited.files)
        status = _attempt(app, handles, confinement.CONTROL, parent, inherited)
    except BaseException:
        with contextlib.suppress(BaseException):
            traceback.print_exc()
    finally:
        _flush()
        inherited.files.flush()
        os._exit(status)


def _attempt(
    app: Application,
    handles: Mapping[tuple[str, int], Handle],
    line: int,
    parent: int,
    inherited: Inherited,
) -> int:
    """Run the task of the first frame and report its outcome; return the exit status."""
    frame = receive(line)
    if frame is None:
        return 0
    task = Task.from_json(frame["task"])
    try:
        confinement.confine(Rules(**frame["rules"]), parent, inherited.variables)
    except OSError as error:
        send(line, _ending(_not_confined(error)))
        return 0
    gc.enable()
    handle = handles[task.key, task.version]
    outcome = run_task(app, handle, task, line, partial(_take_over, app, task))
    if outcome is None:
        # A fork of the attempt that has left the handler: it must not report an outcome.
        return 1
    if tracing.on():
        with contextlib.suppress(Exception):
            tracing.flush()
    return outcome.usage.exit_code or 0


def run_task(app: Application, handle: Handle, task: Task, line: int, take_over: TakeOver) -> Outcome | None:
    """Run a handler or a hook and report its outcome; None in a fork of the process in which it began."""
    children = ChildKeys(task)
    reporter = LineReporter(line, children)
    resources = Resources(app.resources)
    ctx = AttemptContext(task, app, reporter, resources, len(handle.steps), children)
    stopper = StopHandler(ctx, reporter)
    if task.hook:
        # Children of a hook are not those of the handler.
        reporter.phase = ctx.phase = task.hook
    take_over(reporter, ctx, stopper)
    outcome = call_hook(handle, task, ctx) if task.hook else handler_run.run(handle, task, ctx, reporter)
    stopper.over = True
    if reporter.disowned:
        return None
    try:
        resources.close()
    except BaseException as error:
        reporter.log("warning", f"A resource could not be closed: {error!r}", None, None)
    _flush()
    reporter.end(outcome)
    return outcome


def _take_over(app: Application, task: Task, reporter: LineReporter, ctx: AttemptContext, stopper: StopHandler) -> None:
    """Make the process that of the attempt: its logs, jobs and signals belong to the attempt from now on."""
    if task.log_level is not None:
        logging.getLogger().setLevel(task.log_level.upper())
    _records.attach(reporter, ctx)
    app.enter_job(reporter)
    _signal.signal(ASK, stopper)
    os.register_at_fork(
        before=reporter.about_to_fork, after_in_parent=reporter.has_forked, after_in_child=reporter.disown
    )


def _flush() -> None:
    """Flush output; a handler may have closed or replaced the streams, and a request to stop may come."""
    for stream in (sys.stdout, sys.stderr):
        # `suppress` is the same in more steps, and each step costs a child some pages.
        try:  # noqa: SIM105
            stream.flush()
        except BaseException:  # noqa: S110
            pass


class LineReporter:
    """Sends the reports and requests of an attempt over its line, and waits for the answers to requests."""

    def __init__(self, line: int, children: ChildKeys) -> None:
        self._line = line
        self._lock = threading.RLock()
        self._children = children
        self.phase: str = "run"
        self.busy: bool = False
        self.disowned: bool = False
        """This process is a fork of the attempt's process."""
        self.stopper: StopHandler | None = None
        self._masks: dict[int, set[int]] = {}
        """The signal mask of each thread that is forking."""

    def about_to_fork(self) -> None:
        """Block the stop signals: a fork that has not reached `disown` yet would ignore them."""
        self._masks[threading.get_ident()] = _signal.pthread_sigmask(_signal.SIG_BLOCK, STOP_SIGNALS)

    def has_forked(self) -> None:
        mask = self._masks.pop(threading.get_ident(), None)
        if mask is not None:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)

    def disown(self) -> None:
        """In a fork of the attempt: let stop signals end it, and send nothing: frames of two processes would mix."""
        self.disowned = True
        with contextlib.suppress(ValueError):
            for number in STOP_SIGNALS:
                signal.signal(number, signal.SIG_DFL)
        self.has_forked()

    def progress(self, percent: float, message: str | None, phase: str) -> None:
        self.send({"say": "progress", "percent": percent, "message": message, "phase": phase})

    def log(
        self, level: str, message: str, details: str | None, phase: str | None, *, duration: int | None = None
    ) -> None:
        text = payload.sanitise_text(message, _LONGEST_MESSAGE)
        if self.disowned:
            print(text, file=sys.stderr, flush=True)
            return
        line: dict[str, Any] = {"say": "log", "level": level, "message": text, "details": details, "phase": phase}
        if duration is not None:
            line["duration"] = duration
        self.send({**line, "at": stamps.now()})

    def event(self, kind: str, data: str | None) -> None:
        self.send({"say": "event", "kind": kind, "data": data})

    def phase_running(self, name: str, position: int) -> None:
        self.phase = name
        self.send({"say": "phase", "name": name, "position": position, "at": stamps.now()})

    def phase_done(self, name: str, position: int, result: str) -> str:
        ended = {"ask": "phase", "name": name, "position": position, "result": result, "at": stamps.now()}
        return str(self._ask(ended))

    def create(self, orders: Sequence[Mapping[str, Any]]) -> list[Created]:
        answer = self._ask({"ask": "create", "orders": [self._children.own(order, self.phase) for order in orders]})
        return [Created(job_id, Status(status), created) for job_id, status, created in answer]

    def read(self, job_id: str) -> Job:
        return job_from_json(self._ask({"ask": "read", "job_id": job_id}))

    def cancel(self, job_id: str) -> Status:
        return Status(self._ask({"ask": "cancel", "job_id": job_id}))

    def end(self, outcome: Outcome) -> None:
        """Send the outcome of the attempt."""
        self._exchange(_DONE if outcome is RETURNED_NOTHING else _ending(outcome))

    def send(self, frame: Frame) -> None:
        self._check_process()
        self._exchange(pack(frame))

    def _check_process(self) -> None:
        if self.disowned:
            raise Conflict(
                "This process is a fork of a job's process, and cannot report for the job.",
                hint="Have the job's own process do it.",
            )

    def _ask(self, frame: Frame) -> Any:
        self._check_process()
        try:
            data = pack({"say": "ask", **frame})
        except WireError as error:
            raise InvalidPayload(f"The request is too large: {error}", hint="Split it into several calls.") from None
        answer = self._exchange(data, receive)
        if answer is None:
            raise Conflict("The worker of this job has gone.")
        if "error" in answer:
            raise _error_of(answer["error"])
        return answer.get("value")

    def _exchange(self, data: bytes, answer: Callable[[int], Frame | None] | None = None) -> Frame | None:
        """Send a frame and read its answer without interruption: a request to stop waits until then."""
        first = not self.busy and threading.current_thread() is threading.main_thread()
        if first:
            self.busy = True
        try:
            with self._lock:
                send(self._line, data)
                return answer(self._line) if answer is not None else None
        finally:
            if first:
                self.busy = False
                if self.stopper is not None:
                    self.stopper.catch_up()


class StopHandler:
    """Handles a request to stop: marks the context and raises `Cancelled` in the handler, once, where that is safe."""

    def __init__(self, ctx: AttemptContext, reporter: LineReporter) -> None:
        self._ctx = ctx
        self._reporter = reporter
        self._late = False
        self._raised = False
        self._call: Callable[[], object] | None = None
        self.over = False
        reporter.stopper = self

    def __call__(self, number: int, frame: Any) -> None:
        self._ctx.stop()
        if self._call is not None:
            self._raised = True
            self._call()
        elif self._reporter.busy:
            self._late = True
        else:
            self._raise()

    def redirect(self, call: Callable[[], object] | None) -> None:
        """Call this instead of raising, while a loop runs that cancels its task itself."""
        self._call = call

    def catch_up(self) -> None:
        if self._late:
            self._late = False
            self._raise()

    def _raise(self) -> None:
        if not self._raised and not self.over:
            self._raised = True
            raise Cancelled("This attempt was asked to stop.")


TakeOver = Callable[[LineReporter, AttemptContext, StopHandler], None]

_records = JobRecords()


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "trigger": outcome.trigger, "cause": outcome.cause, "result": outcome.result, "retryable": outcome.retryable,
        "delay": outcome.delay, "note": outcome.note, "data": outcome.data,
        "failure": outcome.failure and {name: getattr(outcome.failure, name) for name in _FAILURE},
    }  # fmt: skip


def _ending(outcome: Outcome) -> bytes:
    return pack({"say": "outcome", "at": stamps.now(), **outcome_to_json(outcome)})


_DONE = pack({"say": "done"})
"""Packed once, in the zygote: packing it costs a child as much as a small handler."""


def outcome_from_json(frame: Mapping[str, Any]) -> Outcome:
    failure = frame["failure"]
    trigger = Trigger(frame["trigger"])
    if trigger not in _TRIGGERS:
        raise ValueError(f"no handler can {trigger}")
    return Outcome(
        trigger=trigger, cause=Cause(frame["cause"]), result=message_validation.json_text(frame["result"]),
        failure=None if failure is None else Failure(
            **{name: message_validation.text(failure[name], 65_536) for name in _FAILURE}
        ),
        retryable=bool(frame["retryable"]), delay=message_validation.delay(frame["delay"]),
        note=message_validation.maybe_text(frame["note"]),
        data=message_validation.json_text(frame["data"]),
    )  # fmt: skip


def call_hook(handle: Handle, task: Task, ctx: AttemptContext) -> Outcome:
    hook = handle.hooks[task.hook or ""]
    try:
        value = hook(ctx, task.told.get("error")) if task.hook == "on_fail" else hook(ctx)
        if hasattr(value, "__await__"):
            coroutines.run(value)
    except BaseException as error:
        return handler_run.ending(None, error)
    return Outcome(Trigger.SUCCEED, Cause.RETURNED)


def prepare_output() -> None:
    """Make once, in the zygote, the streams and the log handler of children."""
    sys.stdout.flush()
    sys.stderr.flush()
    # The first streams were made for another kind of file than the pipes of children.
    sys.stdout = sys.__stdout__ = _text_stream(1)  # type: ignore[misc, assignment]
    sys.stderr = sys.__stderr__ = _text_stream(2)  # type: ignore[misc, assignment]
    root = logging.getLogger()
    for handler in list(root.handlers):
        # What it would print is kept as a record of the job already.
        if isinstance(handler, logging.StreamHandler) and getattr(handler.stream, "name", "") in (
            "<stderr>",
            "<stdout>",
        ):
            root.removeHandler(handler)
    root.addHandler(_records)
    if root.level == logging.WARNING:
        root.setLevel(logging.INFO)


def _text_stream(descriptor: int) -> TextIO:
    return open(descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)


def _not_confined(error: OSError) -> Outcome:
    text = f"The attempt could not be confined: {error}. It was not run."
    return Outcome(Trigger.FAIL, Cause.EXITED, failure=Failure("IsolationError", text, fingerprint="isolation"))


def _error_of(answer: Mapping[str, Any]) -> PenstockError:
    """The error of the worker, as the same class where possible."""
    kind = getattr(errors, str(answer.get("type")), None)
    text = str(answer.get("message"))
    if isinstance(kind, type) and issubclass(kind, Conflict):
        return kind(text, job_id=answer.get("job_id"))
    if kind in (
        errors.Forbidden,
        errors.InvalidInput,
        errors.InvalidPayload,
        errors.InvalidDefinition,
        errors.StoreUnavailable,
    ):
        return kind(text)
    if kind is errors.NotFound:
        return errors.NotFound(str(answer.get("kind") or "job"), str(answer.get("name") or ""))
    return PenstockError(text)
