"""penstock.toml: what it may say, and who is heard instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock import InvalidInput
from penstock.config import project_file
from penstock.domain.secrets.policy import DEFAULT_PATTERNS


def test_a_folder_without_a_file_says_nothing(tmp_path: Path) -> None:
    found = project_file.load(tmp_path, {})

    assert found == project_file.Config(folder=tmp_path)
    with pytest.raises(InvalidInput, match="No store was named"):
        _ = found.address


def test_a_file_says_where_things_are(tmp_path: Path) -> None:
    _write(
        tmp_path,
        'name = "shop"\nstore = "sqlite:///jobs.db"\njobs = "tasks"\nmigrate = true\n'
        '[resources]\ndb = "myapp.db:connect"\n[worker]\nslots = 3\nenvironment = ["A", "B"]\n',
    )

    found = project_file.load(tmp_path, {})

    assert found.address == {"store": "sqlite:///jobs.db", "schema": "penstock", "pooler": False, "migrate": True}
    assert (found.name, found.jobs) == ("shop", str(tmp_path / "tasks"))
    assert found.resources == {"db": "myapp.db:connect"}
    assert found.worker == {"slots": 3, "environment": ("A", "B")}


def test_a_file_says_by_which_names_secrets_are_known(tmp_path: Path) -> None:
    _write(tmp_path, '[secrets]\npatterns = ["pin", "api_key"]\n')

    found = project_file.load(tmp_path, {})

    assert found.secret_patterns == ("pin", "api_key")
    assert project_file.Config(tmp_path).secret_patterns == DEFAULT_PATTERNS


def test_the_environment_is_heard_before_the_file(tmp_path: Path) -> None:
    _write(tmp_path, 'store = "sqlite:///file.db"\nschema = "mine"\n')

    found = project_file.load(tmp_path, {"PENSTOCK_STORE": "sqlite:///other.db", "PENSTOCK_SCHEMA": ""})

    assert (found.store, found.schema) == ("sqlite:///other.db", "mine")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("stroe = 1", "Did you mean 'store'"),
        ("store = 1", "store must be a text"),
        ("migrate = 1", "migrate must be true or false"),
        ("store = ", "cannot be read"),
        ("[worker]\nslot = 1", "Did you mean 'slots'"),
        ("[worker]\nslots = 0", "slots must be an integer"),
        ("[worker]\nslots = true", r"True cannot be slots of \[worker\]"),
        ('[worker]\nlease = "15"', r"'15' cannot be lease of \[worker\]"),
        ("[worker]\nenvironment = [1]", r"cannot be environment of \[worker\]"),
        ("[worker]\nuser = 5", r"5 cannot be user of \[worker\]"),
        ("worker = 1", r"\[worker\] is a table"),
        ("secrets = 1", r"\[secrets\] is a table"),
        ("[secrets]\npattern = []", "Did you mean 'patterns'"),
        ("[secrets]\npatterns = 1", r"patterns of \[secrets\] is a list"),
        ('[secrets]\npatterns = [""]', "'' cannot be a pattern of secret names"),
        ("[resources]\ndb = 1", r"\[resources\] holds lines"),
        ('[resources]\ndb = "nowhere"', r"\[resources\] holds lines"),
    ],
)
def test_a_wrong_word_is_an_error_that_names_it(tmp_path: Path, text: str, error: str) -> None:
    _write(tmp_path, text)

    with pytest.raises(InvalidInput, match=error):
        project_file.load(tmp_path, {})


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").mkdir()

    with pytest.raises(InvalidInput, match=r"penstock\.toml cannot be read"):
        project_file.load(tmp_path, {})


def test_whole_seconds_and_users_are_taken(tmp_path: Path) -> None:
    _write(tmp_path, '[worker]\nlease = 30\nuser = "www"\n')

    assert project_file.load(tmp_path, {}).worker == {"lease": 30, "user": "www"}


def _write(folder: Path, text: str) -> None:
    (folder / "penstock.toml").write_text(text)


WEBHOOK_SECRET = "whsec_" + "QUJD" * 10


def test_the_sending_of_webhooks_is_set_by_the_file_and_its_secret_by_the_environment(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text(
        '[webhooks]\nglobal_url = "http://hooks.internal:9000/x"\nallow_http = true\nports = [9000]\n'
        'allowed_networks = ["10.0.0.0/8"]\ntimeout = 5\n'
    )
    found = project_file.load(tmp_path, {"PENSTOCK_WEBHOOK_SECRET": WEBHOOK_SECRET}).webhooks

    assert (found.global_url, found.allow_http, found.ports) == ("http://hooks.internal:9000/x", True, (9000,))
    assert (found.allowed_networks, found.timeout, found.global_secret) == (("10.0.0.0/8",), 5, WEBHOOK_SECRET)
    assert WEBHOOK_SECRET not in repr(found)


def test_the_secret_of_webhooks_may_stand_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{WEBHOOK_SECRET}\n")

    found = project_file.load(tmp_path, {"PENSTOCK_WEBHOOK_SECRET_FILE": str(tmp_path / "secret")})

    assert found.webhooks.global_secret == WEBHOOK_SECRET
    with pytest.raises(InvalidInput, match="PENSTOCK_WEBHOOK_SECRET_FILE"):
        project_file.load(tmp_path, {"PENSTOCK_WEBHOOK_SECRET_FILE": str(tmp_path / "none")})


@pytest.mark.parametrize(
    "text",
    [
        "webhooks = 3", "[webhooks]\ntimout = 3", "[webhooks]\ntimeout = 0", '[webhooks]\nports = "443"',
        '[webhooks]\nports = ["https"]', '[webhooks]\nallowed_networks = ["10.0.0.1/8"]', "[webhooks]\nallow_http = 1",
        '[webhooks]\nglobal_url = "http://example.com/"', '[webhooks]\nglobal_secret = "short"',
        "[webhooks]\nretries = [-1]",
    ],
)  # fmt: skip
def test_settings_of_webhooks_that_cannot_be_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "penstock.toml").write_text(text)

    with pytest.raises(InvalidInput) as refused:
        project_file.load(tmp_path, {})
    assert "short" not in str(refused.value)
