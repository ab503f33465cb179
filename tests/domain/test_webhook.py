"""Webhooks: signatures that others can check, what answers mean, who is told of what."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import standardwebhooks

from penstock.domain import event as kinds
from penstock.domain.errors import InvalidInput, InvalidSignature
from penstock.domain.event import Event
from penstock.domain.webhook import signature
from penstock.domain.webhook.endpoint import (
    DEFAULT_EVENTS,
    DELIVERED,
    FAILED,
    WAITING,
    Answer,
    body,
    check_events,
    decide_delivery,
    excerpt,
    message_id,
    retry_after,
    wants,
)
from penstock.domain.webhook.settings import DEFAULT_RETRIES, WebhookSettings
from penstock.integrations import webhook_receiver

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
SECRET = signature.secret_text(bytes(range(32)))
OTHER = signature.secret_text(bytes(range(32, 64)))
BODY = '{"id":"msg_1","type":"job.succeeded","data":{"n":12345678901234567890,"text":"ä"}}'.encode()


def signed(secrets: tuple[str, ...] = (SECRET,), at: datetime | None = None) -> dict[str, str]:
    moment = at or datetime.now(UTC)
    return signature.headers(secrets, "msg_1", int(moment.timestamp()), BODY)


def test_an_independent_library_accepts_our_signature() -> None:
    told = standardwebhooks.Webhook(SECRET).verify(BODY, signed())

    assert told == json.loads(BODY)


def test_we_accept_the_signature_of_an_independent_library() -> None:
    now = datetime.now(UTC)
    theirs = standardwebhooks.Webhook(SECRET).sign("msg_1", now, BODY.decode())
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(int(now.timestamp())), "webhook-signature": theirs}

    assert webhook_receiver.verify(BODY, headers, SECRET) == json.loads(BODY)


def test_the_known_example_of_the_standard_is_met() -> None:
    secret, payload = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", b'{"test": 2432232314}'

    made = signature.standard_signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, payload)

    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("valid", [SECRET, OTHER])
def test_while_a_secret_is_replaced_either_one_verifies(valid: str) -> None:
    headers = signed((OTHER, SECRET))
    own_only = {signature.OWN_HEADER: headers[signature.OWN_HEADER]}

    assert standardwebhooks.Webhook(valid).verify(BODY, headers) == json.loads(BODY)
    assert webhook_receiver.verify(BODY, headers, valid) == json.loads(BODY)
    assert webhook_receiver.verify(BODY, own_only, valid) == json.loads(BODY)
    assert webhook_receiver.verify(BODY.decode(), signed((SECRET,)), [OTHER, SECRET]) == json.loads(BODY)


def test_the_names_of_headers_may_be_written_in_any_case() -> None:
    headers = {name.upper(): value for name, value in signed().items()}

    assert webhook_receiver.verify(BODY, headers, SECRET) == json.loads(BODY)


@pytest.mark.parametrize("form", ["standard", "own"])
@pytest.mark.parametrize(
    ("age", "fresh"), [(0, True), (299, True), (302, False), (86_400, False), (-59, True), (-62, False)]
)
def test_a_message_is_fresh_for_five_minutes_and_from_one_minute_ahead(form: str, age: int, fresh: bool) -> None:
    headers = signed(at=NOW - timedelta(seconds=age))
    if form == "own":
        headers = {signature.OWN_HEADER: headers[signature.OWN_HEADER]}

    if fresh:
        assert webhook_receiver.verify(BODY, headers, SECRET, now=NOW.timestamp())
    else:
        with pytest.raises(InvalidSignature, match=r"ago|ahead"):
            webhook_receiver.verify(BODY, headers, SECRET, now=NOW.timestamp())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda headers: headers.pop("webhook-id"),
        lambda headers: headers.pop("webhook-timestamp"),
        lambda headers: headers.update({"webhook-id": "msg_2"}),
        lambda headers: headers.update({"webhook-timestamp": str(int(headers["webhook-timestamp"]) + 1)}),
        lambda headers: headers.update({"webhook-timestamp": "٣"}),
        lambda headers: headers.update({"webhook-timestamp": "1e9"}),
        lambda headers: headers.update({"webhook-signature": ""}),
        lambda headers: headers.update({"webhook-signature": "v1,"}),
        lambda headers: headers.update({"webhook-signature": "v1a," + headers["webhook-signature"][3:]}),
        lambda headers: headers.update({"webhook-signature": "ä"}),
        lambda headers: headers.clear(),
    ],
)
def test_what_was_changed_on_the_way_is_refused(spoil: Any) -> None:
    headers = signed()
    spoil(headers)

    with pytest.raises(InvalidSignature):
        webhook_receiver.verify(BODY, headers, SECRET)


@pytest.mark.parametrize(
    "header", ["", "t=1", "v1=00", "t=now,v1=00", "t={t},v1=", "t={t},t={t},v1={v}", "t={t},v0={v}", "{v}"]
)
def test_an_own_signature_that_is_not_whole_is_refused(header: str) -> None:
    t, v = str(int(NOW.timestamp())), signature.own_signature(SECRET, int(NOW.timestamp()), BODY)

    with pytest.raises(InvalidSignature):
        webhook_receiver.verify(BODY, {signature.OWN_HEADER: header.format(t=t, v=v)}, SECRET, now=NOW.timestamp())


def test_another_body_or_another_secret_is_refused() -> None:
    with pytest.raises(InvalidSignature, match="No signature"):
        webhook_receiver.verify(BODY + b" ", signed(), SECRET)
    with pytest.raises(InvalidSignature, match="No signature"):
        webhook_receiver.verify(BODY, signed(), OTHER)


def test_a_signed_body_that_is_no_json_is_refused() -> None:
    headers = signature.headers((SECRET,), "msg_1", int(NOW.timestamp()), b"<xml>")

    with pytest.raises(InvalidSignature, match="not JSON"):
        webhook_receiver.verify(b"<xml>", headers, SECRET, now=NOW.timestamp())


@pytest.mark.parametrize(
    "secret", ["", "whsec_", "whsec_!!!!", "abc", "whsec_" + base64.b64encode(bytes(23)).decode(), SECRET[6:]]
)
def test_what_is_no_secret_is_refused_and_not_shown(secret: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        signature.secret_key(secret)

    assert not secret or len(secret) < 7 or secret not in str(refused.value)
    assert "whsec_AAA" not in repr(WebhookSettings(global_secret=SECRET))
    assert SECRET not in repr(WebhookSettings(global_secret=SECRET))


def test_seen_knows_the_newest_ids_and_forgets_the_oldest() -> None:
    seen = webhook_receiver.Seen(2)

    assert [seen.first(each) for each in ("a", "b", "a", "c", "b")] == [True, True, False, True, True]
    seen.forget("b")
    assert seen.first("b")


@pytest.mark.parametrize(
    ("answer", "status", "disable", "unwell"),
    [
        (Answer(200), DELIVERED, False, False),
        (Answer(204), DELIVERED, False, False),
        (Answer(299), DELIVERED, False, False),
        (Answer(200, "cut in the middle"), WAITING, False, True),
        (Answer(None, "no connection"), WAITING, False, True),
        (Answer(None, "not allowed", hopeless=True), FAILED, False, False),
        (Answer(100), FAILED, False, False),
        (Answer(301), FAILED, False, False),
        (Answer(302), FAILED, False, False),
        (Answer(307), FAILED, False, False),
        (Answer(400), FAILED, False, False),
        (Answer(401), FAILED, False, False),
        (Answer(404), FAILED, False, False),
        (Answer(408), WAITING, False, True),
        (Answer(410), FAILED, True, False),
        (Answer(422), FAILED, False, False),
        (Answer(429), WAITING, False, True),
        (Answer(500), WAITING, False, True),
        (Answer(503), WAITING, False, True),
        (Answer(599), WAITING, False, True),
    ],
)
def test_each_answer_has_its_verdict(answer: Answer, status: str, disable: bool, unwell: bool) -> None:
    verdict = decide_delivery(answer, 1, DEFAULT_RETRIES)

    assert (verdict.status, verdict.disable, verdict.unwell) == (status, disable, unwell)


def test_ten_tries_take_about_three_days_and_then_it_has_failed() -> None:
    verdicts = [decide_delivery(Answer(500), number, DEFAULT_RETRIES) for number in range(1, 11)]

    assert [each.status for each in verdicts] == [WAITING] * 9 + [FAILED]
    assert 2.5 * 86_400 < sum(each.delay for each in verdicts) < 3.5 * 86_400


def test_delays_differ_by_chance_but_not_much() -> None:
    least, most = (decide_delivery(Answer(500), 3, DEFAULT_RETRIES, random=chance).delay for chance in (0.0, 1.0))

    assert least == pytest.approx(0.9 * DEFAULT_RETRIES[2])
    assert most == pytest.approx(1.1 * DEFAULT_RETRIES[2])


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, 0), ("", 0), ("120", 120), (" 7 ", 7), ("999999999999999999999999", 86_400), ("-5", 0), ("1.5", 0),
        ("soon", 0), ("٣", 0), ("Fri, 01 May 2026 12:10:00 GMT", 600), ("Fri, 01 May 2026 11:00:00 GMT", 0),
        ("Fri, 01 May 2099 12:10:00 GMT", 86_400), ("Fri, 99 May 2026 12:10:00 GMT", 0),
    ],
)  # fmt: skip
def test_retry_after_is_heard_as_seconds_or_as_a_date_and_capped(text: str | None, seconds: float) -> None:
    assert retry_after(text, NOW) == seconds


def test_retry_after_puts_a_try_off_but_never_brings_it_forward() -> None:
    assert decide_delivery(Answer(429, retry_after="600"), 1, DEFAULT_RETRIES, now=NOW).delay == 600
    assert decide_delivery(Answer(503, retry_after="600"), 1, DEFAULT_RETRIES, now=NOW).delay == 600
    assert decide_delivery(Answer(429, retry_after="1"), 3, DEFAULT_RETRIES, now=NOW).delay == DEFAULT_RETRIES[2]
    assert decide_delivery(Answer(500, retry_after="600"), 1, DEFAULT_RETRIES, now=NOW).delay == DEFAULT_RETRIES[0]


def test_a_receiver_that_fails_again_and_again_is_left_alone_for_longer_each_time() -> None:
    pauses = [decide_delivery(Answer(500), 1, DEFAULT_RETRIES, failures=failures).pause for failures in range(12)]

    assert pauses == [0, 0, 0, 0, 30, 60, 120, 240, 480, 600, 600, 600]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (DEFAULT_EVENTS, {kinds.SUCCEEDED, kinds.FAILED, kinds.RETRYING, kinds.CANCELLED, kinds.STALE}),
        (("onStart",), {kinds.STARTED}),
        (("onSuccess",), {kinds.SUCCEEDED}),
        (("onFail",), {kinds.FAILED}),
        (("onEnd",), {kinds.SUCCEEDED, kinds.FAILED, kinds.CANCELLED}),
        (("job.phase.*",), {kinds.PHASE_COMPLETED}),
        (("schedule.*", "job.lost"), {kinds.SCHEDULE_MISSED, kinds.SCHEDULE_SKIPPED, kinds.LOST}),
        (("*",), set(kinds.TYPES) - {kinds.WEBHOOK_DELIVERED, kinds.WEBHOOK_FAILED}),
    ],
)
def test_an_endpoint_is_told_of_what_it_asked_for_and_never_of_webhooks(asked: tuple[str, ...], told: set[str]) -> None:
    assert check_events(asked) == asked
    assert {kind for kind in kinds.TYPES if wants(asked, kind)} == told


@pytest.mark.parametrize(
    "name",
    ["", "job", "job.", "job.fialed", "jo*", "*.failed", "job.*.x", "job.webhook.*", "job.webhook.failed", "onend"],
)
def test_a_kind_that_nobody_can_be_told_of_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        check_events([name])


def test_a_kind_of_the_handlers_own_may_be_asked_for() -> None:
    assert wants(check_events(["invoice.paid", "shop.*"]), "shop.order.sent")
    with pytest.raises(InvalidInput, match="1 to 100"):
        check_events([])


def test_an_excerpt_is_short_and_safe_to_keep() -> None:
    text = excerpt(b"ok\x00\x1b[31m\r\n\xff" + "\u202eä".encode() * 5000) or ""

    assert len(text.encode()) <= 1024
    assert not set(text) & {"\x00", "\x1b", "\r", "\u202e"}
    assert text.startswith("ok")
    assert excerpt(b"") is None


def test_an_event_without_a_job_is_told_with_its_subject_and_a_deleted_job_by_its_id() -> None:
    schedule = Event(7, kinds.SCHEDULE_MISSED, NOW, None, "nightly", None, '{"passedOver":1}')
    deleted = Event(8, kinds.DELETED, NOW, "01890a5d-ac96-774b-bcce-b302099a8057", None, None, None)

    assert json.loads(body("msg_1", schedule, None)) == {
        "id": "msg_1", "type": "schedule.missed", "timestamp": "2026-05-01T12:00:00.000000Z",
        "data": {"subject": "nightly", "details": {"passedOver": 1}},
    }  # fmt: skip
    assert json.loads(body("msg_1", deleted, None))["data"] == {"deletedJobId": deleted.job_id}


def test_an_id_holds_no_dot_and_differs_by_endpoint_and_event() -> None:
    events = [Event(seq, kinds.FAILED, NOW, "j", None, 1, None) for seq in (1, 2)]
    ids = {message_id(endpoint, event) for endpoint in ("a", "b") for event in events}

    assert len(ids) == 4
    assert all("." not in each for each in ids)
    assert message_id("a", events[0]) == message_id("a", events[0])
