"""The scenes of the demo, each with the end that it must have; and where the demo keeps its data."""

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
    """A folder below the user's own state, unless another one is named."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser().absolute() / "penstock" / "demo"


def url(data: Path | None = None) -> str:
    """The demo's store."""
    return f"sqlite:///{quote(str((data or folder()).absolute() / FILE))}"


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """One job and what there is to see in it."""

    definition: str
    shows: str
    params: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    ends: Status = Status.SUCCEEDED
    attempts: int | None = 1
    """How many attempts it takes; None: that depends on what an earlier run has left."""


GREETING = Scene("demo.greet", "the plainest job there is", {"name": "Ada"})
VIDEO = Scene("demo.video", "three phases with progress; one trips, and begins where it was", {"name": "holiday"},
              attempts=2)  # fmt: skip
FLAKY = Scene("demo.flaky_api", "fails twice, then works", {"url": "service://prices"}, attempts=3)
# A review and an endless job of an earlier run are still there: one of each is enough.
REVIEW = Scene("demo.payout", "waits for a person", {"month": "May", "amount": 4200}, {"unique": True},
               attempts=None)  # fmt: skip
CRASH = Scene("demo.crash", "its process is killed by SIGSEGV; the worker goes on", ends=Status.FAILED)
ENDLESS = Scene("demo.endless", "goes on until it is cancelled", options={"unique": True},
                ends=Status.CANCELLED, attempts=None)  # fmt: skip
REPORT = Scene("demo.report", "unique: asked for twice, made once", {"day": "today"}, {"unique": True})

SCENES = (GREETING, VIDEO, FLAKY, REVIEW, CRASH, ENDLESS, REPORT)

TICK = "demo.heartbeat"
"""The definition that a schedule of the same name runs every minute."""
MANY = "demo.thumbnail"
HOW_MANY = 80
"""Few enough that no alert speaks of a long queue."""
