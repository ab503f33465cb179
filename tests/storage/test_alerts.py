"""save_alerts and list_alerts: raised once, cleared once, however many say so."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from penstock.domain.alerts import CRITICAL, Alert
from penstock.domain.errors import InvalidInput
from penstock.domain.instant import to_datetime
from penstock.storage.commands import admin
from tests.storage.kit import START, Kit
from tests.storage.tables import query

DEEP = Alert("depth", "work", "150 jobs of 'work' are queued.", since=to_datetime(START - 5))
FAILING = Alert("failure_rate", "mail", "8 of 20 jobs of 'mail' have failed.", CRITICAL)


def told(kit: Kit) -> list[tuple[str, str]]:
    return [
        (kind, subject)
        for kind, subject in query(kit.store, "SELECT kind, subject FROM {s}event ORDER BY seq")
        if kind.startswith("alert.")
    ]


def test_an_alert_is_raised_once_and_cleared_once(kit: Kit) -> None:
    first = kit.run(admin.save_alerts([DEEP, FAILING]))
    kit.advance(10)
    again = kit.run(admin.save_alerts([FAILING, DEEP]))
    over = kit.run(admin.save_alerts([FAILING]))
    twice = kit.run(admin.save_alerts([FAILING]))

    assert (first.raised, first.cleared) == ([DEEP, FAILING], [])
    assert (again.raised, again.cleared, twice.raised, twice.cleared) == ([], [], [], [])
    assert (over.raised, over.cleared) == ([], [DEEP])
    assert told(kit) == [
        ("alert.raised", "depth:work"), ("alert.raised", "failure_rate:mail"), ("alert.cleared", "depth:work"),
    ]  # fmt: skip


def test_the_event_tells_the_alert(kit: Kit) -> None:
    kit.run(admin.save_alerts([DEEP]))

    ((data,),) = query(kit.store, "SELECT data FROM {s}event WHERE kind = 'alert.raised'")

    assert json.loads(data) == {
        "kind": "depth", "subject": "work", "message": DEEP.message, "severity": "warning",
        "since": "2027-01-15T07:59:59.999995Z",
    }  # fmt: skip


def test_what_was_raised_is_kept_and_read_in_pages(kit: Kit) -> None:
    for _ in range(3):
        kit.run(admin.save_alerts([DEEP, FAILING]))
        kit.advance(10)
        kit.run(admin.save_alerts([FAILING]))

    everything = kit.run(admin.list_alerts())
    first = kit.run(admin.list_alerts(limit=2))
    rest = kit.run(admin.list_alerts(limit=2, before=first[-1].seq))
    (standing,) = kit.run(admin.list_alerts(cleared=False))

    assert first + rest == everything
    assert (standing.alert, standing.raised_at, standing.cleared_at) == (FAILING, to_datetime(START), None)
    assert [each.alert for each in kit.run(admin.list_alerts(cleared=True))] == [DEEP] * 3
    assert kit.run(admin.list_alerts(cleared=True))[-1].cleared_at == to_datetime(START + 10_000_000)
    for limit in (0, 501):
        with pytest.raises(InvalidInput, match="1 to 500"):
            kit.run(admin.list_alerts(limit=limit))


def test_alerts_that_were_cleared_long_ago_go(kit: Kit) -> None:
    kit.run(admin.save_alerts([DEEP, FAILING]))
    kit.run(admin.save_alerts([FAILING]))
    kit.advance(14 * 86_400)

    kit.run(admin.tidy(86_400_000_000))

    assert [each.alert for each in kit.run(admin.list_alerts())] == [FAILING]


def test_many_that_look_at_once_raise_and_clear_each_alert_once(shared_store: Any) -> None:
    kit = Kit(shared_store)
    together = threading.Barrier(4)

    def look() -> tuple[int, int]:
        together.wait()
        raised = len(kit.run(admin.save_alerts([DEEP, FAILING])).raised)
        together.wait()
        return raised, len(kit.run(admin.save_alerts([])).cleared)

    with ThreadPoolExecutor(4) as pool:
        done = [each.result() for each in [pool.submit(look) for _ in range(4)]]

    assert (sum(raised for raised, _ in done), sum(cleared for _, cleared in done)) == (2, 2)
    assert sorted(told(kit)) == sorted(
        (kind, each.id) for kind in ("alert.raised", "alert.cleared") for each in (DEEP, FAILING)
    )
