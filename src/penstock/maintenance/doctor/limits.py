"""From when on something is worth a word of the doctor."""

from __future__ import annotations

from dataclasses import dataclass

_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes are bytes, times are seconds."""

    skew: float = 1.0
    """So far the host's clock may be from the store's."""
    transaction: float = 300.0
    """So long a transaction may be open before it is said to hold back vacuum."""
    dead_rows: int = 10_000
    """So many dead rows are worth a word where they are more than the live ones."""
    little_room: int = 1_000 * _MEGABYTE
    no_room: int = 100 * _MEGABYTE
    log_size: int = 256 * _MEGABYTE
    """The write-ahead log of a SQLite file is emptied long before it is this large."""
    duty: float = 600.0
    """So long ago a duty of a live worker may have succeeded last."""
    lost: float = 3600.0
    """Workers that were lost so recently are named."""
    undeclared: float = 30 * 86_400.0
    """A definition that no code has declared for so long is worth a word."""
