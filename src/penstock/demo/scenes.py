"""The scenes of the demo, each with the end that it must have; and the folder of its data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from penstock.domain.states import Status

FILE = "penstock.db"


def folder() -> Path:
    """Return a folder below the user's state directory."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser().absolute() / "penstock" / "demo"


def url(data: Path | None = None) -> str:
    """Return the URL of the demo's store."""
    return f"sqlite:///{quote(str((data or folder()).absolute() / FILE))}"


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """One job and what it shows."""

    definition: str
    shows: str
    params: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    ends: Status = Status.SUCCEEDED
    attempts: int | None = 1
    """The number of attempts; None: it depends on earlier runs."""


GREETING = Scene("demo.greet", "the simplest job", {"name": "Ada"})
VIDEO = Scene("demo.video", "three phases with progress; one fails and is retried", {"name": "holiday"},
              attempts=2)  # fmt: skip
FLAKY = Scene("demo.flaky_api", "fails twice, then works", {"url": "service://prices"}, attempts=3)
# A review and an endless job may be left from an earlier run: one of each is enough.
REVIEW = Scene("demo.payout", "waits for a person", {"month": "May", "amount": 4200}, {"unique": True},
               attempts=None)  # fmt: skip
CRASH = Scene("demo.crash", "its process is killed by SIGSEGV; the worker continues", ends=Status.FAILED)
ENDLESS = Scene("demo.endless", "runs until it is cancelled", options={"unique": True},
                ends=Status.CANCELLED, attempts=None)  # fmt: skip
REPORT = Scene("demo.report", "unique: requested twice, created once", {"day": "today"}, {"unique": True})

SCENES = (GREETING, VIDEO, FLAKY, REVIEW, CRASH, ENDLESS, REPORT)

TICK = "demo.heartbeat"
"""The definition that a schedule with the same key runs every minute."""
MANY = "demo.thumbnail"
HOW_MANY = 80
"""Few enough not to raise an alert about the queue."""
