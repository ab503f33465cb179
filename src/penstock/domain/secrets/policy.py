"""Secret parameters: recognised by name, masked where shown; terminal escapes removed from foreign texts.

Parameters are stored unchanged and masked where they are shown: only the handler sees their values. In the output of
an attempt the values themselves are searched, see `scrubbing`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from penstock.domain.definition import Definition
from penstock.domain.errors import InvalidInput
from penstock.domain.secrets.scrubbing import MASK as MASK
from penstock.domain.secrets.scrubbing import NOTHING as NOTHING
from penstock.domain.secrets.scrubbing import Scrubber as Scrubber
from penstock.domain.secrets.scrubbing import secret_values as secret_values
from penstock.domain.secrets.scrubbing import tokens, values_in

_URL_PASSWORD = re.compile(r"://[^\s/@:]*:([^\s/@]+)@")
_NO_SCHEMAS = frozenset({"properties", "$defs", "default", "const", "enum", "examples"})
"""Members of a JSON Schema that hold other things, or are visited apart."""
IsSecret = Callable[[str], bool]
"""Whether this is the name of a secret."""


def secret_defaults(schema: Any, fields: Collection[str], is_secret: IsSecret) -> list[dict[str, Any]]:
    """The parts of a JSON Schema whose default is the value of a secret parameter or a part of it.

    `fields` are properties of the outermost object; properties with the name of a secret count wherever they are.
    """
    definitions = schema.get("$defs") if isinstance(schema, dict) else None
    found: list[dict[str, Any]] = []
    waiting: list[tuple[Any, bool]] = [(schema, False)]
    seen: set[tuple[int, bool]] = set()
    while waiting:
        part, secret = waiting.pop()
        if isinstance(part, list):
            waiting += [(each, secret) for each in part]
        if not isinstance(part, dict) or (id(part), secret) in seen:
            continue
        seen.add((id(part), secret))
        if secret and "default" in part:
            found.append(part)
        if (referred := _referred(part, definitions)) is not None:
            waiting.append((referred, secret))
        properties = part.get("properties")
        for name, each in properties.items() if isinstance(properties, dict) else ():
            waiting.append((each, secret or is_secret(name) or (part is schema and name in fields)))
        waiting += [(each, secret) for name, each in part.items() if name not in _NO_SCHEMAS]
    return found


def all_defaults(schema: Any) -> Iterator[Any]:
    """Every default in a JSON Schema."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if "default" in part:
                yield part["default"]
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def secret_variables(environment: Mapping[str, str], named: Collection[str], is_secret: IsSecret) -> set[str]:
    """The values of variables that are named, or have the name of a secret; and passwords inside of URLs in others."""
    found: set[str] = set()
    for name, value in environment.items():
        if name in named or is_secret(name):
            found.add(value)
        for password in _URL_PASSWORD.findall(value):
            found |= {password, unquote(password)}
    return found


def _referred(part: dict[str, Any], definitions: Any) -> Any:
    reference = part.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/$defs/") or not isinstance(definitions, dict):
        return None
    name = unquote(reference.removeprefix("#/$defs/")).replace("~1", "/").replace("~0", "~")
    return definitions.get(name)


def as_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


DEFAULT_PATTERNS = (
    "password", "passwd", "passphrase", "secret", "secrets", "secret_key", "token", "api_key", "access_key",
    "private_key", "authorization", "credentials",
)  # fmt: skip
"""A key that ends with one of these words is the name of a secret, at any depth."""

_MASKED = json.dumps(MASK)
_WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[\W_]+")
_PATTERN = re.compile(r"\w+(?:[-. ]\w+)*\Z")
_DANGEROUS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


