"""why: what keeps a job from running; unserved and system_pause beside it."""

from __future__ import annotations

import pytest

from penstock.domain.definition import Pause, RateLimit
from penstock.domain.errors import NotFound
from penstock.domain.instant import HOUR, MINUTE, SECOND, to_datetime
from penstock.domain.states import Status, Trigger
from penstock.domain.why import Reason
from penstock.domain.worker import Duty
from penstock.storage.commands import admin, control, jobs
from tests.storage.kit import LEASE, Kit

pytestmark = pytest.mark.usefixtures("sound")


def reasons(kit: Kit, job_id: str) -> list[Reason]:
    return kit.run(admin.why(job_id))


def only(kit: Kit, job_id: str) -> Reason:
    (reason,) = reasons(kit, job_id)
    return reason


def codes(kit: Kit, job_id: str) -> list[str]:
    return [each.code for each in reasons(kit, job_id)]


@pytest.mark.parametrize("job_id", ["01890a5d-ac96-774b-bcce-b302099a8057", "no id at all", ""])
def test_a_job_that_is_not_there_has_no_reasons(kit: Kit, job_id: str) -> None:
    with pytest.raises(NotFound):
        reasons(kit, job_id)


def test_a_job_that_is_next_stands_behind_nothing(kit: Kit) -> None:
    job_id = kit.create()
    kit.worker()

    reason = only(kit, job_id)

    assert (reason.code, reason.until, reason.by) == ("behind", None, None)
    assert "next" in reason.message


def test_a_job_is_behind_those_that_workers_take_first(kit: Kit) -> None:
    served = kit.define("work")
    kit.define("elsewhere")
    for _ in range(2):
        kit.create(priority=15)
    kit.create("elsewhere", priority=20)
    kit.create(priority=20, delay=SECOND)
    job_id = kit.create()
    kit.create()
    kit.worker(lanes=(served,))

    reason = only(kit, job_id)

    assert (reason.code, reason.message) == ("behind", "2 jobs rank before it.")


def test_more_than_a_thousand_in_front_are_not_counted(kit: Kit) -> None:
    kit.run(jobs.create([kit.draft() for _ in range(1001)]))
    job_id = kit.create()
    kit.worker()

    assert only(kit, job_id).message == "1000 or more jobs rank before it."


def test_a_job_whose_time_has_not_come(kit: Kit) -> None:
    job_id = kit.create(delay=HOUR)
    kit.worker()

    reason = only(kit, job_id)

    assert (reason.code, reason.until) == ("not_due", to_datetime(kit.now + HOUR))


def test_a_job_that_is_due_and_not_yet_queued_is_only_behind(kit: Kit) -> None:
    job_id = kit.create(delay=SECOND)
    kit.worker()
    kit.advance(2)

    assert codes(kit, job_id) == ["behind"]


def test_a_paused_definition(kit: Kit) -> None:
    job_id = kit.create()
    kit.worker()
    kit.run(control.pause("work", Pause("The printer burns.", "anna", kit.now, kit.now + HOUR), by="anna"))

    reason = only(kit, job_id)

    assert (reason.code, reason.by, reason.until) == ("paused", "anna", to_datetime(kit.now + HOUR))
    assert "'work' is paused by anna" in reason.message
    assert reason.message.endswith("The printer burns.")
    kit.advance(3601)
    kit.worker()
    assert codes(kit, job_id) == ["behind"]


def test_a_paused_system(kit: Kit) -> None:
    job_id = kit.create()
    kit.worker()
    kit.run(control.pause("*", Pause("upgrade", "bert", kit.now), by="bert"))

    reason = only(kit, job_id)

    assert (reason.code, reason.by, reason.until) == ("system_paused", "bert", None)
    assert "upgrade" in reason.message


