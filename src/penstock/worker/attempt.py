"""One attempt in a child process: prepare, launch, watch, conclude.

Every way it can end, the crash included, passes through the same last step.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import Any

from penstock.domain.attempt import Task
from penstock.domain.errors import LeaseLost
from penstock.domain.job import Held
from penstock.domain.outcome import RETURNED_NOTHING, Cause, Failure, Outcome, Usage
from penstock.domain.states import Trigger
from penstock.isolation import message_validation
from penstock.isolation.child import outcome_from_json
from penstock.isolation.child_requests import ChildRequests
from penstock.isolation.confinement import Rules
from penstock.isolation.output import Output
from penstock.isolation.wire import Frame
from penstock.isolation.zygote_process import Exit, Fork, FrameReader, ZygoteProcess
from penstock.runtime import processes, stamps
from penstock.runtime.service import log
from penstock.runtime.stop_signals import ASK
from penstock.worker.claimed_job import ClaimedJob
from penstock.worker.job_environment import JobEnvironment

_LEVELS = frozenset({"debug", "info", "warning", "error"})
_LONGEST_LINE = 500
_STREAM_DETAILS = {"stdout": '{"stream":"stdout"}', "stderr": '{"stream":"stderr"}'}
_WATCH_FIRST = 0.05
_WATCH = 0.1


class Stop(StrEnum):
    """Why an attempt is stopped."""

    CANCEL = "cancel"
    TIMEOUT = "timeout"
    SHUTDOWN = "shutdown"
    UNTRUSTED = "untrusted"
    LOST_FENCE = "lost_fence"
    MEMORY = "memory"
    PROCESSES = "processes"
    PROTOCOL = "protocol"


class Attempt:
    """Supervises one child from fork to settlement."""

    def __init__(self, job: ClaimedJob, zygote: ZygoteProcess, environment: JobEnvironment) -> None:
        self.job = job
        self.held: Held = job.held
        self._zygote = zygote
        self._environment = environment
        self._rules: Rules
        self._fork: Fork | None = None
        self._begun = 0
        """When its process began, as a stamp, or just before."""
        self._reported: Outcome | None = None
        self._stop: Stop | None = None
        self._detail = ""
        self._timers: list[asyncio.TimerHandle] = []
        self._answers: ChildRequests | None = None
        self._helpers: set[asyncio.Future[None]] = set()
        self._outputs: tuple[Output, ...] = ()
        self._watched = False
        self._killed = False
        self._last_error = ""
        """The last line that it has written to stderr."""
        self._broke_off = False

    @property
    def job_id(self) -> str:
        return self.held.job_id

    async def run(self) -> Outcome:
        """Run the attempt to its end and return its outcome."""
        try:
            task = await self.job.task()
        except LeaseLost:
            return Outcome(Trigger.RELEASE, Cause.RELEASED)
        if self._stop is not None:
            return self._stopped(Exit(), Usage())
        self._rules = self._environment.job_rules(self.job)
        fork = self._launch(task)
        exit = await self._watch(fork)
        await self._clean_up()
        return await self.job.cleaned(self._conclude(exit))

    def stop(self, why: Stop, grace: float) -> None:
        """Ask the handler to stop; when the grace is over, kill it."""
        if self._stop is None:
            self._stop = why
            if self._fork is not None:
                self._zygote.signal(self._fork, ASK)
                self._later(grace, lambda: self.kill(why))

    def kill(self, why: Stop, detail: str = "") -> None:
        """Kill every process of the attempt; the first reason is kept."""
        if self._stop is None:
            self._stop, self._detail = why, detail
        elif self._stop is Stop.CANCEL and why is Stop.UNTRUSTED:
            self._stop = why
        self._killed = True
        if self._fork is not None:
            self._zygote.kill(self._fork)

    def _launch(self, task: Task) -> Fork:
        self._begun = stamps.now()
        fork = self._zygote.fork({"task": task.to_json(), "rules": self._rules.to_json()})
        self._fork = fork
        definition = self.job.definition
        if definition.timeout is not None:
            grace = definition.cancel_grace / 1e6
            self._later(definition.timeout / 1e6, lambda: self.stop(Stop.TIMEOUT, grace))
        return fork

    async def _watch(self, fork: Fork) -> Exit:
        """Read the child's frames and output until it and all its processes are gone."""
        secrets = self.job.secrets
        reader = FrameReader(fork.line, self._read, lambda problem: self.kill(Stop.PROTOCOL, problem))
        output = Output(fork.output, lambda line: self._printed("info", line, "stdout"), secrets)
        errors = Output(fork.errors, lambda line: self._printed("warning", line, "stderr"), secrets)
        lost = partial(self.kill, Stop.LOST_FENCE)
        answers = self._answers = ChildRequests(fork.line, self.job.answer, lost, f"job {self.held.job_id}")
        self._outputs = output, errors
        self._later(_WATCH_FIRST, self._guard)
        try:
            return await fork.ended
        finally:
            for timer in self._timers:
                timer.cancel()
            for helper in self._helpers:
                helper.cancel()
            answers.close()
            self._broke_off = reader.close()
            output.close()
            errors.close()

    def _read(self, frame: Frame) -> None:
        job = self.job
        if not self._watched and frame["say"] not in ("done", "outcome"):
            self._watch_output()
        match frame["say"]:
            case "progress":
                message, phase = frame["message"], message_validation.maybe_name(frame["phase"])
                job.progress(message_validation.percent(frame["percent"]), message, phase)
            case "log":
                level = frame["level"] if frame["level"] in _LEVELS else "info"
                details, phase = (
                    message_validation.json_text(frame["details"]),
                    message_validation.maybe_name(frame["phase"]),
                )
                duration = message_validation.duration(frame.get("duration"))
                job.log(level, frame["message"], details, phase, stamp=self._stamp(frame), duration=duration)
            case "event":
                job.event(message_validation.name(frame["kind"]), message_validation.json_text(frame["data"]))
            case "phase":
                name, position = message_validation.name(frame["name"]), message_validation.position(frame["position"])
                job.enter_phase(name, position, self._stamp(frame))
            case "ask":
                if self._answers is not None:
                    # The child waits now: its output so far belongs before this request.
                    self._take_output()
                    self._answers.ask({**frame, "at": self._stamp(frame)})
            case "done":
                self._reported = RETURNED_NOTHING
            case "outcome":
                self._reported = outcome_from_json(frame)
                job.ended = self._stamp(frame)
            case other:
                raise ValueError(f"a child sent {other!r:.40}")

    def _stamp(self, frame: Frame) -> int:
        return stamps.within(frame.get("at"), self._begun)

    def _guard(self) -> None:
        """Measure what the processes of the attempt use together, and kill them when it is too much."""
        if not self._watched:
            self._watch_output()
        if self._fork is not None and self._fork.pid is not None:
            below = processes.descendants(self._fork.pid)
            most = self._rules.processes
            if most is not None and len(below) >= most and (alive := len(processes.living(below))) >= most:
                self.kill(Stop.PROCESSES, f"{alive + 1} processes, {most} are allowed")
            if self._rules.memory is not None:
                self._help(self._check_memory([self._fork.pid, *below], self._rules.memory))
        self._later(_WATCH, self._guard)

    async def _check_memory(self, pids: list[int], most: int) -> None:
        # Memory shared with the zygote does not count; a single process reaches its own limit before this one.
        used = await asyncio.to_thread(processes.memory, pids) - self._zygote.memory
        if used > most:
            self.kill(Stop.MEMORY, f"{used} bytes were used, {most} are allowed")

    def _help(self, work: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        helper = asyncio.ensure_future(work)
        self._helpers.add(helper)
        helper.add_done_callback(self._helpers.discard)
        return helper

    def _watch_output(self) -> None:
        """Read output as it comes. Most attempts end soon and send nothing before: their output is read at the end."""
        self._watched = True
        self._take_output()
        for output in self._outputs:
            output.watch()

    def _take_output(self) -> None:
        for output in self._outputs:
            output.take()

    def _printed(self, level: str, line: str, stream: str) -> None:
        if stream == "stderr" and line.strip():
            self._last_error = line.strip()
        phase = self.job.phase or self.job.definition.phases[0]
        self.job.log(level, line, _STREAM_DETAILS[stream], phase)

    def _later(self, seconds: float, call: Any) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(seconds, call))

    async def _clean_up(self) -> None:
        """Give the private folder back; an error there does not change the outcome of the attempt."""
        try:
            await self._environment.give_back(self._rules)
        except Exception:
            log.exception("the folder %s of job %s cannot be removed", self._rules.folder, self.held.job_id)

    def _conclude(self, exit: Exit) -> Outcome:
        """The one outcome of all that has happened."""
        usage = Usage(exit.code, exit.signal, exit.peak_memory, exit.cpu_seconds)
        if exit.untrusted:
            self._stop = Stop.UNTRUSTED
        if exit.lost:
            return replace(_lost(), usage=usage)
        if exit.unforked is not None:
            log.error("no process could be made for job %s: %s", self.held.job_id, exit.unforked)
            return Outcome(Trigger.RELEASE, Cause.RELEASED)
        if self._reported is not None and self._reported.cause is Cause.CANCELLED and self._stop is None:
            # It was not asked to stop: the handler has raised that itself.
            self._reported = replace(self._reported, cause=Cause.RAISED)
        if self._reported is not None and self._is_valid(self._reported):
            return replace(self._with_limit(self._reported), usage=usage)
        if self._stop is None and self._broke_off and exit.code == 0:
            self._stop, self._detail = Stop.PROTOCOL, "its last frame is incomplete"
        if self._stop is not None:
            return self._stopped(exit, usage)
        return replace(_died(exit, self._last_error), usage=usage)

    def _with_limit(self, reported: Outcome) -> Outcome:
        """A failed allocation with how much memory was allowed."""
        most = self._rules.memory
        if reported.cause is not Cause.OUT_OF_MEMORY or reported.failure is None or most is None:
            return reported
        text = f"{reported.failure.message} {most} bytes are allowed."
        return replace(reported, failure=replace(reported.failure, message=text))

    def _is_valid(self, reported: Outcome) -> bool:
        """Whether the handler's outcome is valid, although the attempt may have been asked to stop."""
        match self._stop:
            case None:
                return True
            case Stop.CANCEL | Stop.PROTOCOL:
                return reported.cause is not Cause.CANCELLED
            case Stop.SHUTDOWN:
                return reported.trigger is not Trigger.FAIL
            case _:
                return False

    def _stopped(self, exit: Exit, usage: Usage) -> Outcome:
        match self._stop:
            case Stop.SHUTDOWN | Stop.UNTRUSTED | Stop.LOST_FENCE:
                return Outcome(Trigger.RELEASE, Cause.RELEASED, usage=usage)
            case Stop.CANCEL:
                how = "was killed after its grace" if self._killed else "stopped when it was asked to"
                return _failed(Cause.CANCELLED, "Cancelled", f"The job was cancelled; the attempt {how}.", usage)
            case Stop.TIMEOUT:
                seconds = (self.job.definition.timeout or 0) / 1e6
                how = " It did not stop when asked, and was killed." if self._killed else ""
                return _failed(Cause.TIMED_OUT, "Timeout", f"The attempt took longer than {seconds:g} s.{how}", usage)
            case Stop.MEMORY:
                return _failed(Cause.OUT_OF_MEMORY, "OutOfMemory", f"Too much memory: {self._detail}.", usage)
            case Stop.PROCESSES:
                return _failed(Cause.SIGNALLED, "TooManyProcesses", f"Too many processes: {self._detail}.", usage)
            case _:
                text = f"The attempt broke the protocol of its line to the worker: {self._detail}."
                return _failed(Cause.SIGNALLED, "ProtocolError", text, usage)


