"""What is printed where: pipes, terminals, colours, other encodings, texts that mean harm; help and completion."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock import Penstock
from penstock.cli.connection import Answer
from penstock.cli.output import Output
from tests.cli.shell import Shell

HEAVY = {"penstock.app", "penstock.config.project_file", "httpx2", "fastapi", "pydantic", "apsw", "psycopg", "asyncio"}


@pytest.fixture
def stored(tmp_path: Path) -> Shell:
    """A store without a server, with a job that has a strange tag."""
    app = Penstock(f"sqlite:///{tmp_path}/jobs.db")

    @app.job("work")
    def work(text: str) -> None: ...

    for _ in range(60):
        app.enqueue("work", {"text": "\x1b]0;owned\x07"}, delay=86_400, tags=["☃"])
    app.close()
    return Shell(tmp_path, PENSTOCK_STORE=f"sqlite:///{tmp_path}/jobs.db")


def test_a_pipe_gets_aligned_text_and_a_terminal_colours(stored: Shell) -> None:
    piped = stored.run("jobs", "list", "--limit", "1")
    terminal = stored.terminal("jobs", "list", "--limit", "1")
    code = terminal.end()

    assert "\x1b" not in piped.out
    assert piped.out.splitlines()[1].startswith("scheduled  work  ")
    assert code == 0
    assert "\x1b[" in terminal.shown
    assert "◷ scheduled" in terminal.plain


def test_colours_can_be_had_or_not(stored: Shell) -> None:
    terminal = stored.terminal("jobs", "list", "--limit", "1", NO_COLOR="1")
    terminal.end()

    assert "\x1b[3" not in terminal.shown
    assert "\x1b[" in stored.run("jobs", "list", "--limit", "1", FORCE_COLOR="1").out


def test_a_narrow_terminal_is_kept_to(stored: Shell) -> None:
    terminal = stored.terminal("jobs", "list", "--limit", "1", COLUMNS="60")
    terminal.end()

    assert [len(line.rstrip()) <= 60 for line in terminal.plain.splitlines()[:2]] == [True, True]


def test_a_text_from_outside_cannot_steer_the_terminal(stored: Shell) -> None:
    shown = stored.run("jobs", "show", "@last").out
    terminal = stored.terminal("jobs", "show", "@last")
    terminal.end()

    assert "\x1b" not in shown
    assert "\x1b]0;" not in terminal.shown
    assert "u001b]0;owned" in terminal.plain


def test_a_reader_that_has_seen_enough_ends_the_command_quietly(stored: Shell) -> None:
    read, write = os.pipe()
    os.close(read)
    process = subprocess.Popen(
        stored.line("jobs", "list"), cwd=stored.folder, env=stored.environment, stdout=write, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    os.close(write)

    _, err = process.communicate(timeout=60)

    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert "Broken" not in err


@pytest.mark.parametrize("locale", [{"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}])
def test_a_terminal_without_unicode_gets_something_to_read(stored: Shell, locale: dict[str, str]) -> None:
    shell = Shell(stored.folder, (), PENSTOCK_STORE=stored.environment["PENSTOCK_STORE"])
    shell.environment |= locale

    shown = shell.run("jobs", "show", "@last").out
    help_text = shell.run("jobs", "--help").out

    assert "Tags" in shown
    assert ("☃" in shown) or ("\\u2603" in shown)
    assert "watch" in help_text


def test_nothing_but_the_document_is_on_stdout(stored: Shell) -> None:
    done = stored.run("jobs", "list", "--json")

    assert len(json.loads(done.out)["jobs"]) == 50
    assert done.out.count("\n") == 1
    assert done.err == ""


def test_whoever_sees_a_page_is_told_beside_it_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    for cursor in ("abc", None):
        text = json.dumps({"tokens": [{"name": "one"}], "nextCursor": cursor})
        Output().page(Answer(200, text, {}), "tokens", ["NAME"], lambda each: [each["name"]], none="none")

    assert capsys.readouterr() == ("NAME\none\n" * 2, "There are more; continue with --cursor abc\n")


def test_a_page_as_json_is_what_came(capsys: pytest.CaptureFixture[str]) -> None:
    text = '{"tokens":[],"nextCursor":"abc"}'

    Output(as_json=True).page(Answer(200, text, {}), "tokens", ["NAME"], list, none="none")

    assert capsys.readouterr() == (f"{text}\n", "")


def test_help_and_version_load_nothing_that_is_slow() -> None:
    program = (
        "import sys, penstock.cli as cli\n"
        "sys.argv = ['penstock', *sys.argv[1:]]\n"
        "try:\n    cli.main()\n"
        "except SystemExit:\n    pass\n"
        f"print('LOADED', *sorted({HEAVY!r} & set(sys.modules)))"
    )
    for words in (["--help"], ["jobs", "--help"], ["--version"]):
        done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1].split() == ["LOADED"], words


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_a_shell_can_complete_commands_and_flags(shell: Shell, name: str) -> None:
    script = shell.run("completion", name).out

    for word in ("jobs", "enqueue", "watch", "schedules", "priority"):
        assert word in script


def test_the_bash_script_is_one_that_bash_takes(shell: Shell) -> None:
    script = shell.run("completion", "bash").out

    subprocess.run(["bash", "-n"], input=script, text=True, check=True, capture_output=True)


def test_the_version_is_told(shell: Shell) -> None:
    from importlib.metadata import version

    told = shell.json("version")

    assert told["version"] == version("penstock")
    assert set(told) == {"version", "python", "sqlite", "platform"}
    assert version("penstock") in shell.run("version").out
    assert shell.run("--version").out.strip() == version("penstock")


def test_every_public_name_is_found_where_it_is_said_to_be() -> None:
    import penstock

    assert set(penstock._MODULES) == set(penstock.__all__)
    for name in penstock.__all__:
        assert getattr(penstock, name).__name__
