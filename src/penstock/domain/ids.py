"""Ids: UUIDs of version 7 in their canonical form, in the order in which a process made them."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from itertools import accumulate, count, islice, repeat
from operator import add, getitem, sub

from penstock.domain.errors import InvalidInput


class IdSource:
    """Makes ids that rise strictly within a process, whatever its clock does.

    The time in milliseconds and a 12-bit counter form one number, the tick. It never falls or stands still: a
    clock that does is outrun by the counter, which carries over into the time.
    """

    def __init__(self, clock_ms: Callable[[], int], random_bytes: Callable[[int], bytes]) -> None:
        self._clock_ms = clock_ms
        # Asked anew for every id, never kept: a forked copy that makes the same tick still differs in this.
        self._random_bytes = random_bytes
        self._now = [0]
        # tick(k) = max(tick(k-1) + 1, now(k)), written as k + max over j ≤ k of (now(j) - j): next() of a
        # chain of built-in iterators is one step under the GIL, so threads need no lock, and a fork cannot
        # copy a lock that is held.
        candidates = map(sub, map(getitem, repeat(self._now), repeat(0)), count(1))
        self._ticks = map(add, accumulate(candidates, max, initial=0), count())
        next(self._ticks)

    def new_id(self, now_ms: int | None = None) -> str:
        """One id; it tells the time given, or the clock's."""
        self._now[0] = (self._clock_ms() if now_ms is None else now_ms) << 12
        tick = next(self._ticks)
        noise = f"{int.from_bytes(self._random_bytes(8), 'big') & _NOISE | _VARIANT:016x}"
        return f"{_head(tick)}{0x7000 | tick & 0xFFF:04x}-{noise[:4]}-{noise[4:]}"

    def many(self, n: int, now_ms: int | None = None) -> list[str]:
        """As many ids at once, rising."""
        if n < 2:
            return [self.new_id(now_ms) for _ in range(n)]
        self._now[0] = (self._clock_ms() if now_ms is None else now_ms) << 12
        ticks = list(islice(self._ticks, n))
        noise = bytearray(self._random_bytes(8 * n))
        first, last = noise[: 2 * n], noise[2 * n :]
        first[::2] = first[::2].translate(_VARIANTS)
        # Each part of all of them at once. The least part of a tick stands behind the version.
        parts = (
            struct.pack(f">{n}H", *[0x7000 | tick & 0xFFF for tick in ticks]).hex("-", 2).split("-"),
            first.hex("-", 2).split("-"),
            last.hex("-", 6).split("-"),
        )
        if ticks[0] >> 12 == ticks[-1] >> 12:
            head = _head(ticks[0])
            return [f"{head}{low}-{two}-{six}" for low, two, six in zip(*parts, strict=True)]
        return [f"{_head(tick)}{low}-{two}-{six}" for tick, low, two, six in zip(ticks, *parts, strict=True)]


def _head(tick: int) -> str:
    """The time that an id tells."""
    told = tick >> 12
    return f"{told >> 16:08x}-{told & 0xFFFF:04x}-"


def is_id(text: str) -> bool:
    """Whether the text is an id exactly as we write them."""
    return _CANONICAL.fullmatch(text) is not None


def parse_id(text: str) -> str:
    """The id that somebody typed or sent, in canonical form; upper case is accepted and nothing else."""
    lower = text.lower() if text.isascii() else text
    if not is_id(lower):
        raise _not_an_id(text)
    return lower


def parse_uuid(text: str) -> str:
    """The id of something that is looked for, in canonical form: every way to write a UUID is read, of any version.

    A UUID of another version is no id of ours: every store says that it is unknown.
    """
    found = _UUID.fullmatch(text.lower()) if text.isascii() else None
    if found is None:
        raise _not_an_id(text)
    return "-".join(found.group(2, 4, 5, 6, 7))


def _not_an_id(text: str) -> InvalidInput:
    return InvalidInput(f"{text[:80]!r} is not an id.", hint="An id looks like 01890a5d-ac96-774b-bcce-b302099a8057.")


def id_time_ms(id: str) -> int:
    """The milliseconds since 1970 that a canonical id tells."""
    return int(id[:8] + id[9:13], 16)


_CANONICAL = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_UUID = re.compile(
    r"(?:urn:uuid:)?(\{)?([0-9a-f]{8})(-?)([0-9a-f]{4})\3([0-9a-f]{4})\3([0-9a-f]{4})\3([0-9a-f]{12})(?(1)\})"
)
_NOISE, _VARIANT = (1 << 62) - 1, 1 << 63
"""How many bits of an id are random, and the bit before them that marks it as one of a UUID."""
_VARIANTS = bytes(byte & 0x3F | 0x80 for byte in range(256))
"""The same for the first random byte of each id."""
