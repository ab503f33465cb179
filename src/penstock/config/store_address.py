"""The address of a store for other processes, and the parts of it that may be shown."""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import quote, unquote

from penstock.domain.ports.queue import Queue
from penstock.domain.ports.store import Store

HIDDEN = "***"
_SCHEME = re.compile(r"[a-z][a-z0-9]{0,15}(\+[a-z0-9]{1,15})?")
_FILE = re.compile(r"(/[^?#]*|:memory:)?")
_WORD = re.compile(r"[\w.~/-]{1,100}")
_HOSTS = re.compile(r"([\w.~%-]*|\[[\w.:%]*\])(:\d*)?(,([\w.~%-]*|\[[\w.:%]*\])(:\d*)?)*")
_DATABASE = re.compile(r"[^\s=;@:]*")
_SHOWN = frozenset({
    "host", "hostaddr", "port", "dbname", "user", "sslmode", "sslrootcert", "connect_timeout", "application_name",
    "target_session_attrs", "keepalives", "gssencmode", "channel_binding", "schema", "pooler", "migrate",
})  # fmt: skip
"""Parameters whose values are no secret."""


def masked(address: str) -> str:
    """The address of a store as it may be shown, whatever was given for one."""
    scheme, colon, rest = address.partition("://")
    if not colon or scheme_of(address) is None:
        return HIDDEN
    if scheme == "sqlite":
        path, question, _ = rest.partition("?")
        return f"sqlite://{path if _FILE.fullmatch(path) else HIDDEN}{f'?{HIDDEN}' if question else ''}"
    if scheme not in ("postgresql", "postgres"):
        return f"{scheme}://{HIDDEN}"
    # The last @: a password may hold others, or a ? that is not quoted.
    user, at, place = rest.rpartition("@")
    name, colon, _ = user.partition(":")
    place, question, query = place.partition("?")
    hosts, slash, database = place.partition("/")
    shown = f"{name if _WORD.fullmatch(name) else HIDDEN}{f':{HIDDEN}' if colon else ''}@" if at else ""
    shown += hosts if _HOSTS.fullmatch(hosts) else HIDDEN
    shown += slash + (database if _DATABASE.fullmatch(database) else HIDDEN)
    return f"{scheme}://{shown}{question}{'&'.join(map(_parameter, query.split('&')) if query else '')}"


def scheme_of(address: str) -> str | None:
    """The part before :// if that can be the name of a kind of store."""
    scheme, colon, _ = address.partition("://")
    return scheme if colon and _SCHEME.fullmatch(scheme) else None


def plain_word(text: str) -> str | None:
    """A text that is a name or a path and holds nothing like name=value or user:password."""
    return text if _WORD.fullmatch(text) else None


def quoted_word(text: str) -> str:
    """The same in quotes, for a message; "this" where it cannot be shown."""
    return repr(text) if not text or plain_word(text) else "this"


def _parameter(part: str) -> str:
    name, sign, value = part.partition("=")
    if name not in _SHOWN or not plain_word(unquote(value)):
        value = HIDDEN
    return f"{name if plain_word(name) else HIDDEN}{sign}{value if sign else ''}"


UNNAMED = ""
"""Marks a queue that was given as an object: another process cannot make it."""


class Address(dict[str, Any]):
    """A store's URL and how to open it; printed, it hides what may be a password."""

    def __repr__(self) -> str:
        return f"Address({ {**self, 'store': masked(self['store'])}!r})"


def address_of(
    store: str | Store, *, migrate: bool, schema: str, pooler: bool, queue: Queue | str | None = None
) -> Address | None:
    """Return what another process needs to open the same store; None for a store in memory or one given as an
    object."""
    if not isinstance(store, str):
        return None
    if store.startswith("sqlite://"):
        path = store.removeprefix("sqlite://").removeprefix("/")
        if path in ("", ":memory:"):
            return None
        # The other process may have another working directory.
        store = f"sqlite:///{quote(os.path.abspath(unquote(path)))}"
    address = Address(store=store, schema=schema, pooler=pooler, migrate=migrate)
    if queue is not None:
        address["queue"] = queue if isinstance(queue, str) else UNNAMED
    return address
