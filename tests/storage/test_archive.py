"""Retention with an archive: no job goes before its line is on the disk."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from penstock.background.archive import Archive
from penstock.background.housekeeper import Housekeeper
from penstock.domain.attempt import LogLine
from penstock.domain.errors import StoreError
from penstock.domain.maintenance import ArchivedJob, RetentionBatch
from penstock.domain.secrets.policy import MASK
from penstock.domain.states import Status, Trigger
from penstock.storage import ports
from penstock.storage.commands import admin, control, jobs
from tests.storage.kit import Kit
from tests.storage.tables import query

DAYS = 86_400
NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)

pytestmark = pytest.mark.usefixtures("sound")


def doomed(kit: Kit, **options: Any) -> str:
    """A job that has been announced as stale and whose time is over."""
    job_id = kit.job_in(Status.SUCCEEDED, **options)
    kit.advance(7 * DAYS)
    kit.run(admin.retire(delete=False))
    kit.advance(7 * DAYS)
    return job_id


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_without_delete_jobs_are_only_announced(kit: Kit) -> None:
    job_id = kit.job_in(Status.FAILED)
    kit.advance(30 * DAYS)

    assert kit.run(admin.retire(delete=False)).stale == [job_id]
    sweep = kit.run(admin.retire(delete=False))

    assert (sweep.stale, sweep.deleted) == ([], [])
    assert kit.status(job_id) is Status.STALE


def test_the_remains_are_all_that_there_is_of_a_job(kit: Kit) -> None:
    kit.define("work", phases=("one", "two"), secret_fields=("pin",))
    claimed = kit.running(params='{"pin": 1}', tags=("x",))
    held = kit.held(claimed)
    kit.run(jobs.save_phase(held, "one", 0, "completed", progress=100.0, result="1"))
    kit.run(jobs.save_logs(held, [LogLine("info", "first"), LogLine("error", "second")]))
    kit.settle(claimed, Trigger.ASK_REVIEW, note="look")
    kit.run(control.reject(claimed.job_id, by="me"))
    kit.advance(7 * DAYS)
    kit.run(admin.retire(delete=False))
    kit.advance(7 * DAYS)

    (remains,) = kit.run(admin.take_for_archive())

    assert (remains.job.id, remains.secret_fields) == (claimed.job_id, ("pin",))
    assert [each.name for each in remains.phases] == ["one"]
    assert [each.message for each in remains.logs] == ["first", "second"]
    assert [each.decision for each in remains.reviews] == ["rejected"]
    assert [(each.fence, [phase.name for phase in each.phases]) for each in remains.attempts] == [(1, ["one"])]
    assert [each.type for each in remains.events] == kit.events(claimed.job_id)
    assert kit.run(admin.delete_archived({remains.job.id: remains.mark})) == [claimed.job_id]
    assert kit.run(admin.take_for_archive()) == []


def test_remains_come_in_batches_the_longest_overdue_first(kit: Kit) -> None:
    ended = []
    for _ in range(3):
        ended.append(kit.job_in(Status.SUCCEEDED))
        kit.advance(1)
    kit.advance(7 * DAYS)
    kit.run(admin.retire(delete=False))
    kit.advance(7 * DAYS)

    assert [each.job.id for each in kit.run(admin.take_for_archive(2))] == ended[:2]
    assert [each.job.id for each in kit.run(admin.take_for_archive(2))] == ended[2:]


def test_what_somebody_has_taken_nobody_else_is_given_for_a_while(kit: Kit) -> None:
    job_id = doomed(kit)
    (remains,) = kit.run(admin.take_for_archive())

    assert kit.run(admin.take_for_archive()) == []
    kit.advance(59)
    assert kit.run(admin.take_for_archive()) == []
    assert kit.run(admin.retire()) == RetentionBatch([], [])

    kit.advance(1)
    (again,) = kit.run(admin.take_for_archive())
    assert (again.job.id, again.mark) == (job_id, remains.mark)
    assert kit.run(admin.delete_archived({job_id: remains.mark})) == [job_id]


def test_a_job_that_was_retried_since_it_was_read_is_not_deleted(kit: Kit) -> None:
    kit.define("work", stale_after=1, delete_after=1)
    job_id = kit.job_in(Status.FAILED)
    kit.advance(1)
    kit.run(admin.retire(delete=False))
    kit.advance(1)
    (remains,) = kit.run(admin.take_for_archive())
    kit.run(control.retry([job_id]))

    assert kit.run(admin.delete_archived({job_id: remains.mark})) == []
    (claimed,) = kit.claim()
    kit.settle(claimed)
    kit.advance(1)
    kit.run(admin.retire(delete=False))
    kit.advance(1)

    assert kit.run(admin.delete_archived({job_id: remains.mark})) == []
    assert kit.run(admin.delete_archived({})) == []
    assert kit.status(job_id) is Status.STALE


def test_a_line_holds_the_job_with_its_secrets_masked(kit: Kit, tmp_path: Path) -> None:
    kit.define("work", secret_fields=("pin",))
    job_id = doomed(kit, params='{"pin": 4711,\n "api_key": "k", "n": 1.50}')

    remains = kit.run(admin.take_for_archive())
    path = Archive(tmp_path / "archive").keep(remains, NOW)

    assert path == tmp_path / "archive" / "2026-11-15.jsonl"
    assert path.stat().st_mode & 0o777 == 0o600
    (line,) = lines(path)
    assert line["archivedAt"] == "2026-11-15T12:00:00.000000Z"
    assert (line["job"]["jobId"], line["job"]["outcome"], line["job"]["result"]) == (job_id, "succeeded", 1)
    assert line["job"]["params"] == {"pin": MASK, "api_key": MASK, "n": 1.5}
    assert {"attempts", "phases", "reviews", "logs", "events"} <= line.keys()
    assert b"1.50" in path.read_bytes()


def test_what_somebody_who_died_had_begun_to_write_is_cut_off(kit: Kit, tmp_path: Path) -> None:
    doomed(kit)
    remains = kit.run(admin.take_for_archive())
    archive = Archive(tmp_path)
    path = archive.keep(remains, NOW)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"archivedAt": "' + b"x" * 200_000)

    archive.keep(remains, NOW)

    assert path.read_bytes() == whole * 2


def test_each_day_has_a_file_of_its_own(kit: Kit, tmp_path: Path) -> None:
    doomed(kit)
    remains = kit.run(admin.take_for_archive())

    Archive(tmp_path).keep(remains, NOW)
    Archive(tmp_path).keep(remains, datetime(2026, 11, 16, 0, 0, tzinfo=UTC))

    assert sorted(path.name for path in tmp_path.glob("*.jsonl")) == ["2026-11-15.jsonl", "2026-11-16.jsonl"]


class Rounds:
    """Rounds of housekeeping at the kit's time, with an archive."""

    def __init__(self, kit: Kit, archive: Archive) -> None:
        self._kit = kit
        self.housekeeper = Housekeeper(self, ports.admin, ports.feed, lambda: "", archive)  # type: ignore[arg-type]

    async def arun(self, plan: Any) -> Any:
        return self._kit.run(plan)

    def once(self) -> bool:
        return asyncio.run(self.housekeeper.once())


