"""The states that SQL names, against the table; no number and no order of codes is written down anywhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any
from uuid import uuid4

import apsw
import psycopg
import pytest

import penstock.storage
from penstock.domain.states import ACTIVE, BY_CODE, CODES, RESERVED, SETS, TABLE, Status, Trigger, allowed
from penstock.storage import migrations, statements
from penstock.storage.statements import NAMES, fill_states
from tests.storage.tables import change

ROOT = Path(__file__).parents[2]
FILES = sorted(Path(penstock.storage.__file__).parent.rglob("*.sql"))
TEXTS = {path.relative_to(Path(penstock.storage.__file__).parent).as_posix(): path.read_text() for path in FILES}
DIALECTS = ("postgres", "sqlite")
WORKER = "'01890a5d-ac96-774b-bcce-b302099a8057'"

_COLUMN = r"\b(?:status|before|counted)\b"
_NUMBERS = {
    "a comparison or an assignment": rf"{_COLUMN}\)? *(?:=|<>|!=|\bIS\b|\bIN\b|\bNOT IN\b) *\(?\s*[-+]?\d",
    "a number in front": rf"\d *(?:=|<>|!=) *\+?(?:\w+\.)?{_COLUMN}",
    "a column": rf"\b\d+ AS {_COLUMN}",
    "a truth value as a state": r"\{at\} <= :now, (?:urgency|1 WHERE|count)",
    "a CASE by state": rf"CASE \+?(?:\w+\.)?{_COLUMN} (?:(?!END)[^\n])*?(?:WHEN|THEN|ELSE) \d",
    "a CASE that ends in a state": rf"(?:THEN|ELSE) \d+ (?:ELSE|END),? (?:ELSE )?(?:\w+\.)?{_COLUMN}",
}
_ORDERS = {
    "a comparison": rf"{_COLUMN}\)? *(?:<(?!>)|>|<=|>=|\bBETWEEN\b|\bNOT BETWEEN\b)",
    "the other way round": rf"(?<!<)(?<!\w)(?:<|>|<=|>=) *\+?(?:\w+\.)?{_COLUMN}",
    "an extreme": rf"\b(?:min|max|least|greatest)\([^()]*(?:\w+\.)?{_COLUMN} *[,)]",
}
_STEPS = re.compile(r"\(VALUES (\(.*?\))\) AS (\w+)(?: \(([\w, ]+)\))?")


def test_no_sql_file_writes_a_state_as_a_number() -> None:
    found = _found(_NUMBERS)
    for name, text in TEXTS.items():
        for rows, step, columns in _STEPS.findall(_code(text)):
            place = columns.split(", ").index("status") if "status" in columns.split(", ") else None
            if place is None and step == "step" and "{" in rows:
                place = 0
            if place is not None:
                cells = [row.split(", ")[place] for row in rows.strip("()").split("), (")]
                found += [(name, rows) for cell in cells if cell.isdigit()]

    assert found == []


def test_no_sql_file_compares_states_by_order() -> None:
    assert _found(_ORDERS) == []


@pytest.mark.parametrize(
    "text",
    [
        "job.status = 5", "+status <> 3", "status IN (2, 3)", "status NOT IN (1)", "SET a = 1, status = 2",
        "5 AS status", "3 = job.status", "CASE status WHEN 3 THEN {cancelled} ELSE job.status END", "input.before <> 1",
        "CASE job.stale_at WHEN 1 THEN 8 ELSE job.status END",
    ],
)  # fmt: skip
def test_the_search_for_numbers_finds_them(text: str) -> None:
    assert any(re.search(pattern, text) for pattern in _NUMBERS.values())


@pytest.mark.parametrize(
    "text",
    ["status >= 5", "job.status < 2", "+status BETWEEN 1 AND 3", "status NOT BETWEEN 1 AND 3", "{live} < status",
     "status > {live}", "max(status) AS last"],
)  # fmt: skip
def test_the_search_for_orders_finds_them(text: str) -> None:
    assert any(re.search(pattern, text) for pattern in _ORDERS.values())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_state_that_a_file_names_exists(dialect: str) -> None:
    for migration in migrations.all_of(dialect):
        assert set(re.findall(r"\{(\w+)\}", migration.text)) <= {"schema"}
    for entry in statements.read(dialect).values():
        assert set(re.findall(r"\{(\w+)\}", entry.text + entry.each + entry.wanted)) & NAMES == set(), entry.name


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_expression_of_a_file_has_the_name_of_a_state(dialect: str) -> None:
    lets = {
        name
        for path, text in TEXTS.items()
        if path.startswith(f"sql/{dialect}/")
        for name in re.findall(r"^-- let (\w+):", text, re.MULTILINE)
    }

    assert lets & NAMES == set()


def test_a_set_is_a_list_for_postgresql_and_the_bits_of_a_number_for_sqlite_where_it_is_long() -> None:
    text = "job.status IN {ended} AND +status NOT IN {claimed} AND status IN {live} AND status = {queued}"

    assert fill_states(text, "postgres") == (
        "job.status IN (5, 6, 7) AND +status NOT IN (2, 3, 4, 5) AND status IN (2, 3) AND status = 1"
    )
    assert fill_states(text, "sqlite") == (
        "(224 >> job.status & 1) AND NOT (60 >> +status & 1) AND status IN (2, 3) AND status = 1"
    )


def test_stored_codes_stay_what_they_are() -> None:
    codes = {**{str(status): code for status, code in CODES.items()}, **RESERVED}

    assert codes == {
        "scheduled": 0, "queued": 1, "running": 2, "cancelling": 3, "review_needed": 4, "succeeded": 5, "failed": 6,
        "cancelled": 7, "stale": 8, "waiting": 9,
    }  # fmt: skip
    assert {status.code: status for status in Status} == BY_CODE


def test_codes_fit_into_the_bits_of_a_number() -> None:
    assert max(*CODES.values(), *RESERVED.values()) < 63


def test_the_sets_are_those_of_the_table() -> None:
    names = {code: status for code, status in BY_CODE.items() if code in SETS["stored"]}
    unclaimed = _reached_without_a_claim()

    assert set(names.values()) == set(Status) - {Status.STALE}
    assert {*SETS["stored"]} - names.keys() == {*RESERVED.values()}
    assert {*SETS["claimed"]} <= {status.code for status in names.values() if status not in unclaimed}
    assert {*SETS["active"]} == {*(status.code for status in ACTIVE), *RESERVED.values()}
    assert {*SETS["active"]} ^ {*SETS["ended"]} == {*SETS["stored"]}


def test_the_schema_admits_exactly_the_states_of_the_table(store: Any) -> None:
    assert {code for code in range(-1, 20) if _admitted(store, code, {})} == {*SETS["stored"]}


LAWS: dict[str, tuple[Mapping[str, str], Callable[[int], bool]]] = {
    "a worker": ({"worker": WORKER}, lambda code: code in SETS["live"]),
    "no worker": ({"worker": "NULL"}, lambda code: code not in SETS["live"]),
    "an attempt in the job's row": ({"done_by": WORKER}, lambda code: code == CODES[Status.SUCCEEDED]),
    "an end": ({"finished_at": "1"}, lambda code: code in SETS["ended"]),
    "no end": ({"finished_at": "NULL"}, lambda code: code not in SETS["ended"]),
    "no time of retirement": ({"retire_at": "NULL"}, lambda code: code not in SETS["ended"]),
    "no time from which it is stale": ({"stale_at": "NULL"}, lambda code: code not in SETS["ended"]),
    "a block": ({"blocked": "true", "limit_key": "'work|k'"}, lambda code: code == CODES[Status.QUEUED]),
    "no time of queuing": ({"queued_at": "NULL"}, lambda code: code not in SETS["queued_or_live"]),
    "no request to stop": ({"cancel_at": "NULL"}, lambda code: code != CODES[Status.CANCELLING]),
    "no claim": ({"fence": "0"}, lambda code: code not in SETS["claimed"]),
}


@pytest.mark.parametrize("law", LAWS)
def test_each_constraint_holds_for_exactly_the_states_of_its_set(store: Any, law: str) -> None:
    facts, fits = LAWS[law]

    admitted = {code for code in SETS["stored"] if _admitted(store, code, facts)}

    assert admitted == {code for code in SETS["stored"] if fits(code)}


def test_a_unique_key_is_held_by_active_jobs_only(store: Any) -> None:
    for first, second in product(SETS["stored"], repeat=2):
        key = f"'work|{first}-{second}'"
        assert _admitted(store, first, {"unique_key": key})

        assert _admitted(store, second, {"unique_key": key}) is not (
            first in SETS["active"] and second in SETS["active"]
        )


@pytest.mark.parametrize("file", ["test_transitions", "test_limits", "test_list", "test_stats", "test_retention"])
def test_a_store_does_the_same_with_other_codes_in_another_order(file: str) -> None:
    """No row, statement or rule depends on the numbers: a new state may take any."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
        "-p", "tests.storage.other_codes", "-k", "sqlite-memory or postgres-18", f"tests/storage/{file}.py",
    ]  # fmt: skip

    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout[-4000:]
    assert re.search(r"\d+ passed", done.stdout)


