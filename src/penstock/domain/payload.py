"""Payloads: validation and writing of the JSON that both stores keep alike.

`encode` and `decode` are strict, for what users and HTTP clients give. `sanitise` repairs, for what a handler
gave after its work was done. Values go through a quick check first; only the others are
walked part by part, which also finds the JSON pointer to the invalid part.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from itertools import accumulate
from math import isfinite
from typing import TYPE_CHECKING, Any

from penstock.domain.errors import InvalidPayload, MalformedPayload

if TYPE_CHECKING:
    from penstock.domain.json_value import JsonObject, JsonValue

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 64
MIN_INTEGER = -(2**63)
MAX_INTEGER = 2**63 - 1


def from_json(text: str | bytes) -> Any:
    """Parse JSON; the parser is loaded by the first call, which a process that only passes text on never makes."""
    prepare()
    return from_json(text)


def to_json(value: object) -> bytes:
    """Write JSON; loaded by the first call, too."""
    prepare()
    return to_json(value)


def _from_strict_json(data: bytes) -> Any:
    """Parse standard JSON, without NaN and infinity; loaded by the first call, too."""
    import orjson

    globals().update(_from_strict_json=orjson.loads)
    return orjson.loads(data)


def prepare() -> None:
    """Load the parser now: for a process whose copies will need it, each for itself if it is not there."""
    import pydantic_core

    globals().update(from_json=pydantic_core.from_json, to_json=pydantic_core.to_json)


def encode(value: object, what: str = "params") -> str:
    """The value as compact JSON text, keys in the order given; an error names the part that is wrong."""
    if type(value) is dict and not value:
        return "{}"
    text = _quick(value)
    return _Walk(what).write(value) if text is None else text


def decode(text: str | bytes, what: str = "params", most: int = MAX_BYTES) -> object:
    """Parse JSON that comes from outside; whatever `encode` would refuse is refused here too.

    Only a request that holds many payloads may have more bytes than a payload.
    """
    if text == "{}":
        return {}
    data = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
    if len(data) > most:
        raise _too_large(what, most)
    if data.startswith(b"\xef\xbb\xbf"):
        raise MalformedPayload(f"{what} begins with a byte order mark.", hint="Send UTF-8 without one.")
    if _nests_too_deep(data):
        raise too_deep(what)
    has_long_number = _has_long_number(data)
    if not has_long_number and (found := _quickly_decoded(data, most)) is not None:
        return found[0]
    parser = _CAREFUL_PARSER if has_long_number else _PARSER
    try:
        value: object = parser.decode(data.decode())
    except UnicodeDecodeError as error:
        raise MalformedPayload(f"{what} is not UTF-8 at byte {error.start}.", hint="Send UTF-8.") from None
    except json.JSONDecodeError as error:
        raise MalformedPayload(f"{what} is not valid JSON: {error}.") from None
    if _quick(value, most) is None:
        _Walk(what, most=most).write(value)
    return value


def encode_decoded(value: object, what: str = "params") -> str:
    """The text of a value that `decode` gave, or of a part of one: only its size is left to be looked at."""
    data = to_json(value)
    if len(data) > MAX_BYTES:
        raise _too_large(what, MAX_BYTES)
    return data.decode()


def load(text: str) -> object:
    """Read what `encode` or `sanitise` wrote; nothing is checked again."""
    return from_json(text)


def value_of(text: str | None) -> JsonValue:
    """The value of a text that is stored; None where there is none."""
    found: JsonValue = None if text is None else from_json(text)
    return found


def object_of(text: str | None) -> JsonObject:
    """The object of a text that is stored; an empty one where there is none."""
    found: JsonObject = {} if text is None else from_json(text)
    return found


def sanitise(value: object, what: str = "result") -> tuple[str, list[str]]:
    """The value as JSON text and a sentence for each repair; InvalidPayload for what cannot be repaired."""
    text = _quick(value)
    if text is not None:
        return text, []
    walk = _Walk(what, repairing=True)
    return walk.write(value), walk.repairs


def sanitise_text(text: str, limit: int = 65_536) -> str:
    """A text that both stores can keep; of more than `limit` characters, a little head and more tail."""
    if len(text) > limit:
        room = limit - len(f"… [cut, {len(text)} characters more]")
        head = room // 4
        marker = f"… [cut, {len(text) - room} characters more]"
        text = f"{text[:head]}{marker}{text[head - room :]}" if room >= 4 else text[:limit]
    return text if text.isascii() and "\0" not in text else _UNSTORABLE.sub("\ufffd", text)


def digest(text: str) -> str:
    """A short hash of parameters that does not depend on the order of their keys."""
    canonical = json.dumps(from_json(text), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:32]


_SCALARS = frozenset({str, int, float, bool, type(None)})
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_LONG_NUMBER = re.compile(rb"[0-9]{19,}")
_DIGITS_TO_ZERO = bytes(0x30 if 0x30 <= byte <= 0x39 else 0x20 for byte in range(256))
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_PIECE = 16_384
_NOT_MARKS = bytes(set(range(256)) - {*_STEP, ord('"')})
_MOST_REPAIRS_TOLD = 20
_TEXT, _AS_TEXT = "Pass it as a string.", "It was kept as a string."
_FLATTEN = "Flatten it, or pass the inner part as a string."
_CONVERT = "Convert it: isoformat() for times, str() for UUIDs, sorted() for sets, base64 for bytes."

_Path = tuple["_Path", str] | tuple[()]
"""The way to a part: the way to what holds it, and one step more."""


def _quick(value: object, most: int = MAX_BYTES) -> str | None:
    """The JSON text of a value beyond doubt; None means that it must be walked."""
    if not _has_only_plain_types(value, most):
        return None
    try:
        data = to_json(value)
    except ValueError:
        return None
    if len(data) > most:
        return None
    # Searching for one byte first is much faster.
    if (b"\\" in data and b"\\u0000" in data) or (b"N" in data and b"NaN" in data) or b"Infinity" in data:
        return None
    if _has_long_number(data) and any(int(run[:20]) > MAX_INTEGER for run in _LONG_NUMBER.findall(data)):
        return None
    return data.decode()


def _quickly_decoded(data: bytes, most: int) -> tuple[object] | None:
    """Return the value of plainly valid JSON; None: the other parser must find what is wrong."""
    if b"\\" in data and b"\\u0000" in data:
        return None
    try:
        value = _from_strict_json(data)
    except ValueError:
        return None
    written = to_json(value)
    # Of a key that was named twice one is gone, and its quotes with it.
    if len(written) > most or _unescaped(written).count(b'"') != _unescaped(data).count(b'"'):
        return None
    return (value,)


def _has_only_plain_types(value: Any, most: int) -> bool:
    """Whether it holds exactly the types JSON has, not too many and not too deep.

    The serializer would write other keys and types as well, each in its own way. Going level by level bounds
    circular references too, and the count bounds one list that is contained many times.
    """
    scalars, level, count = _SCALARS, [value], 0
    for _ in range(MAX_DEPTH):
        deeper: list[Any] = []
        for part in level:
            kind = type(part)
            if kind is dict:
                for key, child in part.items():
                    if type(key) is not str:
                        return False
                    if type(child) not in scalars:
                        deeper.append(child)
            elif kind is list or kind is tuple:
                for child in part:
                    if type(child) not in scalars:
                        deeper.append(child)
            else:
                return kind in scalars
            if (count := count + len(part)) > most:
                return False
        if not deeper:
            return True
        level = deeper
    return False


def _has_long_number(data: bytes) -> bool:
    # Eight times faster than a regular expression, and this is asked of every payload.
    return b"0000000000000000000" in data.translate(_DIGITS_TO_ZERO)


def too_deep(what: str) -> InvalidPayload:
    """The error for values that are nested deeper than any JSON of ours."""
    return InvalidPayload(f"{what} is nested deeper than {MAX_DEPTH} levels.", hint=_FLATTEN)


def _nests_too_deep(data: bytes) -> bool:
    """Whether a parser would go deeper than allowed, found without going deep."""
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return False
    # Two quotes with nothing between them can go: what is inside a string stays inside, and little is left to split.
    marks = _unescaped(data).translate(None, _NOT_MARKS).replace(b'""', b"")
    brackets = b"".join(marks.split(b'"')[::2])
    depth = 0
    # Piece by piece: between two of them other threads of the process have their turn.
    for start in range(0, len(brackets), _PIECE):
        depths = list(accumulate(map(_STEP.__getitem__, brackets[start : start + _PIECE]), initial=depth))
        if max(depths) > MAX_DEPTH:
            return True
        depth = depths[-1]
    return False


def _unescaped(data: bytes) -> bytes:
    """JSON whose every quote begins or ends a string."""
    return data.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in data else data


class _RepeatedKey:
    """Replaces an object with a repeated key, until the walk reports where it is."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        self.key = Counter(key for key, _ in pairs).most_common(1)[0][0]