def test_housekeeping_writes_down_what_it_deletes(kit: Kit, tmp_path: Path) -> None:
    ended = [kit.job_in(Status.SUCCEEDED) for _ in range(3)]
    alive = kit.job_in(Status.RUNNING, "other")
    kit.advance(30 * DAYS)
    rounds = Rounds(kit, Archive(tmp_path))

    # The first round announces them, and they are long overdue.
    rounds.once()

    (path,) = tmp_path.glob("*.jsonl")
    assert sorted(line["job"]["jobId"] for line in lines(path)) == ended
    assert [str(job_id) for (job_id,) in query(kit.store, "SELECT id FROM {s}job")] == [alive]
    assert rounds.housekeeper.problem is None


def test_what_cannot_be_written_down_is_not_deleted(kit: Kit, tmp_path: Path) -> None:
    job_id = doomed(kit)
    (tmp_path / "archive").write_text("in the way")
    rounds = Rounds(kit, Archive(tmp_path / "archive"))

    rounds.once()

    assert isinstance(rounds.housekeeper.problem, StoreError)
    assert "nothing was deleted" in str(rounds.housekeeper.problem)
    assert kit.status(job_id) is Status.STALE
    kit.advance(60)
    os.unlink(tmp_path / "archive")
    rounds.once()
    assert kit.run(admin.get([job_id])) == []
    assert len(lines(next((tmp_path / "archive").iterdir()))) == 1


def test_a_stop_waits_until_what_is_written_down_is_gone(kit: Kit, tmp_path: Path) -> None:
    job_id = doomed(kit)
    archive = Slow(tmp_path)
    rounds = Rounds(kit, archive)

    async def stop_meanwhile() -> None:
        loop, round_ = asyncio.get_running_loop(), asyncio.create_task(rounds.housekeeper.once())
        await loop.run_in_executor(None, archive.begun.wait, 30)
        round_.cancel()
        archive.may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await round_

    asyncio.run(stop_meanwhile())

    assert kit.run(admin.get([job_id])) == []
    (path,) = tmp_path.glob("*.jsonl")
    assert [line["job"]["jobId"] for line in lines(path)] == [job_id]


class Slow(Archive):
    """Tells when it begins to write, and waits until it may."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.begun, self.may_end = threading.Event(), threading.Event()

    def keep(self, remains: Sequence[ArchivedJob], now: datetime | None = None) -> Path:
        self.begun.set()
        assert self.may_end.wait(30)
        return super().keep(remains, now)


def test_who_dies_between_line_and_deletion_doubles_a_line_and_loses_none(kit: Kit, tmp_path: Path) -> None:
    job_id = doomed(kit)
    archive = Archive(tmp_path)
    remains = kit.run(admin.take_for_archive())
    archive.keep(remains)
    kit.advance(60)

    Rounds(kit, archive).once()

    found = [line for path in tmp_path.glob("*.jsonl") for line in lines(path)]
    assert [line["job"]["jobId"] for line in found] == [job_id, job_id]
    assert kit.run(admin.get([job_id])) == []
