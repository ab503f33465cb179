"""The webhooks port: endpoints and their secrets, and deliveries that are made from the feed, once each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.domain import event as kinds
from penstock.domain.errors import NotFound, RevisionConflict
from penstock.domain.instant import DAY, SECOND, to_datetime
from penstock.domain.plan import Plan
from penstock.domain.schedule.schedule import Kind, Schedule
from penstock.domain.states import Status, Trigger
from penstock.domain.webhook.endpoint import DEFAULT_EVENTS, EndpointDraft
from penstock.storage.commands import control, feed, jobs, schedules, webhooks
from tests.storage.concurrency import Arena, another
from tests.storage.deliveries import OTHER, SECRET, URL, create_deliveries, endpoint, listed, settle, take, told
from tests.storage.kit import Kit
from tests.storage.tables import change, query

pytestmark = pytest.mark.usefixtures("sound")


def test_an_endpoint_is_kept_and_of_its_secret_only_the_end_is_read(kit: Kit) -> None:
    made = endpoint(kit, description="orders", events=("job.*",), definition_keys=("work",))

    assert made == kit.run(webhooks.endpoint("first"))
    assert (made.url, made.description, made.events, made.definition_keys) == (URL, "orders", ("job.*",), ("work",))
    assert (made.enabled, made.revision, made.secret_hints, made.failures) == (True, 1, (SECRET[-4:],), 0)
    assert (made.created_at, made.open_until) == (to_datetime(kit.now), None)
    assert SECRET not in repr(made)


def test_endpoints_are_listed_the_oldest_first(kit: Kit) -> None:
    endpoint(kit, "b")
    kit.advance(1)
    endpoint(kit, "a")

    assert [each.id for each in kit.run(webhooks.endpoints())] == ["b", "a"]


def test_a_change_keeps_the_secret_and_needs_the_revision_that_was_read(kit: Kit) -> None:
    endpoint(kit)
    changed = kit.run(webhooks.save_endpoint(EndpointDraft("first", "https://other.test/"), by="bob", revision=1))

    assert (changed.url, changed.revision, changed.secret_hints) == ("https://other.test/", 2, (SECRET[-4:],))
    with pytest.raises(RevisionConflict, match="revision 2"):
        kit.run(webhooks.save_endpoint(EndpointDraft("first", URL), by="bob", revision=1))
    with pytest.raises(RevisionConflict, match="revision 0"):
        kit.run(webhooks.save_endpoint(EndpointDraft("none", URL), by="bob", revision=1))
    with pytest.raises(RevisionConflict):
        kit.run(webhooks.save_endpoint(EndpointDraft("first", URL), by="bob", secret=SECRET, revision=0))


def test_the_same_again_changes_nothing(kit: Kit) -> None:
    endpoint(kit)
    kit.advance(1)
    again = kit.run(webhooks.save_endpoint(EndpointDraft("first", URL), by="bob"))

    assert again.revision == 1
    assert len(query(kit.store, "SELECT action FROM {s}audit")) == 1


def test_what_does_not_exist_is_said_so(kit: Kit) -> None:
    plans: list[Plan[Any]] = [
        webhooks.endpoint("none"),
        webhooks.remove_endpoint("none", by="bob"),
        webhooks.rotate_secret("none", OTHER, overlap=1, by="bob"),
        webhooks.save_endpoint(EndpointDraft("none", URL), by="bob"),
    ]
    for plan in plans:
        with pytest.raises(NotFound, match="webhook 'none'"):
            kit.run(plan)
    for detail in (webhooks.delivery("none"), webhooks.redeliver("none", by="bob")):
        with pytest.raises(NotFound, match="delivery 'none'"):
            kit.run(detail)


def test_every_change_is_audited_without_a_secret(kit: Kit) -> None:
    endpoint(kit)
    kit.run(webhooks.save_endpoint(EndpointDraft("first", URL, enabled=False), by="bob"))
    kit.run(webhooks.rotate_secret("first", OTHER, overlap=3600 * SECOND, by="bob"))
    kit.run(webhooks.remove_endpoint("first", by="cleo"))

    rows = query(kit.store, "SELECT actor, action, target, before, after FROM {s}audit ORDER BY seq")
    assert [row[:3] for row in rows] == [
        ("anna", "webhook.create", "first"), ("bob", "webhook.replace", "first"), ("bob", "webhook.rotate", "first"),
        ("cleo", "webhook.remove", "first"),
    ]  # fmt: skip
    assert not any(secret in repr(rows) for secret in (SECRET, OTHER, SECRET[6:]))


def test_for_a_while_both_secrets_sign_then_only_the_new_one(kit: Kit) -> None:
    endpoint(kit)
    rotated = kit.run(webhooks.rotate_secret("first", OTHER, overlap=3600 * SECOND, by="bob"))
    assert rotated.secret_hints == (OTHER[-4:], SECRET[-4:])
    assert rotated.previous_secret_until == to_datetime(kit.now + 3600 * SECOND)
    assert kit.run(webhooks.rotate_secret("first", OTHER, overlap=1, by="bob")).revision == rotated.revision

    kit.job_in(Status.CANCELLED)
    create_deliveries(kit)
    (parcel,) = take(kit)
    assert parcel.secrets == (OTHER, SECRET)
    settle(kit, parcel, 500)

    kit.advance(3601)
    (parcel,) = take(kit)
    assert parcel.secrets == (OTHER,)
    assert kit.run(webhooks.endpoint("first")).secret_hints == (OTHER[-4:],)
    assert OTHER not in repr(parcel)


def test_each_event_that_was_asked_for_makes_one_delivery(kit: Kit) -> None:
    endpoint(kit)
    claimed = kit.running()
    kit.settle(claimed, Trigger.FAIL)
    kit.advance(60)
    kit.run(control.cancel([claimed.job_id]))

    assert create_deliveries(kit) == 2
    assert create_deliveries(kit) == 0
    assert told(kit) == [("first", kinds.RETRYING, claimed.job_id), ("first", kinds.CANCELLED, claimed.job_id)]


def test_the_job_in_a_body_has_all_its_phases(kit: Kit) -> None:
    kit.define("work", phases=("load", "store"))
    endpoint(kit, events=("job.succeeded", "job.cancelled"))
    claimed = kit.running("work")
    kit.run(jobs.save_phase(kit.held(claimed), "load", 0, "completed", result="3"))
    kit.run(control.cancel([claimed.job_id]))
    kit.settle(claimed)

    create_deliveries(kit)

    (parcel,) = take(kit)
    told = json.loads(parcel.body)["data"]["job"]["phases"]
    assert [(each["name"], each["status"], each["result"]) for each in told] == [
        ("load", "completed", 3), ("store", "pending", None)
    ]  # fmt: skip


def test_a_body_names_the_attempt_the_file_and_the_schedule(kit: Kit) -> None:
    kit.define("work", source="jobs/work.py")
    kit.run(schedules.save(Schedule("nightly", "work", Kind.CRON, "0 3 * * *"), by="code"))
    endpoint(kit)
    claimed = kit.running("work", schedule="nightly", scheduled_for=kit.now)
    kit.advance(2)
    kit.settle(claimed)
    kit.advance(60)

    create_deliveries(kit)

    (parcel,) = take(kit)
    said = json.loads(parcel.body)["data"]
    assert (said["attempt"], said["duration"], said["source"]) == (1, 2.0, "jobs/work.py")
    assert (said["scheduleId"], said["scheduleExpression"]) == ("nightly", "0 3 * * *")


def test_the_body_is_what_the_job_was_when_the_delivery_was_made(kit: Kit) -> None:
    endpoint(kit)
    params = '{"password":"hunter2","token_count":3,"n":12345678901234567890,"b":1.50}'
    job_id = kit.job_in(Status.SUCCEEDED, params=params, reference_type="order", reference_id="7")
    create_deliveries(kit)
    kit.run(control.delete([job_id]))

    (parcel,) = take(kit)
    said = json.loads(parcel.body)
    assert (said["id"], said["type"]) == (parcel.id, "job.succeeded")
    job = said["data"]["job"]
    assert (job["jobId"], job["status"], job["definitionKey"], job["result"]) == (job_id, "succeeded", "work", 1)
    assert job["reference"] == {"type": "order", "id": "7"}
    assert '"n":12345678901234567890,"b":1.50' in parcel.body
    assert "hunter2" not in parcel.body


def test_the_secret_fields_of_the_definition_and_a_mask_of_ones_own_are_masked(kit: Kit) -> None:
    kit.define("work", secret_fields=("card",))
    endpoint(kit)
    kit.job_in(Status.CANCELLED, params='{"card":"4711","colour":"red"}')
    create_deliveries(kit)
    kit.job_in(Status.CANCELLED, params='{"card":"4711","colour":"red"}')
    create_deliveries(kit, mask=lambda fields, text: json.dumps({"masked": list(fields)}))

    bodies = [json.loads(parcel.body)["data"]["job"]["params"] for parcel in take(kit)]
    assert bodies == [{"card": "***", "colour": "red"}, {"masked": ["card"]}]


def test_where_nobody_knows_what_is_secret_no_parameter_is_told_and_the_others_go_on(kit: Kit) -> None:
    kit.define("mail")
    endpoint(kit)
    kit.job_in(Status.CANCELLED, params='{"card":"4711"}')
    kit.job_in(Status.CANCELLED, "mail", params='{"to":"ada"}')
    change(kit.store, "UPDATE {s}definition SET body = 'broken' WHERE key = 'work'")

    assert create_deliveries(kit) == 2

    assert [json.loads(each.body)["data"]["job"]["params"] for each in take(kit)] == [None, {"to": "ada"}]


def test_kinds_and_definitions_limit_what_an_endpoint_is_told(kit: Kit) -> None:
    kit.define("mail")
    endpoint(kit, "starts", events=("onStart",))
    endpoint(kit, "mails", definition_keys=("mail",))
    endpoint(kit, "all", events=("*",), definition_keys=("work",))
    work, mail = kit.job_in(Status.SUCCEEDED), kit.job_in(Status.CANCELLED, "mail")
    create_deliveries(kit)

    assert sorted(told(kit)) == [
        ("all", kinds.ENQUEUED, work), ("all", kinds.STARTED, work), ("all", kinds.SUCCEEDED, work),
        ("mails", kinds.CANCELLED, mail), ("starts", kinds.STARTED, work),
    ]  # fmt: skip


def test_a_job_with_a_url_and_the_global_url_are_told_of_the_default_kinds(kit: Kit) -> None:
    job_id = kit.job_in(Status.SUCCEEDED, webhook_url="https://job.test/x")
    kit.job_in(Status.SUCCEEDED)

    assert create_deliveries(kit, global_url="https://all.test/") == 3
    assert {(each.webhook_id, each.url) for each in listed(kit, job_id=job_id)} == {
        ("job", "https://job.test/x"), ("global", "https://all.test/"),
    }  # fmt: skip
    assert {each.type for each in listed(kit)} <= set(DEFAULT_EVENTS)


def test_a_job_that_was_created_before_anybody_read_the_feed_is_told_all_the_same(kit: Kit) -> None:
    job_id = kit.create(webhook_url="https://job.test/x")
    for _ in range(3):
        kit.create()
    kit.run(control.cancel([job_id]))

    assert create_deliveries(kit, limit=2) == 1


def test_an_endpoint_is_told_of_nothing_that_was_before_it_or_while_it_was_disabled(kit: Kit) -> None:
    kit.job_in(Status.CANCELLED)
    kit.advance(1)
    endpoint(kit)
    seen = [kit.job_in(Status.CANCELLED)]
    kit.advance(1)
    create_deliveries(kit)
    kit.run(webhooks.save_endpoint(EndpointDraft("first", URL, enabled=False), by="bob"))
    kit.job_in(Status.CANCELLED)
    kit.advance(1)
    kit.run(webhooks.save_endpoint(EndpointDraft("first", URL), by="bob"))
    seen.append(kit.job_in(Status.CANCELLED))
    create_deliveries(kit)

    assert [job_id for _, _, job_id in told(kit)] == seen


def test_while_nobody_asks_the_cursor_goes_to_the_tip_and_nothing_is_read(kit: Kit) -> None:
    for _ in range(5):
        kit.job_in(Status.CANCELLED)
    assert not kit.run(webhooks.delivery_outlook()).asked
    assert kit.run(webhooks.create_deliveries(1)) == kit.run(webhooks.create_deliveries(1))
    assert (
        query(kit.store, "SELECT cursor FROM {s}webhook_feed") == [(kit.run(feed.tip()),)]
        or kit.store.dialect == "postgres"
    )

    assert create_deliveries(kit, limit=1, global_url="https://all.test/") == 0


def test_asking_is_seen_of_endpoints_and_of_jobs(kit: Kit) -> None:
    assert not kit.run(webhooks.delivery_outlook()).asked
    endpoint(kit)
    assert kit.run(webhooks.delivery_outlook()).asked
    kit.run(webhooks.save_endpoint(EndpointDraft("first", URL, enabled=False), by="bob"))
    assert not kit.run(webhooks.delivery_outlook()).asked
    kit.create(webhook_url=URL)
    assert kit.run(webhooks.delivery_outlook()).asked


def test_a_page_that_is_read_twice_makes_no_second_delivery(kit: Kit) -> None:
    endpoint(kit)
    for _ in range(3):
        kit.job_in(Status.CANCELLED)
    create_deliveries(kit)
    change(kit.store, "UPDATE {s}webhook_feed SET cursor = NULL")

    assert create_deliveries(kit) == 0
    assert len(listed(kit)) == 3


def test_a_cursor_whose_events_are_gone_begins_again_and_says_so(kit: Kit) -> None:
    endpoint(kit)
    kit.job_in(Status.CANCELLED)
    old = query(kit.store, "SELECT cursor FROM {s}webhook_feed")
    create_deliveries(kit)
    gone = kit.job_in(Status.CANCELLED)
    kit.run(control.delete([gone]))
    kit.advance(30 * 86_400)
    kit.run(feed.prune(14 * DAY))
    late = kit.job_in(Status.CANCELLED)

    first = kit.run(webhooks.create_deliveries())

    assert old != query(kit.store, "SELECT cursor FROM {s}webhook_feed")
    assert first.restarted
    assert [job_id for _, _, job_id in told(kit)][-1] == late
    assert len(told(kit)) == 2
    assert not kit.run(webhooks.create_deliveries()).restarted


def test_a_job_that_is_gone_before_it_was_told_of_makes_no_delivery_but_its_deletion(kit: Kit) -> None:
    endpoint(kit, events=("*",))
    job_id = kit.job_in(Status.CANCELLED)
    kit.run(control.delete([job_id]))

    create_deliveries(kit)

    assert told(kit) == [("first", kinds.DELETED, job_id)]
    (parcel,) = take(kit)
    assert json.loads(parcel.body)["data"]["deletedJobId"] == job_id


def test_events_about_webhooks_make_no_webhooks(kit: Kit) -> None:
    endpoint(kit, events=("*",))
    job_id = kit.job_in(Status.CANCELLED)
    create_deliveries(kit)
    for parcel in take(kit, per_endpoint=16):
        settle(kit, parcel)

    assert kit.events(job_id)[-2:] == [kinds.WEBHOOK_DELIVERED] * 2
    assert create_deliveries(kit) == 0


def test_many_who_spread_at_once_make_each_delivery_once(shared_store: Any) -> None:
    kit = Kit(shared_store)
    endpoint(kit)
    endpoint(kit, "second")
    jobs = [kit.job_in(Status.CANCELLED, webhook_url="https://job.test/x") for _ in range(40)]

    with another(kit) as second, another(kit) as third, Arena(3) as arena:
        found = arena.together(
            *(lambda each=each: [create_deliveries(each, limit=3) for _ in range(5)] for each in (kit, second, third))
        )

    assert sum(map(sum, found)) == 120
    assert sorted(told(kit)) == sorted(
        (who, kinds.CANCELLED, each) for who in ("first", "second", "job") for each in jobs
    )
