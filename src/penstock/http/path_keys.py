"""Keys in a path: they may hold slashes, which stand there as they are or quoted as `%2F`.

A quoted one never parts a path. So a schedule `reports/preview` is read as `/v1/schedules/reports%2Fpreview`.
"""

from __future__ import annotations

import re
from typing import ClassVar
from urllib.parse import unquote

from starlette.convertors import PathConvertor
from starlette.types import Scope

_MARK = "\udc2f"
"""Stands for a quoted slash while routes are compared; no path that was sent can hold it."""
_QUOTED = re.compile("%2f", re.IGNORECASE)


ACTIONS = ("pause", "resume", "enable", "disable", "retire", "overrides", "preview", "ticks", "trigger")
"""Last parts of paths that are no part of a key."""


class KeyConvertor(PathConvertor):
    """The key of something, written `{key:key}` in a route."""

    def convert(self, value: str) -> str:
        return value.replace(_MARK, "/")


class WholeKeyConvertor(KeyConvertor):
    """The key at the end of a path, written `{key:whole}`: a path that ends in an action is that of the action."""

    regex: ClassVar[str] = f"(?!.+/(?:{'|'.join(ACTIONS)})$).*"


def mark_quoted_slashes(scope: Scope) -> None:
    """Tell slashes that were quoted from those that part the path; servers unquote both."""
    sent: bytes = scope.get("raw_path") or b""
    if b"%" not in sent:
        return
    raw = sent.partition(b"?")[0].decode("latin-1")
    if _QUOTED.search(raw) is None:
        return
    parts = [unquote(part) for part in _QUOTED.split(raw)]
    # Whoever handed the path on may have changed it: then what was sent says nothing about it.
    if "/".join(parts) == scope["path"]:
        scope["path"] = _MARK.join(parts)
