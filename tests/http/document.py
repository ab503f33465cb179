"""What a server says of itself: its operations, one after another, for tests that are made from them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from penstock import Penstock
from penstock.domain.access import Role
from penstock.http.application import create

NOWHERE = {
    "jobId": "00000000-0000-7000-8000-000000000000", "key": "nothing-of-this-name", "tokenId": "AAAAAAAAAAA",
    "webhookId": "00000000-0000-7000-8000-000000000000", "deliveryId": "00000000-0000-7000-8000-000000000000",
}  # fmt: skip
"""A name of each kind that nothing has."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path, as the document has it."""

    method: str
    path: str
    told: Mapping[str, Any]

    @property
    def role(self) -> Role | None:
        """The least role that may call it; None: everybody."""
        return None if "x-role" not in self.told else Role(self.told["x-role"])

    @property
    def changes(self) -> bool:
        return self.method not in ("GET", "HEAD")

    def at(self, **names: str) -> str:
        """Its path, with these names or else names that nothing has."""
        return re.sub(r"\{(\w+)\}", lambda found: {**NOWHERE, **names}[found[1]], self.path)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@lru_cache(1)
def document() -> dict[str, Any]:
    """The document, which is the same for every server."""
    return create(Penstock("sqlite://")).openapi()


def operations() -> list[Operation]:
    """All operations of the document."""
    return [
        Operation(method.upper(), path, told)
        for path, methods in document()["paths"].items()
        for method, told in methods.items()
    ]


def served(web: FastAPI) -> Iterator[tuple[str, str]]:
    """Method and path of every route that the server really has."""
    for included in web.router.routes:
        router = getattr(included, "original_router", None)
        for route in [included] if router is None else router.routes:
            path: str = route.path_format if isinstance(route, APIRoute) else getattr(route, "path", repr(route))
            for method in getattr(route, "methods", None) or {"any"}:
                yield method, path
