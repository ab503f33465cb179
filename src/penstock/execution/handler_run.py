"""Runs a handler: its phases in order, and one outcome for everything that it raises.

The same steps serve a child process, an inline task and the test kit; only the reporter differs.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import traceback
from collections.abc import Awaitable, Callable, Generator
from contextlib import nullcontext
from dataclasses import replace
from itertools import dropwhile
from types import CoroutineType
from typing import Any

from penstock.domain import payload
from penstock.domain.attempt import Task
from penstock.domain.context import Cancelled, Fail, NeedsReview, Retry, Snooze
from penstock.domain.errors import InvalidPayload
from penstock.domain.outcome import RETURNED_NOTHING, Cause, Failure, Outcome, Usage
from penstock.domain.states import Trigger
from penstock.execution import coroutines
from penstock.execution.context import AttemptContext, Reporter
from penstock.execution.handlers import Handle, Step
from penstock.runtime import tracing
from penstock.runtime.own_frames import is_own

_LONGEST_ERROR = 8_000
_LONGEST_TRACEBACK = 32_000
_ASYNCIO = os.path.dirname(asyncio.__file__)
Steps = Generator[Any, Any, str | None]


def run(handle: Handle, task: Task, ctx: AttemptContext, reporter: Reporter) -> Outcome:
    """Run the phases that are not done yet, in a process of the job."""
    if is_plain(handle, task.fence):
        return _run_plain(handle, task, ctx)
    with tracing.attempt(task) as seen:
        return seen.ended(_ended(handle, lambda: _drive(_phases(handle, task, ctx, reporter))))


def is_plain(handle: Handle, fence: int) -> bool:
    """Whether it is the first attempt at a job of one phase, without tracing: there are no results to load or keep."""
    return fence == 1 and len(handle.steps) == 1 and not tracing.on()


def _run_plain(handle: Handle, task: Task, ctx: AttemptContext) -> Outcome:
    step = handle.steps[0]
    ctx.phase = step.name
    try:
        value = step.call(ctx, handle.signature.arguments(task.params))
        if hasattr(value, "__await__"):
            value = coroutines.run(value)
        return RETURNED_NOTHING if value is None else _returned(handle, value)
    except BaseException as error:
        return ending(handle, error)


async def arun(handle: Handle, task: Task, ctx: AttemptContext, reporter: Reporter) -> Outcome:
    """The same in a running loop, for handlers that are coroutines throughout."""
    with tracing.attempt(task) as seen:
        return seen.ended(await _arun(handle, task, ctx, reporter))


async def arun_plain(handle: Handle, params: str, ctx: Callable[[], AttemptContext]) -> Outcome:
    """The first attempt at a job of one phase; the context is made only for a handler that takes it."""
    return await finish_plain(handle, step_plain(handle, params, ctx))


def step_plain(handle: Handle, params: str, ctx: Callable[[], AttemptContext]) -> Outcome | Awaitable[Any]:
    """The same until it has to wait: its outcome, or the awaitable for `finish_plain`."""
    try:
        if params == "{}" and (bare := handle.bare) is not None:
            value = bare()
        else:
            step = handle.steps[0]
            value = step.call(ctx() if step.takes_context else None, handle.signature.arguments(params))
        if type(value) is CoroutineType:
            try:
                return coroutines.StartedCoroutine(value, value.send(None))
            except StopIteration as end:
                value = end.value
        elif hasattr(value, "__await__"):
            return value  # type: ignore[no-any-return]
        return RETURNED_NOTHING if value is None else _returned(handle, value)
    except BaseException as error:
        return ending(handle, error)


async def finish_plain(handle: Handle, begun: Outcome | Awaitable[Any]) -> Outcome:
    """Await the rest of an attempt that `step_plain` has begun."""
    if isinstance(begun, Outcome):
        return begun
    try:
        value = await begun
        return RETURNED_NOTHING if value is None else _returned(handle, value)
    except BaseException as error:
        return ending(handle, error)


async def _arun(handle: Handle, task: Task, ctx: AttemptContext, reporter: Reporter) -> Outcome:
    steps = _phases(handle, task, ctx, reporter)
    try:
        value = next(steps)
        while True:
            try:
                answer = await value
            except BaseException as error:
                value = steps.throw(error)
            else:
                value = steps.send(answer)
    except StopIteration as end:
        return Outcome(Trigger.SUCCEED, Cause.RETURNED, result=end.value)
    except BaseException as error:
        return ending(handle, error)


def ending(handle: Handle | None, error: BaseException) -> Outcome:
    """The outcome of an attempt whose handler raised this."""
    match error:
        case Cancelled() | asyncio.CancelledError() | KeyboardInterrupt():
            return Outcome(Trigger.FAIL, Cause.CANCELLED, failure=failure(error))
        case Snooze():
            return Outcome(Trigger.SNOOZE, Cause.SNOOZED, delay=error.delay, note=str(error) or None)
        case NeedsReview():
            return _review(handle, error)
        case Retry():
            return Outcome(Trigger.FAIL, Cause.RAISED, failure=failure(error), delay=error.after)
        case Fail():
            return Outcome(Trigger.FAIL, Cause.RAISED, failure=failure(error), retryable=False)
        case MemoryError():
            known = failure(error)
            if not known.message:
                known = replace(known, message="No memory was left for an allocation of the handler.")
            return Outcome(Trigger.FAIL, Cause.OUT_OF_MEMORY, failure=known, retryable=_retryable(handle, error))
        case SystemExit():
            code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
            text = f"The handler called sys.exit({payload.sanitise_text(repr(error.code), 200)}) and returned nothing."
            exited = Failure("SystemExit", text, fingerprint=f"exit-{code}")
            return Outcome(Trigger.FAIL, Cause.EXITED, failure=exited, usage=Usage(exit_code=code & 0xFF))
        case _:
            return Outcome(Trigger.FAIL, Cause.RAISED, failure=failure(error), retryable=_retryable(handle, error))


def failure(error: BaseException) -> Failure:
    """An exception as it is kept: without locals, without our own frames and those of the loop on top."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not is_own(each.filename)]
    frames = list(dropwhile(lambda frame: frame.filename.startswith(_ASYNCIO), frames))
    kind = type(error).__qualname__
    module = type(error).__module__
    name = kind if module in ("builtins", "__main__") else f"{module}.{kind}"
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames)] if frames else []
    text = "".join([*lines, *traceback.format_exception_only(error)])
    if error.__cause__ is not None or (error.__context__ is not None and not error.__suppress_context__):
        text = "".join(traceback.format_exception(error))
    where = "|".join(f"{os.path.basename(each.filename)}:{each.name}" for each in frames[-5:])
    mark = hashlib.blake2b(f"{name}|{where}".encode(), digest_size=8).hexdigest()
    return Failure(
        type=payload.sanitise_text(name, 200),
        message=payload.sanitise_text(_message(error), _LONGEST_ERROR),
        traceback=payload.sanitise_text(text, _LONGEST_TRACEBACK),
        fingerprint=mark,
    )


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as problem:
        return f"<its text cannot be read: {type(problem).__name__}>"