def test_workers_that_are_disabled(kit: Kit) -> None:
    job_id = kit.create()
    kit.worker()
    kit.run(admin.put_setting("worker", '{"enabled": false}', by="anna"))

    reason = only(kit, job_id)

    assert (reason.code, reason.by, reason.until) == ("disabled", "anna", None)
    assert "anna has disabled them in the worker configuration" in reason.message
    kit.run(admin.put_setting("worker", '{"enabled": true}', by="bert"))
    assert codes(kit, job_id) == ["behind"]


def test_a_disabled_definition_runs_what_it_has(kit: Kit) -> None:
    job_id = kit.create()
    kit.worker()
    kit.run(control.enable("work", False, by="anna"))

    assert codes(kit, job_id) == ["behind"]


def test_a_job_that_no_worker_can_run(kit: Kit) -> None:
    job_id = kit.create()
    kit.define("other")
    kit.worker(lanes=(kit.define("other"),))
    assert "in any version" in only(kit, job_id).message

    kit.worker(lanes=(kit.define("work", version=2), kit.define("work", version=3)))

    reason = only(kit, job_id)
    assert (reason.code, reason.by) == ("no_worker", None)
    assert "'work' version 1" in reason.message
    assert "version 2, 3 is served" in reason.message


def test_workers_that_cannot_start_their_application_are_named(kit: Kit) -> None:
    job_id = kit.create()
    failing, fine = (kit.worker(lanes=(kit.define("work"),)) for _ in range(2))
    broken = [Duty("load", 3.0, 2, "SyntaxError: invalid syntax"), Duty("claim", 0.1, 0)]
    kit.run(jobs.heartbeat(failing, LEASE, lanes=(), duties=broken))
    assert codes(kit, job_id) == ["behind"]

    kit.run(jobs.heartbeat(fine, LEASE, lanes=(), duties=[Duty("load", 0.0, 2), Duty("claim", 0.1, 3, "Broken")]))

    reason = only(kit, job_id)
    assert (reason.code, reason.by) == ("no_worker", failing)
    assert reason.message.endswith(f"Worker {failing} cannot start its application.")


def test_a_worker_whose_lease_has_ended_serves_nothing(kit: Kit) -> None:
    job_id = kit.create()
    kit.worker(lease=SECOND)
    assert codes(kit, job_id) == ["behind"]

    kit.advance(1)

    assert codes(kit, job_id) == ["no_worker"]


def test_a_definition_that_runs_as_many_as_it_may(kit: Kit) -> None:
    lane = kit.define("work", concurrency=7)
    for _ in range(7):
        kit.create()
    running = sorted(each.job_id for each in kit.claim(limited=[lane]))
    job_id = kit.create()

    reason = only(kit, job_id)

    assert (reason.code, reason.by) == ("concurrency_full", ",".join(running[:5]))
    assert "may run 7 jobs concurrently" in reason.message
    assert reason.message.endswith(f"{running[4]} and 2 more.")


def test_a_definition_with_a_free_slot_is_not_full(kit: Kit) -> None:
    lane = kit.define("work", concurrency=2)
    kit.create()
    kit.claim(limited=[lane])

    assert codes(kit, kit.create()) == ["behind"]


def test_a_concurrency_key_that_others_hold(kit: Kit) -> None:
    kit.define("work", key_concurrency=2)
    holders = sorted(kit.create(concurrency_key="anna") for _ in range(2))
    job_id = kit.create(concurrency_key="anna")
    other = kit.create(concurrency_key="bert")
    kit.worker()

    reason = only(kit, job_id)

    assert (reason.code, reason.by) == ("key_full", ",".join(holders))
    assert "'anna' admits 2 jobs" in reason.message
    assert codes(kit, other) == ["behind"]


def test_a_rate_that_is_used_up(kit: Kit) -> None:
    lane = kit.define("work", rate_limit=RateLimit(1, 60.0))
    kit.create()
    job_id = kit.create()
    kit.worker()
    assert codes(kit, job_id) == ["behind"]
    kit.claim(limited=[lane])

    reason = only(kit, job_id)

    assert (reason.code, reason.until) == ("rate_limited", to_datetime(kit.now + MINUTE))
    kit.advance(60)
    kit.worker()
    assert codes(kit, job_id) == ["behind"]


