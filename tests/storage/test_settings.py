"""settings, put_setting and audit."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from penstock.domain.errors import RevisionConflict
from penstock.domain.instant import to_datetime
from penstock.domain.worker_config import Setting
from penstock.storage.commands import admin, control, jobs
from tests.storage.kit import LEASE, START, Kit


def test_a_new_store_has_no_settings(kit: Kit) -> None:
    assert kit.run(admin.settings()) == {}


def test_a_setting_is_kept_and_its_revision_rises(kit: Kit) -> None:
    first = kit.run(admin.put_setting("worker", '{"slots": 4, "x": "ä"}', by="eve"))
    assert first == Setting("worker", '{"slots": 4, "x": "ä"}', 1, to_datetime(START), "eve")
    kit.advance(5)

    second = kit.run(admin.put_setting("worker", "{}", by="adam"))

    assert second == Setting("worker", "{}", 2, to_datetime(START + 5_000_000), "adam")
    assert kit.run(admin.settings()) == {"worker": second}


def test_a_change_needs_the_revision_that_is_stored(kit: Kit) -> None:
    kit.run(admin.put_setting("worker", "1", by="eve", revision=0))
    kit.run(admin.put_setting("worker", "2", by="eve", revision=1))

    with pytest.raises(RevisionConflict, match="revision 2, but 1 was expected"):
        kit.run(admin.put_setting("worker", "3", by="eve", revision=1))

    assert kit.run(admin.settings())["worker"].value == "2"


def test_what_must_not_exist_yet_is_refused_when_it_does(kit: Kit) -> None:
    kit.run(admin.put_setting("worker", "1", by="eve"))

    with pytest.raises(RevisionConflict, match="revision 1, but 0 was expected"):
        kit.run(admin.put_setting("worker", "2", by="eve", revision=0))


def test_a_revision_of_what_does_not_exist_is_refused(kit: Kit) -> None:
    with pytest.raises(RevisionConflict, match="no setting 'worker' yet"):
        kit.run(admin.put_setting("worker", "1", by="eve", revision=3))

    assert kit.run(admin.settings()) == {}


def test_of_many_who_change_the_same_revision_one_wins(shared_store: Any) -> None:
    kit = Kit(shared_store)
    for revision in (0, 1):
        together = threading.Barrier(4)

        def put(n: int, revision: int = revision, together: threading.Barrier = together) -> bool:
            together.wait()
            try:
                kit.run(admin.put_setting("worker", str(n), by=f"user {n}", revision=revision))
            except RevisionConflict:
                return False
            return True

        with ThreadPoolExecutor(4) as pool:
            won = list(pool.map(put, range(4)))

        setting = kit.run(admin.settings())["worker"]
        assert won.count(True) == 1
        assert (setting.value, setting.revision) == (str(won.index(True)), revision + 1)


def test_workers_learn_of_a_changed_setting(kit: Kit) -> None:
    kit.define()
    worker = kit.worker()
    before = kit.run(jobs.heartbeat(worker, LEASE)).controls

    kit.run(admin.put_setting("worker", "{}", by="eve"))

    assert kit.run(jobs.heartbeat(worker, LEASE)).controls > before
    assert kit.run(admin.settings()).keys() == {"worker"}


def test_the_audit_tells_who_changed_a_setting_but_no_value(kit: Kit) -> None:
    kit.run(admin.put_setting("secret", "hunter2", by="eve"))
    kit.run(admin.put_setting("secret", "hunter3", by="adam"))

    second, first = kit.run(admin.audit())

    assert (first.actor, first.action, first.target, first.before) == ("eve", "setting.put", "secret", None)
    assert json.loads(first.after or "") == {"revision": 1}
    assert (second.actor, json.loads(second.before or ""), json.loads(second.after or "")) == (
        "adam", {"revision": 1}, {"revision": 2},
    )  # fmt: skip


def test_a_refused_change_leaves_no_audit(kit: Kit) -> None:
    with pytest.raises(RevisionConflict):
        kit.run(admin.put_setting("worker", "1", by="eve", revision=3))

    assert kit.run(admin.audit()) == []


def test_the_audit_is_read_from_the_newest_back_in_pages(kit: Kit) -> None:
    kit.define()
    for enabled in (False, True, False, True, False):
        kit.run(control.enable("work", enabled, by="eve"))
        kit.advance(1)
    everything = kit.run(admin.audit())

    assert [entry.action for entry in everything] == [
        "definition.disable", "definition.enable", "definition.disable", "definition.enable", "definition.disable",
    ]  # fmt: skip
    assert [entry.at for entry in everything] == [to_datetime(START + n * 1_000_000) for n in (4, 3, 2, 1, 0)]
    assert kit.run(admin.audit(limit=2)) == everything[:2]
    assert kit.run(admin.audit(limit=2, before=everything[1].seq)) == everything[2:4]
    assert kit.run(admin.audit(before=everything[-1].seq)) == []
