"""Where the demo keeps its data."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

FILE = "penstock.db"


def folder() -> Path:
    """A folder below the user's own state, unless another one is named."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser().absolute() / "penstock" / "demo"


def url(data: Path | None = None) -> str:
    """The demo's store."""
    return f"sqlite:///{quote(str((data or folder()).absolute() / FILE))}"
