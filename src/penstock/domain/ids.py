"""Ids of jobs: UUIDs of version 7 in canonical form, strictly rising within a process."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from itertools import accumulate, count, islice, repeat
from operator import add, getitem, sub

from penstock.domain.errors import InvalidInput


class IdSource:
    """Makes ids that rise strictly within a process, whatever its clock does.

    The time in milliseconds and a 12-bit counter form one number, the tick. It always rises: when the
    clock does not, the counter does, and it carries over into the time.
    """

    def __init__(self, clock_ms: Callable[[], int], random_bytes: Callable[[int], bytes]) -> None:
        self._clock_ms = clock_ms
        # Drawn for every id, never buffered: a forked copy that makes the same tick still differs in these bits.
        self._random_bytes = random_bytes
        self._now = [0]
        # tick(k) = max(tick(k-1) + 1, now(k)), written as k + max over j ≤ k of (now(j) - j): next() of a
        # chain of built-in iterators is one step under the GIL, so threads need no lock, and a fork cannot
        # copy a lock that is held.
        candidates = map(sub, map(getitem, repeat(self._now), repeat(0)), count(1))
        self._ticks = map(add, accumulate(candidates, max, initial=0), count())
        next(self._ticks)

    def new_id(self, now_ms: int | None = None) -> str:
        """Return one id with the given time, or the clock's."""
        self._now[0] = (self._clock_ms() if now_ms is None else now_ms) << 12
        tick = next(self._ticks)
        noise = f"{int.from_bytes(self._random_bytes(8), 'big') & _NOISE | _VARIANT:016x}"
        return f"{_head(tick)}{0x7000 | tick & 0xFFF:04x}-{noise[:4]}-{noise[4:]}"

    def many(self, n: int, now_ms: int | None = None) -> list[str]:
        """Return `n` rising ids."""
        if n < 2:
            return [self.new_id(now_ms) for _ in range(n)]
        self._now[0] = (self._clock_ms() if now_ms is None else now_ms) << 12
        ticks = list(islice(self._ticks, n))
        noise = bytearray(self._random_bytes(8 * n))
        first, last = noise[: 2 * n], noise[2 * n :]
        first[::2] = first[::2].translate(_VARIANTS)
        # Each part for all ids together. The low bits of a tick follow the version.
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
    """The time part of an id."""
    milliseconds = tick >> 12
    return f"{milliseconds >> 16:08x}-{milliseconds & 0xFFFF:04x}-"


def is_id(text: str) -> bool:
    """Return whether a text is an id in canonical form."""
    return _CANONICAL.fullmatch(text) is not None


def parse_id(text: str) -> str:
    """Return a given id in canonical form; upper case is accepted and nothing else."""
    lower = text.lower() if text.isascii() else text
    if not is_id(lower):
        raise _not_an_id(text)
    return lower


def parse_uuid(text: str) -> str:
    """Return the id of a lookup in canonical form: every notation of a UUID of any version is accepted.

    A UUID of another version is never one of our ids, so the lookup finds nothing.
    """
    found = _UUID.fullmatch(text.lower()) if text.isascii() else None
    if found is None:
        raise _not_an_id(text)
    return "-".join(found.group(2, 4, 5, 6, 7))


def _not_an_id(text: str) -> InvalidInput:
    return InvalidInput(f"{text[:80]!r} is not an id.", hint="An id looks like 01890a5d-ac96-774b-bcce-b302099a8057.")


def id_time_ms(id: str) -> int:
    """Return the milliseconds since 1970 in a canonical id."""
    return int(id[:8] + id[9:13], 16)


_CANONICAL = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_UUID = re.compile(
    r"(?:urn:uuid:)?(\{)?([0-9a-f]{8})(-?)([0-9a-f]{4})\3([0-9a-f]{4})\3([0-9a-f]{4})\3([0-9a-f]{12})(?(1)\})"
)
_NOISE, _VARIANT = (1 << 62) - 1, 1 << 63
"""How many bits of an id are random, and the bit before them that marks it as one of a UUID."""
_VARIANTS = bytes(byte & 0x3F | 0x80 for byte in range(256))
"""The same for the first random byte of each id."""
