"""Fences: an attempt that no longer owns its job can write nothing, whatever it tries to write."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from penstock.core.errors import LeaseLost
from penstock.core.job import Held, LogLine
from penstock.core.ports import JobsPort
from penstock.core.transitions import Status, Trigger
from penstock.stores.verbs import control, jobs
from tests.stores.kit import Kit
from tests.stores.tables import dump

pytestmark = pytest.mark.usefixtures("sound")

# What names an attempt in the signature of a verb.
ATTEMPT = ("Held", "Settlement", "Progress")
# It is handed what the worker holds, so as to leave that alone; everything else is taken from the worker.
TAKES_NO_FENCE = {"release_unheld"}


@contextmanager
def refused() -> Iterator[None]:
    with pytest.raises(LeaseLost):
        yield


def _start(kit: Kit, held: Held) -> None:
    assert kit.run(jobs.start([held])) == [held]


def _settle(kit: Kit, held: Held) -> None:
    for trigger in (Trigger.SUCCEED, Trigger.FAIL, Trigger.RELEASE, Trigger.SNOOZE, Trigger.ASK_REVIEW, Trigger.LOSE):
        report = kit.settle(held, trigger, result="1")
        assert report.applied == []
        assert report.repeated == [held.job_id] or report.refused == [held]


def _save_progress(kit: Kit, held: Held) -> None:
    assert kit.run(jobs.save_progress([(held, 50.0, "half", "load")])) == [held]


def _save_phase(kit: Kit, held: Held) -> None:
    for status in ("running", "completed", "failed"):
        with refused():
            kit.run(jobs.save_phase(held, "load", 0, status, result="1"))


def _save_logs(kit: Kit, held: Held) -> None:
    with refused():
        kit.run(jobs.save_logs(held, [LogLine("info", "late")]))


def _emit_many(kit: Kit, held: Held) -> None:
    with refused():
        kit.run(jobs.emit_many(held, [("late", "{}"), ("later", None)]))


def _emit(kit: Kit, held: Held) -> None:
    with refused():
        kit.run(jobs.emit(held, "late", "{}"))


WRITES: dict[str, Callable[[Kit, Held], None]] = {
    "start": _start,
    "settle": _settle,
    "save_progress": _save_progress,
    "save_phase": _save_phase,
    "save_logs": _save_logs,
    "emit": _emit,
    "emit_many": _emit_many,
}


def _running_elsewhere(kit: Kit, held: Held) -> None:
    """The lease ended, and another worker has the job now."""
    kit.advance(60)
    assert kit.run(jobs.reclaim(0, 0.5)).lost == [held.job_id]
    kit.advance(60)
    kit.run(jobs.promote())
    (again,) = kit.claim()
    assert (again.job_id, again.fence) == (held.job_id, held.fence + 1)


def _waiting(kit: Kit, held: Held) -> None:
    """The lease ended, and nobody has the job yet."""
    kit.advance(60)
    assert kit.run(jobs.reclaim(0, 0.5)).lost == [held.job_id]


def _ended(kit: Kit, held: Held) -> None:
    kit.settle(held, result='"the one outcome"')
    assert kit.status(held.job_id) is Status.SUCCEEDED


def _cancelled(kit: Kit, held: Held) -> None:
    kit.run(control.cancel([held.job_id]))
    kit.settle(held)
    assert kit.status(held.job_id) is Status.CANCELLED


def _in_review(kit: Kit, held: Held) -> None:
    kit.settle(held, Trigger.ASK_REVIEW)
    assert kit.status(held.job_id) is Status.REVIEW_NEEDED


def _running_in_a_new_generation(kit: Kit, held: Held) -> None:
    kit.settle(held, Trigger.FAIL, retryable=False)
    kit.run(control.retry([held.job_id]))
    (again,) = kit.claim()
    assert (again.job_id, again.fence) == (held.job_id, held.fence + 1)


def _deleted(kit: Kit, held: Held) -> None:
    kit.settle(held)
    assert kit.run(control.delete([held.job_id])) == [held.job_id]


LOST: dict[str, Callable[[Kit, Held], None]] = {
    "running elsewhere": _running_elsewhere,
    "waiting": _waiting,
    "ended": _ended,
    "cancelled": _cancelled,
    "in review": _in_review,
    "retried by hand": _running_in_a_new_generation,
    "deleted": _deleted,
}


def test_every_write_that_an_attempt_can_make_is_tried_here() -> None:
    verbs = {
        name: " ".join(str(parameter.annotation) for parameter in inspect.signature(verb).parameters.values())
        for name, verb in inspect.getmembers(JobsPort, inspect.isfunction)
        if not name.startswith("_")
    }

    taking = {name for name, types in verbs.items() if any(word in types for word in ATTEMPT)}

    assert taking - TAKES_NO_FENCE == set(WRITES)


@pytest.mark.parametrize("state", LOST)
@pytest.mark.parametrize("write", WRITES)
def test_an_attempt_that_lost_its_job_writes_nothing(kit: Kit, write: str, state: str) -> None:
    claimed = kit.running()
    held = Held(claimed.job_id, claimed.fence)
    LOST[state](kit, held)
    before = dump(kit.store)

    WRITES[write](kit, held)

    assert dump(kit.store) == before


@pytest.mark.parametrize("write", sorted(set(WRITES) - {"settle"}))
def test_a_fence_that_was_never_given_out_opens_nothing(kit: Kit, write: str) -> None:
    claimed = kit.running()
    before = dump(kit.store)

    for fence in (0, claimed.fence + 1, 2**31 - 1):
        WRITES[write](kit, Held(claimed.job_id, fence))

    assert dump(kit.store) == before
