"""How commands find a server and show a token, and what they say when nobody answers or they are not let in."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.http.servers import ServerProcess, opened, serve
from tests.worker.fleet import Stage


@pytest.fixture(scope="module")
def closed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Stage, ServerProcess, str]]:
    """A server that asks for tokens, with the text of one that may only look."""
    for stage in opened(request, tmp_path_factory.mktemp("closed"), "sqlite"):
        text = stage.app.tokens.create("a viewer", "viewer").text
        yield stage, serve(stage, worker=False), text


def test_a_token_comes_from_the_environment_or_from_a_file(
    closed: tuple[Stage, ServerProcess, str], tmp_path: Path
) -> None:
    _, server, text = closed
    (tmp_path / "token").write_text(f"{text}\n")
    shell = Shell(tmp_path, ("--server", server.url))

    assert shell.json("workers", "list", PENSTOCK_TOKEN=text)["workers"] is not None
    assert shell.json("workers", "list", PENSTOCK_TOKEN_FILE=str(tmp_path / "token"))["workers"] is not None
    assert shell.json("workers", "list", PENSTOCK_SERVER="http://127.0.0.1:1", PENSTOCK_TOKEN=text)


def test_a_profile_names_a_server_and_its_token(closed: tuple[Stage, ServerProcess, str], tmp_path: Path) -> None:
    _, server, text = closed
    profiles = tmp_path / "config" / "penstock" / "profiles.toml"
    profiles.parent.mkdir(parents=True)
    profiles.write_text(f'[prod]\nserver = "{server.url}"\ntoken = "{text}"\n\n[broken]\nservr = "x"\n')
    shell = Shell(tmp_path)

    assert shell.json("workers", "list", "--profile", "prod")["workers"] is not None
    assert shell.json("workers", "list", PENSTOCK_PROFILE="prod")["workers"] is not None
    assert "broken, prod" in shell.refused("workers", "list", "--profile", "staging", code=2)["hint"]
    refused = shell.refused("workers", "list", "--profile", "broken", code=2)
    assert "server and token" in refused["message"]
    assert text not in str(refused)


def test_whoever_is_not_let_in_is_told_so_without_the_token(
    closed: tuple[Stage, ServerProcess, str], tmp_path: Path
) -> None:
    _, server, text = closed
    shell = Shell(tmp_path, ("--server", server.url))

    nobody = shell.refused("jobs", "list", code=5)
    wrong = shell.run("jobs", "list", code=5, PENSTOCK_TOKEN="pst_wrong_token")
    viewer = shell.refused("definitions", "disable", "script", code=5, PENSTOCK_TOKEN=text)

    assert (nobody["code"], viewer["code"]) == ("unauthenticated", "forbidden")
    assert "pst_wrong_token" not in wrong.err


def test_a_token_may_come_with_the_end_of_its_line_and_one_that_cannot_be_sent_is_not_repeated(
    closed: tuple[Stage, ServerProcess, str], tmp_path: Path
) -> None:
    _, server, text = closed
    shell = Shell(tmp_path, ("--server", server.url))

    assert shell.json("workers", "list", PENSTOCK_TOKEN=f"{text}\n")["workers"] is not None
    for wrong in ("pst_sesame\nopen", "pst_sesameü"):
        refused = shell.refused("workers", "list", code=2, PENSTOCK_TOKEN=wrong)
        assert "sesame" not in str(refused)


def test_a_server_that_does_not_answer_has_an_exit_code_of_its_own(shell: Shell) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"

        problem = shell.refused("jobs", "list", "--server", url, code=6)

    assert problem["code"] == "unavailable"
    assert url in problem["message"]


def test_a_store_that_cannot_be_opened_has_it_too(shell: Shell) -> None:
    assert (
        shell.refused("jobs", "list", "--store", "sqlite:////no/such/folder/jobs.db", code=6)["code"] == "unavailable"
    )


def test_without_a_server_and_a_store_it_says_what_to_do(shell: Shell) -> None:
    problem = shell.refused("jobs", "list", code=2)

    assert problem["message"] == "No server and no store was given."
    assert "--store" in problem["hint"]
    assert list(shell.folder.iterdir()) == []


@pytest.mark.parametrize(
    "flags",
    [("--server", "jobs.example.org"), ("--server", "http://[::1"), ("--server", "http://127.0.0.1:x"),
     ("--store", "sqlite:///a.db", "--server", "http://127.0.0.1:1"),
     ("--profile", "a", "--store", "sqlite:///a.db")],
)  # fmt: skip
def test_a_place_that_cannot_be_meant_is_refused(shell: Shell, flags: tuple[str, ...]) -> None:
    assert shell.refused("jobs", "list", *flags, code=2)["code"] == "invalid_request"


def test_the_store_in_the_environment_stands_in_front_of_the_server_in_the_file(shell: Shell) -> None:
    (shell.folder / "penstock.toml").write_text('server = "http://127.0.0.1:1"\n')

    told = shell.json("jobs", "list", PENSTOCK_STORE=f"sqlite:///{shell.folder}/jobs.db", shape="GET /v1/jobs 200")

    assert told["jobs"] == []
