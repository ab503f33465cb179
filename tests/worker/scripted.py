"""The application that the tests of the engine run: one job that does whatever its script says.

A script is a list of steps, each a list of a word and its values: `[["print", "hello"], ["sleep", 1], ["return", 5]]`.
Where a journal is given, every attempt writes down there when it begins and ends, in lines of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock import Context, Penstock
from tests.worker.scripted_steps import MADE, WORDS, Script, journal, note

URL = os.environ.get("PENSTOCK_TEST_STORE", "sqlite://")
SCHEMA = os.environ.get("PENSTOCK_TEST_SCHEMA", "penstock")

app = Penstock(URL, schema=SCHEMA)


def perform(ctx: Context, script: Script) -> Any:
    """Do what a script says; the value of `return`, or None."""
    for word, *values in script:
        if word == "return":
            return values[0] if values else None
        if word == "return_made":
            return MADE[values[0]]()
        WORDS[word](ctx, *values)
    return None


def run(ctx: Context, script: Script) -> Any:
    note(ctx, "begin")
    try:
        return perform(ctx, script)
    finally:
        note(ctx, "end")


async def arun(ctx: Context, script: Script) -> Any:
    """The same in a coroutine, which sleeps without blocking its loop."""
    note(ctx, "begin")
    try:
        for word, *values in script:
            if word == "return":
                return values[0]
            if word == "sleep":
                await asyncio.sleep(values[0])
            else:
                WORDS[word](ctx, *values)
    finally:
        note(ctx, "end")


def hook(name: str) -> Callable[..., None]:
    """A hook that writes down that it was called."""

    def call(ctx: Context, *error: Any) -> None:
        note(ctx, name, error=error[0] if error else None)

    return call


HOOKS: dict[str, Any] = {
    name: hook(name)
    for name in ("on_start", "on_success", "on_fail", "on_end", "on_retry", "on_cancel", "on_stale", "on_delete")
}
QUICK: dict[str, Any] = {"backoff": 0, "max_attempts": 1, "cancel_grace": 1}

script = app.job("script", **QUICK)(run)
hooked = app.job("hooked", **QUICK, **HOOKS)(run)
reaching = app.job("reaching", **QUICK, reach="any")(run)
tried_again = app.job("tried_again", backoff=0, max_attempts=3, cancel_grace=1)(run)
hooked_coroutine = app.job("hooked_coroutine", **QUICK, **HOOKS)(arun)
hooked_short = app.job("hooked_short", **QUICK, **HOOKS, timeout=1)(run)
hooked_small = app.job("hooked_small", **QUICK, **HOOKS, memory="64MB")(run)
hooked_busy = app.job("hooked_busy", **QUICK, **HOOKS, cpu=1)(run)
hooked_few = app.job("hooked_few", **QUICK, **HOOKS, processes=40)(run)
hooked_again = app.job("hooked_again", **{**QUICK, "max_attempts": 3}, **HOOKS)(run)
talkative = app.job("talkative", **QUICK, log_level="debug")(run)
taciturn = app.job("taciturn", **QUICK, log_level="warning")(run)
inline_talkative = app.job("inline_talkative", **QUICK, log_level="debug", isolation="inline")(arun)


async def _timed(ctx: Context) -> None:
    async with ctx.timed("awaited"):
        await asyncio.sleep(0.01)


timed = app.job("timed", **QUICK)(_timed)
inline_timed = app.job("inline_timed", **QUICK, isolation="inline")(_timed)
short = app.job("short", **QUICK, timeout=1)(run)
small = app.job("small", **QUICK, memory="64MB")(run)
busy = app.job("busy", **QUICK, cpu=1)(run)
few_processes = app.job("few_processes", **QUICK, processes=40)(run)
few_files = app.job("few_files", **QUICK, files=32, file_size="1MB", environment=["PENSTOCK_TEST_ALLOWED"])(run)
single = app.job("single", **QUICK, concurrency=1)(run)
rated = app.job("rated", **QUICK, rate_limit="5/s")(run)


@app.job("keyed", **QUICK, concurrency_key="key")
def keyed(ctx: Context, key: str, script: Script) -> Any:
    return run(ctx, script)


coroutine = app.job("coroutine", **QUICK)(arun)
inline = app.job("inline", **QUICK, isolation="inline")(arun)
inline_short = app.job("inline_short", **QUICK, isolation="inline", timeout=1)(arun)
patient = app.job("patient", backoff=[0.2, 0.5], max_attempts=3)(run)
picky = app.job("picky", backoff=0, max_attempts=2, retry_on=(LookupError, OSError))(run)
squeamish = app.job("squeamish", backoff=0, max_attempts=2, fatal_on=LookupError)(run)


@app.job("secretive", **QUICK, secret=["token"])
def secretive(ctx: Context, token: str, script: Script) -> Any:
    """Its scripts name the secret as {token}, so that their own text does not hold it."""
    return run(
        ctx, [[value.format(token=token) if isinstance(value, str) else value for value in step] for step in script]
    )


def _hang(ctx: Context) -> None:
    note(ctx, "on_success")
    with contextlib.suppress(BaseException):
        time.sleep(60)
    time.sleep(60)


def _break(ctx: Context, *error: Any) -> None:
    note(ctx, "broken hook")
    raise RuntimeError("this hook is broken")


def _litter(ctx: Context) -> None:
    Path("file").write_text("x")
    note(ctx, "hook folder", cwd=os.getcwd())


messy_hook = app.job("messy_hook", **QUICK, on_end=_litter)(run)


def _follow_up(ctx: Context) -> None:
    child = noop.enqueue()
    note(ctx, "follow_up", child=child.id, known=app.get(ctx.job_id).status)


def _take_long(name: str) -> Callable[..., None]:
    """A hook that notes when it begins and when it has ended."""

    def call(ctx: Context, *error: Any) -> None:
        note(ctx, f"{name} begins")
        time.sleep(0.3)
        note(ctx, f"{name} has ended")

    return call


ordered = app.job(
    "ordered",
    **QUICK,
    on_success=_take_long("outcome"),
    on_fail=_take_long("outcome"),
    on_cancel=_take_long("outcome"),
    on_end=HOOKS["on_end"],
)(run)
followed = app.job("followed", **QUICK, on_success=_follow_up)(run)
stuck = app.job("stuck", **QUICK, on_success=_hang, on_end=HOOKS["on_end"])(run)
broken = app.job("broken", **QUICK, on_start=_break, on_fail=_break, on_end=HOOKS["on_end"])(run)


@app.resource("tool")
def tool() -> Any:
    """Says in the journal when it is opened and closed."""
    journal.write(job=os.environ["PENSTOCK_JOB_ID"], what="opened")
    yield "a tool"
    journal.write(job=os.environ["PENSTOCK_JOB_ID"], what="closed")


@app.resource("sticky")
def sticky() -> Any:
    """Cannot be closed."""
    yield "a tool"
    raise SystemExit("it does not come off")


def first(ctx: Context, scripts: dict[str, Script]) -> Any:
    note(ctx, "first")
    return perform(ctx, scripts.get("first", []))


def second(ctx: Context, scripts: dict[str, Script]) -> Any:
    note(ctx, "second", results=dict(ctx.results))
    return perform(ctx, scripts.get("second", []))


def third(ctx: Context, scripts: dict[str, Script]) -> Any:
    review = ctx.review
    said = None if review is None else [review.verdict, review.by, review.note, review.result]
    note(ctx, "third", results=dict(ctx.results), review=said)
    return perform(ctx, scripts.get("third", []))


phased = app.pipeline("phased", first, second, third, backoff=0, max_attempts=3, cancel_grace=1)


def _wide(ctx: Context) -> str:
    """A result that is near the limit, and three times as long with its letters escaped."""
    return "ä" * 500_000


def _crash_once(ctx: Context) -> int:
    WORDS["crash_before"](ctx, 2)
    return sum(len(each) for each in ctx.results.values())


wide = app.pipeline(
    "wide", ("one", _wide), ("two", _wide), ("three", _wide), ("four", _crash_once), backoff=0, max_attempts=2
)


@app.job("noop")
def noop() -> None:
    """Nothing at all."""


@app.job("anoop")
async def anoop() -> None:
    """Nothing at all, as a coroutine."""


def _enqueue(ctx: Context, count: int, crash_after: int | None = None) -> None:
    for number in range(count):
        if number == crash_after and ctx.fence == 1:
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)
        noop.enqueue()


def _mix_children(ctx: Context) -> None:
    """Enqueue in every way there is; the same parameters each time."""
    made = [noop.enqueue(), ctx.enqueue(noop), ctx.enqueue("noop"), app.enqueue("noop")]
    note(ctx, "children", ids=[each.id for each in made])


def _ask_about(ctx: Context, job_id: str) -> None:
    job = app.get(job_id)
    before = job.status
    job.cancel()
    note(ctx, "asked", before=before, after=app.get(job_id).status)


def _enqueue_too_much(ctx: Context) -> None:
    app.enqueue_many([script.order(script=[["return", "x" * 1_000_000]]) for _ in range(10)])


def _touch_store(ctx: Context) -> None:
    app.store  # noqa: B018


def _forge_order(ctx: Context, params: str) -> None:
    """Have the worker create a job of `keyed` as if its parameters had been checked here."""
    errands: Any = app.session.errands
    errands.create([{"key": "keyed", "version": 1, "params": params, "checked": True}])


WORDS |= {
    "forge_order": _forge_order,
    "enqueue": _enqueue,
    "mix_children": _mix_children,
    "ask_about": _ask_about,
    "touch_store": _touch_store,
    "enqueue_too_much": _enqueue_too_much,
}


def _tick(ctx: Context, seconds: float) -> None:
    """Write down again and again that this attempt is alive."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        note(ctx, "tick")
        time.sleep(0.02)


def _tick_before(ctx: Context, fence: int, seconds: float) -> None:
    if ctx.fence < fence:
        _tick(ctx, seconds)


def _kill_supervisor(ctx: Context) -> None:
    """Kill the worker itself: the parent of the zygote."""
    facts = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
    os.kill(int(facts[1]), signal.SIGKILL)
    time.sleep(60)


def _kill_zygote(ctx: Context) -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


WORDS |= {
    "tick": _tick,
    "tick_before": _tick_before,
    "block": lambda ctx, seconds: time.sleep(seconds),
    "kill_supervisor": _kill_supervisor,
    "kill_zygote": _kill_zygote,
}


async def inline_first(ctx: Context, password: str) -> int:
    ctx.logger.info("the password is %s", password)
    await asyncio.sleep(0)
    return 41


async def inline_second(ctx: Context, password: str) -> int:
    note(ctx, "second", results=dict(ctx.results))
    if ctx.attempt == 1:
        raise ValueError(f"not with {password}")
    return ctx.results["inline_first"] + 1


inline_phased = app.pipeline(
    "inline_phased", inline_first, inline_second, isolation="inline", secret=["password"], backoff=0, max_attempts=2
)