def _object(pairs: list[tuple[str, object]]) -> object:
    members = dict(pairs)
    return members if len(members) == len(pairs) else _RepeatedKey(pairs)


_PARSER = json.JSONDecoder(object_pairs_hook=_object)
# 21 characters are out of range whatever follows, and int() raises for more than some thousand digits.
_CAREFUL_PARSER = json.JSONDecoder(object_pairs_hook=_object, parse_int=lambda digits: int(digits[:21]))


class _Walk:
    """Copies a value into plain JSON types, refusing or repairing what the stores would not keep alike."""

    def __init__(self, what: str, *, repairing: bool = False, most: int = MAX_BYTES) -> None:
        self.what = what
        self.most = most
        self.repairing = repairing
        self.repairs: list[str] = []
        self.inside: set[int] = set()
        self.room = most

    def write(self, value: object) -> str:
        data = to_json(self.plain(value, ()))
        if len(data) > self.most:
            raise _too_large(self.what, self.most)
        return data.decode()

    def plain(self, value: Any, path: _Path) -> object:
        kind = type(value)
        self.take(1)
        if value is None or kind is bool:
            return value
        if issubclass(kind, str):
            return self.string(str.__str__(value), path)
        if issubclass(kind, int):
            number = int.__int__(value)
            fits = MIN_INTEGER <= number <= MAX_INTEGER
            return number if fits else self.repair(_digits(number), path, "is an integer beyond 64 bits")
        if issubclass(kind, float):
            real = float.__float__(value)
            return real if isfinite(real) else self.repair(str(real), path, f"is {real}, which is not JSON")
        if issubclass(kind, dict | list | tuple):
            return self.container(value, path)
        if kind is _RepeatedKey:
            raise self.refusal((path, value.key), "is there more than once", "Name each key once.")
        raise self.refusal(path, f"is of type {kind.__qualname__}, which JSON does not have", _CONVERT)

    def container(self, value: Any, path: _Path) -> object:
        if id(value) in self.inside:
            raise self.refusal(path, "contains itself", "Remove the circular reference.")
        if len(self.inside) == MAX_DEPTH:
            raise self.refusal(path, f"is nested deeper than {MAX_DEPTH} levels", _FLATTEN)
        self.inside.add(id(value))
        if issubclass(type(value), dict):
            copy: object = self.members(value, path)
        else:
            copy = [self.plain(child, (path, str(index))) for index, child in enumerate(value)]
        self.inside.remove(id(value))
        return copy

    def members(self, value: dict[Any, object], path: _Path) -> dict[str, object]:
        copy: dict[str, object] = {}
        for given, child in value.items():
            key = self.key(given, path)
            if key in copy:
                raise self.refusal((path, key), "is there more than once", "Rename the keys that become this one.")
            copy[key] = self.plain(child, (path, key))
        return copy

    def key(self, given: Any, path: _Path) -> str:
        kind = type(given)
        if issubclass(kind, str):
            text = str.__str__(given)
            return self.string(text, (path, text))
        problem = f"has a key of type {kind.__qualname__}"
        if not self.repairing or not (given is None or issubclass(kind, int | float)):
            raise self.refusal(path, problem, "Keys must be strings.")
        text = _digits(given) if kind is int else json.dumps(given)
        return self.repair(text, path, problem)

    def string(self, text: str, path: _Path) -> str:
        self.take(len(text))
        if not _UNSTORABLE.search(text):
            return text
        problem = "has a NUL character" if "\0" in text else "has a lone surrogate"
        return self.repair(_UNSTORABLE.sub("\ufffd", text), path, problem, "Remove it.", "U+FFFD was put there.")

    def take(self, size: int) -> None:
        self.room -= size
        if self.room < 0:
            raise _too_large(self.what, self.most)

    def repair(self, text: str, path: _Path, problem: str, hint: str = _TEXT, told: str = _AS_TEXT) -> str:
        if not self.repairing:
            raise self.refusal(path, problem, hint)
        if len(self.repairs) < _MOST_REPAIRS_TOLD:
            self.repairs.append(f"{self.what}{_at(path)} {problem}. {told}")
        elif len(self.repairs) == _MOST_REPAIRS_TOLD:
            self.repairs.append(f"{self.what} has more parts like these.")
        return text

    def refusal(self, path: _Path, problem: str, hint: str) -> InvalidPayload:
        return InvalidPayload(f"{self.what}{_at(path)} {problem}.", path=_pointer(path), hint=hint)


def _pointer(path: _Path) -> str:
    steps: list[str] = []
    while path:
        path, step = path
        steps.append("/" + sanitise_text(step, 200).replace("~", "~0").replace("/", "~1"))
    return "".join(reversed(steps))


def _at(path: _Path) -> str:
    return f" at {sanitise_text(_pointer(path), 500)}" if path else ""


def _digits(number: int) -> str:
    # str() raises for more than some thousand digits, hex() never does.
    return str(number) if number.bit_length() < 2000 else hex(number)


def _too_large(what: str, most: int) -> InvalidPayload:
    hint = "Keep large data elsewhere and pass a reference to it."
    return InvalidPayload(f"{what} is larger than {most} bytes of JSON.", hint=hint)


def camel(name: str) -> str:
    """A name of ours as it is written in JSON."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
