"""The worker configuration as JSON: strict with what comes from outside, lenient with what a later release wrote."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.domain.errors import InvalidInput
from penstock.domain.worker_config import (
    AlertThresholds,
    DefaultLimits,
    Disabled,
    RetentionDefaults,
    Setting,
    WorkerConfig,
    as_json,
    changes_between,
    disabled_in,
    from_text,
    margin,
    merged,
    parse,
    to_text,
    too_slow,
)

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
FULL = WorkerConfig(
    enabled=False, slots=3, inline_slots=4, poll=0.5, lease=20, heartbeat=2.5, drain=0,
    retention=RetentionDefaults(1, 2), alerts=AlertThresholds(0.5, 60, 1, 0, 0),
    limits=DefaultLimits(10_000_000, 1, 16, 0, 1), custom='{"a":[9007199254740993,"ä"]}',
)  # fmt: skip


def setting(text: str) -> Setting:
    return Setting("worker", text, 1, NOON, "bert")


def test_what_is_written_is_read_again() -> None:
    for config in (FULL, WorkerConfig()):
        assert parse(as_json(config)) == config
        assert from_text(to_text(config, Disabled("ann", NOON))) == config


def test_the_names_are_those_of_json() -> None:
    assert list(as_json(FULL)) == [
        "enabled", "slots", "inlineSlots", "poll", "lease", "heartbeat", "drain", "cancelGrace", "ageing",
        "retention", "alerts", "limits", "custom",
    ]  # fmt: skip
    thresholds = {"failureRate", "window", "leastSample", "depth", "stuck", "endpointFailures"}
    assert as_json(FULL)["alerts"].keys() == thresholds
    assert as_json(FULL)["custom"] == {"a": [9007199254740993, "ä"]}


def test_changes_leave_alone_what_they_do_not_name() -> None:
    changed = merged(FULL, {"slots": None, "alerts": {"depth": 7}, "custom": {}})

    assert changed == replace(FULL, slots=None, alerts=AlertThresholds(0.5, 60, 1, 7, 0), custom="{}")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"slot": 1}, "Did you mean 'slots'"),
        ({"inline_slots": 1}, "Did you mean 'inlineSlots'"),
        ({"alerts": {"dept": 1}}, "'dept' is not a field of alerts"),
        ({"zzz": 1}, "There are: enabled, slots"),
        ({"disabledBy": "me"}, "is not a field"),
        ({"enabled": None}, "true or false"),
        ({"enabled": 1}, "true or false"),
        ({"slots": 0}, "slots of the worker configuration must be an integer from 1"),
        ({"slots": True}, "must be an integer"),
        ({"slots": 1.5}, "must be an integer"),
        ({"slots": "3"}, "must be an integer"),
        ({"slots": 10_001}, "to 10000"),
        ({"poll": 0}, "poll of"),
        ({"poll": float("nan")}, "poll of"),
        ({"drain": float("inf")}, "drain of"),
        ({"drain": -1}, "drain of"),
        ({"cancelGrace": -1}, "cancelGrace of"),
        ({"ageing": None}, "ageing of"),
        ({"ageing": -1}, "ageing of"),
        ({"lease": 10**400}, "lease of"),
        ({"lease": 6, "heartbeat": 3}, "too slow"),
        ({"alerts": {"failureRate": 1.1}}, "alerts.failureRate"),
        ({"alerts": {"window": None}}, "alerts.window"),
        ({"alerts": {"window": 59}}, "alerts.window"),
        ({"alerts": None}, "alerts of the worker configuration must be an object"),
        ({"retention": {"staleAfter": -1}}, "retention.staleAfter"),
        ({"limits": {"memory": 1}}, "limits.memory"),
        ({"custom": []}, "must be an object"),
        ({"custom": {"a": {1}}}, "custom at /a"),
        ({"custom": {"a": "x" * 70_000}}, "65536 bytes"),
        ([], "must be an object"),
        (None, "must be an object"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(given: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(given)

    assert said in str(caught.value)


def test_custom_must_be_an_object_in_python_too() -> None:
    for custom in ("[]", "nonsense", "", 5, '{"a": 1, "a": 2}'):
        with pytest.raises(InvalidInput):
            WorkerConfig(custom=custom)  # type: ignore[arg-type]


def test_what_a_later_release_wrote_can_be_read() -> None:
    text = json.dumps({"slots": 3, "colour": "red", "alerts": {"depth": 5, "height": 1}})

    assert from_text(text) == WorkerConfig(slots=3, alerts=AlertThresholds(depth=5))
    assert from_text(None) == WorkerConfig()


def test_who_disabled_the_workers_is_kept_with_it() -> None:
    off = replace(FULL, enabled=False)

    assert disabled_in(setting(to_text(off, Disabled("ann", NOON)))) == Disabled("ann", NOON)
    assert disabled_in(setting('{"enabled": false}')) == Disabled("bert", NOON)
    assert disabled_in(setting(to_text(replace(FULL, enabled=True), Disabled("ann", NOON)))) is None
    assert disabled_in(None) is None


def test_the_audit_is_told_what_differs_and_nothing_of_the_custom_part() -> None:
    before, after = changes_between(WorkerConfig(), WorkerConfig(slots=3, custom='{"key": "hunter2"}'))

    assert (before, after) == ({"slots": None, "custom": "…"}, {"slots": 3, "custom": "…"})


def test_a_lease_outlasts_a_heartbeat_that_is_not_answered() -> None:
    assert (margin(15), margin(1), margin(100)) == (3, 0.3, 20)
    assert not too_slow(6, 15)
    assert too_slow(6.1, 15)
