"""The query plans of a command's statements, from the store's own SQL."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from penstock.domain.plan import Plan, Statement

_TOUCHED = re.compile(
    r"(SEARCH|SCAN) (\w+)(?: EXISTS)?(?: USING (?:COVERING )?(?:INDEX (\w+)|((?:INTEGER )?PRIMARY KEY)))?"
)


@dataclass(frozen=True)
class QueryPlan:
    """What a statement would touch, and how."""

    statement: str
    indexes: frozenset[str]
    """Indexes that are used; `job_pkey` is the primary key of `job` in every dialect."""
    scanned: frozenset[str]
    """Tables that are read from end to end."""
    wasted: int = 0
    """How many pairs of rows were compared and thrown away."""
    most_read: int = 0
    """How many rows were read in the step that read most of one table."""
    text: str = field(default="", compare=False)


def postgres_plans(store: Any, plan: Plan[Any], now: int, mode: str) -> list[QueryPlan]:
    """The ways of all statements of a plan, which is carried out and rolled back."""
    with store.connect() as connection:
        connection.autocommit = False
        connection.execute(f"SET plan_cache_mode = {mode}")
        prepare = store._statement(now)
        ways: list[QueryPlan] = []

        def execute(statement: Statement) -> list[tuple[Any, ...]]:
            text, values = prepare(statement)
            with connection.transaction(force_rollback=True):
                ways.append(_explained(connection, statement.name, text, values))
            cursor = connection.execute(text, values)
            return cursor.fetchall() if cursor.description else []

        _drive(plan, execute)
        connection.rollback()
    return ways


def sqlite_plans(store: Any, plan: Plan[Any], now: int) -> list[QueryPlan]:
    """The same for SQLite; a statement with several steps counts as one."""
    connection = store._writer()
    seen: list[str] = []
    steps: dict[str, list[str]] = {}

    def execute(statement: Statement) -> list[tuple[Any, ...]]:
        seen.clear()
        rows = store._execute(connection, statement, store._values(now))
        entry = store._catalogue[statement.name, statement.parts, statement.order]
        # What a trigger does is not told with the statement that sets it off.
        steps.setdefault(statement.name, []).extend(dict.fromkeys((*entry.before, *entry.at_once, *seen)))
        return list(rows)

    def trace(_: Any, text: str, __: Any) -> bool:
        seen.append(text)
        return True

    connection.execute("BEGIN IMMEDIATE")
    connection.exec_trace = trace
    try:
        _drive(plan, execute)
        connection.exec_trace = None
        return [_searched(connection, name, dict.fromkeys(texts)) for name, texts in steps.items()]
    finally:
        connection.exec_trace = None
        connection.execute("ROLLBACK")


def sqlite_steps(store: Any, plan: Plan[Any], now: int) -> int:
    """About how many thousands of steps SQLite's machine takes for all statements of a plan."""
    connection = store._writer()
    thousands = 0

    def count() -> bool:
        nonlocal thousands
        thousands += 1
        return False

    connection.set_progress_handler(count, 1000)
    connection.execute("BEGIN IMMEDIATE")
    try:
        _drive(plan, lambda statement: list(store._execute(connection, statement, store._values(now))))
        return thousands
    finally:
        connection.set_progress_handler(None)
        connection.execute("ROLLBACK")


def _explained(connection: Any, name: str, text: str, values: dict[str, Any]) -> QueryPlan:
    order: list[str] = []

    def number(found: re.Match[str]) -> str:
        if found.group(0) == "%%":
            return "%"
        if found.group(1) not in order:
            order.append(found.group(1))
        return f"${order.index(found.group(1)) + 1}"

    numbered = re.sub(r"%%|%\((\w+)\)s", number, text)
    connection.execute(f"PREPARE looked_at AS {numbered}".encode())
    arguments = ", ".join(_literal(values[each]) for each in order)
    call = f"EXECUTE looked_at({arguments})" if order else "EXECUTE looked_at"
    ((found,),) = connection.execute(f"EXPLAIN (ANALYZE, TIMING off, FORMAT JSON) {call}".encode()).fetchall()
    connection.execute("DEALLOCATE looked_at")
    nodes = list(_nodes(found[0]["Plan"]))
    return QueryPlan(
        name,
        frozenset(node["Index Name"] for node in nodes if "Index Name" in node),
        frozenset(node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"),
        sum(node.get("Rows Removed by Join Filter", 0) * node["Actual Loops"] for node in nodes),
        max(
            (round(node["Actual Rows"] * node["Actual Loops"]) for node in nodes if "Relation Name" in node), default=0
        ),
        json.dumps(found, indent=1),
    )


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)


def _searched(connection: Any, name: str, texts: dict[str, None]) -> QueryPlan:
    lines: list[str] = []
    for text in texts:
        if re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)", text):
            marks = dict.fromkeys(re.findall(r":(\w+)", text))
            numbered = [None] * text.count("?")
            lines += [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", marks or numbered)]
    indexes: set[str] = set()
    scanned: set[str] = set()
    for line in lines:
        if found := _TOUCHED.match(line):
            how, table, index, primary = found.groups()
            if how == "SCAN" and (index is None or index.startswith("sqlite_autoindex")):
                scanned.add(table)
            elif index or primary:
                indexes.add(index if index and not index.startswith("sqlite_autoindex") else f"{table}_pkey")
    return QueryPlan(name, frozenset(indexes), frozenset(scanned), text="\n".join(lines))


def _drive(plan: Plan[Any], execute: Any) -> None:
    steps = plan.steps()
    try:
        statement = next(steps)
        while True:
            rows = execute(statement)
            if statement.then is not None:
                _drive(statement.then, execute)
            statement = steps.send(rows)
    except StopIteration:
        return


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "'" + str(value).replace("'", "''") + "'"
