"""All limits in pairs: every job runs in time, and neither limit is broken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from penstock.domain.definition import Definition, Pause, RateLimit
from penstock.domain.instant import SECOND
from penstock.storage.commands import control
from tests.storage.compared_stores import ComparedStore
from tests.storage.conftest import open_store
from tests.storage.history import History
from tests.storage.liveness import Deadlines, Terms, Workday
from tests.storage.model import STRICT_PRIORITY
from tests.storage.state_machine import StoreMachine
from tests.storage.virtual_worker import Run

LIMITS = ("concurrency", "concurrency-by-key", "rate", "rate-by-key", "pause", "priority", "unique", "ahead")
PAIRS = [*combinations(LIMITS, 2)]
KEYS = "aaaaabbbc"
RATE = (2, 6)
"""So many starts, in so many seconds."""
PAUSED = 9 * SECOND


class Start(NamedTuple):
    """The first claim of a job, and the place of the job in the queue."""

    run: Run
    rank: tuple[int, str]


@pytest.fixture(params=("sqlite-memory", "postgres-18"))
def party(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ComparedStore]:
    for store in open_store(request.param, request, tmp_path):
        yield ComparedStore(request.param, store, lambda: None)


@pytest.fixture
def history(party: ComparedStore) -> History:
    """A model and a store in which nothing has happened."""

    class Machine(StoreMachine):
        @staticmethod
        def open_stores() -> list[ComparedStore]:
            return [party]

    history = Machine()
    history.open(STRICT_PRIORITY)
    return history


@pytest.mark.parametrize("pair", PAIRS, ids=["-and-".join(pair) for pair in PAIRS])
def test_two_limits_together_delay_no_job_for_long_and_both_hold(history: History, pair: Sequence[str]) -> None:
    deadlines = _begin(history, pair)
    day = Workday(history.parties[0].store, history.new_id, deadlines, history.parties[0].name)

    runs = day.run()

    assert {run.job_id for run in runs} == {*deadlines.loads}
    _check_limits(pair, runs, day.begun)
    _check_order(pair, runs, history)


def _begin(history: History, pair: Sequence[str]) -> Deadlines:
    """Create jobs with these limits."""
    rate = RateLimit(*RATE, per_key="rate-by-key" in pair) if {"rate", "rate-by-key"} & {*pair} else None
    if {"rate", "rate-by-key"} <= {*pair}:
        # A definition has one rate: the other one is that of an earlier version, whose bucket is left behind.
        history.register(Definition("work", rate_limit=RateLimit(*RATE)))
    history.register(
        Definition(
            "work", version=2, rate_limit=rate, concurrency=2 if "concurrency" in pair else 0,
            key_concurrency=1 if "concurrency-by-key" in pair else 0,
        )
    )  # fmt: skip
    (lane,) = [lane for lane, (_, version) in history.world.lanes.items() if version == 2]
    drafts = []
    for number, key in enumerate(KEYS * 2):
        priority = 20 if "priority" in pair and number % 3 == 2 else 10
        unique = f"u{number % 5}" if "unique" in pair else None
        drafts.append(history.draft_of(lane, concurrency_key=key, priority=priority, unique=unique))
    history.make(drafts)
    if "pause" in pair:
        pause = Pause("deploy", "ann", history.world.now, history.world.now + PAUSED)
        history.same(lambda: history.control.pause("work", pause), lambda _: control.pause("work", pause, by="ann"))
    return Deadlines(history.world, Terms(slots=2, ahead=4 if "ahead" in pair else 0, workers=2))


def _check_limits(pair: Sequence[str], runs: Sequence[Run], begun: int) -> None:
    keys = {run.key for run in runs}
    if "concurrency" in pair:
        assert _most_at_once(runs) <= 2
    if "concurrency-by-key" in pair:
        assert all(_most_at_once([run for run in runs if run.key == key]) == 1 for key in keys)
    if "rate-by-key" in pair:
        for key in keys:
            _check_rate([run for run in runs if run.key == key])
    elif "rate" in pair:
        _check_rate(runs)
    if "pause" in pair:
        assert min(run.claimed_at for run in runs) >= begun + PAUSED


def _most_at_once(runs: Sequence[Run]) -> int:
    """How many of these attempts held a slot at the same instant."""
    return max(
        sum(other.claimed_at <= run.claimed_at < (other.ended_at or other.claimed_at + 1) for other in runs)
        for run in runs
    )


def _check_rate(runs: Iterable[Run]) -> None:
    """From any instant on no more attempts start than a full bucket and what comes back meanwhile."""
    count, period = RATE
    claims = sorted(run.claimed_at for run in runs)
    for (first, begin), (last, end) in combinations(enumerate(claims), 2):
        assert last - first + 1 <= count + (end - begin + 1) * count // (period * SECOND)


def _check_order(pair: Sequence[str], runs: Sequence[Run], history: History) -> None:
    """Jobs are claimed by rank within their key, and within the definition when no key has a limit."""
    first: dict[str, Run] = {}
    for run in sorted(runs, key=lambda run: run.claimed_at):
        first.setdefault(run.job_id, run)
    starts = [Start(run, history.world.jobs[job_id].rank) for job_id, run in first.items()]
    by_key: dict[Any, list[Start]] = {}
    for each in starts:
        by_key.setdefault(each.run.key if {"concurrency-by-key", "rate-by-key"} & {*pair} else None, []).append(each)
    for alike in by_key.values():
        for earlier, later in combinations(alike, 2):
            assert earlier.run.claimed_at == later.run.claimed_at or earlier.rank < later.rank
