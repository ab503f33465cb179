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
        stage.app.retire_definition("gone")
    assert worker.stop() == 0
    (folder.path / "gone.py").unlink()
    waiting = stage.app.enqueue("gone")

    stage.app.retire_definition("gone", by="ann")
    (schedule,) = stage.app.schedules()
    assert not schedule.schedule.enabled
    again = folder.worker()
    assert [reason.code for reason in stage.app.why(waiting.id)] == ["retired", "no_worker"]
    assert stage.app.schedules() == []
    waiting.cancel()
    stage.app.remove_definition("gone", by="ann")
    assert [row.definition.key for row in stage.app.definitions_known()] == ["stays"]
    assert again.stop() == 0

    folder.save("gone.py", FILE)
    folder.worker()

    folder.comes_to_give("gone", "done")
    (schedule,) = stage.app.schedules()
    assert schedule.schedule.enabled
