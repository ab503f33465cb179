"""penstock.toml: what it may say, and who is heard instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock import InvalidInput, config


def test_a_folder_without_a_file_says_nothing(tmp_path: Path) -> None:
    found = config.load(tmp_path, {})

    assert found == config.Config(folder=tmp_path)
    with pytest.raises(InvalidInput, match="No store was named"):
        _ = found.address


def test_a_file_says_where_things_are(tmp_path: Path) -> None:
    _write(
        tmp_path,
        'name = "shop"\nstore = "sqlite:///jobs.db"\njobs = "tasks"\nmigrate = true\n'
        '[resources]\ndb = "myapp.db:connect"\n[worker]\nslots = 3\nenvironment = ["A", "B"]\n',
    )

    found = config.load(tmp_path, {})

    assert found.address == {"store": "sqlite:///jobs.db", "schema": "penstock", "pooler": False, "migrate": True}
    assert (found.name, found.jobs) == ("shop", str(tmp_path / "tasks"))
    assert found.resources == {"db": "myapp.db:connect"}
    assert found.worker == {"slots": 3, "environment": ("A", "B")}


def test_the_environment_is_heard_before_the_file(tmp_path: Path) -> None:
    _write(tmp_path, 'store = "sqlite:///file.db"\nschema = "mine"\n')

    found = config.load(tmp_path, {"PENSTOCK_STORE": "sqlite:///other.db", "PENSTOCK_SCHEMA": ""})

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
        ("[resources]\ndb = 1", r"\[resources\] holds lines"),
        ('[resources]\ndb = "nowhere"', r"\[resources\] holds lines"),
    ],
)
def test_a_wrong_word_is_an_error_that_names_it(tmp_path: Path, text: str, error: str) -> None:
    _write(tmp_path, text)

    with pytest.raises(InvalidInput, match=error):
        config.load(tmp_path, {})


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").mkdir()

    with pytest.raises(InvalidInput, match=r"penstock\.toml cannot be read"):
        config.load(tmp_path, {})


def test_whole_seconds_and_users_are_taken(tmp_path: Path) -> None:
    _write(tmp_path, '[worker]\nlease = 30\nuser = "www"\n')

    assert config.load(tmp_path, {}).worker == {"lease": 30, "user": "www"}


def _write(folder: Path, text: str) -> None:
    (folder / "penstock.toml").write_text(text)
