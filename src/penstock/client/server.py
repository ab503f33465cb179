"""The server that requests go to: its URL, and the header that carries its token."""

from __future__ import annotations

import re
from contextlib import suppress
from urllib.parse import urlsplit

from penstock.domain.errors import InvalidInput


def server_name(url: object) -> str:
    """A server's URL as it may be shown: without the password that it may hold; what is no such URL is refused."""
    text = url if isinstance(url, str) else ""
    with suppress(ValueError):
        parts = urlsplit(text)
        host = (parts.hostname or "").encode("idna")
        if parts.scheme in ("http", "https") and host and parts.port != 0 and text.isprintable():
            return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    # The address of a store may have been given instead, with a password anywhere in it.
    shown = f"{text!r:.80}" if text and not re.search(r"[=@\s;]", text) else "This"
    raise InvalidInput(f"{shown} is no server's URL.", hint="Write it as in http://127.0.0.1:7367.")


def authorization(token: str | None) -> dict[str, str]:
    """The header that shows a token, which may come with the end of its line; what cannot be sent is not repeated."""
    if token is None:
        return {}
    text = token.strip()
    if not (text and text.isascii() and text.isprintable()):
        raise InvalidInput("The token is empty, or holds what no token does.", hint="Give it as it was printed: pst_….")
    return {"Authorization": f"Bearer {text}"}