def test_a_rate_of_a_key_that_is_used_up(kit: Kit) -> None:
    lane = kit.define("work", rate_limit=RateLimit(1, 60.0, per_key=True))
    kit.create(concurrency_key="anna")
    kit.claim(limited=[lane])
    waiting, other = kit.create(concurrency_key="anna"), kit.create(concurrency_key="bert")
    assert only(kit, waiting).until == to_datetime(kit.now + MINUTE)
    assert codes(kit, other) == ["behind"]

    kit.claim(limited=[lane])

    put_off = only(kit, waiting)
    assert kit.status(waiting) is Status.SCHEDULED
    assert (put_off.code, put_off.until) == ("rate_limited", to_datetime(kit.now + MINUTE))


def test_all_that_holds_a_job_is_told_at_once(kit: Kit) -> None:
    job_id = kit.create(delay=HOUR)
    for key in ("*", "work"):
        kit.run(control.pause(key, Pause("", "anna", kit.now), by="anna"))

    assert codes(kit, job_id) == ["not_due", "system_paused", "paused", "no_worker"]


def test_a_running_job(kit: Kit) -> None:
    claimed = kit.running()
    worker = kit.job(claimed.job_id).worker_id

    reason = only(kit, claimed.job_id)

    assert (reason.code, reason.by) == ("running", worker)
    assert "since" in reason.message


def test_a_job_that_is_claimed_and_not_started(kit: Kit) -> None:
    job_id = kit.create()
    kit.claim(start=False)

    reason = only(kit, job_id)

    assert (reason.code, reason.by) == ("running", kit.job(job_id).worker_id)
    assert "claimed" in reason.message


def test_a_job_that_was_asked_to_stop(kit: Kit) -> None:
    job_id = kit.job_in(Status.CANCELLING)

    assert only(kit, job_id).code == "cancelling"


def test_a_job_in_review(kit: Kit) -> None:
    assert only(kit, kit.job_in(Status.REVIEW_NEEDED)).code == "review_needed"


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.FAILED, Status.CANCELLED, Status.STALE])
def test_a_job_that_has_ended(kit: Kit, status: Status) -> None:
    reason = only(kit, kit.job_in(status))

    assert reason.code == "ended"
    assert reason.message.endswith(f": {'succeeded' if status is Status.STALE else status}.")


def test_a_retry_that_waits_for_its_backoff_is_not_due(kit: Kit) -> None:
    claimed = kit.running()
    kit.settle(claimed, Trigger.FAIL)

    assert codes(kit, claimed.job_id) == ["not_due"]


def test_unserved_names_what_waits_for_a_worker_that_is_not_there(kit: Kit) -> None:
    first = kit.define("work")
    kit.create()
    kit.create(delay=HOUR)
    kit.define("work", version=2)
    kit.create()
    kit.create("other")
    kit.define("empty")
    kit.worker(lanes=(first,))

    assert kit.run(admin.unserved()) == [("other", 1, 1), ("work", 2, 1)]
    kit.run(admin.fold())
    kit.advance(60)

    assert kit.run(admin.unserved()) == [("other", 1, 1), ("work", 1, 2), ("work", 2, 1)]


def test_what_runs_or_has_ended_waits_for_no_worker(kit: Kit) -> None:
    kit.job_in(Status.SUCCEEDED)
    kit.running()
    kit.advance(60)

    assert kit.run(admin.unserved()) == []


def test_the_pause_of_the_system_can_be_read_while_it_holds(kit: Kit) -> None:
    assert kit.run(admin.system_pause()) is None
    pause = Pause("upgrade", "anna", kit.now, kit.now + HOUR)
    kit.run(control.pause("*", pause, by="anna"))
    assert kit.run(admin.system_pause()) == pause

    kit.advance(3600)

    assert kit.run(admin.system_pause()) is None
