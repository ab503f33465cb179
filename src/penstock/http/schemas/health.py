"""Health on the wire."""

from __future__ import annotations

from typing import Literal

from penstock.http.schemas.base import Told


class Alive(Told):
    """The process answers."""

    status: Literal["ok"]


class Ready(Told):
    """The store takes what is written."""

    status: Literal["ready"]
