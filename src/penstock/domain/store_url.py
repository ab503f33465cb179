"""What may be shown of the address of a store: the parts that are known to be no password, and nothing else."""

from __future__ import annotations

import re
from urllib.parse import unquote

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