def _found(patterns: Mapping[str, str]) -> list[tuple[str, str]]:
    return [
        (name, found.group())
        for name, text in TEXTS.items()
        for pattern in patterns.values()
        for found in re.finditer(pattern, _code(text))
    ]


def _code(text: str) -> str:
    """A file without its comments; its expressions (`-- let`) stay."""
    lines = [line for line in text.splitlines() if not line.startswith("-- ") or line.startswith("-- let ")]
    return "\n".join(line.partition(" -- ")[0] if not line.startswith("-- let") else line for line in lines)


def _reached_without_a_claim() -> set[Status]:
    reached: set[Status] = set()
    more: set[Status | None] = {None}
    while more:
        status = more.pop()
        for trigger in {trigger for origin, trigger in TABLE if origin is status} - {Trigger.CLAIM}:
            targets = {each for each in allowed(status, trigger) if each is not None}
            more |= targets - reached
            reached |= targets
    return reached


def _admitted(store: Any, code: int, facts: Mapping[str, str]) -> bool:
    """Whether the schema takes a job with this code: one that is sound apart from these facts."""
    ended = "1" if code in SETS["ended"] else "NULL"
    row = {
        "id": f"'{uuid4()}'", "lane": "1", "fence": "1", "status": str(code), "priority": "10", "max_attempts": "3",
        "rank": "1", "due_at": "1", "created_at": "1", "updated_at": "1", "queued_at": "1", "cancel_at": "1",
        "worker": WORKER if code in SETS["live"] else "NULL", "finished_at": ended, "stale_at": ended,
        "retire_at": ended, **facts,
    }  # fmt: skip
    try:
        change(store, f"INSERT INTO {{s}}job ({', '.join(row)}) VALUES ({', '.join(row.values())})")
    except (apsw.ConstraintError, psycopg.errors.CheckViolation, psycopg.errors.UniqueViolation):
        return False
    return True
