"""`penstock tokens`: the text of a token is shown once, on stdout and alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock import Penstock, Role, Unauthenticated


class Shell:
    """Calls `penstock tokens` in a folder, with the store named by the environment."""

    def __init__(self, app: Penstock, folder: Path, **environment: str) -> None:
        self.app = app
        self.folder = folder
        outside = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        self._environment = {**outside, **environment}

    def tokens(self, *arguments: str, code: int = 0) -> tuple[str, str]:
        """What it printed on stdout and on stderr."""
        line = [sys.executable, "-m", "penstock", "tokens", *arguments]
        done = subprocess.run(
            line, cwd=self.folder, env=self._environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == code, done.stderr
        return done.stdout, done.stderr


@pytest.fixture
def shell(file_app: Penstock, tmp_path: Path) -> Shell:
    return Shell(file_app, tmp_path, PENSTOCK_STORE=f"sqlite:///{tmp_path}/jobs.db")


def test_a_token_is_made_and_its_text_stands_alone_on_stdout(shell: Shell) -> None:
    out, err = shell.tokens("create", "deploy", "--role", "creator", "--expires-in", "30d")

    token = shell.app.tokens.authenticate(out.removesuffix("\n"))
    assert (token.name, token.role) == ("deploy", Role.CREATOR)
    assert token.expires_at is not None
    assert (token.expires_at - token.created_at).days == 30
    assert token.created_by.startswith("cli")
    assert token.id in err
    assert out.split("_")[2] not in err


def test_a_token_is_made_as_json(shell: Shell) -> None:
    out, err = shell.tokens("create", "deploy", "--role", "viewer", "--json")

    told = json.loads(out)
    token = shell.app.tokens.authenticate(told["token"])
    assert (told["tokenId"], told["name"], told["role"], told["expiresAt"]) == (token.id, "deploy", "viewer", None)
    assert err == ""


def test_tokens_are_listed_without_their_texts(shell: Shell) -> None:
    made = [shell.app.tokens.create(name, "admin") for name in ("first", "se\x1b[31mcond\n")]
    shell.app.tokens.revoke(made[0].token.id)

    out, err = shell.tokens("list")
    told, _ = shell.tokens("list", "--json")

    assert err == ""
    _, first, second = out.splitlines()
    assert first.split()[:4] == [made[0].token.id, "first", "admin", "revoked"]
    assert made[1].token.id in second
    assert "\x1b" not in out
    assert [each["tokenId"] for each in json.loads(told)["tokens"]] == [each.token.id for each in made]
    assert all(each.text.split("_")[2] not in out + told for each in made)


def test_a_revoked_token_opens_nothing(shell: Shell) -> None:
    made = shell.app.tokens.create("deploy", "admin")

    out, err = shell.tokens("revoke", made.token.id)

    assert out == ""
    assert "is revoked" in err
    with pytest.raises(Unauthenticated):
        shell.app.tokens.authenticate(made.text)
    assert shell.tokens("revoke", made.token.id, "--json")[0] == "{}\n"
    assert [entry.actor.partition(":")[0] for entry in shell.app.audit.list(action="token.revoke")] == ["cli"]


def test_a_store_whose_tokens_have_ended_is_opened_by_a_command_on_the_host_alone(shell: Shell) -> None:
    made = shell.app.tokens.create("deploy", "admin")
    assert "1 token(s) are valid" in shell.tokens("open", "--yes", code=4)[1]
    shell.app.tokens.revoke(made.token.id)

    asked = shell.tokens("open", code=2)[1]

    assert "--yes" in asked
    assert shell.app.tokens.needs_token()
    assert "No token is needed now" in shell.tokens("open", "--yes")[1]
    assert not shell.app.tokens.needs_token()
    assert json.loads(shell.tokens("open", "--yes", "--json")[0]) == {"opened": False}
    (entry,) = shell.app.audit.list(action="access.open")
    assert entry.actor.startswith("cli")


def test_a_server_is_never_asked_to_open_itself(shell: Shell, tmp_path: Path) -> None:
    shell.app.tokens.revoke(shell.app.tokens.create("deploy", "admin").token.id)

    assert "--server" in shell.tokens("open", "--yes", "--server", "http://127.0.0.1:1", code=2)[1]

    assert shell.app.tokens.needs_token()


def test_the_store_is_named_by_the_flag_the_environment_or_the_file(postgres_app: Penstock, tmp_path: Path) -> None:
    store = postgres_app.store
    url, schema = store.url, store.schema  # type: ignore[attr-defined]
    postgres_app.tokens.create("deploy", "admin")
    (tmp_path / "penstock.toml").write_text(f'store = "{url}"\nschema = "{schema}"\n')

    by_file = Shell(postgres_app, tmp_path).tokens("list", "--json")[0]
    by_flag = Shell(postgres_app, tmp_path / "..", PENSTOCK_SCHEMA=schema, PENSTOCK_STORE="sqlite:///no.db").tokens(
        "list", "--json", "--store", url
    )[0]

    assert json.loads(by_file) == json.loads(by_flag)
    assert [each["name"] for each in json.loads(by_file)["tokens"]] == ["deploy"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("create", "x", "--role", "king"), 2, "role"),
        (("create", "x", "--role", "admin", "--expires-in", "soon"), 2, "'soon' is not a duration"),
        (("create", "x", "--role", "admin", "--expires-in", "0d"), 2, "greater than 0"),
        (("create", "x", "--role", "admin", "--expires-in", "999999999d"), 2, "less than or equal to"),
        (("create", "", "--role", "admin"), 2, "at least 1 character"),
        (("revoke", "aaaaaaaaaaa"), 3, "There is no token 'aaaaaaaaaaa'"),
        (("revoke", "not an id"), 2, "no id of a token"),
    ],
)
def test_a_wrong_call_is_a_clear_line_with_a_hint(
    shell: Shell, arguments: tuple[str, ...], code: int, words: str
) -> None:
    out, err = shell.tokens(*arguments, code=code)

    assert out == ""
    assert err.startswith("error: ")
    assert words in err
    assert shell.app.tokens.list() == []


def test_without_a_store_nothing_is_made(memory_app: Penstock, tmp_path: Path) -> None:
    out, err = Shell(memory_app, tmp_path).tokens("create", "x", "--role", "admin", code=2)

    assert out == ""
    assert "no store was given" in err
    assert list(tmp_path.iterdir()) == []
