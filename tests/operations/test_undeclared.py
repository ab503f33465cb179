"""Definitions whose job file is deleted, through real workers: retired, removed, and there again with the file."""

from __future__ import annotations

import pytest

from penstock import Conflict
from tests.worker.fleet import JobFolder, Stage

FILE = "schedule = '0 3 * * *'\ndef run(ctx):\n    return 'done'\n"


def test_a_definition_whose_file_is_deleted_is_retired_and_removed_and_comes_back_with_the_file(stage: Stage) -> None:
    folder = JobFolder(stage)
    folder.save("gone.py", FILE)
    folder.save("stays.py", "def run(ctx):\n    return 'stays'\n")
    worker = folder.worker()
    folder.comes_to_give("gone", "done")
    with pytest.raises(Conflict, match="has it loaded"):
        stage.app.definitions.retire("gone")
    assert worker.stop() == 0
    (folder.path / "gone.py").unlink()
    waiting = stage.app.enqueue("gone")

    stage.app.definitions.retire("gone", by="ann")
    (schedule,) = stage.app.schedules.list()
    assert not schedule.schedule.enabled
    again = folder.worker()
    assert [reason.code for reason in stage.app.jobs.why(waiting.id)] == ["retired", "no_worker"]
    assert stage.app.schedules.list() == []
    waiting.cancel()
    stage.app.definitions.remove("gone", by="ann")
    assert [row.definition.key for row in stage.app.definitions.list()] == ["stays"]
    assert again.stop() == 0

    folder.save("gone.py", FILE)
    folder.worker()

    folder.comes_to_give("gone", "done")
    (schedule,) = stage.app.schedules.list()
    assert schedule.schedule.enabled