@dataclass(frozen=True, slots=True)
class SecretPolicy:
    """Name patterns of secrets that no definition declares; words, case-insensitive."""

    patterns: tuple[str, ...] = DEFAULT_PATTERNS

    def __post_init__(self) -> None:
        for each in self.patterns:
            if not isinstance(each, str) or not _PATTERN.match(each) or not _words(each):
                raise InvalidInput(
                    f"{each!r:.80} cannot be a pattern of secret names.", hint="Use words, such as api_key."
                )

    def mask(self, fields: Sequence[str], text: str) -> str:
        """Parameters of a definition with these secret fields, as they may be shown."""
        return mask_params(text, fields, self.patterns)

    def schema(self, fields: Sequence[str], text: str) -> str:
        """The JSON Schema of a definition with these secret fields, as it may be shown: without their defaults."""
        if '"default"' not in text:
            return text
        schema = json.loads(text)
        secret = {id(part) for part in secret_defaults(schema, fields, self.is_secret)}
        return as_text(self._without_defaults(schema, secret))

    def is_secret(self, name: str) -> bool:
        """Whether this is the name of a secret."""
        return _Names.of(self.patterns).hide(name)

    def scrubber(self, fields: Sequence[str], params: str, known: Scrubber = NOTHING) -> Scrubber:
        """Takes the values out of texts that these parameters have in secret fields, and under names of secrets; and
        the `known` ones."""
        found = self._values(fields, params)
        if not found:
            return known
        return Scrubber(known.values | found if known else found)

    def declared(self, definition: Definition, environment: Mapping[str, str]) -> Scrubber:
        """Takes out what is secret of a definition before any job of it: defaults of its secret parameters, and
        variables of the `environment` that its jobs see."""
        schema = json.loads(definition.schema or "{}")
        fields = definition.secret_fields
        found = secret_variables(environment, definition.secret_environment, self.is_secret)
        for part in secret_defaults(schema, fields, self.is_secret):
            found |= values_in(as_text(part["default"]))
        for default in all_defaults(schema):
            found |= self._values((), as_text(default))
        return Scrubber(found) if found else NOTHING

    def _values(self, fields: Sequence[str], text: str) -> set[str]:
        names = _Names.of(self.patterns)
        if not fields and not names.may_be_in(text):
            return set()
        spans = _secret_spans(text, frozenset(fields), names)
        return {value for start, end in spans for value in values_in(text[start:end])}

    def _without_defaults(self, schema: Any, secret: set[int]) -> Any:
        """A JSON Schema without the defaults of these parts of it, and with secrets in others masked."""
        if isinstance(schema, list):
            return [self._without_defaults(each, secret) for each in schema]
        if not isinstance(schema, dict):
            return schema
        shown = {name: self._without_defaults(each, secret) for name, each in schema.items() if name != "default"}
        if "default" in schema and id(schema) not in secret:
            shown["default"] = json.loads(self.mask((), json.dumps(schema["default"])))
        return shown


def mask_params(text: str, fields: Sequence[str] = (), patterns: Sequence[str] = DEFAULT_PATTERNS) -> str:
    """JSON text with secret values masked: those of `fields` of the outermost object, and those of every key,
    however deep, that ends with a pattern. Everything else stays as it is, to the letter."""
    names = _Names.of(tuple(patterns))
    if "\\" not in text and not any(f'"{name}"' in text for name in fields) and not names.may_be_in(text):
        return text
    parts: list[str] = []
    done = 0
    for start, end in _secret_spans(text, frozenset(fields), names):
        parts += text[done:start], _MASKED
        done = end
    return "".join([*parts, text[done:]]) if parts else text


def neutralise(text: str) -> str:
    """A text from outside on one line, without what steers a terminal or turns the order of letters round."""
    return text if text.isascii() and text.isprintable() else _DANGEROUS.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    mark = found.group()
    number = ord(mark)
    return _SHORT.get(mark) or (f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}")


class _Names:
    """Recognises the names of secrets."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        each = [[re.escape(word) for word in _words(pattern)] for pattern in patterns]
        self._exactly = re.compile("(?:^|_)(?:" + "|".join("_?".join(words) for words in each) + r")_?\d*\Z")
        self._roughly = re.compile("|".join(r"[\W_]*".join(words) for words in each), re.IGNORECASE)
        longest = {max(_words(pattern), key=len) if pattern.isascii() else "" for pattern in patterns}
        self._hints = [word for word in longest if not any(other in word for other in longest - {word})]
        """Every ASCII text in which the expression matches contains one of these."""
        self._any = bool(patterns)
        self._known: dict[str, bool] = {}

    @staticmethod
    @lru_cache(maxsize=16)
    def of(patterns: tuple[str, ...]) -> _Names:
        return _Names(patterns)

    def may_be_in(self, text: str) -> bool:
        """Whether a text can hold a name of a secret at all; quick, and never wrong when it says no."""
        if text.isascii():
            # Looking for a few words is many times faster than the expression, which nearly always finds nothing.
            small = text.lower()
            if not any(hint in small for hint in self._hints):
                return False
        return self._any and self._roughly.search(text) is not None

    def hide(self, name: str) -> bool:
        if not self._any:
            return False
        verdict = self._known.get(name)
        if verdict is None:
            verdict = self._exactly.search("_".join(_words(name))) is not None
            if len(self._known) < 1_000 and len(name) < 100:
                self._known[name] = verdict
        return verdict


def _words(name: str) -> list[str]:
    """The words of a name in small letters: accessToken, ACCESS_TOKEN and access-token have the same ones."""
    return [word for word in _WORD_ENDS.sub("_", name).lower().split("_") if word]


def _secret_spans(text: str, fields: frozenset[str], names: _Names) -> Iterator[tuple[int, int]]:
    """Where the values of secrets begin and end."""
    depth = 0
    name = ""
    named = False
    """The next token is the value of a secret, or begins it."""
    inside: tuple[int, int] | None = None
    """The start and depth of the object or list that is the value of a secret."""
    for token in tokens(text):
        mark = text[token.start()]
        if mark in "{[":
            if named and inside is None:
                inside = token.start(), depth
            named = False
            depth += 1
        elif mark in "}]":
            depth -= 1
            if inside is not None and inside[1] == depth:
                yield inside[0], token.end()
                inside = None
        elif mark == ":":
            key = json.loads(name) if "\\" in name else name[1:-1]
            named = inside is None and ((depth == 1 and key in fields) or names.hide(key))
        elif mark != ",":
            if named:
                yield token.span()
            named = False
            name = token.group()
