"""The test kit itself: another store for a while, and a clock that is moved."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock import Conflict, InvalidInput, Penstock, testing
from penstock.testing import TestApp


def test_the_applications_own_store_is_not_touched(tmp_path: Path) -> None:
    app = Penstock(f"sqlite:///{tmp_path}/own.db")
    work = app.job("work")(_nothing)

    with TestApp(app) as kit:
        work.enqueue()
        kit.drain()

    assert list(tmp_path.iterdir()) == []


def test_the_application_has_its_own_store_back_afterwards(app: Penstock) -> None:
    work = app.job("work")(_nothing)
    own = work.enqueue()
    store = app.store

    with TestApp(app) as kit:
        assert kit.jobs() == []
        work.enqueue()
        assert len(kit.jobs()) == 1

    assert app.store is store
    assert [job.id for job in app.jobs.list().jobs] == [own.id]
    work.enqueue()
    assert len(app.jobs.list().jobs) == 2


def test_an_error_in_the_test_gives_the_store_back_too(app: Penstock) -> None:
    store = app.store

    with pytest.raises(ZeroDivisionError), TestApp(app):
        raise ZeroDivisionError

    assert app.store is store


def test_kits_stand_in_one_another(app: Penstock) -> None:
    work = app.job("work")(_nothing)

    with TestApp(app) as outer:
        work.enqueue()
        with testing.run(app) as inner:
            assert inner.jobs() == []
        assert len(outer.jobs()) == 1


def test_an_application_without_a_database_can_be_tested() -> None:
    app = Penstock("postgresql://nobody@nowhere.invalid/none")
    work = app.job("work")(_nothing)

    with TestApp(app) as kit:
        work.enqueue()
        assert len(kit.drain().succeeded) == 1


def test_closing_the_application_in_between_loses_nothing(app: Penstock, kit: TestApp) -> None:
    work = app.job("work")(_nothing)
    work.enqueue()

    app.close()

    assert len(kit.drain().succeeded) == 1


def test_the_clock_stands_still_until_it_is_moved(app: Penstock) -> None:
    start = datetime(2026, 3, 1, 12, tzinfo=UTC)
    work = app.job("work")(_nothing)

    with TestApp(app, now=start) as kit:
        job = work.options(delay=3600).enqueue()
        assert (kit.now, job.job.created_at) == (start, start)
        kit.advance(timedelta(minutes=59))
        assert (kit.drain().attempts, job.refresh().status) == (0, "scheduled")
        kit.advance(60)
        assert job.refresh().status == "queued"
        kit.drain()

        assert kit.now == job.refresh().finished_at == start + timedelta(hours=1)


def test_the_clock_begins_at_the_present(app: Penstock) -> None:
    before = datetime.now(UTC)

    with TestApp(app) as kit:
        assert before - timedelta(seconds=1) < kit.now <= datetime.now(UTC)


def test_a_year_may_pass(app: Penstock, kit: TestApp) -> None:
    job = app.job("work")(_nothing).options(delay=timedelta(days=365)).enqueue()
    kit.drain()

    kit.advance(timedelta(days=365))

    assert [each.id for each in kit.drain().succeeded] == [job.id]


def test_the_clock_never_goes_back(kit: TestApp) -> None:
    with pytest.raises(InvalidInput, match="seconds must be between"):
        kit.advance(-1)


def test_jobs_are_listed_the_oldest_first_and_by_filter(app: Penstock, kit: TestApp) -> None:
    work, other = app.job("work")(_nothing), app.job("other")(_nothing_else)
    first, second, third = work.options(tags=["x"]).enqueue(), other.enqueue(), work.enqueue()

    assert [job.id for job in kit.jobs()] == [first.id, second.id, third.id]
    assert [job.id for job in kit.jobs(work)] == [first.id, third.id]
    assert [job.id for job in kit.jobs("work", tag="x")] == [first.id]


def test_outside_of_its_block_a_kit_does_nothing(app: Penstock) -> None:
    kit = TestApp(app)

    with pytest.raises(Conflict, match="The test kit is not in use"):
        kit.drain()
    with pytest.raises(Conflict, match="The test kit is not in use"):
        kit.jobs()
    with kit, pytest.raises(Conflict, match="in use already"), kit:
        pass


def test_a_kit_can_be_used_again_and_begins_empty(app: Penstock) -> None:
    work, kit = app.job("work")(_nothing), TestApp(app)

    with kit:
        work.enqueue()
    with kit:
        assert kit.jobs() == []


def test_pytest_does_not_take_the_kit_for_a_test(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text("from penstock.testing import TestApp\n\n\ndef test_one(): ...\n")

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-W", "error", "-q", "-p", "no:cacheprovider", tmp_path],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def _nothing() -> None: ...


def _nothing_else() -> None: ...
