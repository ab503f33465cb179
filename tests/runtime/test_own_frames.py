from __future__ import annotations

import inspect
import os

import penstock
from penstock.execution import handler_run
from penstock.isolation import preload, zygote
from penstock.runtime import tasks
from penstock.runtime.own_frames import is_own
from penstock.worker import attempt


def test_files_that_run_handlers_are_own_and_all_others_are_not() -> None:
    own = [inspect.getfile(module) for module in (handler_run, preload, zygote, tasks, attempt)]
    others = [inspect.getfile(penstock), inspect.getfile(os), __file__, "/srv/penstock/engine/jobs.py"]

    assert all(map(is_own, own))
    assert not any(map(is_own, others))
