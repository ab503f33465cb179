"""Reads the `.sql` files: named statements with a sentence each, the same names in every dialect.

-- let NAME: TEXT      an expression that statements of the file may use as {NAME}
-- let NAME:           the same, of all lines up to the next empty one
-- name: NAME          begins a statement; the comment lines below it say what it does
{queued}               the stored code of a state
COLUMN IN {ended}      membership in a named set of states; NOT IN as well

And in those of SQLite, in this order:

-- for                 the query above it gives the first values of the rows handed in that are needed
-- then                the lines above it are run once for each row handed in
-- with NAME, …        the lines above it end with a query, whose row gives these values to the lines below
-- at once             the lines above it are done in one step; the lines below give the answer
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from penstock.domain.states import CODES, RESERVED, SETS

NAMES = frozenset({*map(str, CODES), *RESERVED, *SETS})
"""Names of states and sets: no other expression of a `.sql` file may have one of them."""
_SHORT = 2
"""SQLite compares with each member of so short a list. For a longer one it would build a table, again for each
statement; the bits of a number do the same in two steps, for codes below 63."""


@cache
def fill_states(text: str, dialect: str) -> str:
    """Replace the names of states by codes, and of sets by tests that suit the dialect."""

    def listed(found: re.Match[str]) -> str:
        column, negated, codes = found[1], found[2] or "", SETS[found[3]]
        if dialect == "sqlite" and len(codes) > _SHORT:
            return f"{negated}({sum(1 << code for code in codes)} >> {column} & 1)"
        return f"{column} {negated}IN ({', '.join(map(str, codes))})"

    return _STATE.sub(lambda found: str(_CODES[found[1]]), _MEMBER.sub(listed, text))


_CODES = {**{str(status): code for status, code in CODES.items()}, **RESERVED}
_MEMBER = re.compile(rf"(\+?[\w.]+) (NOT )?IN \{{({'|'.join(SETS)})\}}")
_STATE = re.compile(rf"\{{({'|'.join(_CODES)})\}}")

FILES = (
    "creation", "jobs", "limits", "workers", "hooks", "control", "schedules", "feed", "admin", "lists", "why",
    "webhooks", "access", "audit", "stats", "retention", "integrity", "alerts", "clock_marks", "undeclared",
)  # fmt: skip
_PLACES = {"along": ("along_", "past_span", "filter_job_id"), "among": ("among_",)}
"""Prefixes of conditions that have their own placeholder, where a statement has it; the others go to {filters}."""
_ANSWERS = "answer_"
"""Prefix of the parts that select what a page returns."""
_USUAL_ANSWER = "answer_jobs"
_FIELD = re.compile(r"\{(\w+)\}")
_FOR, _THEN, _AT_ONCE = "-- for", "-- then", "-- at once"
_GIVING = re.compile(r"^-- with (.+)$", flags=re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Entry:
    """One named statement: what it says of itself, and its text."""

    name: str
    sentence: str
    text: str
    each: str = ""
    wanted: str = ""
    """Gives the first values of the rows that are needed; empty: all of them."""
    given: tuple[str, ...] = ()
    """The names of values that a query gives to the statements after it."""
    before: tuple[str, ...] = ()
    """Of the single statements: that query, and those before it."""
    at_once: tuple[str, ...] = ()
    """The statements after it that are done in one step, together with `before`."""
    steps: tuple[str, ...] = ()
    """All others: SQLite keeps each of them prepared, but not all in one."""


@cache
def read(dialect: str) -> Mapping[str, Entry]:
    """Every statement of a dialect, with its `let` expressions filled in."""
    entries: dict[str, Entry] = {}
    for file in FILES:
        for entry in _parse(text_of(dialect, file)):
            if entry.name in entries:
                raise ValueError(f"two statements of {dialect} are named {entry.name}")
            entries[entry.name] = entry
    return entries


@cache
def text_of(dialect: str, file: str) -> str:
    # A process that opens no store, such as that of a job, has no use for it.
    from importlib import resources

    path = resources.files("penstock.storage") / "sql" / dialect / f"{file}.sql"
    return fill_states(path.read_text(encoding="utf-8"), dialect)


def fill(text: str, fields: Mapping[str, str]) -> str:
    """Replace each {field} that is given; the others stay."""
    return _FIELD.sub(lambda found: fields.get(found.group(1), found.group(0)), text)


class Catalogue:
    """The statements of one dialect, filled in for one store and put together on demand."""

    def __init__(self, dialect: str, fields: Mapping[str, str]) -> None:
        self._entries = read(dialect)
        self._fields = fields
        self._ready: dict[tuple[str, tuple[str, ...], str], Entry] = {}

    def __getitem__(self, key: tuple[str, tuple[str, ...], str]) -> Entry:
        """The entry for (name, conditions, order)."""
        entry = self._ready.get(key)
        if entry is None:
            entry = self._ready[key] = self._compose(*key)
        return entry

    def _compose(self, name: str, parts: tuple[str, ...], order: str) -> Entry:
        entry = self._entries[name]
        fields = {**self._fields, "input": f"temp.in_{name}"}
        left = parts
        for place, prefixes in _PLACES.items():
            if f"{{{place}}}" in entry.text:
                fields[place] = self._all([part for part in left if part.startswith(prefixes)])
                left = tuple(part for part in left if not part.startswith(prefixes))
        if "{answer}" in entry.text:
            answer = next((part for part in left if part.startswith(_ANSWERS)), _USUAL_ANSWER)
            left = tuple(part for part in left if part != answer)
            told = self._entries[answer].text
            if "{checked}" in told:
                # A page of all that is passed: what each job has to fit is looked at by the answer.
                checked = self._all([part for part in left if not part.startswith(_PLACES["along"])])
                told = fill(told, {"checked": checked})
                left = tuple(part for part in left if part.startswith(_PLACES["along"]))
            fields["answer"] = told
        fields["filters"] = self._all(left)
        if order:
            fields["order"] = self._entries[order].text
        text = fill(fill(entry.text, fields), fields)
        at_once, _, steps = text.rpartition(_AT_ONCE)
        *before, at_once = re.split(_GIVING, at_once)
        return replace(
            entry, text=text, each=fill(fill(entry.each, fields), fields), at_once=_single(at_once),
            before=_single("".join(before[:1])), steps=_single(steps),
        )  # fmt: skip

    def _all(self, parts: Sequence[str]) -> str:
        return " AND ".join(f"({self._entries[part].text})" for part in parts) or "true"


def _is_mark(line: str) -> bool:
    return line in (_FOR, _THEN, _AT_ONCE) or _GIVING.match(line) is not None


def _single(text: str) -> tuple[str, ...]:
    """The statements of a text."""
    return tuple(step for step in (part.strip().rstrip(";") for part in re.split(r";\n", text)) if step)


def _parse(text: str) -> list[Entry]:
    lets: dict[str, str] = {}
    entries: list[Entry] = []
    head, *sections = re.split(r"^-- name: ", text, flags=re.MULTILINE)
    for name, line, lines in re.findall(r"^-- let (\w+):(?: (.+)|((?:\n.+)+))", head, flags=re.MULTILINE):
        lets[name] = fill(line or lines.strip(), lets)
    for section in sections:
        name, *lines = section.splitlines()
        comments = [line for line in lines if line.startswith("-- ") and not _is_mark(line)]
        body = "\n".join(line for line in lines if line not in comments).strip()
        wanted, _, body = body.rpartition(f"{_FOR}\n")
        each, _, once = body.rpartition(_THEN)
        giving = _GIVING.search(once)
        entries.append(
            Entry(
                name=name.strip(),
                sentence=" ".join(line[3:] for line in comments),
                text=fill(once.strip().rstrip(";") if not each else once.strip(), lets),
                each=fill(each.strip(), lets),
                wanted=fill(wanted.strip().rstrip(";"), lets),
                given=tuple(giving[1].split(", ")) if giving else (),
            )
        )
    return entries
