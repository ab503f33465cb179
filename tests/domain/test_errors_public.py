"""Errors show the name under which users import them."""

from __future__ import annotations

import traceback

import pytest

import penstock

ERRORS = [name for name in penstock.__all__ if isinstance(getattr(penstock, name), type)
          and issubclass(getattr(penstock, name), BaseException)]  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_a_public_error_says_its_public_name(name: str) -> None:
    kind = getattr(penstock, name)

    error = kind.__new__(kind)

    assert repr(kind) == f"<class 'penstock.{name}'>"
    assert traceback.format_exception_only(error)[-1].startswith(f"penstock.{name}")


def test_the_last_line_of_a_traceback_shows_the_public_name() -> None:
    with pytest.raises(penstock.Fail) as caught:
        raise penstock.Fail("no such customer")

    assert traceback.format_exception(caught.value)[-1] == "penstock.Fail: no such customer\n"
