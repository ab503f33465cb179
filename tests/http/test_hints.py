"""Hints are in the reader's medium: the command line never shows a call, HTTP never a command or a call."""

from __future__ import annotations

import ast
import copy
import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import Client, Conflict, Penstock
from penstock.domain.errors import Hint, hint_for
from tests.http.asgi_api import WebApi, refused
from tests.http.raw import RawServer
from tests.services import PostgresServer

SOURCE = Path(penstock.__file__).parent
CALL = re.compile(r"[A-Za-z_.]+\([^)]*\)|\w+=(?:True|False|…)|\b[a-z]+(?:_[a-z]+)+\b|\bapp\.\w+")
COMMAND = re.compile(r"`penstock [a-z]|\bpenstock (?:db|doctor|init|jobs|serve|tokens|worker) |(?<!\w)--[a-z]")
FIELD = re.compile(r"\b(?:GET|POST|PUT|PATCH|DELETE)\b|/v1/|\b[a-z]+[A-Z]\w*\b|\b[Hh]eader|\bETag\b|openapi")
CODE_ALONE = (
    "app.py", "definitions/decorator.py", "integrations/phase_runner.py", "job_files/discovery.py", "launch/",
    "operations/events.py", "operations/session.py", "storage/postgres/caller_transactions.py",
    "storage/sqlite/store.py", "testing/",
)  # fmt: skip
"""What only code meets: a call that code made, or code that cannot be loaded."""
COMMANDS_ALONE = ("cli/", "config/project_file.py", "demo/", "launch/", "http/server.py")
"""What is met before anything is served."""
REQUESTS_ALONE = ("http/routes/events.py", "http/headers.py", "http/routing.py", "integrations/")
"""What only a program that writes requests meets: the headers that the command line and the client send are right."""
NAMES = re.compile(r'web\.max_streams\w*|api_key|sort[= ]"?-?createdAt|"onEnd"|`nextCursor` of a list with --json')
"""Settings, examples of values, and what the command line shows of an answer: the same for all readers."""


def texts() -> Iterator[tuple[str, str, dict[str, str]]]:
    """Each hint of the library: its module, its place, and its words for each reader."""
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _name(node.func) == "Hint":
                words = {each.arg or "": _text(each.value) for each in node.keywords}
                yield name, f"{name}:{node.lineno}", {"python": _text(node.args[0]), **words}
            for each in node.keywords if isinstance(node, ast.Call) else ():
                inner = {_name(found.func) for found in ast.walk(each.value) if isinstance(found, ast.Call)}
                if each.arg == "hint" and "Hint" not in inner:
                    said = _text(each.value)
                    yield name, f"{name}:{each.value.lineno}", dict.fromkeys(("python", "http", "cli"), said)


def test_no_reader_is_given_the_words_of_another_medium() -> None:
    wrong = []
    for module, place, said in texts():
        words = {reader: NAMES.sub("", text) for reader, text in said.items()}
        if not module.startswith(CODE_ALONE):
            wrong += [f"{place}: {reader}: {words[reader]}" for reader in ("http", "cli") if CALL.search(words[reader])]
        if not module.startswith(REQUESTS_ALONE):
            wrong += [f"{place}: {each}: {words[each]}" for each in ("python", "cli") if FIELD.search(words[each])]
        if not module.startswith(COMMANDS_ALONE):
            wrong += [f"{place}: {each}: {words[each]}" for each in ("http", "python") if COMMAND.search(words[each])]

    assert not wrong


def test_there_are_hints_to_look_at() -> None:
    found = list(texts())

    assert len(found) > 200
    assert len([each for _, _, each in found if each["cli"] != each["python"]]) >= 24


def test_a_hint_survives_copies_with_all_its_words() -> None:
    hint = Hint("call()", cli="`penstock x`", http="POST /v1/x")

    for each in (hint, copy.deepcopy(hint), pickle.loads(pickle.dumps(hint))):  # noqa: S301
        assert [hint_for("python", each), hint_for("cli", each), hint_for("http", each)] == [
            "call()", "`penstock x`", "POST /v1/x",
        ]  # fmt: skip
    assert hint_for("cli", "plain") == "plain"


def test_http_words_a_hint_for_its_reader(site: WebApi) -> None:
    site.token("viewer")

    plain = refused(site.get("/v1/jobs"), 401, "unauthenticated")["hint"]
    typed = refused(site.get("/v1/jobs", headers={"Penstock-Reader": "cli"}), 401, "unauthenticated")["hint"]

    assert "Authorization" in plain
    assert "an operator creates tokens with POST /v1/tokens" in plain
    assert "penstock tokens" not in plain
    assert "`penstock tokens create" in typed


