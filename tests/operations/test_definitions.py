"""What operators say about definitions and the whole system, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock import Backoff, Conflict, InvalidInput, NotFound, Penstock, RateLimit
from penstock.domain.definition import DefinitionRow
from penstock.storage.commands import admin
from tests.applications import NewApp
from tests.definitions import shapes
from tests.operations.hand import Hand


@pytest.fixture
def work(app: Penstock) -> Any:
    handle = app.job("work", concurrency=5, rate_limit="100/s")(shapes.plain)
    app.definitions.register()
    return handle


def row(app: Penstock) -> DefinitionRow:
    return app.store.run(admin.definition("work"))


async def test_a_disabled_definition_takes_no_jobs(app: Penstock, work: Any) -> None:
    app.definitions.disable("work", by="ann")
    with pytest.raises(Conflict):
        work.enqueue("x")
    await app.definitions.aenable("work")
    work.enqueue("x")
    await app.definitions.adisable("work")

    assert not row(app).enabled
    app.definitions.enable("work")
    assert row(app).enabled
    assert [entry.actor for entry in app.store.run(admin.audit())] == ["python", "python", "python", "ann"]


async def test_a_definition_is_retired_and_removed_and_comes_back_with_its_code(
    new_app: NewApp,
) -> None:
    app = new_app()
    work = app.job("work")(shapes.plain)
    job = work.enqueue("x")
    app.definitions.retire("work", by="ann")
    with pytest.raises(Conflict, match="'work' was retired by ann"):
        work.enqueue("y")
    with pytest.raises(Conflict, match="1 queued"):
        app.definitions.remove("work")
    job.cancel()
    await app.definitions.aremove("work", by="ann")
    assert app.definitions.list() == []
    with pytest.raises(Conflict, match="was removed"):
        work.enqueue("y")
    with pytest.raises(Conflict, match="was removed"):
        job.rerun()

    new_app().job("work")(shapes.plain).enqueue("z")

    assert [row.definition.key for row in app.definitions.list()] == ["work"]
    work.enqueue("y")
    await app.definitions.aretire("work")
    await app.definitions.aenable("work")
    work.enqueue("y")


async def test_a_paused_definition_starts_no_jobs_until_it_is_resumed(app: Penstock, work: Any) -> None:
    job, hand, until = work.enqueue("x"), Hand(app), datetime.now(UTC) + timedelta(days=1)

    app.definitions.pause("work", "The printer is on fire.", until=until, by="ann")
    claimed_while_paused = hand.claim()
    pause = row(app).pause
    await app.definitions.aresume("work", by="ann")

    assert claimed_while_paused == []
    assert pause is not None
    assert (pause.reason, pause.by, pause.until) == ("The printer is on fire.", "ann", round(until.timestamp() * 1e6))
    assert [each.job_id for each in hand.claim()] == [job.id]
    assert row(app).pause is None


async def test_the_whole_system_is_paused_and_resumed(app: Penstock, work: Any) -> None:
    job, hand = work.enqueue("x"), Hand(app)

    await app.definitions.apause_all("Moving house.")
    claimed_while_paused = hand.claim()
    pause = app.definitions.system_pause()
    app.definitions.resume_all()

    assert claimed_while_paused == []
    assert pause is not None
    assert (pause.reason, pause.by, pause.until) == ("Moving house.", "python", None)
    assert await app.definitions.asystem_pause() is None
    assert [each.job_id for each in hand.claim()] == [job.id]


@pytest.mark.usefixtures("work")
async def test_limits_are_overridden_and_returned_to_the_code(app: Penstock) -> None:
    app.definitions.override("work", concurrency=1, key_concurrency=2, rate_limit="10/m", by="ann")
    first = row(app).overrides
    await app.definitions.aoverride("work", rate_limit=RateLimit(3, 0.5, per_key=True))
    second = row(app).overrides
    app.definitions.override("work", concurrency=0, rate_limit=0)
    third = row(app).overrides
    app.definitions.override("work")

    minute, half = 60_000_000, 500_000
    assert first == {
        "concurrency": 1, "key_concurrency": 2, "rate_count": 10, "rate_period": minute, "rate_per_key": False,
    }  # fmt: skip
    assert second == {"rate_count": 3, "rate_period": half, "rate_per_key": True}
    assert third == {"concurrency": 0, "rate_count": 0}
    assert row(app).overrides == {}


def test_options_are_overridden_and_returned_to_the_code(app: Penstock, work: Any) -> None:
    early = work.enqueue("a")
    app.definitions.override(
        "work", priority=17, max_attempts=7, backoff=[1, 2], timeout=timedelta(minutes=5), log_level="debug", by="ann"
    )
    found = row(app).overrides
    later, chosen = work.enqueue("b"), work.options(priority=3, max_attempts=2).enqueue("c")
    app.definitions.override("work", timeout=0, backoff=Backoff(base=1))
    changed = row(app).overrides
    app.definitions.override("work")
    last = work.enqueue("d")

    assert found == {
        "priority": 17, "max_attempts": 7, "backoff": {"kind": "steps", "seconds": [1, 2]}, "timeout": 300_000_000,
        "log_level": "debug",
    }  # fmt: skip
    assert changed["timeout"] == 0
    jobs = [each.refresh() for each in (early, later, chosen, last)]
    assert [(job.priority, job.max_attempts) for job in jobs] == [(10, 3), (17, 7), (3, 2), (10, 3)]


@pytest.mark.parametrize("options", [{}, {"tags": ["x"]}, {"idempotency_key": "k"}, {"reference": ("a", "b")}])
def test_another_process_creates_jobs_with_the_overridden_options(new_app: NewApp, options: dict[str, Any]) -> None:
    operator, app = new_app(), new_app()
    work = app.job("work")(shapes.plain)
    work.enqueue("before")

    operator.definitions.override("work", priority=1, max_attempts=5)
    one = work.options(**options).enqueue("one")
    many = app.enqueue_many([work.order("x"), work.order("y"), work.options(tags=["x"]).order("z")])
    alike = app.enqueue_many([work.order("x"), work.order("y")])

    for each in (one, *many, *alike):
        job = each.refresh()
        assert (job.priority, job.max_attempts) == (1, 5)
    assert many[2].id in {job.id for job in app.jobs.list(tag="x", sort="-priority").jobs}


def test_an_overridden_limit_holds(app: Penstock, work: Any) -> None:
    for each in "abc":
        work.enqueue(each)

    app.definitions.override("work", concurrency=2)

    assert len(Hand(app).claim()) == 2


CALLS: list[tuple[str, Callable[[Penstock], Any]]] = [
    ("enable", lambda app: app.definitions.enable("nothing")),
    ("disable", lambda app: app.definitions.disable("nothing")),
    ("pause", lambda app: app.definitions.pause("nothing", "why not")),
    ("resume", lambda app: app.definitions.resume("nothing")),
    ("override", lambda app: app.definitions.override("nothing")),
]


@pytest.mark.parametrize("call", [call for _, call in CALLS], ids=[name for name, _ in CALLS])
def test_a_definition_that_is_not_there_is_not_found(app: Penstock, call: Callable[[Penstock], Any]) -> None:
    with pytest.raises(NotFound, match="There is no definition 'nothing'"):
        call(app)


WRONG: list[tuple[str, Callable[[Penstock], Any]]] = [
    ("A definition is named by its key, not by '*'", lambda app: app.definitions.pause("*", "why not")),
    ("A definition is named by its key, not by 5", lambda app: app.definitions.enable(5)),  # type: ignore[arg-type]
    ("reason must have 1 to 500 characters", lambda app: app.definitions.pause("work", "")),
    ("A pause needs a reason", lambda app: app.definitions.pause_all(None)),  # type: ignore[arg-type]
    ("until has no time zone", lambda app: app.definitions.pause("work", "why", until=datetime(2040, 1, 1))),
    ("by must have 1 to 500", lambda app: app.definitions.disable("work", by="")),
    ("concurrency must be an integer", lambda app: app.definitions.override("work", concurrency=-1)),
    ("work: priority must be an integer from 0 to 20", lambda app: app.definitions.override("work", priority=21)),
    ("work: max_attempts must be an integer from 1", lambda app: app.definitions.override("work", max_attempts=0)),
    ("work: 'loud' is no log_level", lambda app: app.definitions.override("work", log_level="loud")),
    ("work: timeout", lambda app: app.definitions.override("work", timeout=-1)),
    ("work: backoff: Retry policy", lambda app: app.definitions.override("work", backoff=-1)),
    ("work: backoff: Retry policy", lambda app: app.definitions.override("work", backoff="soon")),  # type: ignore[arg-type]
    ("'fast' is not a rate limit", lambda app: app.definitions.override("work", rate_limit="fast")),
    ("5 is not a rate limit", lambda app: app.definitions.override("work", rate_limit=5)),
]


@pytest.mark.parametrize(("problem", "call"), WRONG, ids=[problem for problem, _ in WRONG])
def test_what_is_wrong_is_refused(memory_app: Penstock, problem: str, call: Callable[[Penstock], Any]) -> None:
    memory_app.job("work")(shapes.plain)
    memory_app.definitions.register()

    with pytest.raises(InvalidInput) as raised:
        call(memory_app)

    assert problem in raised.value.message
    assert row(memory_app).enabled
    assert row(memory_app).pause is None
    assert row(memory_app).overrides == {}


async def test_workers_are_woken_by_what_operators_say(new_app: NewApp) -> None:
    app, listener = new_app(), new_app()
    app.job("work")(shapes.plain)
    app.definitions.register()
    bell = listener.store.doorbell()
    while await bell.wait(0.2):
        """What rang before is of no interest."""

    for said in (
        app.definitions.apause("work", "why"),
        app.definitions.aresume("work"),
        app.definitions.apause_all("why"),
        app.definitions.aresume_all(),
    ):
        await said
        assert await bell.wait(30)
    await bell.aclose()
