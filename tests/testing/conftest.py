"""An application for a test, and its test kit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import Penstock
from penstock.testing import TestApp


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Penstock]:
    """An application on a file that no test kit may touch."""
    app = Penstock(f"sqlite:///{tmp_path}/own.db")
    yield app
    app.close()


@pytest.fixture
def kit(app: Penstock) -> Iterator[TestApp]:
    with TestApp(app) as kit:
        yield kit