def _died(exit: Exit, last_error: str) -> Outcome:
    """The outcome of a process that ended without sending one; `last_error` is its last line on stderr."""
    if exit.signal is not None:
        name = _signal_name(exit.signal)
        if exit.signal == signal.SIGXCPU:
            return _failed(Cause.SIGNALLED, "CpuLimit", "The attempt used up its CPU seconds (SIGXCPU).")
        if exit.signal == signal.SIGKILL:
            text = "Something killed the attempt (SIGKILL); when memory is short, that is the kernel."
            return _failed(Cause.SIGNALLED, "Killed", text)
        return _failed(Cause.SIGNALLED, "Signal", f"The attempt died of {name}.")
    detail = f" Its last line on stderr: {last_error[:_LONGEST_LINE]}" if last_error else ""
    return _failed(Cause.EXITED, "Exit", f"The process ended with exit code {exit.code} and gave no result.{detail}")


def _failed(cause: Cause, kind: str, text: str, usage: Usage | None = None) -> Outcome:
    failure = Failure(kind, text, fingerprint=f"penstock-{kind}")
    return Outcome(Trigger.FAIL, cause, failure=failure, usage=usage or Usage())


def _lost() -> Outcome:
    text = "The process that had forked this attempt died, and the attempt with it."
    return Outcome(Trigger.LOSE, Cause.LOST, failure=Failure("ZygoteLost", text, fingerprint="penstock-ZygoteLost"))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
