"""Creates jobs, plays a worker for a moment, and shows what the store knows: `make demo`.

There is no worker in this version yet. The part of this file that claims and settles jobs does with the store's
verbs what a worker will do; an application only needs what stands above it.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from penstock import DefinitionHandle, IdempotencyConflict, Job, JobHandle, Penstock, PenstockError, Status
from penstock.core.ids import IdSource
from penstock.core.job import Claimed
from penstock.core.outcome import Cause, Failure, Outcome, Settlement, Standing, decide
from penstock.core.transitions import Trigger
from penstock.core.worker import WorkerInfo
from penstock.stores.verbs import admin, feed, jobs

FILE = Path(os.environ.get("PENSTOCK_DEMO_FILE", ".penstock/demo.db"))
BATCH = 1000
LEASE = 15_000_000

app = Penstock(f"sqlite:///{FILE}")


@app.job("demo.greet")
def greet(name: str) -> str:
    """The plainest job there is."""
    return f"Hello {name}"


@app.job("demo.flaky_api", max_attempts=5, backoff=30)
def flaky_api(url: str) -> None:
    """Fails at first; each attempt 30 seconds after the one before."""


@app.job("demo.payout", priority=15)
def payout(month: str, amount: int) -> int:
    """Waits for a person before any money goes out."""
    return amount


@app.job("demo.report")
def report(day: str) -> None:
    """One report for each day, however often it is asked for."""


@app.job("demo.mail", concurrency_key="to")
def mail(to: str, text: str) -> None:
    """One mail at a time for each address."""


@app.job("demo.thumbnail")
def thumbnail(picture: int) -> None:
    """One of very many."""


def create_jobs() -> list[JobHandle]:
    """What an application does."""
    say("Creating jobs")
    plain = greet.enqueue("Ada")
    note("plain", plain)
    failing = flaky_api.enqueue("service://prices")
    note("will fail and be tried again", failing)
    review = payout.enqueue("2100-01", 4200)
    note("will wait for a person", review)
    delayed = report.options(delay=timedelta(hours=1)).enqueue("2100-01-01")
    note("due in an hour", delayed)

    first = report.options(unique=True).enqueue("2100-01-02")
    second = report.options(unique=True).enqueue("2100-01-02")
    note(f"unique: asked for twice, {'one job' if first.id == second.id else 'two jobs?!'}", second)

    receipt = mail.options(idempotency_key="receipt-7", reference=("order", "7"), tags=["receipt", "demo"]).enqueue(
        "ada@example.com", "Your receipt"
    )
    note("idempotency key, reference, tags" + ("" if receipt.created else "; made by an earlier run"), receipt)
    try:
        mail.options(idempotency_key="receipt-7").enqueue("ada@example.com", "Another text")
    except IdempotencyConflict as error:
        print(f"  refused: {error.message}")

    unwanted = greet.enqueue("nobody")
    unwanted.cancel()
    note("cancelled before it began", unwanted)

    began = time.perf_counter()
    batch = app.enqueue_many([thumbnail.order(number) for number in range(BATCH)])
    seconds = time.perf_counter() - began
    print(f"  {len(batch):,} jobs in one durable commit: {seconds * 1000:.0f} ms, {BATCH / seconds:,.0f} per second")
    return [plain, failing, review, delayed, second, receipt, unwanted]


def play_worker() -> None:
    """What a worker will do: introduce itself, claim, run, settle, leave."""
    say("Playing a worker (there is none in this version yet)")
    me = WorkerInfo(
        id=IdSource(lambda: time.time_ns() // 1_000_000, os.urandom).new_id(),
        name="demo",
        host=platform.node(),
        pid=os.getpid(),
        lanes=tuple(lane_of(each) for each in (greet, flaky_api, payout)),
    )
    app.store.run(jobs.register_worker(me, LEASE))
    app.store.run(jobs.promote())
    broken = Failure("ConnectionError", "service://prices does not answer", fingerprint="demo")
    endings = {
        greet: Outcome(Trigger.SUCCEED, Cause.RETURNED, result=json.dumps("Hello Ada")),
        flaky_api: Outcome(Trigger.FAIL, Cause.RAISED, failure=broken),
        payout: Outcome(Trigger.ASK_REVIEW, Cause.REVIEW, result="4200", note="Pay 4200 for 2100-01?"),
    }
    for definition, outcome in endings.items():
        for claimed in app.store.run(jobs.claim(me.id, [lane_of(definition)], 100)):
            app.store.run(jobs.settle(me.id, [settlement(definition, claimed, outcome)]))
            now = app.get(claimed.job_id).status
            print(f"  {definition.key:<16} attempt {claimed.attempt} {outcome.cause:<9} -> {now}")
    app.store.run(jobs.end_worker(me.id))


def lane_of(definition: DefinitionHandle) -> int:
    return app.store.run(admin.definition(definition.key, definition.definition.version)).lane


def settlement(definition: DefinitionHandle, claimed: Claimed, outcome: Outcome) -> Settlement:
    standing = Standing(claimed.attempt, claimed.max_attempts, claimed.lost)
    return decide(claimed.job_id, claimed.fence, outcome, standing, definition.definition.backoff, random=0.5)


def show(made: Sequence[JobHandle]) -> None:
    say("Jobs by status")
    counts: Counter[Status] = Counter()
    for by_status in app.store.run(admin.counts()).values():
        counts.update(by_status)
    for status in Status:
        if counts[status]:
            print(f"  {status:<14} {counts[status]:>7,}")

    say("The jobs of this run, without the batch")
    for job in app.jobs(ids=[each.id for each in made], sort="createdAt").jobs:
        print(f"  {job.id}  {job.definition:<16} {job.status:<14} {about(job)}")
    found = app.jobs(reference_type="order", reference_id="7").jobs
    print(f"  found by reference order 7: {', '.join(job.id for job in found)}")

    failing = made[1]
    say(f"What happened to {failing.id}")
    for event in app.store.run(feed.of_job(failing.id)):
        print(f"  {event.at:%H:%M:%S.%f}  {event.kind:<14} {event.data or ''}")


def about(job: Job) -> str:
    if job.error:
        return f"attempt {job.attempts} of {job.max_attempts}: {job.error}"
    if job.result:
        return f"result {job.result}"
    if job.status is Status.SCHEDULED:
        return f"due {job.due_at:%Y-%m-%d %H:%M} UTC"
    return ""


def next_steps() -> None:
    say("What next")
    print(f"  {FILE} is kept: run this again and see which jobs are found instead of made.")
    print("  README.md            ten lines to begin with")
    print("  docs/guide/          all options, transactions, PostgreSQL")
    print(f"  rm -r {FILE.parent}       begin anew")


def say(title: str) -> None:
    print(f"\n{title}")


def note(what: str, job: JobHandle) -> None:
    print(f"  {job.id}  {job.status:<10} {what}")


def main() -> int:
    try:
        FILE.parent.mkdir(parents=True, exist_ok=True)
        print(f"penstock demo, data in {FILE}")
        made = create_jobs()
        play_worker()
        show(made)
        next_steps()
    except (PenstockError, OSError) as error:
        print(f"\nThe demo failed: {error}", file=sys.stderr)
        return 1
    finally:
        app.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