def test_http_says_of_a_wrong_cursor_what_to_send(site: WebApi) -> None:
    hint = refused(site.get("/v1/events?after=nonsense"), 400, "malformed")["hint"]

    assert "nextCursor" in hint


DUE = "2036-01-15T08:00:00Z"
NIGHTLY = {"key": "nightly", "definitionKey": "work", "kind": "cron", "expression": "0 3 * * *"}
MISTAKES: dict[str, tuple[str, str, Any, tuple[str, str, str]]] = {
    "a cursor of nothing": (
        "GET", "/v1/alerts/history?cursor=x", None, ("`nextCursor`", "--cursor", "the previous page"),
    ),
    "a limit of nothing": ("GET", "/v1/jobs?limit=0", None, ("/openapi.json", "`--help`", "reference")),
    "a cursor of no feed": ("GET", "/v1/events?after=x", None, ("`nextCursor`", "--json", "tip, origin or read")),
    "a search in another order": (
        "GET", "/v1/jobs?error=x&sort=priority", None, ("`sort=createdAt`", "`--sort createdAt`", 'sort="createdAt"'),
    ),
    "no change of a job": ("PATCH", "/v1/jobs/{job}", {}, ("`runAt`", "--run-at", "at or delay")),
    "no change of a schedule": (
        "PATCH", "/v1/schedules/nightly", {}, ("`priority`", "`penstock schedules edit --help`", "priority=3"),
    ),
    "no change of a webhook": (
        "PATCH", "/v1/webhooks/{hook}", {}, ("`definitionKeys`", "--definition-key", "definition_keys"),
    ),
    "no change of the configuration": ("PATCH", "/v1/worker/config", {}, ("`slots`", "slots=8", '{"slots": 8}')),
    "a schedule that is there": (
        "POST", "/v1/schedules", NIGHTLY, ("PATCH", "`penstock schedules edit", "change_schedule("),
    ),
    "a time zone within an expression": (
        "POST", "/v1/schedules", {**NIGHTLY, "key": "other", "expression": "TZ=UTC 0 3 * * *"},
        ("`timezone`", "--timezone", "timezone="),
    ),
    "an unknown definition": (
        "POST", "/v1/definitions/nope/enable", None,
        ("GET /v1/definitions", "`penstock definitions list`", "app.register()"),
    ),
    "a disabled definition": (
        "POST", "/v1/jobs", {"definitionKey": "off"},
        ("POST /v1/definitions/{key}/enable", "`penstock definitions enable KEY`", "app.enable(key)"),
    ),
}  # fmt: skip
"""What goes wrong, and a part of its hint for a program, for the command line and for the client in Python."""


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_reader_is_told_in_its_own_words_what_to_do(site: WebApi, app: Penstock, mistake: str) -> None:
    app.job("work")(_work)
    app.job("off")(_work)
    app.register()
    app.disable("off")
    app.save_schedule("nightly", "work", cron="0 3 * * *")
    method, path, body, parts = MISTAKES[mistake]
    job = app.enqueue("work", run_at=datetime.fromisoformat(DUE))
    hook = app.save_webhook("https://hooks.example.com/")
    path = path.format(job=job.id, hook=hook.endpoint.id)

    for reader, part in zip(("http", "cli", "python"), parts, strict=True):
        answer = site.request(method, path, json=body, headers={"Penstock-Reader": reader})

        assert answer.status_code >= 400
        assert part in answer.json()["error"]["hint"], reader


def test_the_client_is_told_by_which_call_a_definition_is_enabled(app: Penstock) -> None:
    server = RawServer(app)
    app.job("off")(_work)
    app.register()
    app.disable("off")

    with Client(f"http://127.0.0.1:{server.address[1]}") as client, pytest.raises(Conflict) as caught:
        client.enqueue("off")

    server.stop()
    assert caught.value.hint == "Enable it first: app.enable(key)."


def test_the_command_line_says_by_which_command_a_store_is_migrated(postgres_18: PostgresServer) -> None:
    store = str(postgres_18.create_database())
    command = [sys.executable, "-m", "penstock", "jobs", "list", "--store", store]

    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
    as_json = subprocess.run([*command, "--json"], capture_output=True, text=True, env=dict(os.environ))

    assert "hint: Migrate it: `penstock db migrate`." in done.stderr
    assert json.loads(as_json.stderr)["error"]["hint"] == "Migrate it: `penstock db migrate`."
    assert "Penstock(" not in done.stderr


def _work() -> None: ...


def _text(node: ast.expr) -> str:
    """The words of an expression, without what is put in."""
    return "".join(
        each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)
    )


def _name(called: ast.expr) -> str:
    """The last name of what is called."""
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
