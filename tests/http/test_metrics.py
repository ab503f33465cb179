"""`/metrics`: what it says is what the rows say, whatever has happened."""

from __future__ import annotations

import json
import random
from collections import defaultdict

from prometheus_client.parser import text_string_to_metric_families

from penstock import Penstock
from penstock.domain.outcome import Failure
from penstock.domain.states import BY_CODE
from penstock.runtime.durations import DurationHistogram
from penstock.storage.commands import admin, control, jobs
from tests.http.asgi_api import WebApi
from tests.operations.hand import LEASE, Hand
from tests.storage.tables import ATTEMPTS, query

Labels = tuple[tuple[str, str], ...]


def scraped(site: WebApi) -> dict[tuple[str, Labels], float]:
    text = site.get("/metrics").text
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def of(found: dict[tuple[str, Labels], float], name: str) -> dict[str, float]:
    """A metric that has one label more than its definition, or none, by what stands there."""
    return {
        "/".join(value for key, value in labels if key in ("definition", "outcome", "priority", "le", "outbox")): value
        for (known, labels), value in found.items()
        if known == name
    }


def test_metrics_equal_the_rows_after_a_random_history(site: WebApi, app: Penstock) -> None:
    for key in ("one", "two"):
        app.job(key, max_attempts=2)(lambda: None)
    app.definitions.register()
    hand, chance = Hand(app), random.Random(7)
    for _ in range(40):
        key = chance.choice(["one", "two"])
        match chance.randrange(5):
            case 0:
                app.enqueue(key, priority=chance.randrange(3))
            case 1:
                app.store.run(control.cancel([app.enqueue(key).id]))
            case 2:
                app.store.run(admin.fold())
            case 3:
                hand.fail(app.enqueue(key, priority=20).id, Failure("ValueError", "broken", "", "f"))
            case _:
                hand.succeed(app.enqueue(key, priority=20).id)

    found = scraped(site)

    jobs = "{s}job JOIN {s}definition USING (lane)"
    text = f"SELECT key, status, count(*) FROM {jobs} WHERE status IN {{ended}} GROUP BY 1, 2"
    ended = {f"{key}/{BY_CODE[status]}": n for key, status, n in query(app.store, text)}
    assert {name: n for name, n in of(found, "penstock_jobs_finished_total").items() if n} == ended
    text = f"SELECT key, priority, count(*) FROM {jobs} WHERE status = {{queued}} GROUP BY 1, 2"
    assert of(found, "penstock_queue_depth") == {f"{key}/{each}": n for key, each, n in query(app.store, text)}
    text = (
        f"SELECT key, attempt.ended_at - attempt.started_at FROM {ATTEMPTS} JOIN {{s}}job AS job"
        " ON job.id = attempt.job_id JOIN {s}definition AS definition ON definition.lane = job.lane"
    )
    took: defaultdict[str, list[int]] = defaultdict(list)
    for key, length in query(app.store, text):
        took[key].append(length)
    assert of(found, "penstock_run_seconds_count") == {key: len(each) for key, each in took.items()}
    sums = of(found, "penstock_run_seconds_sum")
    assert {key: round(seconds * 1e6) for key, seconds in sums.items()} == {
        key: sum(each) for key, each in took.items()
    }
    for key, lengths in took.items():
        assert of(found, "penstock_run_seconds_bucket")[f"{key}/0.1"] == sum(each <= 100_000 for each in lengths)
    text = "SELECT key, count(*) FROM {s}job JOIN {s}definition USING (lane) WHERE status = {running} GROUP BY 1"
    running: dict[str, int] = dict(query(app.store, text))
    started = {key: len(each) + running.get(key, 0) for key, each in took.items()}
    assert of(found, "penstock_attempts_started_total") == of(found, "penstock_wait_seconds_count") == started
    assert of(found, "penstock_outbox_depth") == {"hooks": 0, "webhooks": 0}
    app.store.run(admin.fold())
    assert of(scraped(site), "penstock_jobs_finished_total") == of(found, "penstock_jobs_finished_total")


def test_what_workers_count_by_themselves_is_told(site: WebApi, app: Penstock) -> None:
    hand, durations = Hand(app), DurationHistogram()
    with durations.timed():
        pass
    hand.store.run(jobs.heartbeat(hand.id, LEASE, figures=durations.figures("claim", forks=3, refused=2)))

    found = scraped(site)

    worker = (("worker", hand.id),)
    assert found["penstock_stale_writes_refused_total", worker] == 2
    assert found["penstock_zygote_forks_total", worker] == 3
    assert found["penstock_claim_seconds_count", worker] == 1
    assert found["penstock_claim_seconds_bucket", (("le", "+Inf"), *worker)] == 1


def test_a_workers_figures_that_cannot_be_read_are_left_out(site: WebApi, app: Penstock) -> None:
    hand = Hand(app)
    hand.store.run(jobs.heartbeat(hand.id, LEASE, figures={"forks": 1, "odd": json.loads("null")}))

    assert scraped(site)["penstock_zygote_forks_total", (("worker", hand.id),)] == 1
