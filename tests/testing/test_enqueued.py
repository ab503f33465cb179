"""assert_enqueued: which jobs there are, and a message that says what there is instead."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from penstock import InvalidInput, Penstock
from penstock.testing import TestApp


@pytest.fixture
def send(app: Penstock) -> Any:
    @app.job("mail.send", secret=["password"])
    def send(to: str, copies: int = 1, day: date | None = None, password: str | None = None) -> None: ...

    return send


def test_a_job_that_is_there_is_given_back(kit: TestApp, send: Any) -> None:
    ada, bob = send.enqueue("ada", copies=2), send.enqueue("bob")

    assert [job.id for job in kit.assert_enqueued(send)] == [ada.id, bob.id]
    assert [job.id for job in kit.assert_enqueued("mail.send", {"to": "bob"})] == [bob.id]
    assert [job.id for job in kit.assert_enqueued(send, {"copies": 2}, count=1)] == [ada.id]


def test_jobs_that_were_run_count_too(kit: TestApp, send: Any) -> None:
    send.enqueue("ada")
    kit.drain()

    kit.assert_enqueued(send, {"to": "ada"}, status="succeeded")
    kit.assert_not_enqueued(send, {"to": "ada"}, status="queued")


def test_parameters_are_compared_as_they_are_kept(kit: TestApp, send: Any) -> None:
    send.enqueue("ada", day=date(2026, 3, 1))

    kit.assert_enqueued(send, {"day": date(2026, 3, 1)})
    kit.assert_enqueued(send, {"day": "2026-03-01"})
    kit.assert_not_enqueued(send, {"day": date(2026, 3, 2)})


@pytest.mark.parametrize(
    ("given", "found", "missed"),
    [
        ({"priority": 15}, {"priority": 15}, {"priority": 10}),
        ({"delay": 60}, {"delay": 60}, {"delay": 61}),
        (
            {"run_at": datetime(2100, 1, 1, tzinfo=UTC)},
            {"run_at": datetime(2100, 1, 1, tzinfo=UTC)},
            {"run_at": datetime(2100, 1, 2, tzinfo=UTC)},
        ),
        ({"max_attempts": 7}, {"max_attempts": 7}, {"max_attempts": 3}),
        ({"idempotency_key": "k"}, {"idempotency_key": "k"}, {"idempotency_key": "other"}),
        ({"unique": "u"}, {"unique": True}, {"unique": False}),
        ({"unique": "u"}, {"unique": "u"}, {"unique": "other"}),
        ({"reference": ("order", "7")}, {"reference": ("order", "7")}, {"reference": None}),
        ({"tags": ["a", "b"]}, {"tags": ["b"]}, {"tags": ["b", "c"]}),
        ({"tags": ["a", "b"]}, {"tags": "a"}, {"tags": "c"}),
        ({"webhook_url": "https://example.com"}, {"webhook_url": "https://example.com"}, {"webhook_url": None}),
    ],
)
def test_options_are_looked_at(
    kit: TestApp, send: Any, given: dict[str, Any], found: dict[str, Any], missed: dict[str, Any]
) -> None:
    send.options(**given).enqueue("ada")

    kit.assert_enqueued(send, **found)
    kit.assert_not_enqueued(send, **missed)


def test_what_is_missing_is_said_together_with_what_is_there(app: Penstock, kit: TestApp, send: Any) -> None:
    app.job("other")(_nothing).options(priority=3).enqueue()
    send.enqueue("bob", password="geheimnis")

    with pytest.raises(AssertionError) as raised:
        kit.assert_enqueued(send, {"to": "ada"}, priority=15)

    assert str(raised.value).splitlines() == [
        """A job of 'mail.send' with {"to":"ada"} and priority=15 should have been enqueued, and there are 0.""",
        "Enqueued were:",
        "  other {} (queued, priority=3)",
        """  mail.send {"to":"bob","password":"***"} (queued, priority=10)""",
    ]


def test_too_many_are_said_with_their_number(kit: TestApp, send: Any) -> None:
    for number in range(60):
        send.enqueue(str(number))

    with pytest.raises(AssertionError) as raised:
        kit.assert_not_enqueued(send)

    lines = str(raised.value).splitlines()
    assert lines[0] == "0 job(s) of 'mail.send' should have been enqueued, and there are 60."
    assert (len(lines), lines[-1]) == (53, "  … and 10 more")


def test_an_empty_store_is_said_to_be_empty(kit: TestApp, send: Any) -> None:
    kit.assert_not_enqueued(send)

    with pytest.raises(AssertionError, match="No job was enqueued at all"):
        kit.assert_enqueued(send)


def test_another_number_than_expected_fails(kit: TestApp, send: Any) -> None:
    send.enqueue("ada")

    with pytest.raises(AssertionError, match=r"2 job\(s\) of 'mail.send' should have been enqueued, and there are 1"):
        kit.assert_enqueued(send, count=2)


def test_an_option_that_does_not_exist_is_refused(kit: TestApp, send: Any) -> None:
    with pytest.raises(InvalidInput, match="Did you mean 'priority'"):
        kit.assert_enqueued(send, prority=3)


def _nothing() -> None: ...
