"""`penstock config`: what is set, where it comes from, and what holds for all workers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock import Penstock
from tests.cli.shell import Shell
from tests.domain.addresses import ADDRESSES, PASSWORD


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def shown(text: str) -> tuple[dict[str, tuple[Any, str]], Any]:
    told = json.loads(text)
    return {each["name"]: (each["value"], each["source"]) for each in told["settings"]}, told["worker"]


def test_the_value_and_the_source_of_every_setting_are_shown(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text('schema = "mine"\n[worker]\nslots = 3\npoll = 2\n')
    url = f"sqlite:///{tmp_path}/jobs.db"

    done = shell.run(
        "config", "show", "--json", "--store", url, PENSTOCK_WORKER_SLOTS="5", PENSTOCK_STORE="sqlite:///x"
    )

    settings, worker = shown(done.out)
    assert settings["worker.slots"] == (5, "PENSTOCK_WORKER_SLOTS")
    assert settings["worker.poll"] == (2, "penstock.toml")
    assert settings["worker.lease"] == (15.0, "default")
    assert settings["store"] == (url, "--store")
    assert (worker["enabled"], worker["revision"]) == (True, 0)
    table = shell.run("config", "show", "--store", url).out
    assert any(line.split() == ["worker.slots", "3", "penstock.toml"] for line in table.splitlines())


def test_secrets_are_masked_and_a_store_that_is_not_there_is_said_aside(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("whsec_" + "QUJD" * 10)

    done = shell.run(
        "config", "show", "--json", PENSTOCK_STORE="postgresql://ann:hunter2@127.0.0.1:1/x",
        PENSTOCK_WEBHOOK_SECRET_FILE=str(tmp_path / "secret"), PENSTOCK_TOKEN="penstock_abc",
    )  # fmt: skip

    settings, worker = shown(done.out)
    assert settings["store"] == ("postgresql://ann:***@127.0.0.1:1/x", "PENSTOCK_STORE")
    assert settings["webhooks.global_secret"] == ("***", "PENSTOCK_WEBHOOK_SECRET_FILE")
    assert (settings["token"], worker) == (("***", "PENSTOCK_TOKEN"), None)
    assert "is not shown" in done.err
    for each in ("hunter2", "QUJD", "penstock_abc"):
        assert each not in done.out + done.err


@pytest.mark.parametrize("words", [("config", "show"), ("doctor",), ("worker", ADDRESSES["keywords"]), ("db", "check")])
@pytest.mark.parametrize("form", ["keywords", "a URL"])
def test_no_command_shows_the_password_of_the_store(shell: Shell, words: tuple[str, ...], form: str) -> None:
    done = shell.run(*words, code=None, PENSTOCK_STORE=ADDRESSES[form])

    assert done.out + done.err
    assert PASSWORD not in done.out + done.err


def test_a_store_of_the_wrong_kind_is_not_repeated(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text(f'store = ["{ADDRESSES["a URL"]}"]\n')

    done = shell.run("config", "show", code=None)

    assert "store must be a text" in done.err
    assert PASSWORD not in done.out + done.err


def test_what_holds_for_all_workers_is_changed_field_by_field(shell: Shell, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    app = Penstock(url)
    app.workers.configure({"poll": 2, "custom": {"a": 1}})

    done = shell.run(
        "config", "set", "slots=8", "alerts.depth=500", "custom.b=9007199254740993", "--store", url, "--json"
    )

    config, revision = app.workers.configuration()
    assert (config.slots, config.alerts.depth, config.poll, revision) == (8, 500, 2, 2)
    assert json.loads(config.custom) == {"a": 1, "b": 9007199254740993}
    assert json.loads(done.out)["revision"] == 2
    assert "revision 3" in shell.run("config", "set", "slots=null", "ageing=0", "--store", url).err
    assert (app.workers.configuration()[0].slots, app.workers.configuration()[0].ageing) == (None, 0)
    (entry, *_) = app.audit.list(action="setting.put")
    assert entry.actor.startswith("cli")
    app.close()


@pytest.mark.parametrize("change", ["slots=0", "slots=1e999", "slot=3", "alerts.deep=3", "nothing.here=1", "slots", ""])
def test_a_change_that_cannot_be_is_refused_and_nothing_is_stored(shell: Shell, tmp_path: Path, change: str) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"

    done = shell.run("config", "set", *([change] if change else []), "--store", url, code=None)

    assert done.code != 0
    assert done.err.startswith("error: ")
    app = Penstock(url)
    assert app.workers.configuration()[1] == 0
    app.close()


def test_a_word_that_does_not_exist_is_an_error_that_names_what_was_meant(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text("[web]\nprot = 1\n")

    assert "port" in shell.run("config", "show", code=None).err