def _ended(handle: Handle, work: Callable[[], str | None]) -> Outcome:
    try:
        return Outcome(Trigger.SUCCEED, Cause.RETURNED, result=work())
    except BaseException as error:
        return ending(handle, error)


def _drive(steps: Steps) -> str | None:
    try:
        value = next(steps)
        while True:
            try:
                answer = coroutines.run(value)
            except BaseException as error:
                value = steps.throw(error)
            else:
                value = steps.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def _phases(handle: Handle, task: Task, ctx: AttemptContext, reporter: Reporter) -> Steps:
    """The phases one after the other; yields what is to be awaited, returns the last result as JSON text."""
    arguments = handle.signature.arguments(task.params)
    last: str | None = None
    steps = handle.steps
    for position, step in enumerate(steps):
        ctx.phase, ctx.position = step.name, position
        if step.name in task.results:
            last = task.results[step.name]
            continue
        approved = _approved(task, step)
        if approved is not None:
            last = approved
        else:
            if len(steps) > 1:
                reporter.phase_running(step.name, position)
            with tracing.phase(step.name) if len(steps) > 1 else nullcontext():
                value = step.call(ctx, arguments)
                if hasattr(value, "__await__"):
                    value = yield value
            last = _result(handle, value)
        if len(steps) > 1:
            kept = reporter.phase_done(step.name, position, last)
            last = kept if isinstance(kept, str) else (yield kept)
        ctx.results[step.name] = payload.load(last)
    return last


def _approved(task: Task, step: Step) -> str | None:
    """The result of a phase that had asked for a review which was approved."""
    review = task.review
    if review is None or review["verdict"] != "approved" or review.get("phase") != step.name:
        return None
    return review.get("result") or "null"


def _result(handle: Handle, value: Any) -> str:
    """What a handler returned as JSON text; models, dates and their kin become JSON first."""
    if value is None:
        return "null"
    try:
        text, _ = payload.sanitise(value)
    except InvalidPayload:
        from pydantic_core import PydanticSerializationError, to_jsonable_python

        try:
            text, _ = payload.sanitise(to_jsonable_python(value, inf_nan_mode="constants"))
        except (PydanticSerializationError, ValueError, RecursionError) as error:
            raise InvalidPayload(f"The result of {handle.definition.key} cannot be kept as JSON: {error}.") from None
    return text


def _returned(handle: Handle, value: Any) -> Outcome:
    return Outcome(Trigger.SUCCEED, Cause.RETURNED, result=_result(handle, value))


def _review(handle: Handle | None, error: NeedsReview) -> Outcome:
    try:
        data, _ = payload.sanitise(error.data)
    except InvalidPayload as problem:
        return Outcome(Trigger.FAIL, Cause.RAISED, failure=failure(problem), retryable=False)
    note = payload.sanitise_text(error.note, 2000) or None
    return Outcome(Trigger.ASK_REVIEW, Cause.REVIEW, result=data, note=note, data=data)


def _retryable(handle: Handle | None, error: BaseException) -> bool:
    """Whether another attempt may help: not after fatal errors, and only after the listed ones if any are listed."""
    if handle is None:
        return True
    if handle.fatal_on and isinstance(error, handle.fatal_on):
        return False
    return not handle.retry_on or isinstance(error, handle.retry_on)
