"""Whether the machine finds stores in which jobs starve: each of these goes wrong when a history is over."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from penstock.storage.sqlite.store import SqliteStore
from penstock.storage.statements import Catalogue, Entry
from tests.storage.compared_stores import ComparedStore
from tests.storage.conftest import SOAK
from tests.storage.state_machine import StoreMachine

Faults = Mapping[str, tuple[str, str]]
"""By the names of statements: what is replaced in them, and by what."""

RARE: dict[str, Faults] = {
    "admits only urgent jobs": {"admit": ("AND blocked ORDER", "AND blocked AND priority > 10 ORDER")},
    "promotes only urgent jobs": {"promote": ("due_at <= :now", "due_at <= :now AND priority > 10")},
    "resumes nothing": {"claim": ("pause_until <= :now", "false"), "claim_lane": ("pause_until <= :now", "false")},
    "counts what has ended as admitted": {"admit": ("((14 >> status & 1) OR", "(status > 0 OR")},
}
"""Found after more histories, in a soak only."""

PLANTED: dict[str, Faults] = {
    "admits none when a job ends": {"admit": ("AND blocked ORDER", "AND blocked AND false ORDER")},
    "puts jobs off for an hour": {"put_off": ("due_at = input.due,", "due_at = input.due + 3600000000,")},
    "counts every job of a definition as running": {"count_running": ("worker IS NOT NULL AND", "")},
    "never fills a bucket": {"save_buckets": ("SELECT name, full_at", "SELECT name, full_at + 3600000000")},
    "finds no dead worker": {"expired_workers": ("ended IS NULL", "false")},
    **(RARE if SOAK else {}),
}


class Tampered(Catalogue):
    """The statements of SQLite, some of them wrong."""

    def __init__(self, faults: Faults) -> None:
        super().__init__("sqlite", {})
        self._faults = faults

    def __getitem__(self, key: tuple[str, tuple[str, ...], str]) -> Entry:
        entry = super().__getitem__(key)
        if key[0] not in self._faults:
            return entry
        old, new = self._faults[key[0]]

        def wrong(text: str) -> str:
            return text.replace(old, new)

        found = replace(
            entry, text=wrong(entry.text), each=wrong(entry.each), before=tuple(map(wrong, entry.before)),
            at_once=tuple(map(wrong, entry.at_once)), steps=tuple(map(wrong, entry.steps)),
        )  # fmt: skip
        assert found != entry, f"{key[0]} has no {old!r}"
        return found


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("faults", PLANTED.values(), ids=[re.sub(r"\W", "-", name) for name in PLANTED])
def test_a_store_in_which_jobs_starve_is_found_out(faults: Faults) -> None:
    def tamper(party: ComparedStore) -> None:
        party.store._catalogue = Tampered(faults)

    Machine: Any = type(
        "Machine", (StoreMachine,), {"open_stores": staticmethod(_memory), "tamper": staticmethod(tamper)}
    )

    with pytest.raises(AssertionError, match=r"must (start|end) by second"):
        run_state_machine_as_test(Machine, settings=_settings(1_000 if SOAK else 200))


def _memory() -> list[ComparedStore]:
    store = SqliteStore(":memory:")
    return [ComparedStore("SQLite in memory", store, store.close)]


def _settings(examples: int) -> settings:
    return settings(
        max_examples=examples, stateful_step_count=20, deadline=None, database=None, print_blob=False,
        suppress_health_check=[check for check in HealthCheck if check is not HealthCheck.nested_given],
        report_multiple_bugs=False, derandomize=True, phases=[Phase.generate],
    )  # fmt: skip
