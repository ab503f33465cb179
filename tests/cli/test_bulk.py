"""Changes of many jobs by filter: counted first, then asked about, then done."""

from __future__ import annotations

import pytest

from penstock import Status
from tests.cli.shell import Place


@pytest.fixture
def tag(request: pytest.FixtureRequest) -> str:
    return f"bulk-{abs(hash(request.node.name))}"


def _made(place: Place, tag: str, count: int = 3) -> list[str]:
    return [place.waiting(tags=[tag]) for _ in range(count)]


def _statuses(place: Place, made: list[str]) -> set[Status]:
    return {place.app.jobs.read(each).status for each in made}


def test_jobs_are_changed_by_filter(place: Place, tag: str) -> None:
    made = _made(place, tag)

    told = place.json("jobs", "cancel", "--tag", tag, "--yes", shape="POST /v1/jobs/bulk 200")
    deleted = place.run("jobs", "delete", "--tag", tag, "--status", "cancelled", "--yes").out

    assert told == {"matched": 3, "changed": 3, "skipped": 0, "dryRun": False}
    assert deleted == "delete: 3 jobs changed, 0 left unchanged.\n"
    assert place.json("jobs", "list", "--tag", tag)["jobs"] == []
    assert made


def test_a_dry_run_only_counts(place: Place, tag: str) -> None:
    made = _made(place, tag)

    told = place.json("jobs", "cancel", "--tag", tag, "--dry-run", shape="POST /v1/jobs/bulk 200")

    assert (told["matched"], told["dryRun"]) == (3, True)
    assert _statuses(place, made) == {Status.SCHEDULED}


def test_without_somebody_to_ask_nothing_is_done(remote: Place, tag: str) -> None:
    made = _made(remote, tag)

    problem = remote.refused("jobs", "cancel", "--tag", tag, code=2)

    assert "3 jobs" in problem["message"]
    assert "--yes" in problem["hint"]
    assert _statuses(remote, made) == {Status.SCHEDULED}


@pytest.mark.parametrize(("key", "code", "status"), [("y\r", 0, Status.CANCELLED), ("n\r", 1, Status.SCHEDULED)])
def test_the_count_is_asked_about_first(remote: Place, tag: str, key: str, code: int, status: Status) -> None:
    made = _made(remote, tag)

    terminal = remote.terminal("jobs", "cancel", "--tag", tag)
    terminal.until("This would cancel 3 jobs. Continue? [y/N]")
    terminal.type(key)

    assert terminal.end() == code
    assert _statuses(remote, made) == {status}


def test_a_job_is_not_deleted_unasked(remote: Place, tag: str) -> None:
    found = remote.ended(["return", 1], tags=[tag])

    remote.run("jobs", "delete", found, code=2)

    assert remote.app.jobs.read(found).status == "succeeded"


def test_a_filter_and_names_are_not_mixed_and_nothing_means_nothing(remote: Place, tag: str) -> None:
    made = _made(remote, tag, 1)

    assert "not both" in remote.refused("jobs", "cancel", made[0], "--tag", tag, code=2)["message"]
    assert "--all" in remote.refused("jobs", "retry", "--yes", code=2)["hint"]
    assert _statuses(remote, made) == {Status.SCHEDULED}
