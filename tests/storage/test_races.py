"""Races: what two do to one store at the same moment ends as if one had come after the other."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import apsw
import psycopg
import pytest

from penstock.domain.definition import RateLimit
from penstock.domain.errors import Conflict, IdempotencyConflict, LeaseLost
from penstock.domain.instant import SECOND
from penstock.domain.job import Created, Held
from penstock.domain.schedule.schedule import Kind, Overlap, Schedule, Tick, TickResult
from penstock.domain.states import Status, Trigger
from penstock.storage.commands import admin, control, jobs, schedules
from tests.conftest import Counts, Figures
from tests.storage.concurrency import Arena, another, begin, wait_until_blocked
from tests.storage.kit import Kit
from tests.storage.tables import check_soundness, query


@pytest.fixture
def here(shared_store: Any) -> Iterator[Kit]:
    yield Kit(shared_store)
    check_soundness(shared_store)


@pytest.fixture
def there(here: Kit) -> Iterator[Kit]:
    with another(here) as kit:
        yield kit


@pytest.fixture
def arena() -> Iterator[Arena]:
    with Arena(2) as arena:
        yield arena


def running(kit: Kit) -> int:
    return int(query(kit.store, "SELECT count(*) FROM {s}job WHERE worker IS NOT NULL")[0][0])


# Claims


def test_two_claims_never_start_two_jobs_of_a_definition_that_runs_one(
    here: Kit, there: Kit, arena: Arena, counts: Counts, figures: Figures
) -> None:
    lane = here.define(concurrency=1)
    workers = [here.worker(), here.worker()]
    rounds = counts(ci=30, soak=1000)
    winners = Counter[int]()
    here.run(jobs.create([here.draft() for _ in range(rounds + 5)]))

    for _ in range(rounds):
        answers = arena.together(
            lambda: here.claim(workers[0], lanes=[lane], limited=[lane]),
            lambda: there.claim(workers[1], lanes=[lane], limited=[lane]),
        )
        assert [len(each) for each in answers] in ([0, 1], [1, 0])
        assert running(here) == 1
        winners[0 if answers[0] else 1] += 1
        here.settle((answers[0] or answers[1])[0])

    figures("races.definition_limit", store=here.store.dialect, rounds=rounds, won=dict(winners))


def test_two_claims_never_start_two_jobs_of_a_key_that_runs_one(
    here: Kit, there: Kit, arena: Arena, counts: Counts, figures: Figures
) -> None:
    lane = here.define(key_concurrency=1)
    workers = [here.worker(), here.worker()]
    rounds = counts(ci=30, soak=1000)
    here.run(jobs.create([here.draft(concurrency_key="anna") for _ in range(3)]))
    most = 0

    for _ in range(rounds):
        answers = arena.together(
            lambda: here.claim(workers[0], lanes=[lane]), lambda: there.claim(workers[1], lanes=[lane])
        )
        assert sorted(map(len, answers)) == [0, 1]
        claimed = (answers[0] or answers[1])[0]
        most = max(most, running(here))
        # What frees the slot and what comes to wait for it meet as well.
        ended, made = arena.together(
            lambda claimed=claimed: here.settle(claimed),  # type: ignore[misc]
            lambda: there.create(concurrency_key="anna"),
        )
        assert (ended.applied, isinstance(made, str)) == ([claimed.job_id], True)
        admitted = query(here.store, "SELECT count(*) FROM {s}job WHERE status = {queued} AND NOT blocked")
        assert admitted == [(1,)]

    assert most == 1
    figures("races.key_limit", store=here.store.dialect, rounds=rounds, most_running=most)


def test_two_claims_never_start_more_than_the_rate_allows(here: Kit, there: Kit, arena: Arena, counts: Counts) -> None:
    lane = here.define(rate_limit=RateLimit(3, period=60))
    workers = [here.worker(lease=10**15), here.worker(lease=10**15)]
    rounds = counts(ci=20, soak=500)
    here.run(jobs.create([here.draft() for _ in range(3 * rounds + 20)]))

    for number in range(rounds):
        arena.together(
            lambda: here.claim(workers[0], lanes=[lane], limited=[lane], limit=3),
            lambda: there.claim(workers[1], lanes=[lane], limited=[lane], limit=3),
        )
        assert running(here) == 3 * (number + 1)
        here.advance(600)
        there.advance(600)


def test_many_claims_at_once_give_each_job_to_one_worker(shared_store: Any, counts: Counts, figures: Figures) -> None:
    kit = Kit(shared_store)
    lane = kit.define()
    made = [draft.id for draft in (kit.draft() for _ in range(counts(ci=600, soak=20_000)))]
    kit.run(jobs.create([kit.draft(id=job_id) for job_id in made]))

    def drain(other: Kit, worker: str) -> list[str]:
        taken: list[str] = []
        while some := other.claim(worker, lanes=[lane], limit=random.randint(1, 20)):
            taken += [each.job_id for each in some]
        return taken

    with another(kit) as one, another(kit) as two, another(kit) as three, Arena(4) as arena:
        kits = [kit, one, two, three]
        workers = [kit.worker() for _ in kits]
        shares = arena.together(
            *[lambda each=each, worker=worker: drain(each, worker) for each, worker in zip(kits, workers, strict=True)]
        )

    assert sorted(job_id for share in shares for job_id in share) == sorted(made)
    owners = query(kit.store, "SELECT worker, count(*) FROM {s}job GROUP BY worker")
    assert {str(worker): n for worker, n in owners} == {
        worker: len(share) for worker, share in zip(workers, shares, strict=True) if share
    }
    figures("races.claims", store=kit.store.dialect, jobs=len(made), shares=[len(share) for share in shares])


# Endings


def test_of_settle_and_reclaim_one_decides(
    here: Kit, there: Kit, arena: Arena, counts: Counts, figures: Figures
) -> None:
    here.define()
    seen = Counter[Status]()
    for _ in range(counts(ci=30, soak=1000)):
        claimed = here.running()
        here.advance(60)
        there.now = here.now

        report, reclaimed = arena.together(
            lambda claimed=claimed: here.settle(claimed),  # type: ignore[misc]
            lambda: there.run(jobs.reclaim(0, 0.5)),
        )

        status = here.status(claimed.job_id)
        seen[status] += 1
        assert (report.applied == [claimed.job_id]) == (status is Status.SUCCEEDED)
        assert (reclaimed.lost == [claimed.job_id]) == (status is Status.SCHEDULED)
        assert len(here.run(admin.attempts(claimed.job_id))) == 1
        if status is Status.SCHEDULED:
            here.run(control.cancel([claimed.job_id]))
    figures(
        "races.settle_reclaim", store=here.store.dialect, settled=seen[Status.SUCCEEDED], lost=seen[Status.SCHEDULED]
    )


def test_of_cancel_and_settle_one_decides(
    here: Kit, there: Kit, arena: Arena, counts: Counts, figures: Figures
) -> None:
    here.define()
    seen = Counter[Status]()
    for _ in range(counts(ci=30, soak=1000)):
        claimed = here.running()

        report, told = arena.together(
            lambda claimed=claimed: here.settle(claimed, Trigger.SUCCEED, result="1"),  # type: ignore[misc]
            lambda claimed=claimed: there.run(control.cancel([claimed.job_id])),  # type: ignore[misc]
        )

        status = here.status(claimed.job_id)
        seen[status] += 1
        assert report.applied == [claimed.job_id]
        before = {Status.SUCCEEDED: Status.SUCCEEDED, Status.CANCELLED: Status.CANCELLING}[status]
        assert told == {claimed.job_id: before}
        ending = ["job.succeeded"] if status is Status.SUCCEEDED else ["job.cancelling", "job.cancelled"]
        assert here.events(claimed.job_id)[2:] == ending
    figures("races.cancel_settle", store=here.store.dialect, succeeded=seen[Status.SUCCEEDED])


def test_of_cancel_and_claim_one_decides(here: Kit, there: Kit, arena: Arena, counts: Counts) -> None:
    lane = here.define()
    worker = here.worker()
    for _ in range(counts(ci=30, soak=1000)):
        job_id = here.create()

        taken, told = arena.together(
            lambda: here.claim(worker, lanes=[lane]),
            lambda job_id=job_id: there.run(control.cancel([job_id])),  # type: ignore[misc]
        )

        status = here.status(job_id)
        assert told == {job_id: status}
        assert status is (Status.CANCELLING if taken else Status.CANCELLED)
        if taken:
            here.settle(taken[0])


def test_the_same_attempt_settled_by_two_at_once_is_settled_once(
    here: Kit, there: Kit, arena: Arena, counts: Counts
) -> None:
    here.define()
    for _ in range(counts(ci=20, soak=500)):
        claimed = here.running()

        reports = arena.together(
            lambda claimed=claimed: here.settle(claimed),  # type: ignore[misc]
            lambda claimed=claimed: there.settle(claimed),  # type: ignore[misc]
        )

        assert sorted((each.applied, each.repeated) for each in reports) == [
            ([], [claimed.job_id]),
            ([claimed.job_id], []),
        ]
        assert here.events(claimed.job_id).count("job.succeeded") == 1


# Creation


def test_the_same_unique_key_at_once_makes_one_job(here: Kit, there: Kit, arena: Arena, counts: Counts) -> None:
    here.define()
    for number in range(counts(ci=30, soak=1000)):
        drafts = [here.draft(unique=f"u{number}"), there.draft(unique=f"u{number}")]

        (one,), (other,) = arena.together(
            lambda drafts=drafts: here.run(jobs.create(drafts[:1])),  # type: ignore[misc]
            lambda drafts=drafts: there.run(jobs.create(drafts[1:])),  # type: ignore[misc]
        )

        assert one.job_id == other.job_id
        assert sorted([one.created, other.created]) == [False, True]
    assert query(here.store, "SELECT count(*) FROM {s}job") == [(counts(ci=30, soak=1000),)]


def test_a_unique_key_that_is_just_given_back_makes_one_job_or_names_the_old(
    here: Kit, there: Kit, arena: Arena, counts: Counts
) -> None:
    here.define()
    for number in range(counts(ci=20, soak=500)):
        claimed = here.running(unique="one")
        draft = there.draft(unique="one", params=f'{{"n": {number}}}')

        _, (answer,) = arena.together(
            lambda claimed=claimed: here.settle(claimed),  # type: ignore[misc]
            lambda draft=draft: there.run(jobs.create([draft])),  # type: ignore[misc]
        )

        assert answer.job_id == (draft.id if answer.created else claimed.job_id)
        if answer.created:
            here.run(control.cancel([draft.id]))


def test_the_same_idempotency_key_at_once_makes_one_job_and_everybody_learns_its_id(
    shared_store: Any, counts: Counts, figures: Figures
) -> None:
    kit = Kit(shared_store)
    kit.define()
    refused = 0
    with another(kit) as other, Arena(6) as arena:
        for number in range(counts(ci=15, soak=500)):
            drafts = [
                kit.draft(idempotency_key=f"k{number}", params_digest=digest)
                for digest in ("a", "a", "a", "b", "b", "b")
            ]

            answers = arena.together(
                *[
                    lambda draft=draft, each=each: each.run(jobs.create([draft]))[0]
                    for draft, each in zip(drafts, [kit, other] * 3, strict=True)
                ]
            )

            ids = {each.job_id for each in answers}
            made = [each for each in answers if isinstance(each, Created)]
            assert len(ids) == 1
            assert [each.created for each in made].count(True) == 1
            conflicts = [each for each in answers if isinstance(each, IdempotencyConflict)]
            assert (len(made), len(conflicts)) == (3, 3)
            refused += len(conflicts)
    assert query(kit.store, "SELECT count(*) FROM {s}job") == [(counts(ci=15, soak=500),)]
    check_soundness(kit.store)
    figures("races.idempotency", store=kit.store.dialect, conflicts=refused)


def test_batches_with_the_same_keys_in_another_order_do_not_stand_in_each_others_way(
    here: Kit, there: Kit, arena: Arena, counts: Counts
) -> None:
    here.define(key_concurrency=1)
    for number in range(counts(ci=15, soak=300)):
        facts = [{"idempotency_key": f"{number}-{n}", "unique": f"{n}", "concurrency_key": f"{n}"} for n in range(20)]
        forth = [here.draft(**fact) for fact in facts]
        back = [there.draft(**fact) for fact in reversed(facts)]

        one, other = arena.together(
            lambda forth=forth: here.run(jobs.create(forth)),  # type: ignore[misc]
            lambda back=back: there.run(jobs.create(back)),  # type: ignore[misc]
        )

        assert [each.job_id for each in one] == [each.job_id for each in reversed(other)]
        here.run(control.cancel([each.job_id for each in one]))


@pytest.mark.parametrize("ending", ["commit", "rollback"])
@pytest.mark.parametrize("key", ["idempotency_key", "unique"])
def test_whoever_waits_for_a_key_in_a_callers_transaction_gets_what_became_of_it(
    here: Kit, there: Kit, key: str, ending: str
) -> None:
    here.define()
    first, second = here.draft(**{key: "k"}), there.draft(**{key: "k"})
    connection: Any
    if here.store.dialect == "postgres":
        connection = psycopg.connect(here.store.url)
    else:
        connection = apsw.Connection(here.store.path)
        connection.execute("BEGIN IMMEDIATE")

    here.store.run_on(connection, jobs.create([first]), now=here.now)
    rival = begin(lambda: there.run(jobs.create([second])))
    if here.store.dialect == "postgres":
        wait_until_blocked(here.store.url, rival)
    connection.execute(ending)
    (answer,) = rival.result(timeout=20)
    connection.close()

    if ending == "commit":
        assert answer == Created(first.id, Status.QUEUED, created=False)
    else:
        assert answer == Created(second.id, Status.QUEUED, created=True)
    assert query(here.store, "SELECT count(*) FROM {s}job") == [(1,)]


# Schedules


def test_one_instant_of_a_schedule_ticked_by_two_makes_one_job(
    here: Kit, there: Kit, arena: Arena, counts: Counts
) -> None:
    here.define()
    start = here.now
    schedule = Schedule("nightly", "work", Kind.INTERVAL, "60", next_run_at=start)
    revision = here.run(schedules.save(schedule, by="anna")).revision
    rounds = counts(ci=20, soak=500)

    for number in range(rounds):
        tick = Tick("nightly", revision, start + number * SECOND, start + (number + 1) * SECOND)
        answers = arena.together(
            *[
                lambda kit=kit, tick=tick: kit.run(schedules.tick(tick, kit.draft(schedule="nightly"), Overlap.ALLOW))
                for kit in (here, there)
            ]
        )
        assert sorted(each.verdict for each in answers) == ["made", "taken"], answers
        assert all(isinstance(each, TickResult) for each in answers)

    assert query(here.store, "SELECT count(*) FROM {s}job") == [(rounds,)]


# Workers


def test_a_worker_that_ends_while_it_claims_leaves_no_job_behind(
    here: Kit, there: Kit, arena: Arena, counts: Counts, figures: Figures
) -> None:
    lane = here.define()
    seen = Counter[str]()
    for _ in range(counts(ci=30, soak=1000)):
        job_id = here.create()
        worker = here.worker()

        taken, ended = arena.together(
            lambda worker=worker: here.claim(worker, lanes=[lane]),  # type: ignore[misc]
            lambda worker=worker: there.run(jobs.end_worker(worker)),  # type: ignore[misc]
        )

        if isinstance(taken, LeaseLost):
            seen["ended_first"] += 1
            assert ended is None
            assert here.status(job_id) is Status.QUEUED
        elif isinstance(ended, Conflict):
            seen["claimed_first"] += 1
            assert ended.job_id == job_id
        else:
            raise AssertionError(f"worker {worker} has ended and holds job {job_id}: {taken}, {ended}")
        here.run(control.cancel([job_id]))
        here.run(jobs.settle(worker, [here.ending(Held(job_id, 1, worker))]))
    figures("races.end_worker_claim", store=here.store.dialect, **seen)


def test_of_heartbeat_and_reclaim_one_decides(
    here: Kit, there: Kit, arena: Arena, counts: Counts, figures: Figures
) -> None:
    """The two see the clock differently, as two calls that waited for a lock would."""
    here.define()
    seen = Counter[str]()
    for _ in range(counts(ci=30, soak=1000)):
        here.create()
        worker = here.worker(lease=15 * SECOND)
        (claimed,) = here.claim(worker)
        here.advance(14.999)
        there.now = here.now + 2 * SECOND

        pulse, reclaimed = arena.together(
            lambda worker=worker: here.run(jobs.heartbeat(worker, 15 * SECOND)),  # type: ignore[misc]
            lambda: there.run(jobs.reclaim(SECOND, 0.5)),
        )

        if isinstance(pulse, LeaseLost):
            seen["reclaimed"] += 1
            assert (reclaimed.workers, reclaimed.lost) == ([worker], [claimed.job_id])
        else:
            seen["lived_on"] += 1
            assert (reclaimed.workers, reclaimed.lost) == ([], [])
            assert here.settle(claimed).applied == [claimed.job_id]
        here.now = there.now
        here.run(control.cancel([claimed.job_id]))
        if not isinstance(pulse, LeaseLost):
            here.run(jobs.end_worker(worker))
    figures("races.heartbeat_reclaim", store=here.store.dialect, **seen)


def test_two_reclaims_free_each_job_once(here: Kit, there: Kit, arena: Arena, counts: Counts) -> None:
    lane = here.define()
    for _ in range(counts(ci=10, soak=300)):
        made = here.run(jobs.create([here.draft() for _ in range(6)]))
        for _ in range(3):
            here.claim(here.worker(), lanes=[lane], limit=2)
        here.advance(60)
        there.now = here.now

        one, other = arena.together(
            lambda: here.run(jobs.reclaim(0, 0.5, limit=2)), lambda: there.run(jobs.reclaim(0, 0.5, limit=2))
        )
        rest = here.run(jobs.reclaim(0, 0.5))

        lost = [*one.lost, *other.lost, *rest.lost]
        assert sorted(lost) == sorted(each.job_id for each in made)
        here.run(control.cancel(lost))
