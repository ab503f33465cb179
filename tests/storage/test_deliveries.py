"""The webhooks port: deliveries are sent by one at a time, told of, kept and let go."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.domain import event as kinds
from penstock.domain.alerts import Alert, AlertFacts, alerts
from penstock.domain.errors import Conflict, InvalidInput
from penstock.domain.instant import DAY, to_datetime
from penstock.domain.webhook.endpoint import (
    DELIVERED,
    FAILED,
    WAITING,
    Answer,
    DeliveryDecision,
    DeliveryTask,
    Endpoint,
    EndpointDraft,
    decide_delivery,
)
from penstock.domain.worker_config import AlertThresholds
from penstock.storage.commands import admin, control, feed, webhooks
from tests.storage.concurrency import Arena, another
from tests.storage.deliveries import URL, endpoint, listed, settle, take, waiting
from tests.storage.kit import Kit
from tests.storage.tables import query

pytestmark = pytest.mark.usefixtures("sound")


def test_a_delivery_that_is_taken_is_nobody_elses_until_its_lease_ends(kit: Kit) -> None:
    endpoint(kit)
    waiting(kit)

    (parcel,) = take(kit, owner="a")
    assert take(kit, owner="b") == []
    kit.advance(31)
    (again,) = take(kit, owner="b")

    assert (again.id, again.body, again.number) == (parcel.id, parcel.body, 2)
    assert not settle(kit, parcel)
    assert settle(kit, again)
    assert not settle(kit, again)
    assert [each.number for each in kit.run(webhooks.delivery(parcel.id)).tries] == [2]


def test_what_was_delivered_is_told_and_remembered(kit: Kit) -> None:
    endpoint(kit)
    (job_id,) = waiting(kit)
    assert kit.job(job_id).webhook_sent is False
    (parcel,) = take(kit)
    kit.advance(2)
    settle(kit, parcel, 204)

    detail = kit.run(webhooks.delivery(parcel.id))
    assert (detail.delivery.status, detail.delivery.status_code, detail.delivery.tries) == (DELIVERED, 204, 1)
    assert (detail.delivery.finished_at, detail.body) == (to_datetime(kit.now), parcel.body)
    ((number, at, duration, code, excerpt),) = [
        (each.number, each.at, each.duration, each.status_code, each.excerpt) for each in detail.tries
    ]
    assert (number, at, duration, code, excerpt) == (1, to_datetime(kit.now), 0.25, 204, "an excerpt")
    assert kit.job(job_id).webhook_sent is True
    event = kit.run(feed.of_job(job_id))[-1]
    assert event.type == kinds.WEBHOOK_DELIVERED
    assert json.loads(event.data_text or "") == {
        "webhookId": parcel.id, "endpoint": "first", "type": kinds.CANCELLED, "tries": 1, "statusCode": 204,
    }  # fmt: skip
    assert kit.run(webhooks.endpoint("first")).last_success_at == to_datetime(kit.now)


def test_a_job_without_webhooks_says_nothing_about_them(kit: Kit) -> None:
    assert kit.job(kit.create()).webhook_sent is None


def test_a_failed_try_comes_again_after_its_delay_until_none_is_left(kit: Kit) -> None:
    endpoint(kit)
    (job_id,) = waiting(kit)
    for delay in (5, 60):
        (parcel,) = take(kit)
        settle(kit, parcel, 500, most_failures=100)
        kit.advance(delay - 0.1)
        assert take(kit) == []
        kit.advance(0.1)
    (parcel,) = take(kit)
    settle(kit, parcel, None, most_failures=100)

    (delivery,) = listed(kit, status=FAILED)
    assert (delivery.id, delivery.tries, delivery.error) == (parcel.id, 3, "no connection")
    assert kit.events(job_id)[-1] == kinds.WEBHOOK_FAILED
    assert kit.job(job_id).webhook_sent is False
    kit.advance(86_400)
    assert take(kit) == []


def test_a_delivery_whose_job_is_gone_ends_without_an_event(kit: Kit) -> None:
    endpoint(kit)
    jobs = waiting(kit, 2)
    kit.run(control.delete(jobs))

    first, second = take(kit)
    assert settle(kit, first)
    assert settle(kit, second, 404)

    assert [kit.events(each)[-1] for each in jobs] == [kinds.DELETED] * 2
    assert {each.status for each in listed(kit)} == {DELIVERED, FAILED}


def test_one_receiver_gets_so_many_at_once_and_the_others_are_served_beside_it(kit: Kit) -> None:
    endpoint(kit, "busy")
    waiting(kit, 6)
    endpoint(kit, "idle")
    waiting(kit, 1)

    first = take(kit)
    assert sorted(each.endpoint for each in first) == ["busy", "busy", "idle"]
    assert take(kit) == []
    settle(kit, next(each for each in first if each.endpoint == "busy"))
    assert [each.endpoint for each in take(kit)] == ["busy"]


def test_the_oldest_delivery_of_a_receiver_is_sent_first(kit: Kit) -> None:
    endpoint(kit)
    jobs = []
    for _ in range(4):
        jobs += waiting(kit)
        kit.advance(1)

    order = []
    for _ in range(4):
        (parcel,) = take(kit, per_endpoint=1)
        order.append(json.loads(parcel.body)["data"]["job"]["jobId"])
        settle(kit, parcel)
    assert order == jobs


def test_more_receivers_than_there_is_room_for_take_turns(kit: Kit) -> None:
    for name in "abcd":
        endpoint(kit, name)
    waiting(kit, 3)

    served: list[str] = []
    for _ in range(4):
        kit.advance(1)
        parcels = take(kit, limit=1)
        served += [each.endpoint for each in parcels]
        settle(kit, parcels[0])
    assert sorted(served) == ["a", "b", "c", "d"]


def test_a_receiver_that_fails_too_often_pauses_then_gets_one_try(kit: Kit) -> None:
    endpoint(kit)
    waiting(kit, 6)
    for _ in range(2):
        for parcel in take(kit):
            settle(kit, parcel, 503, pause=30.0)
    broken = kit.run(webhooks.endpoint("first"))
    assert broken.failures == 4
    assert broken.open_until is not None

    assert take(kit) == []
    kit.advance(61)
    (probe,) = take(kit)
    assert take(kit) == []
    settle(kit, probe)

    assert kit.run(webhooks.endpoint("first")).failures == 0
    assert len(take(kit)) == 2


def test_a_receiver_that_pauses_delays_no_other(kit: Kit) -> None:
    endpoint(kit, "dead")
    waiting(kit, 3)
    for parcel in take(kit):
        settle(kit, parcel, None, most_failures=1)
    endpoint(kit, "alive")
    waiting(kit, 1)

    assert [each.endpoint for each in take(kit)] == ["alive"]


def test_urls_of_jobs_share_a_receiver_by_their_host_only(kit: Kit) -> None:
    for path in "abc":
        waiting(kit, webhook_url=f"https://one.test/{path}")
    waiting(kit, webhook_url="https://two.test/")
    waiting(kit, webhook_url="https://one.test:8443/")
    waiting(kit, webhook_url="http://10.0.0.1:99/")

    assert sorted(each.url for each in take(kit)) == [
        "http://10.0.0.1:99/", "https://one.test/a", "https://one.test/b", "https://one.test:8443/", "https://two.test/",
    ]  # fmt: skip


def test_an_answer_of_410_disables_the_endpoint_and_what_waits_for_it_waits_on(kit: Kit) -> None:
    endpoint(kit)
    waiting(kit, 3)
    settle(kit, take(kit)[0], 410)

    disabled = kit.run(webhooks.endpoint("first"))
    assert (disabled.enabled, disabled.disabled_reason, disabled.revision) == (False, "It answered 410.", 2)
    kit.advance(60)
    assert take(kit) == []
    kit.run(webhooks.save_endpoint(EndpointDraft("first", URL), by="bob"))
    assert kit.run(webhooks.endpoint("first")).disabled_reason is None
    assert len(take(kit)) == 2


def test_what_waits_goes_to_the_endpoints_new_url(kit: Kit) -> None:
    endpoint(kit)
    waiting(kit)
    kit.run(webhooks.save_endpoint(EndpointDraft("first", "https://moved.test/"), by="bob"))

    (parcel,) = take(kit)
    assert parcel.url == "https://moved.test/"


def test_what_waits_for_an_endpoint_that_is_removed_has_failed(kit: Kit) -> None:
    endpoint(kit)
    waiting(kit, 2)
    (parcel, _) = take(kit)
    kit.run(webhooks.remove_endpoint("first", by="bob"))

    assert not settle(kit, parcel)
    assert [(each.status, each.error) for each in listed(kit)] == [(FAILED, "The endpoint was removed.")] * 2
    assert kit.run(webhooks.endpoints()) == []
    with pytest.raises(Conflict, match="removed"):
        kit.run(webhooks.redeliver(parcel.id, by="bob"))


def test_a_delivery_can_be_sent_again_with_its_id_and_all_its_tries(kit: Kit) -> None:
    endpoint(kit)
    waiting(kit)
    (parcel,) = take(kit)
    settle(kit, parcel, 404)
    kit.advance(5)

    again = kit.run(webhooks.redeliver(parcel.id, by="bob")).delivery
    assert (again.status, again.finished_at) == (WAITING, None)
    (second,) = take(kit)
    assert (second.id, second.body, second.number, second.round) == (parcel.id, parcel.body, 2, 1)
    assert not settle(kit, parcel)
    assert settle(kit, second, 500)
    assert kit.run(webhooks.redeliver(parcel.id, by="bob")).delivery.due_at == to_datetime(kit.now)
    assert query(kit.store, "SELECT count(*) FROM {s}audit WHERE action = 'webhook.redeliver'") == [(2,)]


def test_deliveries_are_paged_the_newest_first_and_found_by_what_they_are_about(kit: Kit) -> None:
    endpoint(kit)
    jobs = waiting(kit, 5)
    settle(kit, take(kit)[0])

    first = kit.run(webhooks.deliveries(limit=2))
    second = kit.run(webhooks.deliveries(limit=2, cursor=first.next_cursor))
    third = kit.run(webhooks.deliveries(limit=2, cursor=second.next_cursor))
    assert [each.job_id for page in (first, second, third) for each in page.deliveries] == jobs[::-1]
    assert third.next_cursor is None
    assert [each.job_id for each in listed(kit, job_id=jobs[2])] == [jobs[2]]
    assert [each.job_id for each in listed(kit, status=DELIVERED, endpoint="first")] == [jobs[0]]
    assert listed(kit, endpoint="second") == listed(kit, job_id="none") == []
    for wrong in ({"status": "sent"}, {"cursor": "x"}):
        with pytest.raises(InvalidInput):
            listed(kit, **wrong)


def test_senders_at_once_never_take_the_same_nor_more_than_a_receiver_may_have(shared_store: Any) -> None:
    kit = Kit(shared_store)
    endpoint(kit)
    waiting(kit, 12)

    with another(kit) as second, another(kit) as third, Arena(3) as arena:
        for _ in range(6):
            taken = arena.together(*(lambda each=each: take(each) for each in (kit, second, third)))
            parcels = [parcel for each in taken for parcel in each]
            assert 1 <= len(parcels) <= 2
            assert len({parcel.id for parcel in parcels}) == len(parcels)
            for parcel in parcels:
                settle(kit, parcel)
            if all(each.status == DELIVERED for each in listed(kit)):
                break
    assert max(each.tries for each in listed(kit)) == 1


def test_deliveries_go_some_time_after_they_ended_and_their_tries_with_them(kit: Kit) -> None:
    endpoint(kit)
    old, new = waiting(kit, 2)
    for parcel in take(kit):
        if json.loads(parcel.body)["data"]["job"]["jobId"] == old:
            settle(kit, parcel)
    kit.advance(8 * 86_400)
    kit.run(admin.tidy(7 * DAY))

    assert [each.job_id for each in listed(kit)] == [new]
    assert query(kit.store, "SELECT count(*) FROM {s}delivery_try") == [(0,)]
    kit.advance(21 * 86_400)
    kit.run(admin.tidy(7 * DAY))
    assert listed(kit) == []


def test_receivers_that_nothing_waits_for_go_and_endpoints_stay(kit: Kit) -> None:
    endpoint(kit)
    waiting(kit, webhook_url="https://job.test/x")
    for parcel in take(kit):
        settle(kit, parcel)
    kit.advance(1)
    waiting(kit, webhook_url="https://busy.test/x")
    kit.advance(8 * 86_400)
    kit.run(admin.tidy(7 * DAY))

    assert query(kit.store, "SELECT key FROM {s}receiver ORDER BY key") == [("first",), ("https://busy.test:443",)]


class TestGivingUp:
    """An endpoint at which nothing arrives for days is disabled."""

    def fail(self, kit: Kit, tries: int, code: int | None = 500) -> None:
        for _ in range(tries):
            waiting(kit)
            (parcel,) = take(kit)
            self.end(kit, parcel, code)

    def end(self, kit: Kit, parcel: DeliveryTask, code: int | None, give_up: int = 5 * DAY) -> None:
        """End a delivery for good."""
        answer = Answer(code, None if code else "no connection")
        verdict = decide_delivery(answer, 1, (), most_failures=1000)
        assert kit.run(webhooks.settle_delivery(parcel.id, parcel.number, answer, verdict, give_up=give_up))

    def state(self, kit: Kit) -> tuple[bool, str | None]:
        found = kit.run(webhooks.endpoint("first"))
        return found.enabled, found.disabled_reason

    @pytest.mark.parametrize("code", [500, 404, None])
    def test_it_takes_days_and_ten_tries(self, kit: Kit, code: int | None) -> None:
        endpoint(kit)
        self.fail(kit, 5, code)
        kit.advance(5 * 86_400 - 1)
        self.fail(kit, 5, code)
        assert self.state(kit) == (True, None)
        kit.advance(1)

        self.fail(kit, 1, code)

        assert self.state(kit) == (False, "No message has arrived for 5 days: 11 tries failed.")
        entry = kit.run(admin.audit(action="webhook.disable"))[0]
        assert (entry.actor, entry.target) == ("penstock", "first")
        raised = kit.run(admin.save_alerts(held(kit))).raised
        assert [(each.kind, each.subject, each.severity) for each in raised] == [
            ("endpoint_failing", "first", "critical")
        ]

    def test_few_tries_are_no_reason(self, kit: Kit) -> None:
        endpoint(kit)
        self.fail(kit, 8)
        kit.advance(100 * 86_400)

        self.fail(kit, 1)

        assert self.state(kit) == (True, None)

    def test_one_success_begins_the_count_again(self, kit: Kit) -> None:
        endpoint(kit)
        self.fail(kit, 20)
        kit.advance(5 * 86_400)
        waiting(kit)
        self.end(kit, take(kit)[0], 200)

        self.fail(kit, 20)

        assert self.state(kit) == (True, None)

    def test_an_endpoint_that_is_enabled_again_has_its_days_again(self, kit: Kit) -> None:
        endpoint(kit)
        self.fail(kit, 10)
        kit.advance(5 * 86_400)
        self.fail(kit, 1)
        assert self.state(kit)[0] is False

        kit.run(webhooks.save_endpoint(EndpointDraft("first", URL), by="ann"))
        self.fail(kit, 10)

        assert self.state(kit) == (True, None)

    def test_zero_days_mean_never(self, kit: Kit) -> None:
        endpoint(kit)
        self.fail(kit, 10)
        kit.advance(50 * 86_400)
        waiting(kit)

        self.end(kit, take(kit)[0], 500, give_up=0)

        assert self.state(kit) == (True, None)


def held(kit: Kit) -> list[Alert]:
    """The alerts about endpoints that hold now."""
    endpoints: list[Endpoint] = kit.run(webhooks.endpoints())
    facts = AlertFacts(kit.run(admin.stats(kit.now)), AlertThresholds(), endpoints=endpoints)
    return [each for each in alerts(facts) if each.kind == "endpoint_failing"]


def test_a_settlement_that_asks_for_nothing_more_leaves_the_breaker_alone(kit: Kit) -> None:
    endpoint(kit)
    waiting(kit, 2)
    first, second = take(kit)
    settle(kit, first, 500)
    hopeless = Answer(error="not allowed", hopeless=True)
    kit.run(webhooks.settle_delivery(second.id, second.number, hopeless, DeliveryDecision(FAILED)))

    assert kit.run(webhooks.endpoint("first")).failures == 1
