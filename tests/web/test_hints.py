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
from pathlib import Path

import penstock
from penstock.core.hints import Hint, hint_for
from tests.services import PostgresServer
from tests.web.kit import WebKit, refused

SOURCE = Path(penstock.__file__).parent
CALL = re.compile(r"[A-Za-z_.]+\([^)]*\)|\w+=(?:True|False)")
COMMAND = re.compile(r"`penstock [a-z]|\bpenstock (?:db|doctor|init|jobs|serve|tokens|worker) |(?<!\w)--[a-z]")
CODE_ALONE = (
    "app.py", "consuming.py", "declare.py", "embedded.py", "files.py", "following.py", "node.py", "serve.py",
    "stores/callers.py", "stores/sqlite.py", "testing/",
)  # fmt: skip
"""What only code meets: a call that code made, or code that cannot be loaded."""
COMMANDS_ALONE = ("cli/", "config.py", "demo/", "engine/surroundings.py", "node.py", "serve.py", "web/server.py")
"""What is met before anything is served."""


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
    for module, place, words in texts():
        if not module.startswith(CODE_ALONE):
            wrong += [f"{place}: {reader}: {words[reader]}" for reader in ("http", "cli") if CALL.search(words[reader])]
        if not module.startswith(COMMANDS_ALONE):
            wrong += [f"{place}: {each}: {words[each]}" for each in ("http", "python") if COMMAND.search(words[each])]

    assert not wrong


def test_there_are_hints_to_look_at() -> None:
    found = list(texts())

    assert len(found) > 200
    assert len([each for _, _, each in found if each["cli"] != each["python"]]) >= 8


def test_a_hint_survives_copies_with_all_its_words() -> None:
    hint = Hint("call()", cli="`penstock x`", http="POST /v1/x")

    for each in (hint, copy.deepcopy(hint), pickle.loads(pickle.dumps(hint))):  # noqa: S301
        assert [hint_for("python", each), hint_for("cli", each), hint_for("http", each)] == [
            "call()", "`penstock x`", "POST /v1/x",
        ]  # fmt: skip
    assert hint_for("cli", "plain") == "plain"


def test_http_words_a_hint_for_its_reader(site: WebKit) -> None:
    site.token("viewer")

    plain = refused(site.get("/v1/jobs"), 401, "unauthenticated")["hint"]
    typed = refused(site.get("/v1/jobs", headers={"Penstock-Reader": "cli"}), 401, "unauthenticated")["hint"]

    assert "Authorization" in plain
    assert "penstock tokens" not in plain
    assert "`penstock tokens create" in typed


def test_http_says_of_a_wrong_cursor_what_to_send(site: WebKit) -> None:
    hint = refused(site.get("/v1/events?after=nonsense"), 400, "malformed")["hint"]

    assert "nextCursor" in hint


def test_the_command_line_says_by_which_command_a_store_is_migrated(postgres_18: PostgresServer) -> None:
    store = str(postgres_18.create_database())
    command = [sys.executable, "-m", "penstock", "jobs", "list", "--store", store]

    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
    as_json = subprocess.run([*command, "--json"], capture_output=True, text=True, env=dict(os.environ))

    assert "hint: Migrate it: `penstock db migrate`." in done.stderr
    assert json.loads(as_json.stderr)["error"]["hint"] == "Migrate it: `penstock db migrate`."
    assert "Penstock(" not in done.stderr


def _text(node: ast.expr) -> str:
    """The words of an expression, without what is put in."""
    return "".join(
        each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)
    )


def _name(called: ast.expr) -> str:
    """The last name of what is called."""
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
