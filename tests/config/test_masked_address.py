"""The address of a store as it may be shown: whatever its form, no password is in it."""

from __future__ import annotations

import pytest

from penstock.config.store_address import masked
from tests.domain.addresses import ADDRESSES, PASSWORD


@pytest.mark.parametrize("form", ADDRESSES)
def test_no_form_shows_its_password(form: str) -> None:
    shown = masked(ADDRESSES[form])

    assert PASSWORD not in shown
    assert "***" in shown


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("sqlite:///jobs.db", "sqlite:///jobs.db"),
        ("sqlite:////a folder/jobs.db", "sqlite:////a folder/jobs.db"),
        ("sqlite://", "sqlite://"),
        ("sqlite://:memory:", "sqlite://:memory:"),
        ("postgresql://db/jobs", "postgresql://db/jobs"),
        ("postgresql://ada@db:5432/jobs", "postgresql://ada@db:5432/jobs"),
        ("postgresql://ada:x@db:5432/jobs", "postgresql://ada:***@db:5432/jobs"),
        ("postgresql://ada:x@[::1]:5432,b:1/jobs", "postgresql://ada:***@[::1]:5432,b:1/jobs"),
        ("postgresql:///jobs?host=/run/pg&schema=a", "postgresql:///jobs?host=/run/pg&schema=a"),
        ("postgresql://db/jobs?sslmode=require&sslpassword=x", "postgresql://db/jobs?sslmode=require&sslpassword=***"),
        ("mysql://db/jobs", "mysql://***"),
    ],
)  # fmt: skip
def test_what_is_no_secret_is_shown(address: str, shown: str) -> None:
    assert masked(address) == shown
