"""Finds secret values in texts, in time that depends on the text alone: each position is looked up in a few tables.

Callers choose both the secrets and the texts, so no position is compared with one secret after another.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

PART = 16
"""A secret of at least this length is found by its parts of this length, and each is hidden; a shorter one is found
whole."""
SHORTEST = 4
"""Shorter values are not searched: they occur in ordinary words."""

_HINT = 8
_MOST_IN_PARTS = 50_000
"""For this many characters of secrets every part is found; beyond that only the parts at every 16th position and the
last one: a whole secret is hidden, and of a fragment all but up to 15 characters at each end."""
_FEW = 64

Span = tuple[int, int]


class Matcher:
    """The tables of one set of secrets."""

    def __init__(self, secrets: Iterable[str]) -> None:
        ordered = sorted(secrets, key=len)
        self._short = frozenset(each for each in ordered if len(each) < PART)
        self._sizes = _sizes(self._short)
        """The lengths of the short secrets that begin with these characters, the longest first."""
        parts: set[str] = set()
        hints: set[str] = set()
        blocks: set[str] = set()
        room = _MOST_IN_PARTS
        for each in ordered[len(self._short) :]:
            room -= len(each)
            if room >= 0:
                parts.update(_slices(each, PART, 1))
                hints.update(_slices(each, _HINT, 1))
            else:
                blocks.update(_slices(each, PART, PART))
                blocks.add(each[-PART:])
        self._parts, self._hints, self._blocks = frozenset(parts), frozenset(hints), frozenset(blocks)
        self._beginnings = sorted({each[:PART] for each in ordered})
        self._endings = sorted({each[: -PART - 1 : -1] for each in ordered})

    def spans(self, text: str) -> list[Span]:
        """Where secrets and parts of long ones are, in order; those that overlap as one."""
        found = self._short_spans(text)
        if self._hints:
            found += self._part_spans(text)
        if self._blocks:
            found += self._block_spans(text)
        return united(found)

    def unfinished(self, text: str) -> int:
        """Where the end of a text may be the beginning of a secret, or of its next part; its length when it is not."""
        size = len(text)
        ready = size
        if self._blocks:
            ends = range(size, max(PART, size - PART + 1) - 1, -1)
            ready = next((end for end in ends if text[end - PART : end] in self._blocks), size)
        begins = range(max(0, size - PART + 1), ready)
        return next((at for at in begins if _continues(self._beginnings, text[at:])), ready)

    def left_over(self, text: str) -> int:
        """How many characters at the beginning of a text are the end of a secret, or of one of its parts."""
        ends = range(min(len(text), PART - 1), 0, -1)
        size = next((end for end in ends if _continues(self._endings, text[end - 1 :: -1])), 0)
        begins = range(size + 1, PART) if self._blocks else ()
        return next((at for at in begins if text[at : at + PART] in self._blocks), size)

    def _short_spans(self, text: str) -> list[Span]:
        found: list[Span] = []
        if len(self._short) <= _FEW and not any(each in text for each in self._short):
            return found
        for at in range(len(text) - SHORTEST + 1):
            for size in self._sizes.get(text[at : at + SHORTEST], ()):
                if text[at : at + size] in self._short:
                    _join(found, at, at + size)
                    break
        return found

    def _part_spans(self, text: str) -> list[Span]:
        # Every part has a hint in it at a place that can be divided by eight.
        found: list[Span] = []
        checked = 0
        for place in range(0, len(text), _HINT):
            if text[place : place + _HINT] in self._hints:
                for at in range(max(checked, place - _HINT), place + 1):
                    if text[at : at + PART] in self._parts:
                        _join(found, at, at + PART)
                checked = place + 1
        return found

    def _block_spans(self, text: str) -> list[Span]:
        found: list[Span] = []
        for at in range(len(text) - PART + 1):
            if text[at : at + PART] in self._blocks:
                # One block follows another without a gap.
                _join(found, at, at + PART, gap=1)
        return found


def united(spans: Iterable[Span]) -> list[Span]:
    """Spans in order, those that overlap as one."""
    found: list[Span] = []
    for start, end in sorted(spans):
        _join(found, start, end)
    return found


def _join(found: list[Span], start: int, end: int, *, gap: int = 0) -> None:
    """Add a span that begins no earlier than the last one."""
    if found and start < found[-1][1] + gap:
        found[-1] = found[-1][0], max(end, found[-1][1])
    else:
        found.append((start, end))


def _slices(text: str, size: int, step: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(0, len(text) - size + 1, step))


def _sizes(short: Iterable[str]) -> dict[str, tuple[int, ...]]:
    found: defaultdict[str, set[int]] = defaultdict(set)
    for each in short:
        found[each[:SHORTEST]].add(len(each))
    return {head: tuple(sorted(sizes, reverse=True)) for head, sizes in found.items()}


def _continues(ordered: Sequence[str], text: str) -> bool:
    """Whether one of these begins with a text and is longer."""
    place = bisect_right(ordered, text)
    return place < len(ordered) and ordered[place].startswith(text)
