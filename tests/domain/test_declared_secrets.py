"""Which defaults and variables of a definition are secret."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from penstock import Penstock
from penstock.domain.definition import Definition
from penstock.domain.secrets.policy import SecretPolicy

POLICY = SecretPolicy()


class Inner(BaseModel):
    host: str = "inner-host"
    port: int = 54321


class Login(BaseModel):
    user: str = "login-user"
    inner: Inner = Inner()
    more: list[Inner] | None = None
    again: Login | None = None


class Account(BaseModel):
    name: str = "account-name"
    password: str = "account-password"


LOGIN, ACCOUNT = Login(), Account()
KEYS = {"api_key": "nested-key", "c": "nested-plain"}


def plain(
    a: str = "plain-text",
    password: str = "a-password",
    login: Login = LOGIN,
    account: Account = ACCOUNT,
    b: dict[str, str] = KEYS,
) -> None: ...


def definition(**options: Any) -> Definition:
    app = Penstock("sqlite://")
    app.job("work", **options)(plain)
    (handle,) = app.definitions.declared
    return Definition(
        **{**{name: getattr(handle.definition, name) for name in ("key", "secret_fields")}, "schema": handle.schema}
    )


def test_defaults_of_secret_parameters_are_known() -> None:
    found = POLICY.declared(definition(secret=["login"]), {}).values

    assert {"a-password", "account-password", "nested-key", "login-user", "inner-host", "54321"} <= found
    assert not {"plain-text", "account-name", "nested-plain"} & found


def test_without_a_declaration_only_names_of_secrets_count() -> None:
    found = POLICY.declared(definition(), {}).values

    assert found == {"a-password", "account-password", "nested-key"}


def test_the_schema_is_shown_without_them() -> None:
    shown = POLICY.schema(["login"], definition(secret=["login"]).schema)

    for secret in ("a-password", "account-password", "nested-key", "login-user", "inner-host", "54321"):
        assert secret not in shown
    for other in ("plain-text", "account-name", "nested-plain"):
        assert other in shown
    assert json.loads(shown)["properties"].keys() == {"a", "password", "login", "account", "b"}


@pytest.mark.parametrize(
    ("name", "value", "secrets"),
    [
        ("DB_PASSWORD", "hunter22", {"hunter22"}),
        ("apiToken", "hunter22", {"hunter22"}),
        ("LANG", "hunter22", set()),
        ("NAMED", "hunter22", {"hunter22"}),
        ("URL", "redis://:hunter22@cache:6379/0", {"hunter22"}),
        ("URL", "postgres://ada:p%40ssword@db/x?a=b", {"p%40ssword", "p@ssword"}),
        ("URL", "https://example.com/a:b@c", set()),
    ],
)
def test_variables_are_secret_by_name_by_declaration_or_as_passwords_of_urls(
    name: str, value: str, secrets: set[str]
) -> None:
    declared = Definition(key="work", secret_environment=("NAMED",))

    assert POLICY.declared(declared, {name: value}).values == secrets


def test_what_is_known_is_looked_for_with_the_parameters() -> None:
    known = POLICY.declared(Definition(key="work", secret_environment=("NAMED",)), {"NAMED": "environment"})

    both = POLICY.scrubber(["pin"], '{"pin":"from-params"}', known)

    assert both.clean("environment and from-params") == "*** and ***"
    assert POLICY.scrubber(["pin"], "{}", known) is known
