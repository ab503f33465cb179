"""Profiles: servers and tokens by name, in a file of the user. Also the token in PENSTOCK_TOKEN."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.domain.errors import InvalidInput

_VARIABLE = "PENSTOCK_TOKEN"


@dataclass(frozen=True, slots=True)
class Profile:
    """A server's URL and its token."""

    server: str
    token: str | None = None

    def __repr__(self) -> str:
        return f"Profile({self.server!r})"


def file() -> Path:
    """Return the path of the file with profiles."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "penstock" / "profiles.toml"


def read(name: str) -> Profile:
    """Return a profile by name; errors do not contain its token."""
    source = file()
    try:
        data = tomllib.loads(source.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInput(
            f"There is no {source}.", hint=f'Create it with [{name[:40]}] and server = "https://…".'
        ) from None
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{source} cannot be read: {type(error).__name__}.") from None
    found = data.get(name)
    if not isinstance(found, dict):
        known = ", ".join(sorted(data)) or "none"
        raise InvalidInput(f"{source} has no profile {name[:80]!r}.", hint=f"There are: {known}.")
    return _checked(name, found)


def token() -> str | None:
    """Return the token in PENSTOCK_TOKEN, or in the file that PENSTOCK_TOKEN_FILE names."""
    if text := os.environ.get(_VARIABLE):
        return text
    named = os.environ.get(f"{_VARIABLE}_FILE")
    return None if not named else _read_token(Path(named), f"{_VARIABLE}_FILE")


def _checked(name: str, data: Mapping[str, Any]) -> Profile:
    unknown = set(data) - {"server", "token", "token_file"}
    server, text = data.get("server"), data.get("token")
    if unknown or not isinstance(server, str) or not isinstance(text, str | None):
        raise InvalidInput(
            f"The profile {name[:80]!r} must have server and token, or token_file, each a string.",
            hint=f"It has: {', '.join(sorted(data))}.",
        )
    if text is None and isinstance(data.get("token_file"), str):
        text = _read_token(Path(data["token_file"]).expanduser(), f"token_file of {name[:80]!r}")
    return Profile(server, text)


def _read_token(source: Path, what: str) -> str:
    try:
        return source.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{what} names {str(source)!r:.200}, which cannot be read: {type(error).__name__}."
        ) from None
