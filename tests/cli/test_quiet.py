"""A command writes no more to stderr than its own notes, on either store: no traceback, no warning of a library."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.writers import cli_page
from tests.cli.shell import Shell
from tests.http.servers import opened
from tests.worker.fleet import ROOT, Stage

WITHOUT_A_STORE = {"init", "completion", "version"}
ENDS_WITH_1_WHILE_AN_ALERT_IS_RAISED = {"status"}
RUN_UNTIL_STOPPED = {"demo", "dev", "serve", "worker", "jobs watch", "events tail"}
NEED_A_WORKER_OR_RECEIVER = {"jobs approve", "jobs reject", "webhooks redeliver"}
_FAULT = re.compile(r"Traceback|Exception|Warning|Task was|never awaited|exit code 1$", re.M)
NOUNS = {"jobs", "definitions", "schedules", "events", "errors", "workers", "alerts", "webhooks", "tokens", "config"}

APPLICATION = """
from penstock import Penstock

app = Penstock("{url}", schema="{schema}")


@app.job("noop")
def noop() -> None: ...
"""


@pytest.fixture(params=["sqlite", "postgres"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    yield from opened(request, tmp_path, request.param)


def test_a_command_on_a_store_writes_nothing_but_its_own_notes_to_stderr(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APPLICATION.format(url=stage.url, schema=stage.schema))
    shell = Shell(tmp_path, PENSTOCK_STORE=stage.url, PENSTOCK_SCHEMA=stage.schema)
    allowed = ["--allow-root"] if os.getuid() == 0 else []
    shell.run("tick", "app:app", *allowed)
    job, ended, gone = (stage.app.enqueue("noop", delay=86_400).id for _ in range(3))
    stage.app.get(ended).cancel()
    stage.app.get(gone).cancel()
    endpoint = shell.json("webhooks", "add", "https://example.com/hook")["webhookId"]
    commands = [
        ["enqueue", "noop"],
        ["tick", "app:app", *allowed],
        ["jobs", "list"],
        ["jobs", "show", job],
        ["jobs", "attempts", job],
        ["jobs", "why", job],
        ["jobs", "logs", job],
        ["jobs", "reschedule", job, "--delay", "2h"],
        ["jobs", "wait", ended, "--timeout", "1"],
        ["jobs", "rerun", ended],
        ["jobs", "retry", ended],
        ["jobs", "cancel", job],
        ["jobs", "delete", gone, "--yes"],
        ["definitions", "list"],
        ["definitions", "show", "noop"],
        ["definitions", "pause", "noop", "--reason", "a test"],
        ["definitions", "resume", "noop"],
        ["definitions", "disable", "noop"],
        ["definitions", "enable", "noop"],
        ["definitions", "set", "noop", "--concurrency", "5"],
        ["schedules", "create", "nightly", "noop", "--cron", "0 3 * * *"],
        ["schedules", "list"],
        ["schedules", "show", "nightly"],
        ["schedules", "edit", "nightly", "--priority", "12"],
        ["schedules", "pause", "nightly", "--reason", "a test"],
        ["schedules", "resume", "nightly"],
        ["schedules", "trigger", "nightly"],
        ["schedules", "preview", "nightly"],
        ["schedules", "ticks", "nightly"],
        ["schedules", "delete", "nightly", "--yes"],
        ["definitions", "retire", "noop"],
        ["definitions", "remove", "noop"],
        ["errors", "list"],
        ["workers", "list"],
        ["alerts", "list"],
        ["alerts", "history"],
        ["webhooks", "list"],
        ["webhooks", "edit", endpoint, "--event", "job.failed"],
        ["webhooks", "deliveries", endpoint],
        ["webhooks", "test", endpoint],
        ["webhooks", "rotate", endpoint],
        ["webhooks", "secret", "https://example.com/hook"],
        ["webhooks", "delete", endpoint, "--yes"],
        ["tokens", "create", "ci", "--role", "viewer"],
        ["tokens", "list"],
        ["tokens", "revoke", "ci"],
        ["tokens", "open", "--yes"],
        ["config", "show"],
        ["config", "set", "slots=3"],
        ["db", "migrate"],
        ["db", "check"],
        ["db", "sql"],
        ["db", "set-back"],
        ["db", "backup", str(tmp_path / "backup")],
        ["db", "move", f"sqlite:///{tmp_path}/moved.db"],
        ["doctor"],
    ]
    names = {" ".join(words) for words in cli_page.commands()} - NOUNS
    run = {name for name in names for command in commands if command[: len(name.split())] == name.split()}

    done = subprocess.run(
        [sys.executable, "-m", "tests.cli.commands_in_process"], input=json.dumps(commands), cwd=tmp_path,
        env={**shell.environment, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip

    written = json.loads(done.stdout.splitlines()[-1])
    assert {line: err for line, err in written.items() if _FAULT.search(err)} == {}
    assert done.stderr == ""
    left_out = WITHOUT_A_STORE | ENDS_WITH_1_WHILE_AN_ALERT_IS_RAISED | RUN_UNTIL_STOPPED | NEED_A_WORKER_OR_RECEIVER
    assert names - run - {"webhooks add"} == left_out
