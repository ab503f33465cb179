"""Removes secret values from the output of attempts: errors, log lines, events.

A value is searched as it is and in the forms in which programs print it: as JSON or Python literal, in a URL, in
base64, and line by line. Parts of long values are hidden too, because texts get cut.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import quote, quote_plus

from penstock.domain.secrets.matching import PART, SHORTEST, Matcher, Span, united

MASK = "***"

_SHORTEST_LINE = 8
_SHORTEST_IN_BASE64 = 6
_LONGEST_IN_ALL_FORMS = 10_000
_MOST_IN_ALL_FORMS = 500
_MOST_IN_ADDRESSES = 100_000
"""The number of characters of values that are looked for in addresses and in base64 as well."""
_MOST_CHARACTERS = 4_000_000
"""Where all forms of the values have more characters together, whole texts are hidden."""
_LEFT_OVER = 2
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)
_CUT = re.compile(r"… \[cut, \d+ characters more\]")


def tokens(text: str) -> Iterator[re.Match[str]]:
    """The strings, scalars and marks of a JSON text."""
    return _TOKEN.finditer(text)


def secret_values(params: str, fields: Sequence[str]) -> set[str]:
    """The values of secret parameters, down to the last text and number; numbers as they are written."""
    if not fields:
        return set()
    given = _read(params)
    return _within([given.get(name) for name in fields] if isinstance(given, dict) else [])


def values_in(text: str) -> set[str]:
    """All texts and numbers in a JSON text; numbers as they are written."""
    return _within([_read(text)])


def _read(text: str) -> Any:
    # Numbers stay as they are written, so that none is rounded; Python may write them in another way.
    return json.loads(text, parse_int=str, parse_float=lambda number: [number, repr(float(number))])


def _within(waiting: list[Any]) -> set[str]:
    found: set[str] = set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            found.add(value)
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return found


class Scrubber:
    """Replaces secret values in texts; without any it gives every text back as it came."""

    def __init__(self, values: Iterable[str]) -> None:
        self._values = frozenset(value for value in values if len(value) >= SHORTEST)
        forms = _forms(self._values)
        self._blind = forms is None
        """There is too much to look for: every text is hidden."""
        self._matcher = Matcher(forms or ())

    @staticmethod
    def of(params: str, fields: Sequence[str]) -> Scrubber:
        """For the values that these parameters have in secret fields."""
        return Scrubber(secret_values(params, fields)) if fields else NOTHING

    def __bool__(self) -> bool:
        return bool(self._values)

    @property
    def values(self) -> frozenset[str]:
        """What it looks for."""
        return self._values

    def clean(self, text: str) -> str:
        """A free text without secret values, and without what a cut has left of one."""
        return _masked(text, self.spans(text)) if self._values else text

    def clean_json(self, text: str) -> str:
        """A JSON text whose strings and numbers, keys included, show no secret value."""
        if not self._values or ("\\" not in text and "[cut, " not in text and not self.spans(text)):
            return text
        return self._rewritten(text, self.clean, blind=self._blind)

    def clean_result(self, text: str) -> str:
        """A JSON text without strings and numbers that are a secret value; one that only holds it is left alone."""
        return self._rewritten(text, lambda each: MASK if each in self._values else each) if self._values else text

    def stream(self) -> ScrubbedStream:
        """For a text that comes piece by piece."""
        return ScrubbedStream(self)

    def unfinished(self, text: str) -> int:
        """Where the end of a text may be the beginning of a secret value; its length when it is not."""
        return self._matcher.unfinished(text)

    def spans(self, text: str) -> list[Span]:
        """What is to be hidden of a text, in order; where values overlap they are hidden as one."""
        if self._blind:
            return [(0, len(text))] if text else []
        spans = self._matcher.spans(text)
        return united([*spans, *self._left_over(text)]) if "[cut, " in text else spans

    def _rewritten(self, text: str, clean: Callable[[str], str], *, blind: bool = False) -> str:
        parts: list[str] = []
        done = 0
        for token in _TOKEN.finditer(text):
            word = token.group()
            if word[0] == '"':
                shown = json.loads(word)
                cleaned = clean(shown)
            elif word[0] in "-0123456789":
                # Half a number would be none, so only a number that is the value itself is hidden.
                shown, cleaned = word, MASK if blind or word in self._values else word
            else:
                continue
            if cleaned != shown:
                parts += text[done : token.start()], json.dumps(cleaned, ensure_ascii=False)
                done = token.end()
        return "".join([*parts, text[done:]]) if parts else text

    def _left_over(self, text: str) -> Iterator[Span]:
        """The parts of values next to the place where a text was cut."""
        for cut in _CUT.finditer(text):
            before = text[max(0, cut.start() - 2 * PART) : cut.start()]
            if (size := len(before) - self.unfinished(before)) >= _LEFT_OVER:
                yield cut.start() - size, cut.start()
            if (size := self._matcher.left_over(text[cut.end() : cut.end() + 2 * PART])) >= _LEFT_OVER:
                yield cut.end(), cut.end() + size


class ScrubbedStream:
    """Cleans a text that comes piece by piece: what may be the beginning of a secret value waits for the rest."""

    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber = scrubber
        self._text = ""
        """What waits, and before it as much of what was given out as a part of a secret can have."""
        self._done = 0
        """How much of that was given out."""
        self._hidden = False
        """Whether the last character of it was hidden."""

    def feed(self, text: str) -> str:
        """Take in a piece; what can be shown by now."""
        if not self._scrubber:
            return text
        self._text += text
        ready = max(self._done, self._scrubber.unfinished(self._text))
        return self._given(self._scrubber.spans(self._text), ready)

    def end(self, *, cut: bool = False) -> str:
        """What is left when nothing more comes; after a cut the beginning of a value is hidden like the whole."""
        text = self._text
        spans, start = self._scrubber.spans(text), self._scrubber.unfinished(text)
        if cut and len(text) - start >= _LEFT_OVER:
            spans = united([*spans, (start, len(text))])
        shown = self._given(spans, len(text))
        self._text, self._done, self._hidden = "", 0, False
        return shown

    def _given(self, spans: Iterable[Span], ready: int) -> str:
        """What comes out between what was given out and here; a secret that went on from there is shown as one."""
        parts: list[str] = []
        done, hidden = self._done, self._hidden and self._done == ready
        for start, end in spans:
            if end <= self._done or start >= ready:
                continue
            if start >= self._done or not self._hidden:
                parts += self._text[done : max(start, done)], MASK
            done, hidden = min(end, ready), end >= ready
        parts.append(self._text[done:ready])
        kept = max(0, ready - PART)
        self._text, self._done, self._hidden = self._text[kept:], ready - kept, hidden
        return "".join(parts)


def _masked(text: str, spans: Sequence[Span]) -> str:
    if not spans:
        return text
    parts: list[str] = []
    done = 0
    for start, end in spans:
        parts += text[done:start], MASK
        done = end
    return "".join([*parts, text[done:]])


def _forms(values: frozenset[str]) -> frozenset[str] | None:
    """The ways in which programs show these values; None when they are too long to be looked for."""
    found: set[str] = set()
    room = _MOST_IN_ADDRESSES
    total = 0
    for number, value in enumerate(sorted(values, key=len)):
        forms = {value}
        if number < _MOST_IN_ALL_FORMS:
            forms |= {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]}
            forms |= {line for line in value.splitlines() if len(line) >= _SHORTEST_LINE}
            if len(value) <= _LONGEST_IN_ALL_FORMS and (room := room - len(value)) >= 0:
                forms |= {*_in_addresses(value), *_in_base64(data := value.encode(errors="replace")), repr(data)[2:-1]}
        total += sum(map(len, forms))
        if total > _MOST_CHARACTERS:
            return None
        found |= forms
    return frozenset(form for form in found if len(form) >= SHORTEST)


def _in_addresses(value: str) -> Iterator[str]:
    for form in (
        quote(value, errors="replace"),
        quote(value, safe="", errors="replace"),
        quote_plus(value, errors="replace"),
    ):
        yield form
        yield re.sub("%[0-9A-F]{2}", lambda found: found.group().lower(), form)


def _in_base64(value: bytes) -> Iterator[str]:
    """Yield a value in base64: alone, and inside a longer text at each of the three alignments."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        whole = encode(value).decode()
        yield whole
        yield whole.rstrip("=")
        for before in range(3):
            first = (before * 8 + 5) // 6
            last = (before + len(value)) * 8 // 6
            inner = encode(bytes(before) + value).decode()[first:last]
            if len(inner) >= _SHORTEST_IN_BASE64:
                yield inner


NOTHING = Scrubber(())
"""Finds nothing in any text."""
