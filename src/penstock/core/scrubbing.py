"""Secret values taken out of whatever an attempt says: errors, log lines, output, events.

A value is looked for as it is and in the forms in which programs show it: as JSON or Python writes it, in an address,
in base64, and line by line. Of long values every part that could be of use is hidden too, for texts get cut.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import quote, quote_plus

MASK = "***"
SHORTEST = 4
"""Shorter values are not looked for: they stand in every other word."""

_SHORTEST_LINE = 8
_SHORTEST_IN_BASE64 = 6
_PART = 16
_HINT = 8
_LONGEST_IN_PARTS = 4_096
_MOST_IN_PARTS = 50_000
_LONGEST_IN_ALL_FORMS = 10_000
_MOST_IN_ALL_FORMS = 500
_LEFT_OVER = 2
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)
_CUT = re.compile(r"… \[cut, \d+ characters more\]")

Span = tuple[int, int]


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
        self._forms = _forms(self._values)
        self._longest = max(map(len, self._forms), default=0)
        self._parts, self._hints = _parts(self._forms, _PART), _parts(self._forms, _HINT)
        self._heads: dict[str, list[str]] = {}
        """Forms by their first characters, so that many cost no more than few."""
        for form in sorted(self._forms, key=len, reverse=True):
            self._heads.setdefault(form[:SHORTEST], []).append(form)
        self._starts = {form[:size] for form in self._forms for size in range(1, SHORTEST)}

    @staticmethod
    def of(params: str, fields: Sequence[str]) -> Scrubber:
        """For the values that these parameters have in secret fields."""
        return Scrubber(secret_values(params, fields)) if fields else _NOTHING

    def __bool__(self) -> bool:
        return bool(self._forms)

    def clean(self, text: str) -> str:
        """A free text without secret values, and without what a cut has left of one."""
        return _masked(text, self.spans(text)) if self._forms else text

    def clean_json(self, text: str) -> str:
        """A JSON text whose strings and numbers, keys included, show no secret value."""
        return self._rewritten(text, self.clean)

    def clean_result(self, text: str) -> str:
        """A JSON text without strings and numbers that are a secret value; one that only holds it is left alone."""
        return self._rewritten(text, lambda each: MASK if each in self._values else each)

    def stream(self) -> ScrubbedStream:
        """For a text that comes piece by piece."""
        return ScrubbedStream(self)

    def unfinished(self, text: str) -> int:
        """Where the end of a text may be the beginning of a secret value; its length when it is not."""
        size = len(text)
        for at in range(max(0, size - self._longest + 1), size):
            if size - at < SHORTEST:
                if text[at:] in self._starts:
                    return at
            else:
                rest = text[at:]
                for form in self._heads.get(rest[:SHORTEST], ()):
                    if len(form) > len(rest) and form.startswith(rest):
                        return at
        return size

    def _rewritten(self, text: str, clean: Callable[[str], str]) -> str:
        if not self._forms or ("\\" not in text and "[cut, " not in text and not self.spans(text)):
            return text
        parts: list[str] = []
        done = 0
        for token in _TOKEN.finditer(text):
            word = token.group()
            if word[0] == '"':
                shown = json.loads(word)
                cleaned = clean(shown)
            elif word[0] in "-0123456789":
                # Half a number would be none, so only a number that is the value itself is hidden.
                shown, cleaned = word, MASK if word in self._values else word
            else:
                continue
            if cleaned != shown:
                parts += text[done : token.start()], json.dumps(cleaned, ensure_ascii=False)
                done = token.end()
        return "".join([*parts, text[done:]]) if parts else text

    def spans(self, text: str) -> list[Span]:
        """What is to be hidden of a text, in order; where values overlap they are hidden as one."""
        spans = _united([*self._whole_spans(text), *self._part_spans(text)])
        return _united([*spans, *self._left_over(text)]) if "[cut, " in text else spans

    def _whole_spans(self, text: str) -> Iterator[Span]:
        if len(self._forms) <= 64 and not any(form in text for form in self._forms):
            return
        heads = self._heads
        for at in range(len(text) - SHORTEST + 1):
            for form in heads.get(text[at : at + SHORTEST], ()):
                if text.startswith(form, at):
                    yield at, at + len(form)
                    break

    def _part_spans(self, text: str) -> Iterator[Span]:
        # Every part that counts has one of these in it, and looking at every eighth place will do to find one.
        if any(text[at : at + _HINT] in self._hints for at in range(0, len(text), _HINT)):
            for at in range(len(text) - _PART + 1):
                if text[at : at + _PART] in self._parts:
                    yield at, at + _PART

    def _left_over(self, text: str) -> Iterator[Span]:
        """The parts of values beside the place where a text was cut."""
        for cut in _CUT.finditer(text):
            before = text[max(0, cut.start() - self._longest) : cut.start()]
            if len(before) - (at := self.unfinished(before)) >= _LEFT_OVER:
                yield cut.start() - len(before) + at, cut.start()
            after = text[cut.end() : cut.end() + self._longest]
            if (size := max((_common(form, after) for form in self._forms), default=0)) >= _LEFT_OVER:
                yield cut.end(), cut.end() + size


class ScrubbedStream:
    """Cleans a text that comes piece by piece: what may be the beginning of a secret value waits for the rest."""

    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber = scrubber
        self._held = ""

    def feed(self, text: str) -> str:
        """Take in a piece; what can be shown by now."""
        if not self._scrubber:
            return text
        text = self._held + text
        ready = self._scrubber.unfinished(text)
        for start, end in self._scrubber.spans(text):
            if start < ready < end:
                ready = start
        self._held = text[ready:]
        return self._scrubber.clean(text[:ready])

    def end(self, *, cut: bool = False) -> str:
        """What is left when nothing more comes; after a cut the beginning of a value is hidden like the whole."""
        text, self._held = self._held, ""
        ready = self._scrubber.unfinished(text) if cut else len(text)
        spans = [*self._scrubber.spans(text), *([(ready, len(text))] if len(text) - ready >= _LEFT_OVER else [])]
        return _masked(text, _united(spans))


def _masked(text: str, spans: Sequence[Span]) -> str:
    if not spans:
        return text
    parts: list[str] = []
    done = 0
    for start, end in spans:
        parts += text[done:start], MASK
        done = end
    return "".join([*parts, text[done:]])


def _united(spans: Iterable[Span]) -> list[Span]:
    """Spans in order, those that overlap as one."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start < found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def _common(form: str, text: str) -> int:
    """How many characters at the end of a form, but not all of them, a text begins with."""
    at = form.find(text[:SHORTEST], 1) if len(text) >= SHORTEST else -1
    while at > 0:
        if text.startswith(form[at:]):
            return len(form) - at
        at = form.find(text[:SHORTEST], at + 1)
    return next((size for size in (3, 2) if len(text) >= size < len(form) and form.endswith(text[:size])), 0)


def _forms(values: frozenset[str]) -> frozenset[str]:
    """The ways in which programs show these values."""
    found: set[str] = set()
    for number, value in enumerate(sorted(values, key=len)):
        found.add(value)
        if number < _MOST_IN_ALL_FORMS:
            found |= {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]}
            found |= {line for line in value.splitlines() if len(line) >= _SHORTEST_LINE}
            if len(value) <= _LONGEST_IN_ALL_FORMS:
                found |= {*_in_addresses(value), *_in_base64(data := value.encode(errors="replace")), repr(data)[2:-1]}
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
    """A value in base64: by itself, and inside of something longer, which it can begin in three ways."""
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


def _parts(forms: Iterable[str], size: int) -> frozenset[str]:
    """All parts of a certain length that long forms have; of very many only those of the shorter ones."""
    room = _MOST_IN_PARTS
    found: set[str] = set()
    for form in sorted(forms, key=len):
        if len(form) > _LONGEST_IN_PARTS or (room := room - len(form)) < 0:
            break
        found |= {form[at : at + size] for at in range(len(form) - size + 1) if len(form) >= _PART}
    return frozenset(found)


_NOTHING = Scrubber(())
