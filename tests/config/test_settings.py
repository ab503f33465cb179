"""The table of settings: all of them stand in it, and whoever counts more is heard first."""

from __future__ import annotations

from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from penstock import InvalidInput
from penstock.config import project_file
from penstock.config.server_settings import ServerSettings, WebSettings
from penstock.config.settings import BY_NAME, SETTINGS, Known, from_environment, shown
from penstock.config.worker_settings import WorkerSettings
from penstock.domain.webhook.settings import WebhookSettings

SECRET = "whsec_" + "QUJD" * 10


def defaults(kind: type[Any], without: set[str] = frozenset()) -> dict[str, Any]:  # type: ignore[assignment]
    plain = kind()
    return {each.name: getattr(plain, each.name) for each in fields(kind) if each.name not in without}


def table(name: str) -> dict[str, Any]:
    return {each.name.partition(".")[2]: each.default for each in SETTINGS if each.name.startswith(f"{name}.")}


def test_every_setting_of_workers_servers_and_webhooks_stands_in_the_table_with_its_default() -> None:
    assert table("worker") == defaults(WorkerSettings, {"own_process", "secrets"})
    assert table("web") == defaults(WebSettings, {"secrets"}) | defaults(ServerSettings)
    assert table("webhooks") == defaults(WebhookSettings)


def test_every_setting_of_a_project_stands_in_the_table_with_its_default() -> None:
    tables = {"folder", "worker", "web", "webhooks", "secret_patterns", "archive", "given", "sources", "resources"}
    plain = {each.name: each.default for each in fields(project_file.Config) if each.name not in tables}
    assert MISSING not in plain.values()
    own = {each.name: each.default for each in SETTINGS if "." not in each.name and each.in_file}
    assert own == {**plain, "resources": {}}


def test_no_two_settings_share_a_name_or_a_variable_and_each_has_a_sentence() -> None:
    assert len(BY_NAME) == len(SETTINGS) == len({each.environment for each in SETTINGS})
    for each in SETTINGS:
        assert each.sentence.endswith("."), each.name
        assert each.environment.startswith("PENSTOCK_"), each.name


@pytest.mark.parametrize("known", [each for each in SETTINGS if each.in_file and each.name != "resources"], ids=str)
def test_every_setting_of_the_file_can_come_from_the_environment(known: Known, tmp_path: Path) -> None:
    text, value = _example(known)

    found = project_file.load(tmp_path, {known.environment: text})

    assert (found.given[known.name], found.sources[known.name]) == (value, known.environment)
    table, _, name = known.name.partition(".")
    if table in ("worker", "web"):
        assert getattr(found, table)[name] == value
    elif table == "webhooks":
        assert getattr(found.webhooks, name) == value
    elif not name and table != "jobs":
        assert getattr(found, table) == value


def test_the_environment_counts_more_than_the_file_and_the_file_more_than_the_default(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text("[worker]\nslots = 3\npoll = 2\n[web]\nport = 8000\n")

    found = project_file.load(tmp_path, {"PENSTOCK_WORKER_SLOTS": "5", "PENSTOCK_WORKER_LEASE": ""})

    assert found.worker == {"slots": 5, "poll": 2}
    told = {each.known.name: (each.value, each.source) for each in shown(found.given, found.sources)}
    assert told["worker.slots"] == (5, "PENSTOCK_WORKER_SLOTS")
    assert told["worker.poll"] == (2, "penstock.toml")
    assert told["web.port"] == (8000, "penstock.toml")
    assert told["worker.lease"] == (15.0, "default")


@pytest.mark.parametrize(
    ("variable", "text", "error"),
    [
        ("PENSTOCK_WORKER_SLOTS", "many", "PENSTOCK_WORKER_SLOTS must be a whole number, not 'many'"),
        ("PENSTOCK_WORKER_SLOTS", "²", "must be a whole number"),
        ("PENSTOCK_WORKER_LEASE", "nan", "PENSTOCK_WORKER_LEASE must be a number"),
        ("PENSTOCK_WORKER_LEASE", "15s", "must be a number"),
        ("PENSTOCK_MIGRATE", "perhaps", "PENSTOCK_MIGRATE must be true or false"),
        ("PENSTOCK_WEBHOOKS_PORTS", "443,https", "PENSTOCK_WEBHOOKS_PORTS must be a whole number, not 'https'"),
        ("PENSTOCK_WORKER_SLOTS", "0", "slots must be an integer of at least 1"),
        ("PENSTOCK_STORE_FILE", "/nowhere/at/all", "PENSTOCK_STORE_FILE names '/nowhere/at/all'"),
    ],
)
def test_a_variable_that_cannot_be_is_refused_by_name(tmp_path: Path, variable: str, text: str, error: str) -> None:
    with pytest.raises(InvalidInput, match=error):
        project_file.load(tmp_path, {variable: text})


def test_secrets_are_read_from_files_and_never_shown(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("postgresql://ann:hunter2@db/jobs\n")
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    (tmp_path / "empty").write_text("\n")
    variables = {"PENSTOCK_STORE_FILE": "store", "PENSTOCK_WEBHOOK_SECRET_FILE": "secret"}

    found = project_file.load(tmp_path, {name: str(tmp_path / file) for name, file in variables.items()})

    assert (found.store, found.webhooks.global_secret) == ("postgresql://ann:hunter2@db/jobs", SECRET)
    told = {each.known.name: (each.value, each.source) for each in shown(found.given, found.sources)}
    assert told["store"] == ("postgresql://ann:***@db/jobs", "PENSTOCK_STORE_FILE")
    assert told["webhooks.global_secret"] == ("***", "PENSTOCK_WEBHOOK_SECRET_FILE")
    with pytest.raises(InvalidInput, match="which is empty"):
        from_environment({"PENSTOCK_STORE_FILE": str(tmp_path / "empty")})


def _example(known: Known) -> tuple[str, Any]:
    """A text that the environment may have for a setting, and what it stands for."""
    special = {
        "webhooks.global_secret": (SECRET, SECRET),
        "webhooks.global_url": ("https://example.com/x", "https://example.com/x"),
        "webhooks.allowed_networks": ("10.0.0.0/8, 192.168.0.0/16", ("10.0.0.0/8", "192.168.0.0/16")),
        "webhooks.refused_networks": ("8.8.8.0/24, 9.9.9.9/32", ("8.8.8.0/24", "9.9.9.9/32")),
        "worker.heartbeat": ("2.5", 2.5),
        "worker.lease": ("40", 40.0),
    }
    if known.name in special:
        return special[known.name]
    match known.default:
        case bool():
            return ("false", False) if known.default else ("true", True)
        case int():
            return "11", 11
        case float():
            return "11.5", 11.5
        case tuple() if known.items is not str:
            return "11, 12", (known.items(11), known.items(12))
        case tuple():
            return "one,two", ("one", "two")
        case _:
            return "word", "word"
