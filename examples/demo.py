"""`make demo`: creates jobs, starts a worker, and shows what becomes of them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from demo_jobs import FILE, app, crash, endless, flaky_api, greet, mail, payout, report, thumbnail, video

from penstock import IdempotencyConflict, Job, JobHandle, PenstockError, Status
from penstock.stores.verbs import admin, feed, jobs

BATCH = 1000
PATIENCE = 60
SHOWN = Path(os.path.relpath(FILE))


def create_jobs() -> dict[str, JobHandle]:
    """What an application does."""
    say("Creating jobs")
    made = {
        "plain": greet.enqueue("Ada"),
        "fails twice, then works": flaky_api.enqueue("service://prices"),
        "three phases, one trips": video.enqueue("holiday"),
        "waits for a person": payout.enqueue("2100-01", 4200),
        "crashes its process": crash.enqueue(),
        "goes on until cancelled": endless.enqueue(),
        "due in an hour": report.options(delay=timedelta(hours=1)).enqueue("2100-01-01"),
    }
    for what, job in made.items():
        note(what, job)

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

    began = time.perf_counter()
    batch = app.enqueue_many([thumbnail.order(number) for number in range(BATCH)])
    seconds = time.perf_counter() - began
    print(f"  {len(batch):,} jobs in one durable commit: {seconds * 1000:.0f} ms, {BATCH / seconds:,.0f} per second")
    return {**made, "unique": second, "idempotent": receipt, "last of the batch": batch[-1]}


@contextmanager
def worker() -> Iterator[None]:
    """`penstock worker demo_jobs:app` in a process of its own, as it would be in production."""
    say("Starting a worker")
    folder = Path(__file__).parent
    command = [sys.executable, "-m", "penstock", "worker", "demo_jobs:app", "--poll", "0.2"]
    if os.getuid() == 0:
        command.append("--allow-root")
    log = FILE.parent / "worker.log"
    print(f"  {' '.join(['penstock', *command[3:]])}   (its log: {os.path.relpath(log)})")
    with log.open("ab") as file:
        process = subprocess.Popen(
            command, cwd=folder, stdout=file, stderr=file, env={**os.environ, "PENSTOCK_DEMO_FILE": str(FILE)}
        )
    try:
        yield
    finally:
        process.terminate()
        print(f"  worker stopped, exit code {process.wait(60)}")


def follow(made: dict[str, JobHandle]) -> None:
    """Play the operator while the worker works."""
    say("Watching")
    review = made["waits for a person"]
    until(review, Status.REVIEW_NEEDED)
    print(f"  {review.id}  asks: {app.store.run(admin.reviews(review.id))[-1].note}")
    app.approve_job(review.id, by="the demo", note="fine")
    print(f"  {review.id}  approved -> {review.refresh().status}")
    forever = made["goes on until cancelled"]
    until(forever, Status.RUNNING)
    forever.cancel()
    for what, job in made.items():
        if what != "due in an hour":
            ended = job.wait(PATIENCE)
            print(f"  {job.id}  {ended.status:<10} {what}: {about(ended)}")


def show(made: dict[str, JobHandle]) -> None:
    say("Jobs by status")
    counts: Counter[Status] = Counter()
    for by_status in app.store.run(admin.counts()).values():
        counts.update(by_status)
    for status in Status:
        if counts[status]:
            print(f"  {status:<14} {counts[status]:>7,}")

    phased = made["three phases, one trips"]
    say(f"The phases of {phased.id}: what was done before the failure was not done again")
    for phase in app.store.run(jobs.phases(phased.id)):
        print(f"  {phase.position + 1}. {phase.name:<10} {phase.status:<10} by attempt {phase.fence}  {phase.result}")

    dead = made["crashes its process"]
    say(f"How {dead.id} died")
    for attempt in app.store.run(admin.attempts(dead.id)):
        memory = (attempt.peak_memory or 0) / 1e6
        print(f"  attempt {attempt.number}: {attempt.cause}, signal {attempt.signal}, peak memory {memory:.0f} MB")

    failing = made["fails twice, then works"]
    say(f"What happened to {failing.id}")
    for event in app.store.run(feed.of_job(failing.id)):
        print(f"  {event.at:%H:%M:%S.%f}  {event.kind:<14} {event.data or ''}")


def until(job: JobHandle, status: Status) -> None:
    deadline = time.monotonic() + PATIENCE
    while job.refresh().status is not status:
        if time.monotonic() > deadline or job.status.terminal:
            raise PenstockError(f"Job {job.id} is {job.status} and not {status}.")
        time.sleep(0.05)


def about(job: Job) -> str:
    if job.error:
        return f"attempt {job.attempts} of {job.max_attempts}: {job.error}"
    return f"result {job.result}" if job.result else "-"


def next_steps() -> None:
    say("What next")
    print(f"  {SHOWN} is kept: run this again and see which jobs are found instead of made.")
    print("  examples/demo_jobs.py   the jobs of this demo")
    print("  README.md               ten lines to begin with")
    print("  docs/guide/             all options, workers, isolation, transactions, PostgreSQL")
    print(f"  rm -r {SHOWN.parent}          begin anew")


def say(title: str) -> None:
    print(f"\n{title}")


def note(what: str, job: JobHandle) -> None:
    print(f"  {job.id}  {job.status:<10} {what}")


def main(arguments: Sequence[str] = ()) -> int:
    try:
        FILE.parent.mkdir(parents=True, exist_ok=True)
        print(f"penstock demo, data in {SHOWN}")
        made = create_jobs()
        with worker():
            follow(made)
        show(made)
        next_steps()
    except (PenstockError, OSError) as error:
        print(f"\nThe demo failed: {error}", file=sys.stderr)
        return 1
    finally:
        app.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
