"""Paths of requests: the path that an application is mounted at, and keys that contain slashes.

A slash in a key may be sent as it is or quoted as `%2F`. A quoted slash never separates parts of a path: the schedule
`reports/preview` is read as `/v1/schedules/reports%2Fpreview`.
"""

from __future__ import annotations

import re
from typing import ClassVar
from urllib.parse import unquote

from starlette.convertors import PathConvertor
from starlette.types import Scope

_MARK = "\udc2f"
"""Replaces a quoted slash while routes are matched; no path that a client sends can contain it."""
_QUOTED = re.compile("%2f", re.IGNORECASE)


ACTIONS = ("pause", "resume", "enable", "disable", "retire", "overrides", "preview", "ticks", "trigger")
"""Last parts of paths that are not part of a key."""


class KeyConvertor(PathConvertor):
    """A key in a route: `{key:key}`."""

    def convert(self, value: str) -> str:
        return value.replace(_MARK, "/")


class WholeKeyConvertor(KeyConvertor):
    """A key at the end of a path: `{key:whole}`. A path that ends in an action belongs to the action's route."""

    regex: ClassVar[str] = f"(?!.+/(?:{'|'.join(ACTIONS)})$).*"


def mark_quoted_slashes(scope: Scope) -> None:
    """Distinguish quoted slashes from those that separate parts of the path; servers unquote both."""
    sent: bytes = scope.get("raw_path") or b""
    if b"%" not in sent:
        return
    raw = sent.partition(b"?")[0].decode("latin-1")
    if _QUOTED.search(raw) is None:
        return
    parts = [unquote(part) for part in _QUOTED.split(raw)]
    # A proxy may have rewritten the path; then the raw path does not describe it.
    if "/".join(parts) == scope["path"]:
        scope["path"] = _MARK.join(parts)


def route_path(scope: Scope) -> str:
    """Return the path without the path that the application is mounted at."""
    root: str = scope.get("root_path", "")
    path: str = scope["path"]
    return path[len(root) :] if root and path.startswith(root) else path


def put_below(scope: Scope, root: str) -> None:
    """Set the path that the application is mounted at; a proxy may have kept it or removed it."""
    scope["root_path"] = scope.get("root_path", "") + root
    if scope["path"] != root and not scope["path"].startswith(f"{root}/"):
        scope["path"] = root + scope["path"]
        if scope.get("raw_path"):
            scope["raw_path"] = root.encode() + scope["raw_path"]
