"""Definitions as text: every field comes back, and texts of older code can still be read."""

from __future__ import annotations

import json
from dataclasses import fields

from penstock.domain.definition import Definition, RateLimit
from penstock.domain.retry import Backoff, Fixed
from penstock.storage.commands.definition_text import from_text, to_text

FULL = Definition(
    "mail", 3, "Sends mail.", '{"type": "object"}', ("write", "send"), '{"a": 1}', ("password",), 5, 7, Fixed(3),
    60, 5, "process", 2, "user", 1, RateLimit(2, 3.5, per_key=True), 10, 20, "abc", ("on_fail", "on_end"),
    memory=2**30, cpu=60, files=100, file_size=10**6, processes=10, environment=("HOME",),
    secret_environment=("TOKEN",), reach="any", log_level="debug", handler="mail:send", source="mail.py",
)  # fmt: skip


def test_every_field_comes_back_as_it_was() -> None:
    plain = Definition("mail")

    assert [field.name for field in fields(Definition) if getattr(FULL, field.name) == getattr(plain, field.name)] == [
        "key", "isolation",
    ]  # fmt: skip
    assert from_text(to_text(FULL)) == FULL
    assert from_text(to_text(plain)) == plain


def test_fields_that_older_code_did_not_know_have_their_defaults() -> None:
    facts = json.loads(to_text(Definition("mail", hooks=("on_fail",), memory=2**30)))
    first = {"key", "version", "phases", "backoff", "rate_limit", "secret_fields", "timeout"}

    old = from_text(json.dumps({name: value for name, value in facts.items() if name in first}))

    assert old == Definition("mail")


def test_fields_that_only_newer_code_knows_are_passed_over() -> None:
    facts = json.loads(to_text(Definition("mail")))

    assert from_text(json.dumps({**facts, "colour": "red"})) == Definition("mail", backoff=Backoff())
