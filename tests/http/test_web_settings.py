"""`[web]` in penstock.toml and the environment become the settings of a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config.project_file import load
from penstock.config.server_settings import ServerSettings, WebSettings, configured
from penstock.domain.errors import InvalidInput
from penstock.domain.secrets.policy import SecretPolicy

SECRETS = SecretPolicy(("pin",))


def test_what_is_not_said_keeps_its_default(tmp_path: Path) -> None:
    web, server = configured(load(tmp_path, {}).web, SECRETS)

    assert web == WebSettings(secrets=SECRETS)
    assert server == ServerSettings()


def test_each_setting_goes_where_it_belongs(tmp_path: Path) -> None:
    text = '[web]\nport = 8000\nproxies = ["10.0.0.0/24"]\nmax_body = 10\norigins = ["https://ops.example.org"]\n'
    (tmp_path / "penstock.toml").write_text(text)

    web, server = configured(load(tmp_path, {}).web, SECRETS)

    assert (web.max_body, web.origins) == (10, ("https://ops.example.org",))
    assert (server.port, server.proxies) == (8000, ("10.0.0.0/24",))


def test_the_environment_counts_more_than_the_file(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text('[web]\nhost = "127.0.0.2"\nport = 8000\n')

    _, server = configured(load(tmp_path, {"PENSTOCK_HOST": "127.0.0.3", "PENSTOCK_PORT": "9000"}).web, SECRETS)

    assert (server.host, server.port) == ("127.0.0.3", 9000)


def test_a_port_in_the_environment_must_be_a_number(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="PENSTOCK_PORT"):
        load(tmp_path, {"PENSTOCK_PORT": "many"})


@pytest.mark.parametrize(
    "table",
    [
        {"port": 70_000},
        {"port": True},
        {"max_connections": 0},
        {"header_timeout": 0},
        {"stop_timeout": -1},
        {"proxies": ("10.0.0.1/24",)},
        {"proxies": "10.0.0.1"},
        {"secrets": "no"},
        {"max_bodies": 1},
        {"anonymous_create": 1},
    ],
)
def test_what_cannot_be_is_refused(table: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        configured(table, SECRETS)
